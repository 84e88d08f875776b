"""Whose a session was, and when: a later `session.started` may hand it to another subject."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.events import SessionStarted
from workers.engine.reading import subject_stream
from workers.store import log
from workers.store.log import StoredEvent

NO_END = 2**53 - 1
"""The largest whole number that JSON keeps."""


@dataclass(frozen=True, slots=True)
class Spell:
    """The seqs of a session, first and last, that a subject's stream went with."""

    stream: str
    first: int
    last: int = NO_END

    def __contains__(self, seq: int) -> bool:
        return self.first <= seq <= self.last


def spells(session: str, started: Sequence[StoredEvent]) -> list[Spell]:
    """In order, by the `session.started` events of its log: before a subject was told it is its own."""
    begun = [(subject_stream(session, None), 1)]
    for event in started:
        told = log.fact(event).payload
        if isinstance(told, SessionStarted) and told.subject:
            begun.append((subject_stream(session, told.subject), event.seq))
    ends = [first - 1 for _, first in begun[1:]] + [NO_END]
    found = (Spell(stream, first, last) for (stream, first), last in zip(begun, ends, strict=True))
    return [one for one in found if one.first <= one.last]
