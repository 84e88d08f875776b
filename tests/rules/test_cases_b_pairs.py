"""Cases B01 to B32: calls and their answers, reasoning blocks."""

import json

import pytest
from budgeted import FORMATS, answers, at_every_budget, calls, texts, verbatim
from checkers import faults, seen
from histories import Log, compiled

from domain.errors import ContextOverflow


def instructed() -> Log:
    log = Log()
    log.add("instruction.set", role="You look things up.")
    return log


def words(number: int) -> str:
    return " ".join(f"word{at}" for at in range(number))


def test_b01_a_window_never_starts_with_answers_whose_call_was_cut() -> None:
    log = instructed()
    log.user("first")
    log.calls("1", "2")
    log.answer("1", words(20))
    log.answer("2", words(20))
    log.assistant("found")
    log.user("second")
    cut_inside = set()
    for _, things in at_every_budget(log, 400):
        assert sorted(calls(things)) == sorted(answers(things)) in ([], ["1", "2"])
        cut_inside.add(len(calls(things)))
    assert cut_inside == {0, 2}, "the cut should have been on both sides"


def test_b03_a_batch_is_cut_whole_or_not_at_all() -> None:
    log = instructed()
    log.user("first")
    log.calls("a", "b")
    log.answer("a", "huge " + words(300))
    log.answer("b", "small answer")
    log.assistant("found")
    log.user("second")
    for _, things in at_every_budget(log, 1500, 23):
        assert set(calls(things)) == set(answers(things))
        assert calls(things) in ([], ["a", "b"])


@pytest.mark.parametrize("target", FORMATS)
def test_b04_an_answer_in_the_middle_whose_call_is_gone_is_repaired_out(target: str) -> None:
    log = Log()
    log.user("one")
    log.assistant("two")
    gone = log.calls("c1", content="three")
    log.answer("c1", "four")
    log.assistant("five")
    log.user("six")
    log.redact(gone)
    prompt = compiled(log, format=target)
    assert faults(prompt.payload, target) == []
    assert verbatim(seen(prompt.payload, target)) == ["one", "two", "five", "six"]
    assert [entry["reason"] for entry in prompt.report["units"] if entry["disposition"] == "dropped"] == ["orphan"]


def test_b05_all_answers_of_a_cut_call_go_with_it() -> None:
    log = Log()
    log.user("go")
    log.calls("c1", "c2")
    log.answer("c1", words(30))
    log.answer("c2", words(30))
    log.assistant("done")
    for _, things in at_every_budget(log, 300, 5):
        assert len(answers(things)) in (0, 2)


def test_b07_a_huge_first_message_leaves_no_orphan_behind() -> None:
    log = instructed()
    log.user(words(300), directive=False)
    log.calls("1")
    log.answer("1", words(12))
    log.assistant("ok")
    log.user("go on")
    for _, things in at_every_budget(log, 1500, 23):
        assert calls(things) == answers(things)
        assert "go on" in verbatim(things)


def test_b08_a_pair_that_does_not_fit_goes_or_shrinks_as_a_pair() -> None:
    log = Log()
    log.user("go on")
    log.calls("c1", content="x " * 2000)
    log.answer("c1", "short answer")
    log.assistant("done")
    prompt = compiled(log, budget=600)
    things = seen(prompt.payload, "openai")
    assert calls(things) == answers(things)
    assert verbatim(things)[-1] == "done"
    assert "go on" in verbatim(things)


@pytest.mark.parametrize("target", FORMATS)
def test_b11_calls_and_answers_are_paired_by_id_not_by_neighbourhood(target: str) -> None:
    log = Log()
    log.user("both please")
    log.add("tool.called", call_id="call1", name="f")
    log.add("tool.called", call_id="call2", name="g")
    log.answer("call2", "two")
    log.answer("call1", "one")
    prompt = compiled(log, format=target)
    assert faults(prompt.payload, target) == []
    found = {one.id: one.text for one in seen(prompt.payload, target) if one.sort == "answer"}
    assert found == {"call1": "one", "call2": "two"}, "nothing made up, nothing mixed up"


def test_b12_all_calls_of_a_batch_travel_together() -> None:
    log = Log()
    for turn in range(6):
        log.user(f"question {turn}")
        log.calls(*(f"{turn}-{at}" for at in range(3)), content=words(10))
        for at in range(3):
            log.answer(f"{turn}-{at}", words(10))
    for _, things in at_every_budget(log, 900, 31):
        assert len(calls(things)) % 3 == 0


@pytest.mark.parametrize("target", FORMATS)
def test_b13_an_answer_to_a_call_that_is_not_there_bricks_nothing(target: str) -> None:
    log = Log()
    log.user("first")
    log.answer("lost", "the process crashed", status="error")
    log.user("second")
    log.calls("c1")
    log.answer("c1")
    for budget in (60, 200, 8000):
        prompt = compiled(log, format=target, budget=budget)
        assert faults(prompt.payload, target) == []
    assert "crashed" not in texts(seen(prompt.payload, target))
    assert verbatim(seen(prompt.payload, target))[:2] == ["first", "second"]
    assert any("answers came for calls that nobody made" in warning for warning in prompt.report["warnings"])


def test_b13_a_pinned_orphan_bricks_nothing_either() -> None:
    log = Log()
    orphan = log.answer("lost")
    log.add("message.pinned", event_id=orphan.event_id)
    log.user("go on")
    assert verbatim(seen(compiled(log).payload, "openai")) == ["go on"]


def test_b13_a_huge_lost_answer_hides_nothing_that_came_before_it() -> None:
    log = Log()
    log.user("first")
    log.assistant("second")
    log.answer("lost", words(3000))
    log.user("third")
    assert verbatim(seen(compiled(log, budget=500).payload, "openai")) == ["first", "second", "third"]


def test_b15_a_call_that_waits_for_a_human_is_never_summarised_away() -> None:
    log = instructed()
    log.user("pay the bill")
    log.calls("pay", content="May I pay?", name="pay")
    for turn in range(10):
        log.user(f"meanwhile {turn} " + words(15))
        log.assistant(f"noted {turn} " + words(15))
    parent = compiled(log, budget=500).layout
    prompt = compiled(log, budget=500, parent=parent)
    assert parent.trims == 1
    assert calls(seen(prompt.payload, "openai")) == ["pay"]
    log.answer("pay", "approved")
    prompt = compiled(log, budget=500, parent=prompt.layout)
    found = {one.id: one.text for one in seen(prompt.payload, "openai") if one.sort == "answer"}
    assert found == {"pay": "approved"}


def test_b16_a_call_whose_run_ended_blocks_no_trim_and_is_told_as_unanswered() -> None:
    log = instructed()
    log.add("run.started", run_id="r1")
    log.user("start")
    log.calls("dead", content=words(20), run="r1")
    log.add("run.ended", run_id="r1", status="crashed")
    for turn in range(10):
        log.user(f"question {turn} " + words(15))
        log.assistant(f"answer {turn} " + words(15))
    whole = seen(compiled(log, locale="en").payload, "openai")
    assert [one.text for one in whole if one.sort == "answer"] == ["(no result: the call was interrupted)"]
    trimmed = seen(compiled(log, budget=400).payload, "openai")
    assert calls(trimmed) == []
    assert verbatim(trimmed)[-1].startswith("answer 9")


def test_b16_a_call_that_still_waits_leaves_room_for_the_rest() -> None:
    log = instructed()
    log.user("start")
    log.calls("waits", content=words(200))
    for turn in range(6):
        log.user(f"question {turn}")
        log.assistant(f"answer {turn}")
    for _, things in at_every_budget(log, 1500, 23):
        assert "question 5" in verbatim(things)


@pytest.mark.parametrize("target", FORMATS)
def test_b17_an_approval_keeps_the_call_that_it_approves(target: str) -> None:
    log = instructed()
    log.user("delete the file")
    asked = log.calls("c1", content="Delete it? (a1)", name="delete")
    for turn in range(3):
        log.user(f"meanwhile {turn} " + words(20))
    log.user("approved (a1)", cause=asked.event_id)
    log.answer("c1", "deleted")
    for _, things in at_every_budget(log, 400, 7, formats=(target,)):
        assert calls(things) == answers(things) == ["c1"], "the approval is the newest directive: its call stays"
        assert "approved (a1)" in verbatim(things)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("raw_id", ["", "call_0", "same"])
def test_b19_calls_with_no_id_or_one_id_get_ids_of_their_own(raw_id: str, target: str) -> None:
    log = Log()
    log.user("go")
    calls_made = [{"id": raw_id, "name": "get_time"}, {"id": raw_id, "name": "get_weather"}]
    log.assistant("", tool_calls=calls_made)
    log.answer(raw_id, "it is nine")
    log.answer(raw_id, "validation failed", status="error")
    log.assistant("", tool_calls=calls_made[:1])
    log.answer(raw_id, "it is ten")
    prompt = compiled(log, format=target)
    assert faults(prompt.payload, target) == []
    things = seen(prompt.payload, target)
    names = {one.id: one.name for one in things if one.sort == "call"}
    told = [(names[one.id], one.text) for one in things if one.sort == "answer"]
    assert told == [("get_time", "it is nine"), ("get_weather", "validation failed"), ("get_time", "it is ten")]


def test_b19_answers_without_ids_go_to_the_calls_of_their_tools() -> None:
    log = Log()
    log.assistant("", tool_calls=[{"name": "get_time"}, {"name": "get_weather"}])
    log.answer("", "it rains", name="get_weather")
    log.answer("", "it is nine", name="get_time")
    things = seen(compiled(log).payload, "openai")
    names = {one.id: one.name for one in things if one.sort == "call"}
    told = {names[one.id]: one.text for one in things if one.sort == "answer"}
    assert told == {"get_time": "it is nine", "get_weather": "it rains"}


def test_b19_no_id_of_a_log_collides_with_one_of_ours() -> None:
    log = Log()
    log.assistant("", tool_calls=[{"name": "f"}, {"id": "call_1-0", "name": "g"}, {"id": "call_1_0", "name": "h"}])
    for one in ("", "call_1-0", "call_1_0"):
        log.answer(one, f"to {one}")
    for target in FORMATS:
        assert faults(compiled(log, format=target).payload, target) == []


@pytest.mark.parametrize("target", FORMATS)
def test_b22_what_takes_a_call_away_takes_its_answers_away(target: str) -> None:
    log = Log()
    log.user("go")
    gone = log.calls("c1", "c2")
    log.answer("c1", "first answer")
    log.answer("c2", "second answer")
    log.assistant("done")
    log.redact(gone)
    prompt = compiled(log, format=target)
    assert faults(prompt.payload, target) == []
    assert verbatim(seen(prompt.payload, target)) == ["go", "done"]


def test_b22_pinning_an_answer_keeps_its_whole_batch() -> None:
    log = instructed()
    log.user("first")
    log.calls("c1", "c2", content="both")
    log.answer("c1", "one")
    pinned = log.answer("c2", "two")
    log.add("message.pinned", event_id=pinned.event_id)
    for turn in range(8):
        log.user(f"question {turn} " + words(20))
    for _, things in at_every_budget(log, 600, 17):
        assert calls(things) == answers(things) == ["c1", "c2"]


def test_b23_a_prompt_of_the_newest_message_alone_still_holds_its_call() -> None:
    log = instructed()
    log.user("go")
    log.calls("c1", content=words(10))
    log.answer("c1", "the answer: " + words(400))
    for _, things in at_every_budget(log, 700, 11):
        assert calls(things) == answers(things)
        assert all("word" in one.text for one in things if one.sort == "answer"), "a part rather than nothing"


# --- reasoning -------------------------------------------------------------------------------------------------------

SIGNED = [{"text": "let me think " * 30, "signature": "c2lnbmF0dXJl"}]


def test_b24_signed_thinking_is_shown_in_place_or_not_at_all() -> None:
    log = instructed()
    log.user("first")
    log.calls("c1", content="I look", reasoning=SIGNED)
    log.answer("c1")
    log.user("second")
    for _, things in at_every_budget(log, 400, 7, formats=("anthropic",)):
        thinking = [at for at, one in enumerate(things) if one.sort == "thinking"]
        assert all(things[at + 1].text == "I look" and things[at + 2].sort == "call" for at in thinking)
        assert len(thinking) == len(calls(things))


def test_b26_a_message_with_thinking_is_never_cut_into() -> None:
    log = instructed()
    log.user("go")
    log.assistant("the whole text " + words(300), reasoning=SIGNED)
    for _, things in at_every_budget(log, 1600, 31, formats=("anthropic",)):
        for at, one in enumerate(things):
            if one.sort == "thinking":
                assert one.text == SIGNED[0]["text"]
                assert things[at + 1].text == "the whole text " + words(300)


def test_b27_long_thinking_is_sent_with_its_signature_as_it_was_or_not_at_all() -> None:
    thinking = {"text": words(700), "signature": "c2lnbmF0dXJl"}
    log = instructed()
    log.user("go")
    log.calls("c1", content="I look", reasoning=[thinking])
    log.answer("c1", words(300))
    shown = set()
    for prompt, things in at_every_budget(log, 4000, 97, formats=("anthropic",)):
        blocks = [block for message in prompt.payload["messages"] for block in message["content"]]
        assert [block for block in blocks if block["type"] == "thinking"] in (
            [],
            [{"type": "thinking", "thinking": thinking["text"], "signature": thinking["signature"]}],
        )
        shown.add(any(one.sort == "thinking" for one in things))
    assert shown == {True, False}, "there is a budget for it and one that is too small"


@pytest.mark.parametrize("model", ["claude-sonnet-5", None])
def test_b29_thinking_of_another_model_goes_as_a_whole(model: str | None) -> None:
    log = Log()
    log.add("session.started", model="claude-opus-5")
    log.user("go")
    log.assistant("done", reasoning=SIGNED, model="claude-opus-5")
    things = seen(compiled(log, format="anthropic", model=model).payload, "anthropic")
    assert [one.sort for one in things if one.role == "assistant"] == (["text"] if model else ["thinking", "text"])


@pytest.mark.parametrize("target", FORMATS)
def test_b30_no_message_carries_an_id_whose_partner_may_be_gone(target: str) -> None:
    log = instructed()
    for turn in range(6):
        log.user(f"question {turn} {words(20)}")
        log.assistant(f"answer {turn} {words(20)}", reasoning=[{"text": "", "data": {"id": f"rs_{turn}"}}])
    for prompt, _ in at_every_budget(log, 700, 29, formats=(target,)):
        assert "rs_" not in json.dumps(prompt.payload)
        for message in prompt.payload.get("messages", ()):
            assert set(message) <= {"role", "content"}, "an item's own id would want the reasoning it came with"


@pytest.mark.parametrize("target", FORMATS)
def test_b32_a_message_of_thinking_alone_is_left_out(target: str) -> None:
    log = Log()
    log.user("go")
    log.assistant("", reasoning=SIGNED)
    log.user("well?")
    prompt = compiled(log, format=target)
    assert faults(prompt.payload, target) == []
    assert verbatim(seen(prompt.payload, target)) == ["go", "well?"]


def test_an_overflow_tells_what_each_part_needs() -> None:
    log = instructed()
    log.user("do it " * 60)
    with pytest.raises(ContextOverflow) as refused:
        compiled(log, budget=50)
    assert {"anchor_system", "anchor_business"} <= set(refused.value.details["needs"])
