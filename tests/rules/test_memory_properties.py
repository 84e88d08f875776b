"""Memories under any order of telling, revising, taking back and undoing: what holds of all of them."""

from collections.abc import Sequence
from typing import Any

from histories import EPOCH, Log, World, compiled
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples

from domain.events import MemoryRecorded, MemoryRetracted, MemoryRevised
from domain.history import in_force
from domain.memorising.current import current
from domain.memorising.tracing import takes_the_place
from domain.state import ContextState, fold, reduce

NAMES = ["m0", "m1", "m2"]
KEYS: list[dict[str, str]] = [{}, {"subject": "a", "predicate": "p"}, {"subject": "b", "predicate": "p"}]
TEXTS = ["tea one", "tea two", "茶三"]
CATEGORIES = ["fact", "preference", "episodic"]

names = st.sampled_from(NAMES)
told = st.tuples(
    st.sampled_from(["memory.recorded", "memory.recorded", "memory.revised"]), names, st.sampled_from(TEXTS),
    st.sampled_from(KEYS), st.sampled_from(CATEGORIES),
)  # fmt: skip
steps = st.one_of(
    told, told, st.tuples(st.just("memory.retracted"), names), st.tuples(st.just("undo"), st.integers(0, 5))
)
stories = st.lists(steps, max_size=14)


def played(story: Sequence[Any], name: str = "s") -> Log:
    log = Log(name)
    for kind, *rest in story:
        if kind == "undo":
            if log.events:
                event = log.events[-1 - rest[0] % len(log.events)]
                log.add("context.rolled_back", to_seq=event.seq - 1, undoes=[event.event_id])
        elif kind == "memory.retracted":
            log.add(kind, id=rest[0])
        else:
            memory_id, text, key, category = rest
            log.add(kind, id=memory_id, text=text, category=category, importance=0.9, **key)
    return log


def true(state: ContextState) -> list[str]:
    return [memory.id for memory in current(state.rows("memories"), EPOCH * 2)]


@examples(200)
@given(stories)
def test_what_was_taken_back_is_true_again_only_when_it_was_told_again(story: Sequence[Any]) -> None:
    log = played(story)
    holds = set(true(log.state))
    for name in NAMES:
        about = [event.payload for event in in_force(log.events) if getattr(event.payload, "id", None) == name]
        last = next((one for one in reversed(about) if not isinstance(one, MemoryRevised)), None)
        if isinstance(last, MemoryRetracted) and any(isinstance(one, MemoryRecorded) for one in about):
            assert name not in holds


@examples(200)
@given(stories)
def test_a_rebuild_folds_the_same_memories_as_went_in_one_by_one(story: Sequence[Any]) -> None:
    log = played(story)
    state = ContextState()
    for event in in_force(log.events):
        state = reduce(state, event)
    assert state == log.state == fold(in_force(log.events))


@examples(200)
@given(stories)
def test_of_a_subject_and_predicate_one_is_true_and_what_ended_tells_what_ended_it(story: Sequence[Any]) -> None:
    log = played(story)
    rows = log.state.rows("memories")
    keyed = [(row.subject, row.predicate) for row in current(rows, EPOCH * 2) if row.predicate]
    assert len(keyed) == len(set(keyed))
    events = {event.event_id: event for event in in_force(log.events)}
    for row in rows:
        held = events[row.event_id].payload
        assert isinstance(held, MemoryRecorded | MemoryRevised)
        later = [one for one in events.values() if one.seq > row.seq and takes_the_place(one.payload, held)]
        if row.closed_by is not None:
            assert later


@examples(60)
@given(stories, stories, stories)
def test_every_memory_in_force_is_accounted_for_once_and_no_other_is_shown(
    session: Sequence[Any], subject: Sequence[Any], tenant: Sequence[Any]
) -> None:
    log = Log("e")
    log.user("tea")
    streams = [("session", played(session, "x")), ("subject", played(subject, "y")), ("tenant", played(tenant, "z"))]
    for event in streams[0][1].events:
        # The session's own stand in its stream, behind what was said.
        if event.payload is not None and event.kind.startswith("memory."):
            fields = event.payload.model_dump(exclude_defaults=True)  # type: ignore[union-attr]
            log.add(event.kind, **{**fields, "scope": "session"})
    world = World(log, streams[1][1], streams[2][1])
    prompt = compiled(world, mode="rag")
    rows = [row for one in (log, world.subject, world.tenant) for row in one.state.rows("memories")]
    holds = {row.event_id for row in current(rows, EPOCH + 60 * 1_000_000)}
    items = [one for slot in ("profile", "recall") for one in prompt.report["slots"][slot]["items"]]
    shown = [event for one in items for event in one["events"] if event in {row.event_id for row in rows}]
    assert sorted(shown) == sorted(holds)
    assert all(one["disposition"] in ("included", "dropped") and one["reason"] for one in items)
    assert prompt.report["ledger"]["closes"]
