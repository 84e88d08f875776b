"""What of the memories is true at a moment: one truth per subject and predicate, whatever scope it stands in."""

from collections.abc import Iterable

from domain.moments import moment
from domain.rows import Memory

SCOPES = ("tenant", "subject", "session")
"""Of two memories as new as each other the one of the narrower scope counts."""


def in_force(memory: Memory, as_of: int) -> bool:
    """Whether it was not closed, and `as_of` is within its validity."""
    if memory.closed_by is not None and (memory.closed_at is None or memory.closed_at <= as_of):
        return False
    begins, ends = moment(memory.valid_from), moment(memory.valid_to)
    return (begins is None or begins <= as_of) and (ends is None or as_of < ends)


def current(memories: Iterable[Memory], as_of: int) -> list[Memory]:
    """Those in force, in the order given, without those that a newer one of another scope replaces."""
    found = [memory for memory in memories if in_force(memory, as_of)]
    newest: dict[tuple[str, str], Memory] = {}
    for memory in found:
        if memory.subject is not None and memory.predicate is not None:
            key = memory.subject, memory.predicate
            newest[key] = max(newest.get(key, memory), memory, key=_newness)
    replaced = {id(memory) for memory in found if (told := newest.get(_key(memory))) and told is not memory}
    return [memory for memory in found if id(memory) not in replaced]


def _key(memory: Memory) -> tuple[str, str]:
    return memory.subject or "", memory.predicate or ""


def _newness(memory: Memory) -> tuple[int, int, int]:
    return memory.recorded_at, SCOPES.index(memory.scope) if memory.scope in SCOPES else 0, memory.seq
