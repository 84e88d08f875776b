"""Which events are in force: rollbacks, rollbacks of rollbacks and redactions resolved, before anything is folded.

The effective history of a rollback is what was in force at the seq it goes back to, plus what comes after. Redactions
stay, and no rule gets weaker by it: of the constraint before and the one then the stricter stays, and so does a newer
instruction, unless the rollback was made with the right to loosen.

In the streams that sessions share, a rollback names the events that it takes back one by one; what is taken back itself
takes nothing back any more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.events import AnyPayload, ConstraintRemoved, ConstraintSet, ContextRolledBack, Event, EventRedacted

HEADER_KINDS = frozenset(
    {"context.rolled_back", "event.redacted", "constraint.set", "constraint.removed", "instruction.set"}
)
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
    emptied = 0
    for header in headers:
        link = prefixes[-1]
        if isinstance(header.payload, ContextRolledBack):
            link = _rolled_back(prefixes, header.payload)
        if isinstance(header.payload, EventRedacted):
            redacted.add(header.payload.event_id)
            emptied = max(emptied, header.payload.upto or 0)
        prefixes.append(_Link(link, header))
    gone = redacted | _undone(_walk(prefixes[-1]))
    return sorted(header.seq for header in _walk(prefixes[-1]) if header.event_id not in gone)


def _rolled_back(prefixes: Sequence["_Link | None"], told: ContextRolledBack) -> "_Link | None":
    if told.undoes:
        return prefixes[-1]
    target = prefixes[min(told.to_seq, len(prefixes) - 1)]
    return target if told.loosen else _tightened(prefixes[-1], target)


def _undone(headers: Sequence[Header]) -> set[str]:
    """From the newest back: what was taken back itself no longer counts."""
    found: set[str] = set()
    for header in reversed(headers):
        if isinstance(header.payload, ContextRolledBack) and header.event_id not in found:
            found.update(header.payload.undoes)
    return found


def _tightened(now: _Link | None, back: _Link | None) -> _Link | None:
    """The history gone back to, with the redactions and the stricter rules of the one that is left."""
    before, then = _walk(now), _walk(back)
    inside = {header.seq for header in then}
    left = [header for header in before if header.seq not in inside]
    kept = [header for header in left if header.kind in ("instruction.set", "event.redacted")]
    rules = _rules(then)
    for name, rule in _rules(before).items():
        if name not in rules or _strictness(rule) > _strictness(rules[name]):
            then = [header for header in then if _rule_of(header) != name or header.seq <= rule.seq]
            kept += [rule] if rule.seq not in inside else []
    link: _Link | None = None
    for header in sorted([*then, *kept], key=lambda header: header.seq):
        link = _Link(link, header)
    return link


def _rules(headers: Iterable[Header]) -> dict[str, Header]:
    """The constraint in force under each id, as the event that set it."""
    found: dict[str, Header] = {}
    for header in headers:
        if isinstance(header.payload, ConstraintSet):
            found[header.payload.id] = header
        elif isinstance(header.payload, ConstraintRemoved):
            found.pop(header.payload.id, None)
    return found


def _rule_of(header: Header) -> str | None:
    return header.payload.id if isinstance(header.payload, ConstraintSet | ConstraintRemoved) else None


def _strictness(rule: Header) -> tuple[bool, int]:
    """Of two rules as strict as each other the newer one counts."""
    return isinstance(rule.payload, ConstraintSet) and rule.payload.level == "block", rule.seq


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
    if not any(event.kind in REFOLDING_KINDS for event in events):
        return list(events)
    seqs = set(effective(map(header_of, events)))
    return [event for event in events if event.seq in seqs]
