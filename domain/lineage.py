"""Lineage: which events were made from others, so that an erasure takes along what repeats the erased text.

A summary names what it was made from, a memory its cause, an expanded reference the message or document it shows. An
answer, a plan or a profile value is a fact of its own: it stays when the message before it goes.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from domain.events import (
    DocumentAttached,
    Event,
    MemoryDecided,
    MemoryRecorded,
    MemoryRevised,
    ReferenceExpanded,
    SummaryCreated,
)  # fmt: skip

DERIVED_KINDS = frozenset(
    model.kind
    for model in (
        SummaryCreated,
        MemoryRecorded,
        MemoryRevised,
        MemoryDecided,
        ReferenceExpanded,
        DocumentAttached,
    )
)
"""Kinds that a search for derivatives has to look at. A document is no derivative, but references go through it."""

_OF_EVENT = re.compile(r"e([1-9][0-9]{0,14})")


@dataclass(frozen=True, slots=True)
class Placed:
    """An event in its stream, for seqs mean nothing without one."""

    stream: str
    event: Event


def derivatives(erased: Collection[Placed], candidates: Iterable[Placed]) -> list[Placed]:
    """Every candidate that lineage reaches from what is erased, over any number of steps; in the order given."""
    others = [one for one in candidates if one.event.payload is not None]
    reached = {name for one in erased for name in _names(one)}
    found: dict[tuple[str, str], Placed] = {}
    gone = {(one.stream, one.event.event_id) for one in erased}
    grew = True
    while grew:
        grew = False
        for one in others:
            key = (one.stream, one.event.event_id)
            if key not in gone and key not in found and not reached.isdisjoint(_made_from(one)):
                found[key] = one
                reached.update(_names(one))
                grew = True
    return [one for one in others if (one.stream, one.event.event_id) in found]


def sources(event: Event) -> Sequence[str]:
    """The ids of the events that this one says it was made from."""
    payload = event.payload
    named = tuple(getattr(payload, "derived_from", ()))
    if isinstance(payload, MemoryRecorded | MemoryRevised) and event.causation_id:
        return (*named, event.causation_id)
    return named


def _names(one: Placed) -> list[str]:
    """The names under which others may speak of it. An id is a name everywhere, the rest in its stream."""
    event, payload = one.event, one.event.payload
    names = [event.event_id, f"{one.stream}#e{event.seq}"]
    if isinstance(payload, SummaryCreated):
        names.append(f"{one.stream}#summary/{payload.id}")
    if isinstance(payload, DocumentAttached):
        names.append(f"{one.stream}#document/{payload.document_id}")
    return names


def _made_from(one: Placed) -> list[str]:
    payload = one.event.payload
    names = list(sources(one.event))
    if isinstance(payload, SummaryCreated):
        names += [f"{one.stream}#summary/{name}" for name in (*payload.derived_from, *payload.supersedes)]
    if isinstance(payload, ReferenceExpanded):
        told = payload.reference_id
        names.append(f"{one.stream}#{told}" if _OF_EVENT.fullmatch(told) else f"{one.stream}#document/{told}")
    return names
