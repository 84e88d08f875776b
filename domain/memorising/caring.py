"""Caring for memories: those that say the same become one, and what was of passing interest ends when its time is over.

What is planned is a list of steps that somebody may look at first; a step is carried out by events, and undone by one.
Facts, preferences and what is important or procedural never end by their age.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from domain.events import Event, MemoryRecorded, MemoryRetracted, MemoryRevised, Payload
from domain.memorising.current import current
from domain.memorising.likeness import normal, words
from domain.recall.scoring import DAY, LASTING, decayed
from domain.rows import Memory

LIFETIMES: Mapping[str, int] = MappingProxyType({"tool_failure": 30, "episodic": 180, "general": 180, "decision": 365})
"""Days that a memory of passing interest lives, by category; one of another category does not end by its age."""

LONGEST_LINEAGE = 200
"""Events that a merged memory names as its sources, the newest of them."""


@dataclass(frozen=True, slots=True)
class Step:
    """`merge` lets the first of the memories stand for all, `retire` ends its only one."""

    act: Literal["merge", "retire"]
    memories: tuple[Memory, ...]
    reason: str


def remembers(events: Iterable[Event]) -> bool:
    """Whether any of the events writes what sessions share, so that there may be something to care for."""
    told = (event.payload for event in events if event.kind in ("memory.recorded", "memory.revised"))
    return any(isinstance(one, MemoryRecorded | MemoryRevised) and one.scope != "session" for one in told)


def plan(memories: Sequence[Memory], as_of: int, lifetimes: Mapping[str, int] = LIFETIMES) -> list[Step]:
    """What is to be done at a moment, in µs UTC. The later the moment, the more is retired."""
    held = [one for one in current(memories, as_of) if one.closed_by is None]
    steps = list(_merges(held))
    gone = {one.id for step in steps for one in step.memories}
    return steps + [step for one in held if one.id not in gone and (step := _retired(one, as_of, lifetimes))]


def _merges(held: Sequence[Memory]) -> Iterator[Step]:
    groups: dict[tuple[object, ...], list[Memory]] = {}
    for memory in held:
        said = words(memory.text) or (normal(memory.text),)
        groups.setdefault((memory.scope, memory.subject, memory.predicate, memory.category, said), []).append(memory)
    for group in groups.values():
        if len(group) > 1:
            # The newest first: it is how it was said last.
            group.sort(key=lambda one: -one.seq)
            yield Step("merge", tuple(group), f"{len(group)} memories say the same")


def _retired(memory: Memory, as_of: int, lifetimes: Mapping[str, int]) -> Step | None:
    days = lifetimes.get(memory.category)
    if days is None or lasts(memory):
        return None
    if as_of - memory.recorded_at < days * DAY or decayed(memory.importance, memory.recorded_at, as_of) >= LASTING:
        return None
    return Step("retire", (memory,), f"{memory.category} ends after {days} days")


def lasts(memory: Memory) -> bool:
    """Whether a memory is too important, or too useful, to end by its age."""
    procedural = "procedural" in (memory.category, memory.memory_kind)
    return procedural or memory.importance >= LASTING


def carried_out(step: Step, memory_id: str) -> Payload:
    """A step as an event: a merged memory has `memory_id` and names all that it was made from."""
    if step.act == "retire":
        return MemoryRetracted(id=step.memories[0].id, scope=_scope(step), reason=step.reason)
    newest = step.memories[0]
    sources = [name for one in step.memories for name in (one.event_id, *one.derived_from)]
    begins = min((one.valid_from for one in step.memories if one.valid_from), default=None)
    return MemoryRecorded(
        id=memory_id, text=newest.text, scope=_scope(step), category=newest.category,
        memory_kind=newest.memory_kind, importance=max(one.importance for one in step.memories),
        tags=tuple(dict.fromkeys(tag for one in step.memories for tag in one.tags)), subject=newest.subject,
        predicate=newest.predicate, object=newest.object, valid_from=begins, valid_to=newest.valid_to,
        derived_from=tuple(dict.fromkeys(sources))[:LONGEST_LINEAGE],
        supersedes=tuple(one.id for one in step.memories),
    )  # fmt: skip


def _scope(step: Step) -> Literal["session", "subject", "tenant"]:
    scope = step.memories[0].scope
    return "session" if scope == "session" else "tenant" if scope == "tenant" else "subject"
