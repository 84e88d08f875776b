"""Trim policies: rules of a mode or a request that say what a trim does to which messages."""

import contextlib
import json
import tomllib
from typing import Any

import pytest
from budgeted import texts
from checkers import faults, seen
from histories import Log, World, compiled, count_text, counter

from domain.anchors import Protected
from domain.errors import ContextOverflow, InvalidRequest
from domain.extracts import Reading
from domain.modes import parse_modes
from domain.policies import Age, Made, Rule, Strategies
from domain.remaking import Maker
from domain.requests import parse_request
from domain.snapshots import Layout, Prompt
from domain.timemachine.explaining import why
from domain.timemachine.sides import Side, Told
from domain.trimming import EMERGENCY, LADDER, Arrangement, Round, trim
from domain.windows import MemoryHistory, read_history
from domain.wording import EN

ROWS = [{"id": f"W{at}", "state": "open" if at % 3 else "closed", "note": "plain words here"} for at in range(40)]
PAGE = "page {turn}. See /shop/page-{turn}.html. " + "The shop opens at nine. " * 100
TABLE = json.dumps({"rows": ROWS, "total": 40})


def shopping(turns: int = 4) -> Log:
    """Every turn looks something up, the same way and with a result of the same size."""
    log = Log()
    log.add("session.started", locale="en")
    log.add("tool.registered", name="list_orders", fields=("total",))
    for turn in range(turns):
        log.user(f"what about order W{turn}?")
        log.calls(f"c{turn}", name="list_orders" if turn % 2 else "read_page")
        log.answer(f"c{turn}", TABLE if turn % 2 else PAGE.format(turn=turn))
        log.assistant(f"it is order W{turn}")
    log.user("and now?")
    return log


def trimmed(log: Log | World, *rules: dict[str, Any], budget: int = 1500, **asked: Any) -> Prompt:
    return compiled(log, budget=budget, overrides={"policy": list(rules)}, **asked)


def answer(prompt: Prompt, call: str) -> str | None:
    return next((one.text for one in seen(prompt.payload, "openai") if one.sort == "answer" and one.id == call), None)


def test_nothing_is_done_to_a_history_that_fits() -> None:
    everything = {"ladder": ["reference", "drop"]}
    log = shopping()
    assert trimmed(log, everything, budget=20_000).payload == compiled(log, budget=20_000).payload


def test_declared_fields_are_all_that_stays_where_the_policy_says_so() -> None:
    prompt = trimmed(shopping(), {"tools": ["list_orders"], "ladder": [{"use": "fields", "limit": 50}]})
    assert answer(prompt, "c1") == answer(prompt, "c3") == '{"total": 40}'
    assert faults(prompt.payload, "openai") == []


def test_the_strategies_are_tried_in_order_until_one_is_within_its_limit() -> None:
    ladder = [{"use": "fields", "limit": 2}, {"use": "structure", "limit": 600}, "reference"]
    prompt = trimmed(shopping(), {"tools": ["list_*"], "ladder": ladder})
    kept = json.loads(answer(prompt, "c3") or "")
    assert 0 < len(kept["rows"]) < 40
    tighter = trimmed(shopping(), {"tools": ["list_*"], "ladder": [*ladder[:1], "reference"]})
    assert "reference e17 expands" in (answer(tighter, "c3") or "")


def test_a_reference_is_one_line_with_size_number_and_first_words() -> None:
    prompt = trimmed(shopping(), {"tools": ["read_page"], "ladder": ["reference"]})
    first = "page 2. See /shop/page-2.html. The shop opens at nine. The s"
    assert (
        answer(prompt, "c2")
        == f"({count_text(PAGE.format(turn=2))} tokens were taken out, reference e13 expands them) {first}"
    )
    entry = next(unit for unit in prompt.report["units"] if unit["from_seq"] == 12)
    assert (entry["disposition"], entry["reason"]) == ("referenced", "policy")
    assert prompt.report["ledger"]["closes"]


def test_rules_go_by_age_in_turns_and_by_size() -> None:
    by_age = trimmed(shopping(), {"roles": ["tool"], "older_than_turns": 3, "ladder": ["reference"]}, budget=2600)
    assert "expands" in (answer(by_age, "c0") or "")
    assert "expands" not in (answer(by_age, "c3") or "")
    by_size = trimmed(shopping(), {"roles": ["tool"], "larger_than": 700, "ladder": ["reference"]}, budget=2600)
    assert "expands" in (answer(by_size, "c3") or "")
    assert "expands" not in (answer(by_size, "c2") or "")


def test_rules_go_by_the_trims_that_a_unit_has_seen() -> None:
    log, rule = shopping(3), {"roles": ["tool"], "older_than_trims": 1, "ladder": ["reference"]}
    first = trimmed(log, rule, budget=1500)
    assert (first.layout.trims, first.layout.made) == (1, ())
    for turn in range(9, 12):
        log.calls(f"c{turn}", name="read_page")
        log.answer(f"c{turn}", f"page {turn}. " + "It closes at six. " * 90)
    later = trimmed(log, rule, budget=1500, parent=first.layout)
    assert later.layout.trims == 2
    assert later.layout.made
    assert {one.strategy for one in later.layout.made} == {"reference"}
    assert all(one.seq <= first.layout.seen for one in later.layout.made), "what came since has seen no trim"


def test_the_first_rule_that_fits_decides_and_one_without_a_ladder_leaves_a_message_to_what_every_trim_does() -> None:
    keep, cut = {"tools": ["list_orders"], "ladder": []}, {"roles": ["tool"], "ladder": ["reference"]}
    prompt = trimmed(shopping(), keep, cut, budget=2600)
    assert answer(prompt, "c3") == answer(trimmed(shopping(), budget=2600), "c3")
    assert "expands" in (answer(prompt, "c2") or "")


def test_units_leave_the_window_for_the_summary_or_for_nothing_where_the_policy_says_so() -> None:
    log = shopping(6)
    prompt = trimmed(log, {"tools": ["list_orders"], "ladder": ["drop"]}, budget=2600)
    gone = {unit["from_seq"]: unit for unit in prompt.report["units"] if unit["reason"] == "policy"}
    assert gone
    assert all(unit["disposition"] == "dropped" for unit in gone.values())
    assert answer(prompt, "c3") is None
    assert answer(prompt, "c4") is not None
    told = trimmed(log, {"tools": ["read_page"], "ladder": ["summary"]}, budget=2600)
    assert answer(told, "c2") is None
    assert "read_page(" in texts(seen(told.payload, "openai"))
    assert "page-2.html" in texts(seen(told.payload, "openai"))
    for one in (prompt, told):
        assert faults(one.payload, "openai") == []
        assert one.report["ledger"]["closes"]


def test_what_a_policy_took_out_stays_out_and_the_prefix_stays_the_same() -> None:
    log = shopping(6)
    for step in ("drop", "summary", "reference"):
        rule = {"tools": ["list_orders"], "ladder": [step]}
        before = trimmed(log, rule, budget=2600)
        longer = log.upto(len(log.events))
        longer.assistant("let me see")
        after = trimmed(longer, rule, budget=2600, parent=Layout.load(json.loads(json.dumps(before.layout.dump()))))
        assert after.layout.trims == before.layout.trims
        shown = before.payload["messages"]
        assert after.payload["messages"][: len(shown)] == shown


# --- strategies of one's own -----------------------------------------------------------------------------------------


def first_sentence(text: str, budget: int) -> str:
    return text.split(".")[0] + "."


def failing(text: str, budget: int) -> str:
    raise RuntimeError("no idea")


OWN = {"roles": ["tool"], "larger_than": 100, "ladder": ["first-sentence", "reference"]}


def test_a_strategy_of_ones_own_makes_texts_smaller_and_a_replay_needs_it_no_more() -> None:
    log = shopping()
    prompt = trimmed(World(log, strategies={"first-sentence": first_sentence}), OWN)
    assert answer(prompt, "c2") == "page 2."
    stored = Layout.load(json.loads(json.dumps(prompt.layout.dump())))
    again = trimmed(World(log, made=stored.made), OWN)
    assert (again.payload, again.layout) == (prompt.payload, prompt.layout)
    log.assistant("and on")
    carried = trimmed(log, OWN, parent=stored)
    assert answer(carried, "c2") == "page 2."


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (failing, "RuntimeError: no idea"),
        (lambda text, budget: text, "tokens where"),
        (lambda text, budget: "", "gave no text"),
        (lambda text, budget: None, "gave no text"),
        (None, "no strategy of this name is registered"),
    ],
)
def test_a_strategy_that_fails_or_makes_nothing_smaller_costs_itself_only(strategy: Any, told: str) -> None:
    strategies = {"first-sentence": strategy} if strategy else {}
    prompt = trimmed(World(shopping(), strategies=strategies), OWN)
    assert "expands them" in (answer(prompt, "c2") or ""), "the next of the ladder had its turn"
    assert any("first-sentence made nothing" in line and told in line for line in prompt.report["warnings"])
    stored = Layout.load(json.loads(json.dumps(prompt.layout.dump())))
    assert trimmed(World(shopping(), made=stored.made), OWN).payload == prompt.payload


def test_a_secret_marked_since_is_masked_in_what_a_strategy_made() -> None:
    log = shopping()
    before = trimmed(World(log, strategies={"first-sentence": first_sentence}), OWN)
    log.add("tool.environment", values={"word": {"value": "page 2", "secret": True}})
    after = trimmed(log, OWN, parent=before.layout)
    assert "page 2" not in json.dumps(after.payload)


# --- superseded results ----------------------------------------------------------------------------------------------


def polling() -> Log:
    log = Log()
    log.add("session.started", locale="en")
    log.user("wait until it is done")
    for turn in range(4):
        same = {"id": f"p{turn}", "name": "status", "arguments": {"job": 7}}
        log.assistant("", tool_calls=[same, {"id": f"o{turn}", "name": "status", "arguments": {"job": turn}}])
        log.answer(f"p{turn}", f"step {turn} of job seven. " + "It is still at work. " * 30)
        log.answer(f"o{turn}", f"other job {turn}. " + "It sleeps. " * 30)
    return log


def test_when_space_is_needed_an_answer_gives_way_to_the_newer_one_to_the_same_call() -> None:
    prompt = compiled(polling(), budget=1150)
    assert [answer(prompt, f"p{turn}") for turn in range(3)] == [
        f"(superseded by the newer result e13; reference e{seq} expands the older one)" for seq in (4, 7, 10)
    ]
    assert (answer(prompt, "p3") or "").startswith("step 3 of job seven")
    units = [unit for unit in prompt.report["units"] if unit["reason"] == "superseded"]
    assert [unit["from_seq"] for unit in units] == [3, 6, 9]
    assert all(unit["disposition"] == "referenced" for unit in units)
    assert "summary" not in prompt.report["zones"], "that was room enough"


def test_why_names_the_rule_of_a_policy_and_the_newer_answer() -> None:
    report = compiled(polling(), budget=1150).report
    [first, *_] = [unit for unit in report["units"] if unit["reason"] == "superseded"]
    told = Told(first["events"][0], first["from_seq"], "session", "assistant.output")
    side = Side("prompt", (), report, {}, {"session": 99})
    assert "a newer answer to the same call stands in its place" in why(told, side).sentence
    first |= {"disposition": "dropped", "reason": "policy"}
    side = Side("prompt", (), report, {}, {"session": 99})
    assert "dropped by policy: a rule of the trim policy made room with it; needs" in why(told, side).sentence


def test_where_there_is_room_every_answer_stays() -> None:
    assert "superseded" not in json.dumps(compiled(polling(), budget=4000).payload)


def test_an_answer_that_failed_replaces_none_that_succeeded() -> None:
    log = polling()
    log.assistant("", tool_calls=[{"id": "p9", "name": "status", "arguments": {"job": 7}}])
    log.answer("p9", "timed out", status="timeout")
    prompt = compiled(log, budget=1150)
    assert (answer(prompt, "p3") or "").startswith("step 3 of job seven")


# --- rules as data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ('{ tools = ["a"], ladder = ["Reference"] }', "policy.0.ladder.0.use"),
        ('{ tools = [""], ladder = [] }', "policy.0.tools.0"),
        ('{ roles = ["system"], ladder = [] }', "policy.0.roles.0"),
        ("{ older_than_turns = -1, ladder = [] }", "policy.0.older_than_turns"),
        ('{ laddr = ["drop"] }', "policy.0.laddr"),
        ('{ ladder = [{ use = "cut", limit = 0 }] }', "policy.0.ladder.0.limit"),
        ('{ tools = ["a"], roles = ["user"], ladder = [] }', "policy.0"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_file_and_key(rule: str, key: str) -> None:
    tables = tomllib.loads(f"[mine]\nslots = []\npolicy = [{rule}]")
    with pytest.raises(InvalidRequest) as refused:
        parse_modes(tables, "promptctx.toml")
    assert refused.value.message.startswith(f"promptctx.toml: modes.mine.{key}: ")
    policy = tables["mine"]["policy"]
    with pytest.raises(InvalidRequest, match=r"overrides\.policy\.0"):
        parse_request({"overrides": {"policy": policy}})


def test_a_rule_for_tools_is_for_their_answers_alone() -> None:
    rule = Rule(tools=("read_*", "list"))
    assert [rule.fits("tool", name, Age(0, 0), 1) for name in ("read_page", "list", "lists", None)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert not rule.fits("user", None, Age(0, 0), 1)


def test_what_strategies_made_comes_back_from_storage_as_it_was() -> None:
    made = (Made(3, "mine", 40, "text", None, True), Made(4, "mine", 40, None, "RuntimeError: no", False))
    layout = Layout(made=made, removed=(5, 9), trimmed=(7, 12))
    assert Layout.load(json.loads(json.dumps(layout.dump()))) == layout


# --- the last rungs before an overflow -------------------------------------------------------------------------------


def test_before_an_overflow_memory_gives_way_first_then_the_summary_then_the_window() -> None:
    subject = Log("s")
    subject.add("profile.set", key="city", value="Bern")
    log = shopping()
    told = []
    for budget in range(20, 1600, 9):
        with contextlib.suppress(ContextOverflow):
            prompt = compiled(World(log, subject), budget=budget)
            gone = prompt.report["trim"]["gave_way"]
            assert gone == [name for name in ("memory", "summary", "window") if name in gone]
            assert bool(gone) == any("emergency: no room for" in line for line in prompt.report["warnings"])
            told.append(gone)
    assert told[0] == ["memory", "summary", "window"], "only what must not be cut is left"
    assert told[-1] == [], "and nothing has to go whole where there is some room"


def test_a_trim_that_no_check_lets_pass_ends_after_five_rounds() -> None:
    log = shopping()
    count = counter(parse_request({"budget": 1500}))
    history = read_history(MemoryHistory(log.state, count), log.state, count, 1500, locale="en")
    maker = Maker((), Strategies(), Reading(EN.speakers, {}), count, EN, str)
    nothing, rounds = Protected((), None, frozenset()), list[Round]()

    def refused(attempt: Arrangement, built: Arrangement) -> str | None:
        return None if attempt.strategy == "emergency" else "budget"

    for rungs in (LADDER, EMERGENCY):
        found = trim(history, nothing, None, 1000, 0.85, True, maker, lambda one: one, refused, rounds, rungs)
    assert found is not None
    assert (found.arrangement.window, found.arrangement.summary) == ((), ())
    assert [one.strategy for one in found.rolled_back] == ["summary", "drop", "drop"]
