"""Undoing: what a rollback would hide, which rules stay all the same, and what of a subject's memory is taken back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.events import (
    BlockDefined,
    BlockEdited,
    ContextRolledBack,
    Event,
    MemoryRecorded,
    MemoryRetracted,
    MemoryRevised,
    ProfileSet,
    ProfileUnset,
)
from domain.history import Header, effective

Key = tuple[str, str]
"""What an event of a subject is about: two events about the same thing can stand in each other's way."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """`hides` are the seqs that a rollback takes out of force, `returns` those that it brings back, and `stays` those
    behind the seq gone back to that stay in force: the stricter rules, and what erases."""

    hides: tuple[int, ...]
    returns: tuple[int, ...]
    stays: tuple[int, ...]


def hidden(headers: Sequence[Header], to_seq: int, *, loosen: bool) -> Hidden:
    """What a rollback appended now would do to a session's stream."""
    head = headers[-1].seq if headers else 0
    now = set(effective(headers))
    back = ContextRolledBack(to_seq=to_seq, loosen=loosen)
    then = set(effective([*headers, Header(head + 1, "the rollback", "context.rolled_back", back)])) - {head + 1}
    stays = (seq for seq in then if seq > to_seq)
    return Hidden(tuple(sorted(now - then)), tuple(sorted(then - now)), tuple(sorted(stays)))


@dataclass(frozen=True, slots=True)
class Conflict:
    """An event that is not taken back, since a newer one that stays is about the same thing."""

    event: Event
    newer: Event


@dataclass(frozen=True, slots=True)
class Compensation:
    """`undone` are the events to be taken back, newest first; `still` those that a rollback of them took back before:
    they would return with it otherwise."""

    undone: tuple[Event, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    still: tuple[Event, ...] = ()

    @property
    def gone(self) -> tuple[Event, ...]:
        return (*self.undone, *self.still)


def compensation(wrote: Iterable[Event], stream: Sequence[Event]) -> Compensation:
    """Of what a session wrote into a subject's stream, what can be taken back. `stream` holds the events in force there
    since the first of them, in order."""
    wrote = tuple(wrote)
    ours = {event.event_id for event in wrote}
    newest: dict[Key, Event] = {}
    undone: list[Event] = []
    conflicts: list[Conflict] = []
    for event in reversed(stream):
        keys = keys_of(event)
        if event.event_id not in ours:
            newest.update({key: event for key in keys if key not in newest})
            continue
        newer = next((newest[key] for key in keys if key in newest), None)
        if newer is None:
            undone.append(event)
        else:
            conflicts.append(Conflict(event, newer))
            # What stays stands in the way of what is older.
            newest.update({key: event for key in keys if key not in newest})
    held = {event.event_id for event in stream}
    goes_behind = any(isinstance(event.payload, ContextRolledBack) for event in undone)
    still = [event for event in wrote if event.event_id not in held] if goes_behind else []
    return Compensation(tuple(undone), tuple(conflicts), tuple(still))


def keys_of(event: Event) -> Sequence[Key]:
    told = event.payload
    match told:
        case ProfileSet() | ProfileUnset():
            return [("profile", told.key)]
        case BlockDefined() | BlockEdited():
            return [("block", told.label)]
        case MemoryRecorded() | MemoryRevised():
            found = [("memory", told.id)]
            if told.subject is not None and told.predicate is not None:
                found.append(("fact", f"{told.subject}\n{told.predicate}"))
            if isinstance(told, MemoryRecorded):
                found += [("memory", name) for name in told.supersedes]
            return found
        case MemoryRetracted():
            return [("memory", told.id)]
        case _:
            return []
