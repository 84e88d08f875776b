"""Cases B92 to B128: order and time, rollback, caches."""

from typing import Any

import pytest
from budgeted import FORMATS
from checkers import from_the_log, seen, system_text
from histories import EPOCH, SECOND, Log, World, compiled

from domain.snapshots import Prompt


def texts(prompt: Prompt) -> list[str]:
    return [one.text for one in from_the_log(seen(prompt.payload, "openai"))]


@pytest.mark.parametrize("at", [EPOCH + 5 * SECOND, EPOCH + 3 * SECOND, 0])
def test_b92_a_message_with_an_equal_or_earlier_time_is_not_swallowed_by_a_trim(at: int) -> None:
    log = Log()
    log.user("start")
    for turn in range(8):
        log.assistant(f"answer {turn} " + "more " * 40)
    parent = compiled(log, budget=300).layout
    assert parent.trims == 1
    log.user("a late but new question", at=at)
    log.user("and a remark", directive=False, at=at)
    shown = texts(compiled(log, budget=400, parent=parent))
    assert shown[-2:] == ["a late but new question", "and a remark"]


def test_b93_an_answer_that_comes_late_keeps_the_place_of_its_call() -> None:
    log = Log()
    log.user("first")
    log.calls("c1", content="looking")
    log.user("second")
    log.answer("c1", "found")
    log.assistant("third")
    assert texts(compiled(log)) == ["first", "looking", '{"of":"c1"}', "found", "second", "third"]


def test_b95_order_is_that_of_the_log_whatever_the_clocks_say() -> None:
    log = Log()
    log.user("question", at=EPOCH + 9 * SECOND)
    log.assistant("reply", at=EPOCH + 2 * SECOND)
    log.user("thanks", at=EPOCH + 2 * SECOND)
    assert texts(compiled(log)) == ["question", "reply", "thanks"]


def test_b104_a_rollback_past_a_trim_brings_the_turns_back() -> None:
    log = Log()
    for turn in range(10):
        log.user(f"question {turn} " + "more " * 20)
        log.assistant(f"answer {turn} " + "more " * 20)
    parent = compiled(log, budget=400).layout
    assert parent.trims == 1
    log.user("turn 11")
    log.add("context.rolled_back", to_seq=16)
    shown = texts(compiled(log, budget=2000, parent=parent))
    assert [text.split(" more")[0] for text in shown] == [
        f"{word} {turn}" for turn in range(8) for word in ("question", "answer")
    ]


def test_b112_a_summary_never_holds_what_was_redacted_though_in_its_middle() -> None:
    log = Log()
    for turn in range(10):
        log.user(f"question about W{1000 + turn} " + "more " * 20)
    before = compiled(log, budget=400)
    assert "W1004" in str(before.payload)
    log.redact(log.events[4])
    after = compiled(log, budget=400, parent=before.layout)
    assert "W1004" not in str(after.payload)
    assert "W1003" in str(after.payload)


def test_b118_the_same_fact_twice_is_shown_once() -> None:
    subject = Log("s")
    for name in ("m1", "m2"):
        subject.add(
            "memory.recorded", id=name, text="lives in Berlin", category="identity", subject="user", predicate="city"
        )
    log = Log()
    log.user("hello")
    assert system_text(compiled(World(log, subject)).payload, "openai").count("lives in Berlin") == 1


def test_b119_a_contradiction_closes_the_old_fact_and_keeps_it_in_the_log() -> None:
    subject = Log("s")
    for name, text in (("m1", "loves tea"), ("m2", "hates tea")):
        subject.add("memory.recorded", id=name, text=text, category="identity", subject="user", predicate="tea")
    log = Log()
    log.user("tea?")
    system = system_text(compiled(World(log, subject)).payload, "openai")
    assert "hates tea" in system
    assert "loves tea" not in system
    assert subject.state.tables["memories"]["m1"].closed_by == "m2"


def test_b121_a_key_that_was_removed_can_be_set_again() -> None:
    subject = Log("s")
    subject.add("profile.set", key="city", value="Berlin")
    subject.add("profile.unset", key="city")
    subject.add("profile.set", key="city", value="Rome")
    log = Log()
    log.user("hello")
    assert "Rome" in system_text(compiled(World(log, subject)).payload, "openai")


def test_b122_facts_about_different_things_do_not_close_each_other() -> None:
    subject = Log("s")
    subject.add(
        "memory.recorded", id="m1", text="Ann lives in Rome", subject="Ann", predicate="city", category="identity"
    )
    subject.add(
        "memory.recorded", id="m2", text="Bob lives in Oslo", subject="Bob", predicate="city", category="identity"
    )
    assert [row.closed_by for row in subject.state.rows("memories")] == [None, None]


def busy() -> Log:
    log = Log()
    log.add("session.started", mode="react", locale="en")
    log.add("instruction.set", role="You watch the oven.")
    log.block("hot", "never open it above 200 degrees")
    log.add("tool.registered", name="thermometer", description="tells the temperature")
    log.user("bake the bread")
    log.calls("c1", name="thermometer")
    log.answer("c1", '{"temp":180}')
    return log


@pytest.mark.parametrize("target", FORMATS)
def test_b126_a_second_later_nothing_before_the_tail_has_changed(target: str) -> None:
    log = busy()
    now = log.events[-1].recorded_at
    one, two = (compiled(log, format=target, as_of=now + wait) for wait in (0, 3600 * 24 * SECOND))
    assert seen(one.payload, target)[:-1] == seen(two.payload, target)[:-1]
    assert compiled(log, format=target).content_hash == compiled(log, format=target).content_hash
    assert compiled(log, format=target).content_hash == one.content_hash, "without as_of the log's own time counts"


VOLATILE: dict[str, dict[str, Any]] = {
    "plan.updated": {"task_id": "t-1", "steps": [{"id": "1", "text": "knead"}], "current_step": "1"},
    "observation.recorded": {"step_id": "1", "result": "it rises"},
    "tool.environment": {"values": {"oven": {"value": "on"}}},
    "memory.recorded": {"id": "m", "scope": "session", "text": "bread takes an hour", "importance": 1.0},
    "run.started": {"run_id": "r1", "goal": "bread"},
    "custom.clock": {"now": "09:31"},
    "session.started": {"title": "baking at 09:31", "source": "oven"},
}


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("kind", VOLATILE)
def test_b128_nothing_volatile_reaches_the_stable_prefix(kind: str, target: str) -> None:
    log = busy()
    before = compiled(log, format=target)
    log.add(kind, **VOLATILE[kind])
    log.calls("c2", name="thermometer")
    log.answer("c2", '{"temp":199}')
    after = compiled(log, format=target)
    assert system_text(after.payload, target) == system_text(before.payload, target)
    old, new = from_the_log(seen(before.payload, target)), from_the_log(seen(after.payload, target))
    assert new[: len(old)] == old


def test_b128_the_classic_preset_does_put_it_there() -> None:
    log = busy()
    before = system_text(compiled(log, preset="classic").payload, "openai")
    log.add("observation.recorded", step_id="1", result="it rises")
    assert system_text(compiled(log, preset="classic").payload, "openai") != before
