"""What is protected and how large a prompt may be."""

import math
from typing import Any

import pytest
from budgeted import FORMATS, at_every_budget, verbatim
from checkers import faults, seen, system_text
from histories import Log, World, compiled, count_text
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples

from domain.budgets import input_budget
from domain.counting import Counter
from domain.errors import ContextOverflow, InvalidRequest
from domain.requests import parse_request
from domain.rows import SessionInfo
from domain.snapshots import Prompt

# --- the input budget ------------------------------------------------------------------------------------------------


def budget(session: dict[str, Any] | None = None, model_window: int | None = None, **asked: Any) -> int:
    return input_budget(SessionInfo(**(session or {})), parse_request(asked), model_window)


def test_the_budget_is_the_window_less_the_reserve() -> None:
    assert budget(window=10_000) == 7_000
    assert budget({"context_window": 20_000}) == 14_000
    assert budget(model_window=30_000) == 21_000


def test_a_request_knows_better_than_its_session_and_a_session_better_than_its_model() -> None:
    assert budget({"context_window": 20_000}, 30_000, window=10_000) == 7_000
    assert budget({"context_window": 20_000}, 30_000) == 14_000
    assert budget({"context_window": 20_000}, 30_000, budget=123) == 123


@pytest.mark.parametrize(("task", "share"), [("code", 0.6), ("chat", 0.7), ("classify", 0.8), (None, 0.7)])
def test_the_reserve_follows_the_task(task: str | None, share: float) -> None:
    assert budget({"task_type": task}, window=1_000) == round(1_000 * share)


def test_a_reserve_that_was_said_overrules_that_of_the_task() -> None:
    assert budget({"task_type": "code", "reserve_ratio": 0.5}, window=1_000) == 500
    assert budget({"reserve_ratio": 0.5}, window=1_000, overrides={"reserve_ratio": 0.2}) == 800


@examples(200)
@given(st.integers(1, 2_000_000), st.integers(15, 90))
def test_the_budget_is_a_floor_and_never_above_the_share(window: int, percent: int) -> None:
    found = budget(window=window, overrides={"reserve_ratio": percent / 100})
    assert found <= window * (1 - percent / 100) + 1e-6
    assert found == math.floor(window * (1 - percent / 100))


@pytest.mark.parametrize("ratio", [0.14, 0.91, -1])
def test_a_reserve_out_of_bounds_is_refused(ratio: float) -> None:
    with pytest.raises(InvalidRequest, match="reserve_ratio"):
        parse_request({"overrides": {"reserve_ratio": ratio}})


@pytest.mark.parametrize(
    "asked", [{"budget": 0}, {"budget": -5}, {"window": 0}, {"format": "xml"}, {"locale": "fr"}, {"x": 1}]
)
def test_a_request_that_makes_no_sense_is_refused_by_the_field(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_request(asked)
    assert refused.value.details["path"] == next(iter(asked))


@examples(300)
@given(st.integers(1, 2_000_000), st.sampled_from([1.0, 1.01, 1.1, 1.15, 1.2, 1.25, 1.3, 1.5, 2.0]))
def test_a_stand_in_encoding_never_lets_a_prompt_over_the_models_budget(tokens: int, factor: float) -> None:
    count = Counter(count_text, "o200k_base", "openai", factor)
    assert count.scaled(count.limit(tokens)) <= tokens


@pytest.mark.parametrize("target", FORMATS)
def test_the_safety_factor_counts_in_the_budget_and_is_told(target: str) -> None:
    log = Log()
    log.add("instruction.set", role="You count.")
    for turn in range(20):
        log.user(f"question {turn} " * 10)
    prompt = compiled(log, format=target, budget=500, factor=1.25)
    counted = prompt.report["counting"]
    assert counted["factor"] == 1.25
    assert prompt.tokens == math.ceil(counted["tokens"] * 1.25) <= 500
    with pytest.raises(ContextOverflow) as refused:
        compiled(log, format=target, budget=16, factor=1.25)
    assert refused.value.details["budget"] == 16 < refused.value.details["total"]


# --- the business anchor ---------------------------------------------------------------------------------------------


def test_the_newest_directive_is_the_anchor_and_the_older_one_an_ordinary_message() -> None:
    log = Log()
    log.user("do X")
    log.user("just saying", directive=False)
    log.user("")
    assert log.state.one("business").event_id == "e1"
    log.user("do Y")
    assert (log.state.one("business").event_id, log.state.one("business").version) == ("e4", 2)


NUMBERS = " ".join(f"n{number}" for number in range(2000))


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("size", [900, 1500, 3000])
def test_an_anchor_that_does_not_fit_keeps_head_and_tail_around_a_counted_marker(size: int, target: str) -> None:
    log = Log()
    log.user(NUMBERS)
    prompt = compiled(log, format=target, budget=size, locale="en")
    [text] = verbatim(seen(prompt.payload, target))
    head, _, tail = text.partition("… (")
    left_out, _, tail = tail.partition(" tokens left out here, reference e1 expands them) …")
    assert NUMBERS.startswith(head)
    assert NUMBERS.endswith(tail)
    assert count_text(head) + count_text(tail) >= 800
    assert abs(int(left_out) + count_text(head) + count_text(tail) - count_text(NUMBERS)) <= 4
    assert size - 60 <= prompt.tokens <= size, "as much of it as fits"
    assert any("directive" in warning for warning in prompt.report["warnings"])


def test_an_anchor_is_whole_as_soon_as_the_floor_with_all_of_it_fits() -> None:
    log = Log()
    log.add("instruction.set", role="You count.")
    log.assistant("earlier " * 50)
    log.user(NUMBERS)
    log.assistant("later " * 50)
    enough = compiled(Log("e", [log.events[0], log.events[2]])).tokens
    assert NUMBERS in verbatim(seen(compiled(log, budget=enough).payload, "openai"))
    assert NUMBERS not in verbatim(seen(compiled(log, budget=enough - 1).payload, "openai"))


def test_an_anchor_of_which_800_tokens_do_not_fit_is_refused() -> None:
    log = Log()
    log.user(NUMBERS)
    with pytest.raises(ContextOverflow) as refused:
        compiled(log, budget=790)
    assert 800 < refused.value.details["needs"]["anchor_business"] < 850
    assert "At least 800 tokens of a longer directive stay." in str(refused.value)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("text", [NUMBERS, NUMBERS[:1500], NUMBERS[:4000], "一二三四五六七八九十" * 400], ids=len)
def test_a_refusal_tells_the_budget_from_which_the_directive_is_taken(text: str, target: str) -> None:
    log = Log()
    log.add("instruction.set", role="You count.")
    log.user(text)
    with pytest.raises(ContextOverflow) as refused:
        compiled(log, format=target, budget=300)
    enough = refused.value.details["total"]
    assert compiled(log, format=target, budget=enough).tokens <= enough
    with pytest.raises(ContextOverflow):
        compiled(log, format=target, budget=enough - 16)


@pytest.mark.parametrize("target", FORMATS)
def test_of_an_anchor_with_several_long_texts_all_are_cut_and_the_whole_expands(target: str) -> None:
    log = Log()
    log.user([{"type": "text", "text": text} for text in (NUMBERS, "short and whole", NUMBERS[::-1])])
    prompt = compiled(log, format=target, budget=1500, locale="en")
    shown = "\n".join(verbatim(seen(prompt.payload, target)))
    assert shown.startswith(NUMBERS[:900])
    assert "short and whole" in shown
    assert shown.endswith(NUMBERS[::-1][-300:])
    assert shown.count("reference e1 expands them") == 2
    assert 1400 <= prompt.tokens <= 1500


def test_of_an_anchor_with_an_image_only_the_text_is_cut() -> None:
    log = Log()
    log.user([{"type": "image", "url": "https://example.org/a.png"}, {"type": "text", "text": NUMBERS}])
    things = seen(compiled(log, budget=2500).payload, "openai")
    assert [one.sort for one in things] == ["image", "text"]


def test_an_anchor_outlives_any_number_of_turns_and_trims() -> None:
    log = Log()
    log.user("the one wish")
    parent = None
    for turn in range(60):
        log.calls(f"c{turn}", content="working " * 5)
        log.answer(f"c{turn}", "done " * 20)
        prompt = compiled(log, budget=500, parent=parent)
        parent = prompt.layout
        assert "the one wish" in verbatim(seen(prompt.payload, "openai"))
        assert faults(prompt.payload, "openai") == []
    assert parent is not None
    assert parent.trims > 2


# --- the system anchor -----------------------------------------------------------------------------------------------


def test_the_instruction_reads_as_text_role_rules_and_output_format() -> None:
    log = Log()
    rules = [{"text": "Be brief."}, {"text": "Be kind.", "core": True}]
    log.add("instruction.set", text="Context.", role="You help.", rules=rules, output_format="JSON only.")
    log.user("hello")
    payload = compiled(log, locale="en").payload
    assert system_text(payload, "openai") == "Context.\n\nYou help.\n\n- Be brief.\n- Be kind.\n\nJSON only."


def test_a_new_instruction_replaces_the_old_one_whole_and_is_a_new_version() -> None:
    log = Log()
    log.add("instruction.set", role="old", rules=[{"text": "old rule"}])
    log.add("instruction.set", role="new")
    log.user("hello")
    assert system_text(compiled(log).payload, "openai") == "new"
    assert log.state.one("instruction").version == 2


def test_up_to_three_core_rules_are_said_once_more_at_the_end() -> None:
    log = Log()
    rules = [{"text": f"core {number}", "core": True} for number in range(5)] + [{"text": "other"}]
    log.add("instruction.set", role="You help.", rules=rules)
    log.user("hello")
    log.assistant("hi")
    last = seen(compiled(log, locale="en").payload, "openai")[-1].text
    assert last.split("\n")[1:] == ["- core 0", "- core 1", "- core 2"]
    bare = compiled(log, overrides={"reinforce_rules": False}).payload
    assert seen(bare, "openai")[-1].text == "hi"


def test_the_reminder_stands_before_the_users_newest_message() -> None:
    log = Log()
    log.add("instruction.set", role="You help.", rules=[{"text": "core", "core": True}])
    log.user("hello")
    assert [one.role for one in seen(compiled(log).payload, "openai")] == ["system", "user", "user"]
    assert seen(compiled(log).payload, "openai")[-1].text == "hello"


def test_few_shot_examples_come_right_after_the_system_message_and_are_never_cut() -> None:
    log = Log()
    log.add(
        "instruction.set",
        role="You add.",
        examples=[{"user": "1+1?", "assistant": "2"}, {"user": "2+2?", "assistant": "4"}],
    )
    for turn in range(12):
        log.user(f"{turn}+{turn}?")
        log.assistant(str(2 * turn))
    for _, things in at_every_budget(log, 300, 13):
        texts = [one.text for one in things if one.role != "system"]
        assert texts[:4] == ["1+1?", "2", "2+2?", "4"]


# --- pins ------------------------------------------------------------------------------------------------------------


def test_few_shot_examples_keep_to_their_share_and_leave_the_rest_to_the_history() -> None:
    log = Log()
    examples = [{"user": f"question {at}?", "assistant": f"answer {at}. " * 20} for at in range(6)]
    log.add("instruction.set", role="You answer.", examples=examples)
    log.user("go")

    def shown(**overrides: Any) -> tuple[int, Prompt]:
        prompt = compiled(log, budget=1000, overrides=overrides)
        return sum("question" in str(one["content"]) for one in prompt.payload["messages"]), prompt

    assert shown()[0] == 6
    some, prompt = shown(few_shot_share=0.2)
    assert 0 < some < 6
    assert prompt.report["zones"]["few_shot"] <= 200
    assert f"{6 - some} few-shot examples are not in the prompt" in " ".join(prompt.report["warnings"])
    fewer = [shown(few_shot_share=share)[0] for share in (0.5, 0.3, 0.1, 0.01)]
    assert fewer == sorted(fewer, reverse=True)
    assert fewer[-1] == 0
    assert "few_shot" not in shown(few_shot_share=0.01)[1].report["zones"], "what it does not use is the history's"


def test_pins_are_kept_whole_in_their_place_whatever_else_is_cut() -> None:
    log = Log()
    log.user("first")
    pinned = log.assistant("the code is 4711")
    log.add("message.pinned", event_id=pinned.event_id)
    for turn in range(10):
        log.user(f"question {turn} " * 8)
    for prompt, things in at_every_budget(log, 500, 17):
        assert "the code is 4711" in verbatim(things)
        assert [entry["zone"] for entry in prompt.report["units"] if entry["from_seq"] == 2] == ["pinned"]
    log.add("message.unpinned", event_id=pinned.event_id)
    assert "the code is 4711" not in verbatim(seen(compiled(log, budget=120).payload, "openai"))


def test_a_sixth_pin_and_a_pin_of_nothing_are_noticed_and_change_nothing() -> None:
    log = Log()
    said = [log.user(f"m{number}") for number in range(6)]
    for event in said:
        log.add("message.pinned", event_id=event.event_id)
    log.add("message.pinned", event_id="nothing")
    log.add("message.pinned", event_id=said[0].event_id)
    assert len(log.state.rows("pins")) == 5
    assert len(log.state.rows("notices")) == 2


def test_pins_over_the_budget_are_refused_by_name() -> None:
    log = Log()
    pinned = log.user("long " * 500, directive=False)
    log.add("message.pinned", event_id=pinned.event_id)
    log.user("hello")
    with pytest.raises(ContextOverflow, match="the largest part is pins"):
        compiled(log, budget=300)


def test_a_pin_of_a_message_that_is_the_anchor_is_shown_once() -> None:
    log = Log()
    said = log.user("do it")
    log.add("message.pinned", event_id=said.event_id)
    assert verbatim(seen(compiled(log).payload, "openai")) == ["do it"]


# --- runs ------------------------------------------------------------------------------------------------------------


def running() -> tuple[Log, Log]:
    log, subject = Log(), Log("s")
    log.add("session.started", mode="react", locale="en")
    log.block("a", "never pay")
    log.add("run.started", run_id="r1")
    log.user("book a flight")
    subject.add("profile.set", key="city", value="Rome")
    return log, subject


def test_what_changes_inside_a_run_shows_in_the_next_runs_prefix() -> None:
    log, subject = running()
    before = compiled(World(log, subject))
    subject.add("profile.set", key="city", value="Oslo")
    inside = compiled(World(log, subject), parent=before.layout)
    assert system_text(inside.payload, "openai") == system_text(before.payload, "openai")
    log.add("run.ended", run_id="r1")
    log.add("run.started", run_id="r2")
    after = compiled(World(log, subject), parent=inside.layout)
    assert "Oslo" in system_text(after.payload, "openai")


BREAKING: list[tuple[str, dict[str, Any]]] = [
    ("constraint.set", {"id": "b", "text": "never pay twice"}),
    ("constraint.removed", {"id": "a"}),
    ("instruction.set", {"role": "You are new."}),
]


@pytest.mark.parametrize(("kind", "payload"), BREAKING)
def test_rules_instructions_and_removed_tools_break_the_freeze_at_once(kind: str, payload: dict[str, Any]) -> None:
    log, subject = running()
    before = compiled(World(log, subject))
    subject.add("profile.set", key="city", value="Oslo")
    log.add(kind, **payload)
    after = compiled(World(log, subject), parent=before.layout)
    assert "Oslo" in system_text(after.payload, "openai")


def test_a_redaction_in_the_subject_breaks_the_freeze() -> None:
    log, subject = running()
    before = compiled(World(log, subject))
    subject.redact(subject.events[0])
    assert "Rome" not in str(compiled(World(log, subject), parent=before.layout).payload)


def test_another_budget_or_model_of_the_same_view_needs_no_layout_of_its_own() -> None:
    one, two = parse_request({"budget": 100, "query": "x"}), parse_request({"budget": 100, "query": "y", "as_of": 5})
    assert one.view() == two.view()
    assert one.view() != parse_request({"budget": 101, "query": "x"}).view()
