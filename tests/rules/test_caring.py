"""Care for memories: what is merged, what ends with age, what never does, and that nothing comes back by it."""

from dataclasses import replace

import pytest
from histories import DAY, EPOCH, Log
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples

from domain.events import dump_payload
from domain.memorising.caring import LIFETIMES, carried_out, plan
from domain.memorising.current import current
from domain.memorising.searching import search
from domain.recall.scoring import decayed
from domain.rows import Memory


def memory(number: int, text: str = "tea", category: str = "episodic", **more: object) -> Memory:
    base = Memory(f"m{number}", text, category, 0.5, number, f"e{number}", EPOCH)
    return replace(base, **more)  # type: ignore[arg-type]


def cared(log: Log, as_of: int) -> list[str]:
    """Carries out a plan; what it was."""
    steps = plan(log.state.rows("memories"), as_of)
    for place, step in enumerate(steps):
        made = carried_out(step, f"merged{len(log.events)}.{place}")
        log.add(made.kind, **dump_payload(made))
    return [step.act for step in steps]


def test_memories_that_say_the_same_become_one_that_names_all_it_was_made_from() -> None:
    log = Log("s")
    for number, text in enumerate(["Ada likes tea.", "ada likes tea", "Ada likes green tea", "Ada also likes tea!"]):
        log.add("memory.recorded", id=f"m{number}", text=text, tags=(f"t{number}",), importance=0.2 * number)
    assert cared(log, EPOCH) == ["merge"]
    rows = {row.id: row for row in log.state.rows("memories")}
    (merged,) = [row for row in rows.values() if row.id.startswith("merged")]
    assert [row.text for row in current(list(rows.values()), EPOCH * 2)] == ["Ada likes green tea", merged.text]
    assert rows["m0"].closed_by == rows["m3"].closed_by == merged.id
    assert merged.derived_from == (rows["m3"].event_id, rows["m1"].event_id, rows["m0"].event_id)
    assert (merged.importance, merged.tags) == (pytest.approx(0.6), ("t3", "t1", "t0"))
    assert cared(log, EPOCH) == []


@pytest.mark.parametrize("category", sorted(LIFETIMES))
def test_what_is_of_passing_interest_ends_when_its_time_is_over(category: str) -> None:
    days = LIFETIMES[category]
    assert plan([memory(1, category=category)], EPOCH + days * DAY - 1) == []
    (step,) = plan([memory(1, category=category)], EPOCH + days * DAY)
    assert (step.act, step.reason) == ("retire", f"{category} ends after {days} days")


@pytest.mark.parametrize(
    "lasting",
    [
        memory(1, category="fact"),
        memory(1, category="preference"),
        memory(1, category="procedural"),
        memory(1, memory_kind="procedural"),
        memory(1, importance=0.7),
    ],
)
def test_facts_and_what_is_important_or_procedural_never_end_by_age(lasting: Memory) -> None:
    assert plan([lasting], EPOCH + 5000 * DAY) == []


def test_a_found_memory_tells_what_made_its_score() -> None:
    held = [memory(1, "the stock of ball pens is 10", importance=0.9), memory(2, "ball games"), memory(3, "rain")]
    first, second = search("stock of ball pens", held, EPOCH)
    told = first.explained()
    assert (first.memory.id, second.memory.id) == ("m1", "m2")
    assert set(first.terms) == {"stock", "ball", "pen"}
    assert sum(first.terms.values()) == pytest.approx(first.relevance) == pytest.approx(1.0)
    assert told["score"] == pytest.approx(0.7 * first.relevance + 0.3 * first.importance)
    assert first.terms["stock"] > first.terms["ball"]


ages = st.integers(0, 3000)
kinds = st.sampled_from([*LIFETIMES, "fact", "procedural"])


@examples(200)
@given(st.floats(0, 1), ages, ages, st.booleans())
def test_decay_is_monotone_in_the_moment(importance: float, one: int, other: int, procedural: bool) -> None:
    sooner, later = sorted((one, other))
    values = [decayed(importance, EPOCH, EPOCH + days * DAY, procedural=procedural) for days in (sooner, later)]
    assert 0 <= values[1] <= values[0] <= importance


@examples(200)
@given(st.lists(st.tuples(kinds, st.floats(0, 1), ages), max_size=8), ages, ages)
def test_the_later_the_moment_the_more_is_retired(told: list[tuple[str, float, int]], one: int, other: int) -> None:
    held = [
        memory(number, f"text {number}", category, importance=importance, recorded_at=EPOCH + age * DAY)
        for number, (category, importance, age) in enumerate(told)
    ]
    sooner, later = (
        {one.id for step in plan(held, EPOCH + days * DAY) for one in step.memories} for days in sorted((one, other))
    )
    assert sooner <= later


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(["tea", "Tea!", "green tea", "10 cups"]), kinds), max_size=8), ages)
def test_care_loses_no_truth_but_what_it_retires_and_is_done_once(told: list[tuple[str, str]], age: int) -> None:
    log = Log("s")
    for number, (text, category) in enumerate(told):
        log.add("memory.recorded", id=f"m{number}", text=text, category=category)
    as_of = EPOCH + age * DAY
    before = {row.text.lower().strip("!") for row in current(log.state.rows("memories"), as_of)}
    retired = [step for step in plan(log.state.rows("memories"), as_of) if step.act == "retire"]
    cared(log, as_of)
    after = {row.text.lower().strip("!") for row in current(log.state.rows("memories"), as_of)}
    assert before - after <= {one.memories[0].text.lower().strip("!") for one in retired}
    assert after <= before
    # What was merged is as new as its merging.
    assert cared(log, EPOCH) == []
