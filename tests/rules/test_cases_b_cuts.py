"""Cases B24 to B136 about cuts: what a trim keeps, what a summary says, and when there is nothing left to cut."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from budgeted import FORMATS, answers, at_every_budget, calls, texts, verbatim
from checkers import Seen, faults, from_the_log, seen, system_text
from histories import Log, compiled, count_text

from domain.errors import ContextOverflow
from domain.snapshots import Layout, Prompt

SIGNED = {"text": "let me think " * 30, "signature": "c2lnbmF0dXJl"}


def words(number: int, of: str = "word") -> str:
    return " ".join(f"{of}{at}" for at in range(number))


def view(log: Log, ends: Any, **asked: Any) -> Iterator[Prompt]:
    """The prompts of one view, each carrying the layout of the one before it on."""
    parent: Layout | None = None
    for end in ends:
        prompt = compiled(log.upto(end), parent=parent, **asked)
        assert faults(prompt.payload, asked.get("format", "openai")) == []
        parent = prompt.layout
        yield prompt


def ends_of(log: Log, *kinds: str) -> list[int]:
    return [event.seq for event in log.events if event.kind in kinds]


def summary_of(prompt: Prompt) -> str:
    """The text of the prompt's summary, without its heading."""
    text = "".join(part.text for one in prompt.messages if one.zone == "summary" for part in one.parts)  # type: ignore[union-attr]
    return text.partition("\n")[2]


def entries(prompt: Prompt) -> dict[int, dict[str, Any]]:
    return {entry["from_seq"]: entry for entry in prompt.report["units"] if entry["units"] == 1 and "events" in entry}


# --- reasoning -------------------------------------------------------------------------------------------------------


def test_b24_a_trim_puts_no_signed_block_behind_what_came_later() -> None:
    log = Log()
    log.add("instruction.set", role="You look things up.")
    for turn in range(12):
        log.user(f"question {turn} " + words(8))
        log.calls(f"c{turn}", content=f"look {turn}", reasoning=[{"text": f"hm {turn}", "signature": f"sig{turn}"}])
        log.answer(f"c{turn}", words(25))
    trims = 0
    for prompt in view(log, ends_of(log, "user.input", "tool.result"), format="anthropic", budget=450):
        things = seen(prompt.payload, "anthropic")
        for at, one in enumerate(things):
            if one.sort == "thinking":
                number = one.id.removeprefix("sig")
                assert (one.text, things[at + 1].text) == (f"hm {number}", f"look {number}")
                assert things[at + 2].id == f"c{number}"
        signed = [int(one.id.removeprefix("sig")) for one in things if one.sort == "thinking"]
        asked = [int(one.id.removeprefix("c")) for one in things if one.sort == "call"]
        assert signed == asked == sorted(asked)
        trims = prompt.layout.trims
    assert trims >= 3


def test_b26_the_latest_message_keeps_thinking_text_and_call_or_goes_whole() -> None:
    log = Log()
    log.user("go")
    text = "the whole text " + words(200)
    log.calls("c1", content=text, reasoning=[SIGNED])
    log.answer("c1", words(300))
    shapes = set()
    for _, things in at_every_budget(log, 2000, 29, formats=("anthropic",)):
        own = [(one.sort, one.text) for one in things if one.role == "assistant"]
        whole = [("thinking", SIGNED["text"]), ("text", text), ("call", '{"of":"c1"}')]
        assert own in ([], whole)
        shapes.add((bool(own), words(300) in texts(things)))
    assert shapes == {(False, False), (True, False), (True, True)}, "gone, with a smaller answer, and whole"


def switched(**said: Any) -> Log:
    log = Log()
    log.add("session.started", model="claude-opus-5")
    log.user("go")
    log.assistant("done", reasoning=[SIGNED], **said)
    return log


@pytest.mark.parametrize("said", [{"model": "claude-opus-5"}, {}], ids=["told", "from the session"])
def test_b29_after_a_switch_of_models_a_signed_block_is_gone_whole_and_back_when_switched_back(
    said: dict[str, Any],
) -> None:
    def blocks(model: str | None) -> list[tuple[str, str]]:
        things = seen(compiled(switched(**said), format="anthropic", model=model).payload, "anthropic")
        return [(one.sort, one.id) for one in things if one.role == "assistant"]

    whole = [("thinking", SIGNED["signature"]), ("text", "")]
    assert blocks("claude-opus-5") == blocks(None) == whole
    assert blocks("claude-sonnet-5") == [("text", "")]


def test_b29_what_another_provider_sealed_is_not_shown_as_thinking() -> None:
    log = Log()
    log.user("go")
    log.assistant("done", reasoning=[{"text": "a summary", "signature": "gAAAA-sealed"}], provider="openai")
    things = seen(compiled(log, format="anthropic").payload, "anthropic")
    assert [one.sort for one in things if one.role == "assistant"] == ["text"]


@pytest.mark.parametrize("target", FORMATS)
def test_b32_a_message_whose_calls_are_gone_is_not_sent_with_its_thinking_alone(target: str) -> None:
    log = Log()
    log.user("go")
    thought = log.assistant("", reasoning=[SIGNED])
    called = log.add("tool.called", cause=thought.event_id, call_id="c1", name="look_up")
    log.answer("c1", "found it")
    log.user("well?")
    assert calls(seen(compiled(log, format=target).payload, target)) == ["c1"]
    log.redact(called)
    prompt = compiled(log, format=target)
    assert faults(prompt.payload, target) == []
    assert verbatim(seen(prompt.payload, target)) == ["go", "well?"]


def test_b32_no_budget_leaves_a_message_of_thinking_alone() -> None:
    log = Log()
    log.user("go")
    for turn in range(4):
        log.calls(f"c{turn}", reasoning=[SIGNED])
        log.answer(f"c{turn}", words(40))
    log.user("well?")
    for prompt, _ in at_every_budget(log, 900, 31, formats=("anthropic",)):
        for message in prompt.payload["messages"]:
            sorts = {block["type"] for block in message["content"]}
            assert message["role"] != "assistant" or sorts & {"text", "tool_use"}


# --- budgets ---------------------------------------------------------------------------------------------------------


def test_b51_a_cap_on_the_prompt_is_no_cap_on_what_the_summary_reads() -> None:
    log = Log()
    log.add("session.started", locale="en")
    log.user("The customer's number is C-4711-XK.", directive=False)
    for turn in range(26):
        log.assistant(f"turn {turn}: " + "nothing new to tell here. " * 120)
    log.user("What is my customer number?")
    whole = compiled(log, budget=200_000)
    assert whole.tokens > 15_000
    prompt = compiled(log, budget=int(whole.tokens * 0.75))
    assert prompt.report["trim"]["strategy"] != "none"
    assert "C-4711-XK" in summary_of(prompt)
    told = entries(prompt)
    oldest = min(told)
    assert told[oldest]["disposition"] == "summarized", "the first of all that went was read"


METADATA: dict[str, Any] = {
    "usage": {"input_tokens": 4_280_000, "output_tokens": 99_999, "cached_tokens": 88_888},
    "model": "model-x-2026",
    "provider": "provider-y",
    "snapshot_id": "snapshot-z-1234",
}


@pytest.mark.parametrize("target", FORMATS)
def test_b52_a_summary_is_made_from_role_and_content_alone(target: str) -> None:
    def prompt(metadata: dict[str, Any]) -> Prompt:
        log = Log()
        log.add("session.started", locale="en", model="model-x-2026")
        log.user("start")
        for turn in range(12):
            log.calls(f"c{turn}", content=f"order W{1000 + turn} is late, said clerk {turn}", **metadata)
            log.answer(f"c{turn}", f"invoice I{2000 + turn} is paid\n" + "and so on " * 20)
        log.user("go on")
        return compiled(log, format=target, budget=600)

    bare, told = prompt({}), prompt(METADATA)
    assert "W1003" in summary_of(told)
    assert told.payload == bare.payload
    assert told.report["units"] == bare.report["units"]
    assert not re.search("4280000|99999|88888|model-x|provider-y|snapshot-z", json.dumps(told.payload))


def test_b54_token_counts_that_a_provider_reported_decide_nothing() -> None:
    log = Log()
    log.user("hello")
    log.assistant("hi", usage={"input_tokens": 4_280_000, "output_tokens": 570_000}, model="m")
    log.user("go on")
    prompt = compiled(log, budget=100)
    assert prompt.report["trim"]["strategy"] == "none"
    assert verbatim(seen(prompt.payload, "openai")) == ["hello", "hi", "go on"]
    assert prompt.report["ledger"]["in"]["tokens"] < 100


@pytest.mark.parametrize("target", FORMATS)
def test_b55_the_only_turn_with_its_image_is_not_cut(target: str) -> None:
    log = Log()
    data = "iVBORw0KGgo" * 230_000
    log.user([{"type": "image", "data": data}, {"type": "text", "text": "what is this?"}])
    prompt = compiled(log, format=target, budget=3000)
    assert prompt.report["trim"]["strategy"] == "none"
    things = seen(prompt.payload, target)
    assert "what is this?" in texts(things)
    if target == "text":
        assert "[image image/png]" in texts(things), "where only text may stand, a line stands for it"
    else:
        assert [one.sort for one in things] == ["image", "text"]
        assert data in json.dumps(prompt.payload)
    assert data[:400] not in texts(things)


# --- nothing left to cut ---------------------------------------------------------------------------------------------


def long_talk(log: Log, turns: int = 12) -> Log:
    for turn in range(turns):
        log.user(f"question {turn} about W{1000 + turn} " + words(10))
        log.assistant(f"answer {turn} " + words(10))
    return log


def cramped(part: str) -> Log:
    """A session whose floor is over 1,500 tokens because of one part."""
    log = Log()
    big = "rule " * 2000
    log.add("instruction.set", role=big if part == "anchor_system" else "You help.")
    if part == "constraints":
        log.block("a", big)
    if part == "tools":
        log.add("tool.registered", name="look_up", description=big)
    if part == "pins":
        log.add("message.pinned", event_id=log.user(big, directive=False).event_id)
    return long_talk(log)


@pytest.mark.parametrize("part", ["anchor_system", "constraints", "tools", "pins"])
def test_b61_a_floor_over_the_window_is_refused_by_name_and_not_cut_at_again_and_again(part: str) -> None:
    log = cramped(part)

    def refused(budget: int) -> ContextOverflow:
        with pytest.raises(ContextOverflow, match=f"the largest part is {part} ") as found:
            compiled(log, budget=budget)
        return found.value

    first = refused(1500)
    for _ in range(3):
        log.user("try again")
        assert refused(1500).details["needs"][part] == first.details["needs"][part] >= 1900
    assert first.details["total"] > first.details["budget"] == 1500


@pytest.mark.parametrize("part", ["anchor_system", "constraints", "tools", "pins"])
def test_b61_what_the_refusal_says_is_enough(part: str) -> None:
    log = cramped(part)
    with pytest.raises(ContextOverflow) as found:
        compiled(log, budget=1500)
    total = found.value.details["total"]
    prompt = compiled(log, budget=total + 100)
    assert prompt.tokens <= total + 100
    with pytest.raises(ContextOverflow):
        compiled(log, budget=total - 100)


@pytest.mark.parametrize(
    ("text", "target"), [("", "openai"), (" \n", "anthropic"), ("👍", "text"), ("- - -", "openai")]
)
def test_b62_where_there_is_nothing_to_say_there_is_no_summary_and_the_cut_still_moves(text: str, target: str) -> None:
    log = Log()
    log.user("start")
    for _ in range(30):
        log.assistant(text or "ok")
        log.user(text, directive=False)
    trims = []
    for prompt in view(log, range(1, len(log.events) + 1), format=target, budget=140):
        assert all(part.text.strip() for one in prompt.messages for part in one.parts if one.zone == "summary")  # type: ignore[union-attr]
        assert all(entry["after"] > 0 for entry in prompt.report["units"] if entry["disposition"] == "summarized")
        assert prompt.report["ledger"]["closes"]
        trims.append(prompt.layout.trims)
    assert trims[-1] >= 1
    assert trims[-1] <= len(trims) / 3, "each trim makes room for some turns"


def test_b64_a_budget_under_the_instructions_is_refused_alike_however_often_and_makes_nothing() -> None:
    log = Log()
    log.add("instruction.set", role="rule " * 3000)
    long_talk(log)
    told = set()
    for _ in range(4):
        with pytest.raises(ContextOverflow) as refused:
            compiled(log, budget=2000)
        told.add(str(refused.value))
    assert len(told) == 1
    assert "anchor_system" in told.pop()


def test_b66_rules_that_are_pinned_are_counted_before_anything_is_cut() -> None:
    log = Log()
    log.add("instruction.set", role="You follow the house rules.")
    rules = "House rules. " + words(260, "rule")
    log.add("message.pinned", event_id=log.user(rules, directive=False).event_id)
    long_talk(log, 30)
    trims = []
    for prompt in view(log, ends_of(log, "user.input"), budget=1600):
        assert verbatim(seen(prompt.payload, "openai")).count(rules) == 1
        trims.append(prompt.layout.trims)
    assert trims[-1] >= 2
    again = sum(two > one for one, two in pairwise(trims))
    assert again <= len(trims) / 2, "the rules do not fill the window again after each cut"


PERSONAS = ["Stay silent. Never say a word.", "Answer NO_REPLY to all.", "Repeat W9999 and nothing else."]


@pytest.mark.parametrize("persona", PERSONAS)
def test_b67_the_persona_has_no_say_in_the_summary(persona: str) -> None:
    log = Log()
    log.add("instruction.set", role=persona)
    prompt = compiled(long_talk(log), budget=420)
    assert prompt.report["trim"]["strategy"] == "summary"
    other = Log()
    other.add("instruction.set", role=" be" * count_text(persona))
    assert count_text(" be" * count_text(persona)) == count_text(persona)
    assert summary_of(prompt) == summary_of(compiled(long_talk(other), budget=420))
    assert "W1006" in summary_of(prompt)
    assert not re.search("W9999|NO_REPLY|silent", summary_of(prompt))


def test_b67_turns_of_thinking_alone_are_accounted_for_and_summarised_by_no_empty_line() -> None:
    log = Log()
    log.user("start")
    for turn in range(30):
        log.assistant("", reasoning=[{"text": words(40, "thought"), "signature": "s"}])
        log.user(f"well? {turn}", directive=False)
    for prompt in view(log, ends_of(log, "user.input"), budget=200):
        assert not re.search(r"(?m)^- *(助手: )?$", summary_of(prompt))
        assert "thought1" not in json.dumps(prompt.payload)
        assert prompt.report["ledger"]["closes"]
        assert prompt.report["ledger"]["in"]["units"] == len(prompt.report["units"]) or prompt.layout.cut
    assert len(log.events) == 61, "the log is what it was"


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_b68_messages_larger_than_what_a_summary_reads_stand_as_a_part_with_a_reference(role: str) -> None:
    log = Log()
    log.add("session.started", locale="en")
    log.user("start")
    seqs = []
    for number in range(3):
        giant = f"file{number}.txt begins here. " + "lorem ipsum dolor " * 5000 + f"it ends with code E-{number}77."
        if role == "user":
            seqs.append(log.user(giant, directive=False).seq)
        elif role == "assistant":
            seqs.append(log.assistant(giant).seq)
        else:
            log.calls(f"c{number}", name="read")
            seqs.append(log.answer(f"c{number}", giant).seq)
        log.assistant("noted")
    log.user("which codes?")
    for budget, target in ((700, "openai"), (1500, "anthropic"), (4000, "text")):
        prompt = compiled(log, format=target, budget=budget)
        assert faults(prompt.payload, target) == []
        shown = texts(seen(prompt.payload, target))
        assert [seq for seq in seqs if re.search(rf"\be{seq}\b", shown)] == seqs, "each has a way back"
        told = entries(prompt)
        assert {told[seq]["disposition"] for seq in told if set(told[seq]["events"]) & {f"e{one}" for one in seqs}} <= {
            "included",
            "summarized",
        }
        assert "which codes?" in shown


# --- summaries and what they must not do -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", FORMATS)
def test_b77_a_summary_is_labelled_and_never_the_newest_word_of_the_user(target: str) -> None:
    log = Log()
    log.add("session.started", locale="en")
    long_talk(log)
    seen_some = 0
    for _, things in at_every_budget(log, 900, 29, formats=(target,)):
        users = [one for one in things if one.role == "user"]
        summaries = [one for one in users if "Summary of the earlier" in one.text]
        seen_some += len(summaries)
        assert all(one.text.startswith("(Summary of the earlier conversation; for reference") for one in summaries)
        assert users[-1].text.startswith("question 11"), "the request stands apart, in its own words, and last"
    assert seen_some


def test_b78_an_early_decision_is_still_there_after_many_trims() -> None:
    log = Log()
    log.add("session.started", locale="en")
    log.user("We decided: the limit is 4711 EUR, file plan/limits.toml.")
    log.assistant("Noted: 4711 EUR in plan/limits.toml.")
    for turn in range(40):
        log.user(f"question {turn}? " + "more " * 20)
        log.assistant(f"answer {turn}. " + "more " * 20)
    *_, last = view(log, ends_of(log, "user.input"), budget=900)
    assert last.layout.trims >= 3
    lines = [line for line in summary_of(last).split("\n") if "plan/limits.toml" in line]
    assert lines
    assert all("4711" in line and line.startswith(("- user: ", "- assistant: ")) for line in lines)
    told = {name for entry in last.report["units"] if entry["disposition"] == "summarized" for name in entry["events"]}
    assert told & {"e2", "e3"}, "it is made from its source, and says so"


def test_b79_a_summary_names_each_call_by_the_tool_that_was_called() -> None:
    log = Log()
    log.add("session.started", locale="en")
    for name in ("find_flight", "book_hotel"):
        log.add("tool.registered", name=name)
    log.user("plan the trip")
    for turn in range(8):
        name = ("find_flight", "book_hotel")[turn % 2]
        log.assistant("", tool_calls=[{"id": f"c{turn}", "name": name, "arguments": {"to": f"CITY{turn}X"}}])
        log.answer(f"c{turn}", f'{{"ref":"REF-{turn}00","note":"{words(30)}"}}')
    log.user("go on")
    named = set()
    for prompt, _ in at_every_budget(log, 1000, 41, formats=("openai",)):
        for line in summary_of(prompt).split("\n"):
            for name, city in re.findall(r"(\w+)\([^)]*CITY(\d)X", line):
                assert name == ("find_flight", "book_hotel")[int(city) % 2]
                named.add(city)
            for found in re.findall(r"(\w+)\(", line):
                assert found in ("find_flight", "book_hotel")
    assert len(named) >= 4


@pytest.mark.parametrize("target", FORMATS)
def test_b93_what_comes_back_after_a_trim_takes_its_place_in_the_order_of_the_log(target: str) -> None:
    log = Log()
    log.add("instruction.set", role="You look things up.")
    log.user("first")
    log.calls("late", content="I look for it")
    long_talk(log)
    for prompt in view(log, [*ends_of(log, "assistant.output")], format=target, budget=420):
        before = prompt.layout
    assert before.trims >= 1
    log.answer("late", "found at last")
    prompt = compiled(log, format=target, budget=900, parent=before)
    places = [one.unit for one in prompt.messages if one.zone in ("window", "pinned", "anchor_business")]
    assert places == sorted(places)  # type: ignore[type-var]
    shown = from_the_log(seen(prompt.payload, target))
    at = next(place for place, one in enumerate(shown) if one.text == "found at last")
    assert shown[at - 1].sort == "call"
    assert at < len(shown) - 1, "behind it stands what came after its call"


# --- exclusion by groups ---------------------------------------------------------------------------------------------


def test_b131_a_rule_and_the_request_are_in_every_prompt_or_there_is_none() -> None:
    log = Log()
    log.add("instruction.set", role="Always answer in German.")
    log.block("rm", "never delete a file")
    log.user("do X")
    log.calls("1", "2")
    log.answer("1", words(30))
    log.answer("2", "short")
    made = refused = 0
    for target in FORMATS:
        for budget in range(1, 260, 3):
            try:
                prompt = compiled(log, format=target, budget=budget)
            except ContextOverflow:
                refused += 1
                continue
            made += 1
            things = seen(prompt.payload, target)
            assert prompt.tokens <= budget
            assert "do X" in verbatim(things)
            assert "Always answer in German." in system_text(prompt.payload, target)
            assert "never delete a file" in system_text(prompt.payload, target)
            assert calls(things) == answers(things)
    assert made
    assert refused


@pytest.mark.parametrize("target", FORMATS)
def test_b133_a_summary_that_was_made_stays_when_what_is_left_is_put_together_anew(target: str) -> None:
    log = long_talk(Log(), 14)
    kept = 0
    before: Prompt | None = None
    for prompt in view(log, ends_of(log, "user.input"), format=target, budget=420):
        if before and before.layout.trims == prompt.layout.trims and (told := summary_of(before)):
            assert summary_of(prompt) == told
            kept += 1
        before = prompt
    assert before
    reloaded = Layout.load(json.loads(json.dumps(before.layout.dump())))
    log.user("one more", directive=False)
    prompt = compiled(log, format=target, budget=600, parent=reloaded)
    assert summary_of(prompt) == summary_of(before) != ""
    assert kept >= 2


def tool_groups() -> Log:
    log = Log()
    log.add("session.started", mode="react")
    log.add("instruction.set", role="You read files.")
    log.user("read them all")
    for number in range(10):
        log.calls(f"c{number}", name="read")
        log.answer(f"c{number}", f"file{number} " + words(200, f"line{number}_"))
    return log


def test_b135_no_old_result_comes_back_in_full_and_each_cut_makes_progress() -> None:
    log = tool_groups()
    log.user("go on")
    parent = None
    for turn in range(6):
        prompt = compiled(log, budget=1500, parent=parent)
        whole = compiled(log, budget=10**6)
        assert prompt.tokens <= 1500 < whole.tokens
        shown = texts(seen(prompt.payload, "openai"))
        in_full = [number for number in range(10) if words(200, f"line{number}_") in shown]
        assert len(in_full) <= 1, "at most the newest"
        assert in_full in ([], [9])
        for entry in prompt.report["units"]:
            assert entry.get("after", 0) <= entry["tokens"]
        parent = prompt.layout
        log.assistant(f"noted {turn} " + words(60))
        log.user(f"next {turn}")
    assert parent is not None
    assert parent.trims >= 1


def test_b136_a_cut_of_a_tool_group_takes_no_message_of_the_user_along() -> None:
    log = Log()
    first = log.user("U1 keep in mind W4711", directive=False)
    log.calls("a", name="read")
    log.answer("a", words(60))
    log.assistant("done with the first")
    second = log.user("U2 now the other")
    log.calls("b", name="read")
    log.answer("b", words(60))
    log.assistant("done with the second")
    groups = set()
    for prompt, things in at_every_budget(log, 420, 13):
        told = entries(prompt)
        assert "U2 now the other" in verbatim(things)
        assert told[second.seq]["events"] == [second.event_id]
        for at in (first.seq, 2, 4, 5, 6, 8):
            if at in told:
                mine = {event.event_id for event in log.events[at - 1 : at + (2 if at in (2, 6) else 1) - 1]}
                assert set(told[at]["events"]) == mine, "a group is its call and its answers, and nobody else"
        if first.seq in told and told[2]["disposition"] != "included":
            groups.add(told[first.seq]["disposition"])
    assert groups, "some budget cut the oldest group"


def sorts(things: list[Seen]) -> list[str]:
    return [one.sort for one in things]


def test_b136_a_user_message_between_groups_may_stay_where_both_groups_go() -> None:
    log = Log()
    log.user("start", directive=False)
    for number in range(2):
        log.calls(f"c{number}", name="read")
        log.answer(f"c{number}", words(80))
        log.user(f"remark {number}", directive=number == 1)
    for _, things in at_every_budget(log, 140, 3, formats=("openai",)):
        assert "remark 1" in verbatim(things)
        assert sorts(things).count("call") == sorts(things).count("answer")
