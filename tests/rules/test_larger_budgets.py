"""Invariant 7: a larger budget never loses an item or unit that a smaller one kept.

For the same priorities, without a parent layout and without lending; per slot, and for the window.
"""

from typing import Any

from histories import Log, World, compiled
from hypothesis import given
from hypothesis import strategies as st
from worlds import benign, examples, formats, logs, subjects

from domain.errors import ContextOverflow
from domain.snapshots import Prompt

budgets = st.integers(20, 1500)
steps_up = st.sampled_from([1, 1, 2, 3, 10, 50, 300])


def prompt_or_none(world: World, **asked: Any) -> Prompt | None:
    try:
        return compiled(world, **asked)
    except ContextOverflow:
        return None


def kept_units(prompt: Prompt) -> set[int]:
    return {entry["from_seq"] for entry in prompt.report["units"] if entry["disposition"] == "included"}


def told_units(prompt: Prompt) -> set[int]:
    """Units that are shown or that the summary speaks of."""
    kept = ("included", "summarized")
    return {entry["from_seq"] for entry in prompt.report["units"] if entry["disposition"] in kept}


def kept_items(prompt: Prompt, slot: str) -> set[str]:
    return {one["key"] for one in prompt.report["slots"][slot]["items"] if one["disposition"] == "included"}


@examples(150)
@given(logs(benign), formats, budgets, steps_up)
def test_a_larger_budget_keeps_every_unit_of_a_smaller_one(log: Log, target: str, budget: int, more: int) -> None:
    world = World(log)
    small = prompt_or_none(world, format=target, budget=budget)
    if small is None:
        return
    large = prompt_or_none(world, format=target, budget=budget + more)
    assert large is not None
    assert kept_units(small) <= kept_units(large)


@examples(100)
@given(logs(benign), subjects(), budgets, steps_up)
def test_a_larger_budget_keeps_every_slot_item_of_a_smaller_one(log: Log, subject: Log, budget: int, more: int) -> None:
    world = World(log, subject)
    small = prompt_or_none(world, mode="react", budget=budget)
    if small is None:
        return
    large = prompt_or_none(world, mode="react", budget=budget + more)
    assert large is not None
    lent = any(slot["used"] > slot["budget"] for one in (small, large) for slot in one.report["slots"].values())
    for slot in () if lent else small.report["slots"]:
        assert kept_items(small, slot) <= kept_items(large, slot)


@examples(150)
@given(
    st.lists(st.tuples(benign, st.sampled_from([0.3, 0.5, 0.9])), min_size=1, max_size=12),
    st.integers(0, 400),
    steps_up,
    st.sampled_from(["recall", "profile"]),
)
def test_a_larger_slot_budget_keeps_every_item_of_a_smaller_one(
    memories: list[tuple[str, float]], budget: int, more: int, slot: str
) -> None:
    subject = Log("s")
    for number, (text, importance) in enumerate(memories):
        category = "identity" if slot == "profile" else "fact"
        subject.add("memory.recorded", id=f"m{number}", text=text, category=category, importance=importance)
    session = Log()
    session.user("weather in 北京 and the order #W1234")

    def kept(size: int) -> set[str]:
        slots = {slot: {"token_budget": size, "top_k": 0, "min_score": 0}}
        others = {name: {"token_budget": 0} for name in ("constraints", "profile", "recall")}
        prompt = compiled(World(session, subject), mode="chat", overrides={"slots": {**others, **slots}})
        return kept_items(prompt, slot)

    assert kept(budget) <= kept(budget + more)
