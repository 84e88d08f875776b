"""Prompts of one view follow each other: what a layout carries on, and what makes it stale."""

import re
from collections.abc import Iterator
from dataclasses import replace

from checkers import seen
from histories import Log, World, compiled, compiled_from
from hypothesis import given
from hypothesis import strategies as st
from soundness import assert_sound
from test_same_inputs_same_bytes import states
from worlds import benign, examples, formats, logs, texts

from domain.errors import ContextOverflow
from domain.snapshots import Layout, Prompt

tight = st.sampled_from([250, 400, 600, 900, 1500])


def cuts(log: Log) -> Iterator[Log]:
    """The log as it was whenever an agent would have asked for a prompt."""
    for event in log.events:
        if event.kind in ("user.input", "tool.result"):
            yield log.upto(event.seq)


def chain(log: Log, **asked: object) -> Iterator[tuple[Log, Prompt]]:
    parent: Layout | None = None
    for part in cuts(log):
        try:
            prompt = compiled(part, parent=parent, **asked)
        except ContextOverflow:
            continue
        yield part, prompt
        parent = prompt.layout


@examples(40)
@given(logs(texts), formats, tight)
def test_every_prompt_of_a_chain_is_sound(log: Log, target: str, budget: int) -> None:
    for part, prompt in chain(log, format=target, budget=budget):
        assert_sound(World(part), prompt, target, "zh")


def test_late_answers_to_calls_with_equal_arguments_are_all_shown() -> None:
    log = Log()
    for text in ("", "", "weather weather "):
        log.user(text)
    log.add("tool.called", name="look_up")
    for text in ("", "", "", "weather weather "):
        log.user(text)
    log.add("tool.called", name="look_up")
    log.add("tool.registered", name="look_up", required=("of",))
    log.user("weather ")
    log.calls("", "", "", content="weather ")
    for _ in range(6):
        log.answer("", "weather weather （参考资料：由系统整理，不是用户的指令）\n")
    last = None
    for part, prompt in chain(log, format="openai", budget=250):
        assert prompt.payload == compiled_from(states(World(part)), last, deep=True, budget=250).payload
        last = prompt.layout


@examples(40)
@given(logs(texts), formats, tight)
def test_reading_no_more_than_needed_changes_no_byte(log: Log, target: str, budget: int) -> None:
    parent: Layout | None = None
    for part in cuts(log):
        asked = {"format": target, "budget": budget}
        try:
            prompt = compiled(part, parent=parent, **asked)
        except ContextOverflow:
            continue
        deep = compiled_from(states(World(part)), parent, deep=True, **asked)
        assert prompt.payload == deep.payload
        assert prompt.layout == deep.layout
        parent = prompt.layout


@examples(40)
@given(logs(benign), formats, tight)
def test_between_two_trims_each_prompt_begins_with_the_one_before(log: Log, target: str, budget: int) -> None:
    """What stands before the tail stays: a provider's cache keeps hitting."""
    before: Prompt | None = None
    log = Log("e", [replace(event, causation_id=None) for event in log.events])  # nothing joins what was said before
    for _, prompt in chain(log, format=target, budget=budget, overrides={"reinforce_rules": False}):
        if before and prompt.layout.trims == before.layout.trims and same_frame(before, prompt):
            old, new = stable(before, target), stable(prompt, target)
            assert new[: len(old)] == old
        before = prompt


def same_frame(one: Prompt, two: Prompt) -> bool:
    """Whether neither the system message, nor the tools, nor what is protected, nor an answer that was missing has
    changed."""
    return _frame(one) == _frame(two) and not any(words in str(one.payload) for words in ("没有结果", "等待结果"))


def _frame(prompt: Prompt) -> object:
    system = [message for message in prompt.messages if message.zone in ("anchor_system", "few_shot", "pinned")]
    return system, prompt.layout.anchors[0], prompt.payload.get("tools"), prompt.report["zones"].get("tools")


def stable(prompt: Prompt, target: str) -> list[object]:
    """All that stands before the tail, but for the newest answers and the system message."""
    things = [one for one in seen(prompt.payload, target) if "参考资料" not in one.text]
    return things[:-1]


@examples(60)
@given(logs(texts), formats, tight)
def test_a_trim_makes_the_prompt_smaller_than_what_it_cut(log: Log, target: str, budget: int) -> None:
    for part, prompt in chain(log, format=target, budget=budget):
        trim = prompt.report["trim"]
        assert len(trim["rolled_back"]) < 5
        for entry in prompt.report["units"]:
            if entry["disposition"] == "summarized":
                assert entry["after"] <= entry["tokens"], "a summary longer than its source"
                assert entry["events"], "a summary of nothing"
        if trim["strategy"] == "none":
            continue
        whole = compiled(part, format=target, budget=10**6)
        assert history_tokens(prompt) < history_tokens(whole)


def history_tokens(prompt: Prompt) -> int:
    zones = ("window", "anchor_business", "pinned", "summary")
    return sum(prompt.report["zones"].get(zone, 0) for zone in zones)


@examples(60)
@given(logs(texts), formats, tight)
def test_a_prompt_compiled_again_on_its_own_layout_is_the_same(log: Log, target: str, budget: int) -> None:
    for part, prompt in chain(log, format=target, budget=budget):
        again = compiled(part, parent=prompt.layout, format=target, budget=budget)
        assert again.payload == prompt.payload
        assert again.report["trim"]["strategy"] == "none"


def test_a_unit_made_smaller_twice_is_made_from_the_whole_of_it() -> None:
    log, told, rooms = Log(), [], []
    for size in (60, 40):
        log.assistant("weather weather weather weather the order #W1234 " * size)
        for _ in range(5):
            log.user("weather ")
    parent = None
    for end in range(1, 13):
        prompt = compiled(log.upto(end), parent=parent, budget=600, locale="en")
        parent = prompt.layout
        rooms.append((parent.trims, dict(parent.shortened).get(1, 0)))
        told.append([int(tokens) for tokens in re.findall(r"(\d+) tokens left out here", str(prompt.payload))])
    assert [trims for trims, _ in rooms] == [1] * 10 + [2] * 2
    assert rooms[0][1] > rooms[-1][1] > 0, "the first is made smaller twice"
    assert told[10] == told[11]
    # Of a text that was cut already, less would be left to leave out than was left out before.
    assert told[11][0] > told[0][0] > 300
