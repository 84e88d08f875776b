"""Tracing a memory through the log: what was decided about it, what ended it, and what it was made from."""

from domain.events import AnyPayload, MemoryDecided, MemoryRecorded, MemoryRetracted, MemoryRevised
from domain.reducers import same_fact

MEMORY_KINDS = frozenset({"memory.recorded", "memory.revised", "memory.retracted", "memory.decided"})

Written = MemoryRecorded | MemoryRevised


def concerns(payload: AnyPayload | None, memory_id: str) -> bool:
    """Whether an event is about the memory of this id."""
    match payload:
        case MemoryRecorded():
            return memory_id == payload.id or memory_id in payload.supersedes
        case MemoryRevised() | MemoryRetracted():
            return memory_id == payload.id
        case MemoryDecided():
            return memory_id in (payload.memory_id, payload.about)
        case _:
            return False


def takes_the_place(later: AnyPayload | None, held: Written) -> bool:
    """Whether an event ends a memory that was held before it, as the fold has it."""
    match later:
        case MemoryRetracted():
            return later.id == held.id
        case MemoryRevised():
            return later.id == held.id or same_fact(later, held)
        case MemoryRecorded():
            told_again = later.text == held.text and None in (held.subject, held.predicate)
            return later.id == held.id or held.id in later.supersedes or same_fact(later, held) or told_again
        case _:
            return False
