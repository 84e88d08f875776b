"""The six slots: what each offers, how an item reads, filters, lifetimes, budgets and lending."""

from typing import Any

import pytest
from checkers import NOTES, seen
from histories import DAY, EPOCH, HOUR, Log, World, compiled

from domain.errors import InvalidRequest
from domain.requests import LATEST, parse_request
from domain.snapshots import Prompt
from domain.sources import SourceItem, SourceResult


def lines(prompt: Prompt) -> list[str]:
    """The lines that promptctx itself says, without titles."""
    things = seen(prompt.payload, "openai")
    ours = [one.text for one in things if one.role == "system" or one.text.startswith(NOTES)]
    return [line[2:] for text in ours for line in text.split("\n") if line.startswith("- ")]


def shown(log: Log, subject: Log | None = None, **asked: Any) -> list[str]:
    if not any(event.kind == "user.input" for event in log.events):
        log.user("hello")
    sources = asked.pop("sources", ())
    asked = {"mode": "react", "locale": "en", **asked}
    return [
        line for line in lines(compiled(World(log, subject or Log("s"), sources=sources), **asked)) if line != "(none)"
    ]


def reasons(prompt: Prompt, slot: str) -> dict[str, str]:
    return {item["key"]: item["reason"] for item in prompt.report["slots"][slot]["items"]}


# --- constraints -----------------------------------------------------------------------------------------------------


def test_block_comes_before_warn_and_each_in_the_order_it_was_set() -> None:
    log = Log()
    for name, level in (("w1", "warn"), ("b1", "block"), ("w2", "warn"), ("b2", "block")):
        log.block(name, name, level)
    assert shown(log) == ["[BLOCK] b1", "[BLOCK] b2", "[WARN] w1", "[WARN] w2"]


def test_a_constraint_set_again_is_the_newer_one_and_a_removed_one_is_gone() -> None:
    log = Log()
    log.block("a", "old")
    log.block("b", "other")
    log.block("a", "new")
    log.add("constraint.removed", id="b")
    assert shown(log) == ["[BLOCK] new"]


def test_block_constraints_are_shown_in_modes_without_the_slot_and_beyond_every_budget() -> None:
    log = Log()
    for number in range(40):
        log.block(f"b{number}", f"rule {number} " * 10)
    slots = {"constraints": {"token_budget": 0}}
    assert len(shown(log, mode="chat", overrides={"slots": slots, "global_slot_budget": 0})) == 40


# --- sub-sessions ----------------------------------------------------------------------------------------------------


def child_of(*parents: Log, **started: Any) -> World:
    log = Log("c")
    log.add("session.started", parent="p", locale="en", **started)
    log.user("hello")
    return World(log, parents=parents)


def test_a_sub_session_has_its_parents_block_rules_set_before_and_after_it_began() -> None:
    parent, grandparent = Log("p"), Log("g")
    grandparent.block("g", "from the top")
    parent.block("before", "set before")
    parent.block("hint", "only a hint", "warn")
    world = child_of(parent, grandparent)
    parent.block("after", "set after")
    assert sorted(lines(compiled(world))) == ["[BLOCK] from the top", "[BLOCK] set after", "[BLOCK] set before"]


@pytest.mark.parametrize("level", ["block", "warn"])
def test_a_sub_session_cannot_replace_or_remove_a_rule_of_its_parent(level: str) -> None:
    parent = Log("p")
    parent.block("a", "never delete")
    world = child_of(parent)
    world.session.block("a", "delete freely", level)
    assert "[BLOCK] never delete" in lines(compiled(world))
    world.session.add("constraint.removed", id="a")
    assert lines(compiled(world)) == ["[BLOCK] never delete"]


def test_a_rule_that_the_parent_lifted_binds_the_sub_session_no_more() -> None:
    parent = Log("p")
    parent.block("a", "never delete")
    parent.add("constraint.removed", id="a")
    assert lines(compiled(child_of(parent))) == []


def test_instructions_and_plan_of_the_parent_come_on_request_only() -> None:
    parent = Log("p")
    parent.add("instruction.set", role="You are the parent.")
    parent.add("plan.updated", task_id="t-9", steps=[{"id": "1", "text": "dig"}])

    def prompt(*inherit: str) -> str:
        return str(compiled(child_of(parent, inherit=inherit, mode="react")).payload)

    assert "You are the parent." not in prompt()
    assert "t-9" not in prompt()
    assert "You are the parent." in prompt("instructions")
    assert "t-9" in prompt("plan")


def test_the_sub_sessions_own_instruction_and_plan_come_first() -> None:
    parent = Log("p")
    parent.add("instruction.set", role="You are the parent.")
    parent.add("plan.updated", task_id="t-9")
    world = child_of(parent, inherit=("instructions", "plan"), mode="react")
    world.session.add("instruction.set", role="You are the child.")
    world.session.add("plan.updated", task_id="t-1")
    text = str(compiled(world).payload)
    assert "You are the child." in text
    assert "You are the parent." not in text
    assert "t-1" in text
    assert "t-9" not in text


# --- planner and task memory -----------------------------------------------------------------------------------------


def test_the_plan_reads_as_status_progress_next_step_interruption_and_open_steps_in_order_of_their_needs() -> None:
    steps = [
        {"id": "1", "text": "one", "status": "done"},
        {"id": "2", "text": "two", "tool": "dig"},
        {"id": "4", "text": "four", "deps": ["3"]},
        {"id": "3", "text": "three", "deps": ["2"]},
        {"id": "5", "text": "five", "status": "failed"},
    ]
    log = Log()
    log.add("plan.updated", task_id="t-1", phase="digging", steps=steps, interruption="waits for a spade")
    assert shown(log) == [
        "task t-1 status=running phase=digging",
        "progress: step 2/5",
        "next: two (tool = dig)",
        "interrupted: waits for a spade",
        "open 3: three",
        "open 4: four",
    ]


def test_steps_that_need_each_other_in_a_circle_are_all_listed() -> None:
    steps = [{"id": one, "text": one, "deps": [other]} for one, other in ("ab", "bc", "ca")]
    log = Log()
    log.add("plan.updated", task_id="t", steps=[{"id": "0", "text": "first"}, *steps])
    assert sorted(line for line in shown(log) if line.startswith("open")) == ["open a: a", "open b: b", "open c: c"]


def test_an_update_without_steps_keeps_those_of_the_same_task_only() -> None:
    log = Log()
    log.add("plan.updated", task_id="t-1", steps=[{"id": "1", "text": "dig"}])
    log.add("plan.updated", task_id="t-1", status="paused")
    assert "next: dig" in shown(log)
    log.add("plan.updated", task_id="t-2")
    assert shown(log) == ["task t-2 status=running phase="]


def test_task_memory_lives_with_its_task_and_stays_in_the_log() -> None:
    log = Log()
    log.add("plan.updated", task_id="t-1")
    log.add("observation.recorded", step_id="1", tool="dig", result="a hole")
    log.add("observation.recorded", step_id="2", result="no spade", failed=True)
    assert shown(log)[1:] == ["step 1 [dig] → a hole", "step 2 failed: no spade"]
    log.add("plan.updated", task_id="t-2")
    assert shown(log) == ["task t-2 status=running phase="]
    assert [event.kind for event in log.events].count("observation.recorded") == 2


def test_of_task_memory_the_newest_are_kept_and_they_stand_last() -> None:
    log = Log()
    for number in range(12):
        log.add("observation.recorded", step_id=str(number), result="seen")
    assert shown(log) == [f"step {number} → seen" for number in range(4, 12)]


def test_an_observation_ages_from_as_of_and_not_from_the_clock() -> None:
    log = Log()
    log.add("observation.recorded", step_id="1", result="seen", at=EPOCH)
    assert shown(log, as_of=EPOCH + 24 * HOUR) == ["step 1 → seen"]
    assert shown(log, as_of=EPOCH + 24 * HOUR + 1) == []


# --- tool state ------------------------------------------------------------------------------------------------------


def test_tools_read_by_name_with_what_they_need() -> None:
    log = Log()
    log.add("tool.registered", name="weather", description="looks up", required=("city", "day"))
    log.add("tool.registered", name="clock", parameters={"type": "object", "required": ["zone"]})
    log.add("tool.registered", name="gone")
    log.add("tool.removed", name="gone")
    assert shown(log) == ["clock (required zone)", "weather - looks up (required city, day)"]


def test_a_newer_answer_supersedes_the_older_one_for_the_same_question() -> None:
    log = Log()
    for stock, item in ((30, "pen"), (5, "ink"), (10, "pen")):
        log.assistant("", tool_calls=[{"id": f"c{stock}", "name": "stock", "arguments": {"item": item}}])
        log.answer(f"c{stock}", f"{item}: {stock}")
    assert shown(log) == ["as of 08:00 recent call stock [ok]: ink: 5", "as of 08:00 recent call stock [ok]: pen: 10"]


@pytest.mark.parametrize(
    ("status", "word"), [("ok", "成功"), ("error", "失败"), ("rejected", "被拒绝"), ("timeout", "超时")]
)
def test_how_a_call_ended_is_told(status: str, word: str) -> None:
    log = Log()
    log.calls("c1")
    log.answer("c1", "so it went", status=status)
    assert shown(log, locale="zh", preset="classic")[-1] == f"近期调用 look_up [{word}]: so it went"


def test_calls_that_read_the_same_are_one_line_with_their_number_and_the_newest_time() -> None:
    log = Log()
    for number, said in enumerate(["(no output)", "three files", "(no output)", "(no output)"]):
        log.assistant("", tool_calls=[{"id": f"c{number}", "name": "bash", "arguments": {"n": number}}])
        log.answer(f"c{number}", said)
    assert shown(log) == [
        "as of 08:00 recent call bash [ok]: three files", "as of 08:00 recent call bash ×3 [ok]: (no output)",
    ]  # fmt: skip
    assert shown(log, locale="zh", preset="classic")[-1] == "近期调用 bash ×3 [成功]: (no output)"
    log.user("hello")
    slot = compiled(log, mode="react").report["slots"]["tool_state"]
    [line] = [item for item in slot["items"] if "×3" in item["text"]]
    assert len(line["events"]) == 3, "each call is accounted for"


def test_times_are_shown_in_the_sessions_zone_with_the_date_on_another_day() -> None:
    log = Log()
    log.add("session.started", time_zone="Asia/Shanghai")
    log.calls("c1")
    log.answer("c1", "fine", at=EPOCH)
    assert shown(log, as_of=EPOCH)[-1].startswith("as of 16:00 ")
    assert shown(log, as_of=EPOCH + DAY)[-1].startswith("as of 2027-01-15 16:00 ")


def test_a_result_is_shown_as_of_when_its_tool_saw_it() -> None:
    def line(observed: str | None) -> str:
        log = Log()
        log.calls("c1")
        log.answer("c1", "fine", observed_at=observed)
        return shown(log)[-1]

    assert line("2027-01-15T08:30:00+01:00").startswith("as of 07:30 ")
    assert line(None).startswith("as of 08:00 ")
    assert line("2099-01-01T00:00:00Z").startswith("as of 08:00 "), "no tool has seen what is still to come"
    assert line("yesterday").startswith("as of 08:00 ")


@pytest.mark.parametrize(
    "zone", ["Nowhere/At all", "../../etc/passwd", "", "Europe", "x" * 5000, "a\x00b", "\ud83d", "/etc"]
)
def test_a_time_zone_that_does_not_exist_is_taken_as_utc(zone: str) -> None:
    log = Log()
    log.add("session.started", time_zone=zone)
    log.calls("c1")
    log.answer("c1", "fine")
    assert shown(log)[-1].startswith("as of 08:00 ")


@pytest.mark.parametrize("as_of", [0, 10**15, EPOCH - 1, LATEST])
def test_any_moment_may_be_asked_for(as_of: int) -> None:
    log = Log()
    log.calls("c1")
    log.answer("c1", "fine")
    log.add("memory.recorded", id="m", scope="session", text="fine", valid_to="2026-01-01T00:00:00Z")
    shown(log, as_of=as_of)


@pytest.mark.parametrize("as_of", [-1, LATEST + 1, 10**30])
def test_a_moment_that_no_calendar_has_is_refused(as_of: int) -> None:
    with pytest.raises(InvalidRequest, match="as_of"):
        parse_request({"as_of": as_of})


SECRETS = ["hunter22-not-for-models", "sk-ant-" + "a1B2c3D4" * 6]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("target", ["openai", "anthropic", "text"])
def test_secrets_are_shown_nowhere_whoever_says_them(secret: str, target: str) -> None:
    log, subject = Log(), Log("s")
    log.add("tool.environment", values={"cwd": {"value": "/srv"}, "token": {"value": SECRETS[0], "secret": True}})
    rules = [{"text": f"rule {secret}", "core": True}]
    shots = [{"user": f"shot {secret}", "assistant": f"shot {secret}"}]
    log.add("instruction.set", role=f"role {secret}", rules=rules, text=f"text {secret}", examples=shots)
    log.block("a", f"block {secret}")
    schema = {"type": "object", "properties": {"of": {"default": secret}}}
    log.add("tool.registered", name="look_up", description=f"tool {secret}", parameters=schema)
    log.add("plan.updated", task_id="t", steps=[{"id": "1", "text": f"step {secret}"}], interruption=f"wait {secret}")
    log.add("observation.recorded", step_id="1", result=f"seen {secret}")
    for turn in range(6):
        log.user(f"user {secret} " + "more " * 20)
        log.assistant(
            f"assistant {secret}", tool_calls=[{"id": f"c{turn}", "name": "look_up", "arguments": {"of": secret}}]
        )
        log.answer(
            f"c{turn}", [{"type": "data", "data": {"token": secret}}, {"type": "text", "text": f"answer {secret}"}]
        )
    log.add("reference.expanded", reference_id="doc", content=f"slice {secret}")
    subject.add("profile.set", key="note", value=f"profile {secret}")
    subject.add("memory.recorded", id="m", text=f"user memory {secret}", category="fact", importance=1.0)
    for budget in (900, 100_000):
        prompt = compiled(World(log, subject), mode="react", format=target, budget=budget)
        assert secret not in str(prompt.payload)
        assert secret not in str(prompt.report), "nor does the report tell"
        assert secret not in str(prompt.layout.dump())
    assert "environment cwd = /srv" in str(compiled(World(log, subject), mode="react", locale="en").payload)


def test_a_masked_unit_is_reported() -> None:
    log = Log()
    log.user(f"my key is {SECRETS[1]}")
    log.user("fine")
    assert "secrets were masked in the units at seq 1" in compiled(log).report["warnings"]


# --- profile and recall ----------------------------------------------------------------------------------------------


def test_the_profile_reads_blocks_first_then_fields_by_key_then_facts_about_the_user() -> None:
    subject = Log("s")
    subject.add("memory.recorded", id="m", text="is called Ann", category="identity")
    subject.add("profile.set", key="language", value="en")
    subject.add("profile.set", key="city", value="Rome")
    subject.add("block.defined", label="persona", text="friendly")
    assert shown(Log(), subject) == [
        "persona (8/2000 characters): friendly", "city: Rome", "language: en", "is called Ann",
    ]  # fmt: skip


def test_a_newer_value_replaces_the_older_one_and_an_unset_one_is_gone() -> None:
    subject = Log("s")
    for value in ("Rome", "Oslo"):
        subject.add("profile.set", key="city", value=value)
    subject.add("profile.set", key="pet", value={"cat": 1})
    assert shown(Log(), subject) == ["city: Oslo", 'pet: {"cat":1}']
    subject.add("profile.unset", key="city")
    assert shown(Log(), subject) == ['pet: {"cat":1}']


def test_a_block_is_edited_only_within_its_limit_and_never_when_read_only() -> None:
    subject = Log("s")
    subject.add("block.defined", label="a", text="old", limit=5)
    subject.add("block.defined", label="b", text="fixed", read_only=True)
    for label, text in (("a", "too long"), ("b", "new"), ("a", "new"), ("c", "unknown")):
        subject.add("block.edited", label=label, text=text)
    assert shown(Log(), subject) == ["a (3/5 characters): new", "b (5/2000 characters, read-only): fixed"]
    assert len(subject.state.rows("notices")) == 3


def remembered(*texts: str, **more: Any) -> Log:
    subject = Log("s")
    for number, text in enumerate(texts):
        subject.add("memory.recorded", id=f"m{number}", text=text, **{"importance": 1.0, **more})
    return subject


def asking(text: str) -> Log:
    log = Log()
    log.user(text)
    return log


def test_recall_shows_what_the_query_is_about_with_its_score_and_the_best_first() -> None:
    subject = remembered("the oven is broken", "bread needs salt and an oven", "the cat sleeps")
    found = shown(asking("bread oven"), subject, mode="rag")
    assert [line.split(" (")[0] for line in found] == ["bread needs salt and an oven", "the oven is broken"]
    assert found[0].endswith("(importance = 1.00, score = 1.00)")


def test_chinese_text_is_found_by_its_bigrams() -> None:
    found = shown(asking("北京的天气"), remembered("上次查询了北京天气", "用户喜欢咖啡"), mode="rag", locale="zh")
    assert [line.split(" (")[0] for line in found] == ["上次查询了北京天气"]


def test_what_was_closed_superseded_or_has_run_out_is_not_recalled() -> None:
    subject = remembered("tea one", "tea two")
    subject.add("memory.retracted", id="m0")
    subject.add("memory.recorded", id="m5", text="tea three", importance=1.0, supersedes=("m1",))
    subject.add("memory.recorded", id="m6", text="tea past", importance=1.0, valid_to="2026-01-01T00:00:00Z")
    subject.add("memory.recorded", id="m7", text="tea later", importance=1.0, valid_from="2031-01-01T00:00:00+02:00")
    assert [line.split(" (")[0] for line in shown(asking("tea"), subject, mode="rag")] == ["tea three"]


def test_unimportant_memories_are_not_injected_and_importance_decays() -> None:
    subject = Log("s")
    subject.add("memory.recorded", id="old", text="tea old", importance=0.5, at=EPOCH - 100 * DAY)
    subject.add(
        "memory.recorded", id="how", text="tea how", importance=0.5, category="procedural", at=EPOCH - 100 * DAY
    )
    subject.add("memory.recorded", id="low", text="tea low", importance=0.2)
    found = shown(asking("tea"), subject, mode="rag", as_of=EPOCH)
    assert found == [
        "tea how (importance = 0.50, score = 0.85)",
        "tea old (importance = 0.30, score = 0.79)",
    ]


def aged(importance: float | None, days: int, **more: Any) -> list[str]:
    """What recall shows of one memory that is so many days old."""
    given = {} if importance is None else {"importance": importance}
    subject = Log("s")
    subject.add("memory.recorded", id="m", text="tea", at=EPOCH - days * DAY, **given, **more)
    return shown(asking("tea"), subject, mode="rag", as_of=EPOCH)


def test_a_memory_of_high_importance_does_not_fade() -> None:
    for importance in (0.7, 1.0):
        assert aged(importance, 400) == aged(importance, 0) != []


def test_a_memory_of_middle_importance_fades_and_is_what_a_memory_is_without_being_told() -> None:
    for importance in (0.3, 0.5, 0.69):
        assert aged(importance, 0)
        assert aged(importance, 400) != aged(importance, 0)
    for days in (0, 50, 400):
        assert aged(0.5, days) == aged(None, days)


def test_a_memory_of_low_importance_is_never_shown() -> None:
    for importance in (0.0, 0.29):
        assert aged(importance, 0) == aged(importance, 0, category="procedural") == []


# --- filters ---------------------------------------------------------------------------------------------------------


def filtered(**changes: Any) -> dict[str, str]:
    subject = Log("s")
    subject.add("memory.recorded", id="a", text="tea a", importance=1.0, category="fact", tags=("x", "y"), at=EPOCH)
    subject.add(
        "memory.recorded", id="b", text="tea b", importance=0.4, category="fact", tags=("x",), at=EPOCH - 3 * HOUR
    )
    subject.add("memory.recorded", id="c", text="tea c", importance=0.9, category="episodic", at=EPOCH)
    slots = {"recall": {"min_score": 0, "top_k": 0, **changes}}
    prompt = compiled(World(asking("tea"), subject), mode="rag", overrides={"slots": slots}, as_of=EPOCH)
    return reasons(prompt, "recall")


def test_without_a_filter_all_are_shown() -> None:
    assert filtered() == {"a": "fits", "b": "fits", "c": "fits"}


@pytest.mark.parametrize(
    ("change", "dropped"),
    [
        ({"categories": ("fact",)}, {"c": "category"}),
        ({"require_tags": ("x", "y")}, {"b": "tags", "c": "tags"}),
        ({"min_score": 0.9}, {"b": "min_score"}),
        ({"top_k": 2}, {"b": "top_k"}),
        ({"max_age_hours": 2}, {"b": "max_age"}),
        ({"token_budget": 0}, {}),
    ],
)
def test_each_filter_drops_for_its_own_reason(change: dict[str, Any], dropped: dict[str, str]) -> None:
    found = filtered(**change)
    if "token_budget" in change:
        assert set(found.values()) <= {"slot_budget", "fits"}
    else:
        assert found == {"a": "fits", "b": "fits", "c": "fits", **dropped}


def test_an_overridden_filter_leaves_the_others_as_the_mode_says() -> None:
    subject = remembered(*(f"tea {number}" for number in range(9)), category="fact")
    prompt = compiled(World(asking("tea"), subject), mode="chat", overrides={"slots": {"recall": {"min_score": 0.1}}})
    assert sorted(reasons(prompt, "recall").values()) == ["fits"] * 3 + ["top_k"] * 6


# --- budgets and lending ---------------------------------------------------------------------------------------------


def test_what_one_slot_leaves_over_another_may_use_but_never_beyond_its_top_k() -> None:
    subject = Log("s")
    for number in range(30):
        subject.add("profile.set", key=f"key{number:02}", value="value " * 30)
    prompt = compiled(World(asking("hello"), subject), mode="chat")
    slot = prompt.report["slots"]["profile"]
    assert slot["used"] > slot["budget"], "it should have borrowed"
    kept = [item for item in slot["items"] if item["disposition"] == "included"]
    assert len(kept) == 10


def test_over_the_global_budget_the_last_slots_lose_first() -> None:
    subject = remembered(*(f"tea {number} " * 5 for number in range(5)), category="fact")
    for number in range(8):
        subject.add("profile.set", key=f"key{number}", value="value " * 10)
    log = asking("tea")
    log.block("w", "think of the kettle " * 5, "warn")
    gone = []
    for budget in range(400, 0, -20):
        prompt = compiled(World(log, subject), mode="chat", overrides={"global_slot_budget": budget})
        lost = [
            slot for slot in ("constraints", "profile", "recall") if "global_budget" in reasons(prompt, slot).values()
        ]
        kept = [slot for slot in lost if "fits" in reasons(prompt, slot).values()]
        assert lost == [] or lost == ["constraints", "profile", "recall"][-len(lost) :]
        assert len(kept) <= 1, "a slot loses only when those below it have nothing left"
        gone.append(len(lost))
    assert gone == sorted(gone)
    assert gone[-1] == 3


def test_a_required_slot_that_is_empty_says_so_and_others_are_not_there() -> None:
    prompt = compiled(asking("hello"), mode="react", preset="classic", locale="en")
    [system] = [one.text for one in seen(prompt.payload, "openai") if one.role == "system"]
    assert system == "## Constraints\n- (none)\n\n## Plan\n- (none)\n\n## Tools\n- (none)"


def test_an_unknown_mode_falls_back_to_chat_and_the_report_says_so() -> None:
    prompt = compiled(asking("hello"), mode="dance")
    assert prompt.mode == "chat"
    assert any("dance" in warning for warning in prompt.report["warnings"])


def test_a_source_that_failed_costs_its_own_items_and_a_line_in_the_report() -> None:
    good = SourceResult("kb", "recall", (SourceItem("k", "tea is hot", score=0.9),))
    bad = SourceResult("crm", "recall", (), error="timeout")
    world = World(asking("tea"), sources=(bad, good))
    prompt = compiled(world, mode="rag")
    assert "tea is hot" in str(prompt.payload)
    assert any("crm" in warning and "timeout" in warning for warning in prompt.report["warnings"])


def test_a_run_uses_its_own_mode_and_the_request_overrules_it() -> None:
    log = asking("hello")
    log.add("session.started", mode="chat")
    log.add("run.started", run_id="r", mode="tool")
    assert compiled(log).mode == "tool"
    assert compiled(log, mode="react").mode == "react"
    log.add("run.ended", run_id="r")
    assert compiled(log).mode == "chat"
