"""Invariant 7: a larger budget never loses an item or unit that a smaller one kept.

For the same priorities, without a parent layout and without lending; per slot, and for the window.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from histories import Log, World, compiled
from hypothesis import given
from hypothesis import strategies as st
from worlds import benign, examples, formats, logs, subjects

from domain.errors import ContextOverflow
from domain.recall.scoring import DAY
from domain.snapshots import Prompt
from domain.sources import SourceItem, SourceResult

NO_LENDING = {"lending": False}

budgets = st.integers(20, 1500)
steps_up = st.sampled_from([1, 1, 2, 3, 10, 50, 300])


def prompt_or_none(world: World, **asked: Any) -> Prompt | None:
    try:
        return compiled(world, **asked)
    except ContextOverflow:
        return None


def kept_units(prompt: Prompt) -> set[int]:
    return {entry["from_seq"] for entry in prompt.report["units"] if entry["disposition"] == "included"}


def protected_units(prompt: Prompt) -> set[int]:
    return {entry["from_seq"] for entry in prompt.report["units"] if entry["reason"] == "protected"}


def kept_items(prompt: Prompt, slot: str) -> set[str]:
    return {one["key"] for one in prompt.report["slots"][slot]["items"] if one["disposition"] == "included"}


@examples(150)
@given(logs(benign), formats, budgets, steps_up)
def test_a_larger_budget_keeps_every_unit_of_a_smaller_one(log: Log, target: str, budget: int, more: int) -> None:
    world = World(log)
    small = prompt_or_none(world, format=target, budget=budget, overrides=NO_LENDING)
    if small is None:
        return
    large = prompt_or_none(world, format=target, budget=budget + more, overrides=NO_LENDING)
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


said = st.tuples(benign, st.sampled_from(["ann", "bob"]), st.integers(0, 3), st.integers(1, 99))


@examples(100)
@given(st.lists(said, min_size=1, max_size=12), st.integers(0, 400), steps_up)
def test_a_larger_budget_recalls_all_that_a_smaller_one_did(
    rows: list[tuple[str, str, int, int]], budget: int, more: int
) -> None:
    """Lines of chats under their days, whose costs depend on what stands beside them."""
    items = tuple(
        SourceItem(f"k{at}", text, "episodic", score=score / 100, at=day * DAY, speaker=who, order=(1, at))
        for at, (text, who, day, score) in enumerate(rows)
    )
    session = Log()
    session.user("weather in 北京 and the order #W1234")
    world = World(session, sources=(SourceResult("log", "recall", items),))

    def kept(size: int) -> set[str]:
        slots = {"recall": {"token_budget": size, "top_k": 0, "min_score": 0}}
        return kept_items(compiled(world, mode="chat", overrides={"slots": slots, **NO_LENDING}), "recall")

    assert kept(budget) <= kept(budget + more)


def agent_log(chance: Random) -> Log:
    """A working agent's log: questions, batches of calls, some never answered, rules, tools, a plan."""
    said = ["ok", "the order #W1234 is late. " * 3, "你好世界，今天天气怎么样？" * 5, '{"temp": 22, "wind": "NW"} ' * 8]
    log = Log()
    log.add("session.started", mode=chance.choice(["chat", "react"]))
    rules = [{"text": f"core rule {number} " * 4, "core": True} for number in range(chance.randrange(4))]
    log.add("instruction.set", role="You book flights.", rules=rules)
    log.block("a", "never pay twice")
    log.block("b", "ask before you pay " * 5, "warn")
    log.add("tool.registered", name="look_up", description="finds flights", required=("of",))
    log.add("plan.updated", task_id="t-1", steps=[{"id": str(at), "text": f"step {at} " * 6} for at in range(6)])
    for turn in range(chance.randrange(4, 14)):
        if chance.random() < 0.6:
            log.user(chance.choice(said))
        ids = [f"c{turn}-{at}" for at in range(chance.randrange(3))]
        log.calls(*ids, content=chance.choice(said))
        for one in ids[: chance.randrange(4)]:
            log.answer(one, chance.choice(said))
    return log


def growing(seed: int, target: str) -> Iterator[tuple[int, Prompt]]:
    """Prompts for the same log at growing budgets, from the first that fits."""
    world, begun = World(agent_log(Random(seed))), False
    for budget in range(60, 1600, 11):
        prompt = prompt_or_none(world, format=target, budget=budget, overrides=NO_LENDING)
        assert prompt or not begun, f"refused at {budget}, though less was enough"
        if prompt:
            begun = True
            yield budget, prompt


@pytest.mark.parametrize("seed", range(4))
def test_no_step_of_a_growing_budget_loses_a_slot_item(seed: int) -> None:
    items: dict[str, set[str]] = {}
    for budget, prompt in growing(seed, "openai"):
        lent = any(slot["used"] > slot["budget"] for slot in prompt.report["slots"].values())
        for slot in () if lent else prompt.report["slots"]:
            assert items.get(slot, set()) <= kept_items(prompt, slot), f"{slot} lost an item at {budget}"
            items[slot] = kept_items(prompt, slot)


def test_no_step_of_a_growing_budget_loses_a_unit() -> None:
    for seed in range(5):
        for target in ("openai", "anthropic", "text"):
            units, first = set[int](), set[int]()
            for budget, prompt in growing(seed, target):
                # A waiting call ranks before the window: where one more of them fits, priorities are not the same.
                if protected_units(prompt) == first:
                    assert units <= kept_units(prompt), f"units lost at {budget}"
                units, first = kept_units(prompt), protected_units(prompt)
