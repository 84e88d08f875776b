"""Which events are in force: rollbacks, rollbacks of rollbacks and redactions resolved, before anything is folded.

The effective history of a rollback is what was in force at the seq it goes back to, plus what comes after. Redactions
stay, and rules are only ever tightened by it: constraints set in the part that goes stay, and so does a newer
instruction, unless the rollback was made with the right to loosen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.events import AnyPayload, ConstraintSet, ContextRolledBack, Event, EventRedacted

HEADER_KINDS = frozenset({"context.rolled_back", "event.redacted", "constraint.set", "instruction.set"})
"""Kinds whose payload `effective` needs."""

REFOLDING_KINDS = frozenset({"context.rolled_back", "event.redacted"})
"""Kinds that change the meaning of earlier events: the projection refolds the stream when one arrives."""


@dataclass(frozen=True, slots=True)
class Header:
    seq: int
    event_id: str
    kind: str
    payload: AnyPayload | None = None


class _Link:
    """A prefix of the effective history, sharing all that came before."""

    __slots__ = ("before", "header")

    def __init__(self, before: "_Link | None", header: Header) -> None:
        self.before = before
        self.header = header


def effective(headers: Iterable[Header]) -> list[int]:
    """The seqs in force, ascending, with the redacted ones left out."""
    prefixes: list[_Link | None] = [None]
    redacted: set[str] = set()
    for header in headers:
        link = prefixes[-1]
        if isinstance(header.payload, ContextRolledBack):
            target = min(header.payload.to_seq, len(prefixes) - 1)
            kept = [] if header.payload.loosen else _tightening(link, target)
            link = prefixes[target]
            for one in kept:
                link = _Link(link, one)
        if isinstance(header.payload, EventRedacted):
            redacted.add(header.payload.event_id)
        prefixes.append(_Link(link, header))
    found = [header for header in _walk(prefixes[-1]) if header.event_id not in redacted]
    return sorted(header.seq for header in found)


def _tightening(link: _Link | None, target: int) -> list[Header]:
    """What stays of the part that goes: constraints that tighten, the newest instruction, redactions."""
    gone = [header for header in _walk(link) if header.seq > target]
    levels = {
        header.payload.id: header.payload.level
        for header in _walk(link)
        if header.seq <= target and isinstance(header.payload, ConstraintSet)
    }
    kept = []
    for header in gone:
        if isinstance(header.payload, ConstraintSet):
            if levels.get(header.payload.id) == "block" and header.payload.level == "warn":
                continue
            kept.append(header)
        elif header.kind in ("instruction.set", "event.redacted"):
            kept.append(header)
    return kept


def _walk(link: _Link | None) -> Sequence[Header]:
    found: list[Header] = []
    while link is not None:
        found.append(link.header)
        link = link.before
    found.reverse()
    return found


def header_of(event: Event) -> Header:
    payload = event.payload if event.kind in HEADER_KINDS else None
    return Header(event.seq, event.event_id, event.kind, payload)


def in_force(events: Sequence[Event]) -> list[Event]:
    """The events of a whole stream that are in force, in order."""
    seqs = set(effective(map(header_of, events)))
    return [event for event in events if event.seq in seqs]
