"""What stays in force over rollbacks: redactions and the stricter of the rules."""

from typing import Any

import pytest
from histories import Log, compiled
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples

from domain.history import in_force

STRICTNESS = {None: 0, "warn": 1, "block": 2}


def levels(log: Log) -> dict[str, str]:
    return {row.id: row.level for row in log.state.rows("constraints")}


def rolled_back(log: Log, to: int, **more: Any) -> Log:
    log.add("context.rolled_back", to_seq=to, **more)
    return log


def test_what_came_after_the_seq_gone_back_to_is_gone_and_what_comes_later_counts() -> None:
    log = Log()
    for text in ("one", "two", "three"):
        log.user(text)
    rolled_back(log, 1)
    log.user("four")
    assert [event.seq for event in in_force(log.events)] == [1, 4, 5]


def test_a_rollback_of_a_rollback_brings_everything_back() -> None:
    log = Log()
    for text in ("one", "two", "three"):
        log.user(text)
    rolled_back(rolled_back(log, 1), 3)
    assert [event.seq for event in in_force(log.events)] == [1, 2, 3, 5]


def test_going_back_to_nothing_and_beyond_the_end_does_no_harm() -> None:
    log = Log()
    log.user("one")
    assert [event.seq for event in in_force(rolled_back(log, 0).events)] == [2]
    log.user("two")
    assert [event.seq for event in in_force(rolled_back(log, 99).events)] == [2, 3, 4]


def test_a_constraint_set_since_stays() -> None:
    log = Log()
    log.user("one")
    log.block("a", "never")
    assert levels(rolled_back(log, 1)) == {"a": "block"}


def test_a_constraint_removed_since_comes_back() -> None:
    log = Log()
    log.block("a", "never")
    log.add("constraint.removed", id="a")
    assert levels(rolled_back(log, 1)) == {"a": "block"}


def test_a_constraint_lowered_since_is_as_strict_as_before() -> None:
    log = Log()
    log.block("a", "never")
    log.block("a", "better not", "warn")
    assert levels(rolled_back(log, 1)) == {"a": "block"}


def test_a_constraint_set_and_removed_since_is_in_neither_state_and_stays_away() -> None:
    log = Log()
    log.user("one")
    log.block("a", "never")
    log.add("constraint.removed", id="a")
    assert levels(rolled_back(log, 1)) == {}


def test_a_warning_set_since_stays_though_a_stricter_rule_was_removed_before() -> None:
    log = Log()
    log.block("a", "never")
    log.add("constraint.removed", id="a")
    log.block("a", "better not", "warn")
    assert levels(rolled_back(log, 2)) == {"a": "warn"}


def test_with_the_right_to_loosen_a_rollback_is_exact() -> None:
    log = Log()
    log.user("one")
    log.block("a", "never")
    log.add("instruction.set", role="new")
    assert levels(rolled_back(log, 1, loosen=True)) == {}
    assert log.state.one("instruction") is None


def test_a_newer_instruction_stays() -> None:
    log = Log()
    log.add("instruction.set", role="old")
    log.add("instruction.set", role="new")
    assert rolled_back(log, 1).state.one("instruction").role == "new"


moves = st.tuples(st.sampled_from(["block", "block", "warn", "remove", "back", "say"]), st.sampled_from("ab"))


@examples(300)
@given(st.lists(moves, max_size=12), st.lists(st.integers(0, 12), min_size=12, max_size=12), st.integers(0, 12))
def test_after_a_rollback_each_rule_is_as_strict_as_the_stricter_of_before_and_then(
    steps: list[tuple[str, str]], goals: list[int], to: int
) -> None:
    log = Log()
    for (move, name), goal in zip(steps, goals, strict=False):
        if move == "remove":
            log.add("constraint.removed", id=name)
        elif move == "back":
            rolled_back(log, min(goal, len(log.events)))
        elif move == "say":
            log.user("hello")
        else:
            log.block(name, f"{move} {len(log.events)}", move)
    to = min(to, len(log.events))
    before, then = levels(log), levels(log.upto(to))
    after = levels(rolled_back(log, to))
    for name in "ab":
        stricter = max(before.get(name), then.get(name), key=lambda level: STRICTNESS[level])
        assert after.get(name) == stricter


def test_a_redacted_event_stays_away_over_any_number_of_rollbacks() -> None:
    log = Log()
    log.user("secret")
    log.redact(log.events[0])
    for to in (1, 0, 2, 4):
        rolled_back(log, to)
        assert "secret" not in str(compiled(log).payload)
        assert 1 not in [event.seq for event in in_force(log.events)]


def test_a_redaction_that_was_itself_rolled_back_still_holds() -> None:
    log = Log()
    log.user("secret")
    log.user("fine")
    log.redact(log.events[0])
    assert [event.seq for event in in_force(rolled_back(log, 2).events)] == [2, 3, 4]


@pytest.mark.parametrize("kind", ["assistant.output", "user.input", "tool.result"])
def test_any_message_can_be_redacted_without_harm(kind: str) -> None:
    log = Log()
    log.user("go")
    log.calls("c1", content="looking")
    log.answer("c1", "found")
    victim = next(event for event in log.events if event.kind == kind)
    log.redact(victim)
    for target in ("openai", "anthropic", "text"):
        compiled(log, format=target)
