"""Memories that the rules write: stories of contradiction, told once, traced to their events, and never come back."""

from itertools import takewhile
from typing import Any

import pytest
from store_histories import compiled, drain, event, said

from workers.engine import Engine
from workers.store import streams, work

Json = dict[str, Any]


def start(engine: Engine, tenant: str, session: str, subject: str | None = "ada", locale: str = "en") -> None:
    engine.append(tenant, session, [event("session.started", subject=subject, locale=locale)])


def tell(engine: Engine, tenant: str, session: str, *texts: str) -> list[str]:
    """What a user says, one by one; the ids of the events."""
    found = []
    for text in texts:
        found.append(engine.append(tenant, session, [said(text)])["events"][0]["event_id"])
        drain(engine)
    return found


def section(prompt: Json, title: str) -> list[str]:
    """The lines of a slot."""
    text = "\n".join(
        part["text"] if isinstance(part, dict) else part
        for message in prompt["payload"]["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else [message["content"]])
    )
    lines = text.split("\n")
    if title not in lines:
        return []
    return list(takewhile(lambda line: line.startswith("- "), lines[lines.index(title) + 1 :]))


def memories(engine: Engine, tenant: str, session: str, kind: str = "memory.recorded") -> list[Json]:
    found = engine.events(tenant, session, "subject")["events"]
    return [one for one in found if one["kind"] == kind]


STORIES = {
    "city_en": ("en", ["I live in Bergen.", "I've moved to Oslo."], ["- The user lives in Oslo"]),
    "city_zh": ("zh", ["我住在北京。", "我搬到上海了。"], ["- 用户住在上海"]),
    "preference_en": ("en", ["I love coriander.", "I hate coriander."], ["- The user does not like coriander"]),
    "preference_zh": ("zh", ["我喜欢吃辣。", "我不再喜欢吃辣了。"], ["- 用户不喜欢吃辣"]),
    "told_again_en": (
        "en",
        ["My name is Ada.", "Forget my name.", "My name is Ada."],
        ["- The user's name is Ada"],
    ),
    "told_again_zh": ("zh", ["我叫李雷。", "忘掉我的名字", "我叫李雷。"], ["- 用户叫李雷"]),
}


@pytest.mark.parametrize("name", STORIES)
def test_of_a_contradiction_one_truth_stands_in_the_prompt_and_history_has_all(
    engine: Engine, tenant: str, name: str
) -> None:
    locale, texts, truth = STORIES[name]
    start(engine, tenant, "s", locale=locale)
    sources = tell(engine, tenant, "s", *texts)
    start(engine, tenant, "next", locale=locale)
    tell(engine, tenant, "next", "…")
    prompt = compiled(engine, tenant, "next")
    assert section(prompt, "## User profile" if locale == "en" else "【用户画像】") == truth
    decided = memories(engine, tenant, "s", "memory.decided")
    assert [one["payload"]["derived_from"][0] for one in decided] == sources
    acts = [one["payload"]["act"] for one in decided]
    assert acts == (["ADD", "DELETE", "ADD"] if len(texts) == 3 else ["ADD", "UPDATE"])
    first, last = memories(engine, tenant, "s")[0], memories(engine, tenant, "s")[-1]
    assert first["causation_id"] == sources[0]
    why = engine.history.why(tenant, prompt["id"], first["event_id"])
    assert why["disposition"] == "superseded"
    assert [one["act"] for one in why["decisions"]] == acts[:2]
    assert engine.history.why(tenant, prompt["id"], last["event_id"])["disposition"] == "included"
    assert engine.replay(tenant, prompt["id"])["identical"]


@pytest.mark.parametrize(
    ("locale", "text", "line"),
    [
        ("en", "the stock of ball pens is {}", "- the stock of ball pens is {} (importance = 0.90, score = 0.97)"),
        ("zh", "圆珠笔的库存是{}", "- 圆珠笔的库存是{} (重要性 = 0.90, 综合分 = 0.97)"),
    ],
)
def test_a_stock_of_30_then_10_is_10(engine: Engine, tenant: str, locale: str, text: str, line: str) -> None:
    start(engine, tenant, "s", locale=locale)
    keys = {"subject": "ball pens", "predicate": "stock", "importance": 0.9}
    for number in ("30", "10"):
        fact = event("memory.recorded", id=f"m{number}", text=text.format(number), object=number, **keys)
        engine.append(tenant, "s", [fact])
    prompt = compiled(engine, tenant, "s", query=text.format(""), mode="rag")
    assert section(prompt, "## Recall" if locale == "en" else "【相关回忆】") == [line.format("10")]
    older = memories(engine, tenant, "s")[0]
    why = engine.history.why(tenant, prompt["id"], older["event_id"])
    assert (why["disposition"], why["by"]["seq"]) == ("superseded", 2)


def test_the_same_statement_is_written_once_however_often_its_work_runs(engine: Engine, tenant: str) -> None:
    start(engine, tenant, "s")
    tell(engine, tenant, "s", "My name is Ada.", "As I said:", "My name is Ada!")
    head = engine.events(tenant, "s", "subject")["head"]
    engine.rebuild(tenant)
    with engine.deps.database.write(tenant) as unit:
        row = streams.get(unit, tenant, "session/s")
        assert row is not None
        work.reopen(unit, tenant, row.number, "maintenance", row.head)
    drain(engine)
    assert engine.events(tenant, "s", "subject")["head"] == head
    acts = [one["payload"]["act"] for one in memories(engine, tenant, "s", "memory.decided")]
    assert acts == ["ADD", "NONE"]


def test_what_was_retracted_comes_back_neither_by_a_rebuild_nor_in_a_fork(engine: Engine, tenant: str) -> None:
    start(engine, tenant, "s")
    tell(engine, tenant, "s", "My name is Ada.")
    (fact,) = memories(engine, tenant, "s")
    engine.append(tenant, "s", [event("memory.retracted", id=fact["payload"]["id"])])
    drain(engine)
    engine.rebuild(tenant)
    engine.append(tenant, "child", [event("session.forked", parent="s", at_seq=2)])
    drain(engine)
    for session in ("s", "child"):
        assert section(compiled(engine, tenant, session), "## User profile") == []


def test_a_rollback_takes_along_what_was_remembered_of_what_it_hides_and_nothing_else(
    engine: Engine, tenant: str
) -> None:
    start(engine, tenant, "s")
    tell(engine, tenant, "s", "My name is Ada.", "I live in Oslo.")
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=2)])
    drain(engine)
    assert section(compiled(engine, tenant, "s"), "## User profile") == ["- The user's name is Ada"]


def test_b110_what_was_remembered_and_rolled_back_is_remembered_again_when_it_is_said_again(
    engine: Engine, tenant: str
) -> None:
    start(engine, tenant, "s")
    tell(engine, tenant, "s", "My name is Ada.", "I live in Oslo.")
    whole = section(compiled(engine, tenant, "s"), "## User profile")
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=1)])
    drain(engine)
    assert section(compiled(engine, tenant, "s"), "## User profile") == []
    tell(engine, tenant, "s", "My name is Ada.", "I live in Oslo.")
    assert section(compiled(engine, tenant, "s"), "## User profile") == whole != []


def test_what_is_erased_before_it_was_remembered_is_not_and_what_was_made_of_it_goes(
    engine: Engine, tenant: str
) -> None:
    start(engine, tenant, "s")
    early = engine.append(tenant, "s", [said("My name is Ada.")])["events"][0]["event_id"]
    engine.append(tenant, "s", [event("event.redacted", event_id=early)])
    (late,) = tell(engine, tenant, "s", "I live in Oslo.")
    assert [one["payload"]["text"] for one in memories(engine, tenant, "s")] == ["The user lives in Oslo"]
    engine.append(tenant, "s", [event("event.redacted", event_id=late)])
    drain(engine)
    assert section(compiled(engine, tenant, "s"), "## User profile") == []
    assert "Oslo" not in str(engine.events(tenant, "s", "subject")["events"])


def test_an_older_session_that_comes_later_does_not_end_what_is_held(engine: Engine, tenant: str) -> None:
    start(engine, tenant, "new")
    engine.append(tenant, "new", [said("I live in Oslo.", occurred_at="2026-05-01T00:00:00Z")])
    start(engine, tenant, "old")
    engine.append(tenant, "old", [said("I live in Bergen.", occurred_at="2024-05-01T00:00:00Z")])
    drain(engine)
    assert section(compiled(engine, tenant, "new"), "## User profile") == ["- The user lives in Oslo"]


def test_rules_that_are_off_write_nothing(engine: Engine, tenant: str) -> None:
    engine.deps.memory_rules = frozenset()
    start(engine, tenant, "s")
    tell(engine, tenant, "s", "My name is Ada.")
    assert engine.events(tenant, "s", "subject")["head"] == 0


def test_scopes_are_walls(engine: Engine, tenant: str) -> None:
    start(engine, tenant, "s")
    for scope in ("session", "subject", "tenant"):
        told = event("memory.recorded", id=scope, text=f"{scope} only", scope=scope, category="preference")
        engine.append(tenant, "s", [told])
    start(engine, tenant, "same")
    start(engine, tenant, "stranger", "eve")
    start(engine, tenant, "private", None)
    start(engine, f"{tenant}-2", "s")
    for name in ("same", "stranger", "private"):
        tell(engine, tenant, name, "Hello.")
    tell(engine, f"{tenant}-2", "s", "Hello.")
    shown = {
        name: sorted(section(compiled(engine, tenant, name), "## User profile"))
        for name in ("s", "same", "stranger", "private")
    }
    assert shown == {
        "s": ["- session only", "- subject only", "- tenant only"],
        "same": ["- subject only", "- tenant only"],
        "stranger": ["- tenant only"],
        "private": ["- tenant only"],
    }
    assert section(compiled(engine, f"{tenant}-2", "s"), "## User profile") == []


def test_the_report_accounts_for_every_memory(engine: Engine, tenant: str) -> None:
    start(engine, tenant, "s")
    tell(engine, tenant, "s", *(f"I like dish number {number}." for number in range(30)))
    prompt = compiled(engine, tenant, "s")
    items = prompt["report"]["slots"]["profile"]["items"]
    assert len(items) == 30
    assert {one["disposition"] for one in items} == {"included", "dropped"}
    assert prompt["report"]["ledger"]["closes"]


def test_what_came_while_the_work_waited_is_looked_at_too(engine: Engine, tenant: str) -> None:
    start(engine, tenant, "s")
    for text in ("My name is Ada.", "I live in Oslo."):
        engine.append(tenant, "s", [said(text)])
        engine.project(tenant, "session/s")
    drain(engine)
    assert [one["payload"]["object"] for one in memories(engine, tenant, "s")] == ["Ada", "Oslo"]
