"""Statistics: exact figures from tallies, and settings that would have fitted what was seen."""

import math
import statistics as plain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.distributions import Tally, add, distribution, quantile
from domain.prompt_facts import cached_text, facts_of, reuse
from domain.statistics import ENOUGH, MOST_TOOLS, Seen, summary

Json = dict[str, Any]

sizes = st.lists(st.integers(0, 5000), min_size=1, max_size=200)


def tallied(found: list[int]) -> Tally:
    tally: Tally = {}
    for size in found:
        add(tally, size)
    return tally


@given(sizes)
def test_every_figure_is_that_of_the_plain_list(found: list[int]) -> None:
    told, ordered = distribution(tallied(found)), sorted(found)
    assert (told["count"], told["tokens"], told["peak"]) == (len(found), sum(found), ordered[-1])
    assert told["median"] == plain.median(found)
    assert told["mean"] == pytest.approx(plain.mean(found), abs=0.0051)
    assert told["p95"] == ordered[(len(found) * 95 + 99) // 100 - 1]
    largest = ordered[-((len(found) * 5 + 99) // 100) :]
    assert told["long_tail"] == pytest.approx(sum(largest) / max(1, sum(found)), abs=0.0001)


@given(sizes)
def test_the_histogram_holds_every_item_once_in_steps_that_double(found: list[int]) -> None:
    steps = distribution(tallied(found))["histogram"]
    assert sum(step["count"] for step in steps) == len(found)
    assert [step["to"] for step in steps] == [steps[0]["to"] << at for at in range(len(steps))]
    below = 0
    for step in steps:
        assert step["count"] == sum(below < size <= step["to"] or (size == 0 and not below) for size in found)
        below = step["to"]


@given(sizes, st.floats(0.01, 1))
def test_a_quantile_is_a_size_that_was_seen(found: list[int], share: float) -> None:
    assert quantile(tallied(found), share) in found


def test_nothing_has_a_distribution_too() -> None:
    told = distribution({})
    assert told.pop("histogram") == []
    assert set(told.values()) == {0}


def item(tokens: int, reason: str) -> Json:
    dropped = reason not in ("fits", "protected")
    return {"tokens": tokens, "reason": reason, "disposition": "dropped" if dropped else "included"}


def report(**more: Any) -> Json:
    return {
        "budget": 1000,
        "tokens": 700,
        "counting": {"encoding": "o200k_base", "factor": 1.25, "tokens": 560},
        "floor": {"anchor_system": 100, "tools": 50},
        "zones": {"anchor_system": 100, "tools": 50, "anchor_business": 30, "slots": 80, "window": 290, "format": 10},
        "slots": {
            "recall": {
                "budget": 60,
                "used": 40,
                "items": [item(40, "fits"), item(30, "slot_budget"), item(99, "min_score"), item(7, "protected")],
            }
        },
        "units": [{"disposition": "included", "reason": "window", "zone": "window"}],
        "trim": {"strategy": "none", "cut": 0, "carried": False},
        **more,
    }


def test_what_a_slot_wanted_is_all_that_passed_its_filter() -> None:
    slot = facts_of(report()).slots["recall"]
    assert (slot.budget, slot.used, slot.wanted) == (60, 40, 70)
    assert slot.items == (40, 30, 99, 7)


def test_room_is_told_in_the_tokens_that_were_counted() -> None:
    facts = facts_of(report())
    assert facts.limit == 800
    assert facts.spare == 800 - 150 - 30
    assert facts.room == 800 - 560 + 290


@pytest.mark.parametrize(
    ("more", "over"),
    [
        ({}, set()),
        ({"slots": {"recall": {"budget": 9, "used": 0, "items": [item(5, "global_budget")]}}}, {"slots"}),
        ({"units": [{"disposition": "summarized", "reason": "window", "zone": "summary"}]}, {"window"}),
        ({"units": [{"disposition": "dropped", "reason": "orphan", "zone": "dropped"}]}, set()),
        (
            {
                "units": [
                    {"disposition": "included", "reason": "protected", "zone": "anchor_business", "shortened": 9},
                    {"disposition": "dropped", "reason": "window", "zone": "dropped"},
                ]
            },
            {"anchor_business", "window"},
        ),
    ],
)
def test_a_zone_is_over_its_share_when_it_wanted_more(more: Json, over: set[str]) -> None:
    assert facts_of(report(**more)).over == over


@pytest.mark.parametrize(
    ("cut", "carried", "trimmed"), [(0, False, False), (0, True, False), (7, False, True), (7, True, False)]
)
def test_a_cut_that_was_carried_on_is_no_trim(cut: int, carried: bool, trimmed: bool) -> None:
    assert facts_of(report(trim={"strategy": "drop", "cut": cut, "carried": carried})).trimmed is trimmed


def test_a_report_of_an_older_release_tells_what_it_has() -> None:
    facts = facts_of({"budget": 100, "tokens": 60})
    assert (facts.tokens, facts.limit, facts.spare, facts.room) == (60, 100, 100, 40)
    assert (facts.slots, facts.over, facts.trimmed) == ({}, frozenset(), False)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_reuse_is_the_share_that_begins_alike(same: str, old: str, new: str) -> None:
    before, after = same + old, same + new
    plainly = 0
    while plainly < min(len(before), len(after)) and before[plainly] == after[plainly]:
        plainly += 1
    assert reuse(before, after) == (plainly / len(after) if after else 0.0)


def test_a_prompt_that_only_grew_is_reused_but_for_what_is_new() -> None:
    tools, first, second = [{"name": "f"}], {"role": "user", "content": "a" * 500}, {"role": "user", "content": "b"}
    before, after = ({"messages": said, "tools": tools} for said in ([first], [first, second]))
    assert reuse(cached_text(before), cached_text(after)) > 0.9
    changed = {"messages": [first, second], "tools": [{"name": "g"}]}
    assert reuse(cached_text(before), cached_text(changed)) < 0.1


def test_messages_are_told_by_role_and_results_by_tool() -> None:
    seen = Seen()
    for role, tool, tokens in (("user", None, 5), ("tool", "find", 90), ("tool", "read", 300), ("tool", None, 1)):
        seen.message(role, tool, tokens)
    told = summary(seen)
    assert told["messages"] == 4
    assert {role: one["tokens"] for role, one in told["roles"].items()} == {"user": 5, "assistant": 0, "tool": 391}
    assert [(one["tool"], one["tokens"]) for one in told["tools"]] == [("read", 300), ("find", 90), (None, 1)]


def test_any_number_of_tools_takes_bounded_room() -> None:
    seen = Seen()
    for number in range(3 * MOST_TOOLS):
        seen.message("tool", f"tool {number}", 1)
    assert len(seen.tools) == MOST_TOOLS + 1
    assert sum(one["count"] for one in summary(seen)["tools"]) == 3 * MOST_TOOLS


def test_prompts_are_summed_up() -> None:
    seen = Seen()
    first, second = facts_of(report()), facts_of(report(tokens=900, trim={"cut": 5, "carried": False}))
    for facts in (first, second):
        seen.prompt(facts)
    seen.pair(first, second, 0.5)
    told = summary(seen)
    assert told["prompts"]["count"] == 2
    assert (told["prompts"]["fill"], told["prompts"]["trimmed"]) == (0.8, 0.5)
    assert (told["prompts"]["pairs"], told["prompts"]["prefix_reuse"]) == (1, 0.5)
    assert told["slots"]["recall"]["over"] == 2
    assert told["slots"]["recall"]["wanted"]["p95"] == 70
    assert sum(zone["share"] for zone in told["zones"].values()) == pytest.approx(1, abs=0.001)


def test_nothing_is_recommended_from_little() -> None:
    seen = Seen()
    for _ in range(ENOUGH - 1):
        seen.prompt(facts_of(report()))
        seen.output(50_000, 100_000)
        seen.message("tool", "find", 10)
    told = summary(seen)["recommended"]
    assert told.pop("slots") == {}
    assert set(told.values()) == {None}


@pytest.mark.parametrize(
    ("outputs", "ratio"),
    [
        ([100] * 200, 0.15),
        ([33_400] * 200, 0.34),
        ([100] * 190 + [60_000] * 10, 0.6),
        ([99_999] * 20, 0.9),
    ],
)
def test_the_reserve_holds_all_but_the_longest_answers(outputs: list[int], ratio: float) -> None:
    seen = Seen()
    for tokens in outputs:
        seen.output(tokens, 100_000)
    assert summary(seen)["recommended"]["reserve_ratio"] == ratio


@given(st.lists(st.integers(0, 900), min_size=ENOUGH, max_size=60))
def test_a_recommended_budget_would_have_held_what_the_slot_wanted_in_nearly_all_prompts(wanted: list[int]) -> None:
    seen = Seen()
    for tokens in wanted:
        filled = {"recall": {"budget": 60, "used": 0, "items": [item(tokens, "slot_budget")]}}
        seen.prompt(facts_of(report(slots=filled)))
    told, asked = summary(seen)["recommended"], [tokens for tokens in wanted if tokens]
    assert told["global_slot_budget"] % 100 == 0
    assert sum(tokens <= told["global_slot_budget"] for tokens in wanted) >= math.floor(0.95 * len(wanted))
    if len(asked) >= ENOUGH:
        assert told["slots"]["recall"] % 50 == 0
        assert sum(tokens <= told["slots"]["recall"] for tokens in asked) >= math.floor(0.95 * len(asked))
    else:
        assert told["slots"] == {}
    assert 0.5 <= told["window_share"] <= 0.95


@pytest.mark.parametrize(("step", "low_water"), [(1, 0.95), (25, 0.8), (400, 0.5)])
def test_the_low_water_mark_lets_a_trim_last_for_some_prompts(step: int, low_water: float) -> None:
    seen = Seen()
    before = facts_of(report())
    after = facts_of(report(tokens=700 + step, counting={"factor": 1, "tokens": 700}, zones={"window": 700}))
    assert after.room == 1000
    for _ in range(ENOUGH):
        seen.pair(before, after, 1.0)
    # 25 of 1000 tokens a prompt: eight prompts need a fifth of the room.
    assert summary(seen)["recommended"]["low_water"] == pytest.approx(low_water)


def test_long_results_begin_where_all_but_a_twentieth_end() -> None:
    seen = Seen()
    for tokens in [30] * 95 + [4000] * 5:
        seen.message("tool", "find", tokens)
    assert summary(seen)["recommended"]["long_result"] == 50
