"""What is remembered of a subject: listed, searched, traced, forgotten, tidied, moved elsewhere, and each undone."""

from typing import Any

import pytest
from store_histories import compiled, drain, event, said

from domain.errors import InvalidRequest, PayloadTooLarge, UnknownMemory, UnknownSession
from workers.engine import Engine

Json = dict[str, Any]


@pytest.fixture
def ada(engine: Engine, tenant: str) -> str:
    """A subject of whom three things are remembered."""
    engine.append(tenant, "s", [event("session.started", subject="ada", locale="en")])
    for text in ("My name is Ada.", "I live in Bergen.", "I've moved to Oslo."):
        engine.append(tenant, "s", [said(text)])
        drain(engine)
    return "ada"


def texts(engine: Engine, tenant: str, subject: str, **asked: Any) -> list[str]:
    return [one["text"] for one in engine.memories.listing(tenant, subject, **asked)["memories"]]


def profile(engine: Engine, tenant: str) -> str:
    content = compiled(engine, tenant, "s", fresh=True)["payload"]["messages"]
    return str([message for message in content if message["role"] == "system"])


def test_memories_are_listed_the_newest_first_and_what_has_ended_on_request(
    engine: Engine, tenant: str, ada: str
) -> None:
    assert texts(engine, tenant, ada) == ["The user lives in Oslo", "The user's name is Ada"]
    assert len(texts(engine, tenant, ada, closed=True)) == 3
    first = engine.memories.listing(tenant, ada, limit=1, closed=True)
    rest = engine.memories.listing(tenant, ada, closed=True, after=first["next"])
    assert len(first["memories"]) + len(rest["memories"]) == 3
    assert texts(engine, tenant, "nobody") == []
    assert texts(engine, f"{tenant}-2", ada) == []


def test_a_search_explains_each_score_term_by_term(engine: Engine, tenant: str, ada: str) -> None:
    (found,) = engine.memories.listing(tenant, ada, query="Where does she live?")["memories"]
    told = found["explained"]
    assert (found["text"], set(told["terms"])) == ("The user lives in Oslo", {"live"})
    assert told["score"] == pytest.approx(0.7 * told["relevance"] + 0.3 * told["importance"])
    with pytest.raises(InvalidRequest, match="query"):
        engine.memories.listing(tenant, ada, query=" ")


def test_what_a_session_keeps_to_itself_is_listed_searched_and_traced_with_it_alone(
    engine: Engine, tenant: str, ada: str
) -> None:
    secret = event("memory.recorded", id="gift", text="The ring lies in the drawer", category="fact", scope="session")
    engine.append(tenant, "s", [secret])
    drain(engine)
    assert "The ring lies in the drawer" not in texts(engine, tenant, ada)
    told = engine.memories.listing(tenant, ada, session="s")
    assert (told["scope"], [one["id"] for one in told["memories"]]) == ("session", ["gift"])
    (found,) = engine.memories.listing(tenant, ada, query="Where is the ring?", session="s")["memories"]
    assert set(found["explained"]["terms"]) == {"ring"}
    assert engine.memories.one(tenant, ada, "gift", session="s")["history"][0]["event_id"] == secret["event_id"]
    with pytest.raises(UnknownMemory):
        engine.memories.one(tenant, ada, "gift")


def test_a_session_of_somebody_else_is_unknown(engine: Engine, tenant: str, ada: str) -> None:
    for subject, session, where in ((ada, "t", tenant), ("eve", "s", tenant), (ada, "s", f"{tenant}-2")):
        with pytest.raises(UnknownSession):
            engine.memories.listing(where, subject, session=session)
    with pytest.raises(InvalidRequest, match="session"):
        engine.memories.listing(tenant, ada, "tenant", session="s")
    engine.append(tenant, "alone", [event("memory.recorded", id="m", text="Hm", scope="session")])
    assert texts(engine, tenant, "session:alone", session="alone") == ["Hm"]


def test_a_search_favours_whom_the_query_names_and_says_so(engine: Engine, tenant: str) -> None:
    facts = [
        event("memory.recorded", id=who, text=f"{who} lives in {city}", category="fact", importance=0.7,
              subject=who, predicate="lives in", object=city)
        for who, city in (("Ann", "Oslo"), ("Bob", "Bergen"), ("小明", "青岛"))
    ]  # fmt: skip
    engine.append(tenant, "s", [event("session.started", subject="club"), *facts])
    drain(engine)
    first, *rest = engine.memories.listing(tenant, "club", query="In which city of Norway does bob live?")["memories"]
    told = first["explained"]
    assert (first["id"], told["named"].keys()) == ("Bob", {"Bob"})
    assert told["relevance"] == pytest.approx(sum(told["terms"].values()) + told["named"]["Bob"], abs=1e-5)
    assert not any("named" in one["explained"] for one in rest)
    (first, *_) = engine.memories.listing(tenant, "club", query="小明住在哪里？")["memories"]
    assert (first["id"], first["explained"]["named"].keys()) == ("小明", {"小明"})


def test_the_history_of_a_memory_leads_to_what_was_said(engine: Engine, tenant: str, ada: str) -> None:
    older = engine.memories.listing(tenant, ada, closed=True)["memories"][1]
    told = engine.memories.one(tenant, ada, older["id"])
    assert told["memory"]["current"] is False
    assert [one.get("act") or one["kind"] for one in told["history"]] == [
        "ADD",
        "memory.recorded",
        "UPDATE",
        "memory.recorded",
    ]
    change = told["history"][2]
    assert (change["before"], change["text"]) == ("The user lives in Bergen", "The user lives in Oslo")
    said_of = [one["payload"]["content"][0]["text"] for one in told["sources"] if one["kind"] == "user.input"]
    assert said_of == ["I live in Bergen.", "I've moved to Oslo."]
    with pytest.raises(UnknownMemory):
        engine.memories.one(tenant, ada, "nothing")
    with pytest.raises(UnknownMemory):
        engine.memories.one(f"{tenant}-2", ada, older["id"])


def test_what_is_forgotten_is_gone_from_prompts_stays_in_the_log_and_comes_back_by_undo(
    engine: Engine, tenant: str, ada: str
) -> None:
    (oslo,) = engine.memories.listing(tenant, ada, query="Oslo")["memories"]
    assert "Oslo" in profile(engine, tenant)
    change = engine.memories.forget(tenant, ada, oslo["id"], reason="asked")["change"]
    drain(engine)
    assert "lives in" not in profile(engine, tenant)
    assert engine.memories.forget(tenant, ada, oslo["id"])["change"] is None
    undone = engine.memories.undo(tenant, ada, change)
    assert [one["kind"] for one in undone["takes_back"]] == ["memory.retracted"]
    drain(engine)
    assert "The user lives in Oslo" in profile(engine, tenant)
    assert engine.memories.undo(tenant, ada, change)["takes_back"] == []
    engine.memories.undo(tenant, ada, undone["change"])
    drain(engine)
    assert "lives in" not in profile(engine, tenant)
    assert engine.verify(tenant)["ok"]


def test_care_is_shown_first_then_done_with_lineage_and_undone(engine: Engine, tenant: str, ada: str) -> None:
    for text in ("Ada likes her tea hot", "ada also likes her tea hot."):
        engine.append(tenant, "s", [event("memory.recorded", id=text, text=text)])
    before = texts(engine, tenant, ada)
    plan = engine.memories.care(tenant, ada)
    assert [step["act"] for step in plan["steps"]] == ["merge"]
    assert texts(engine, tenant, ada) == before
    done = engine.memories.care(tenant, ada, dry_run=False)
    assert (done["steps"][0]["act"], len(texts(engine, tenant, ada))) == ("merge", len(before) - 1)
    merged = engine.memories.listing(tenant, ada)["memories"][0]
    assert len(merged["derived_from"]) == 2
    assert engine.memories.care(tenant, ada, dry_run=False)["change"] is None
    engine.memories.undo(tenant, ada, done["change"])
    assert texts(engine, tenant, ada) == before


def test_what_a_merged_memory_was_made_from_takes_it_along_when_it_is_erased(
    engine: Engine, tenant: str, ada: str
) -> None:
    for text in ("Ada likes her tea hot", "ada also likes her tea hot."):
        engine.append(tenant, "s", [event("memory.recorded", id=text, text=text)])
    engine.memories.care(tenant, ada, dry_run=False)
    source = engine.memories.listing(tenant, ada)["memories"][0]["derived_from"][0]
    engine.append(tenant, "s", [event("event.redacted", event_id=source)])
    drain(engine)
    assert all("tea" not in text or text == "Ada likes her tea hot" for text in texts(engine, tenant, ada))


def test_care_is_taken_by_itself_once_it_is_due_and_is_no_work_that_waits_before(engine: Engine, tenant: str) -> None:
    for subject, pause in (("later", engine.deps.care_after), ("soon", -1_000_000)):
        engine.deps.care_after = pause
        engine.append(tenant, subject, [event("session.started", subject=subject)])
        for text in ("Ada likes her tea hot", "ada also likes her tea hot."):
            engine.append(tenant, subject, [event("memory.recorded", id=text, text=text)])
        drain(engine)
        assert engine.backlog(tenant)["open"] == 0
    assert len(engine.memories.care(tenant, "later")["steps"]) == 1
    assert engine.memories.care(tenant, "soon")["steps"] == []
    assert len(texts(engine, tenant, "soon")) == 1


def test_a_newer_fact_stays_when_what_it_replaced_is_taken_back(engine: Engine, tenant: str, ada: str) -> None:
    older = engine.memories.listing(tenant, ada, closed=True)["memories"][1]
    undone = engine.memories.undo(tenant, ada, older["event_id"])
    assert (undone["takes_back"], len(undone["conflicts"])) == ([], 1)
    assert texts(engine, tenant, ada)[0] == "The user lives in Oslo"


def test_an_export_is_imported_elsewhere_once_and_decided_about(engine: Engine, tenant: str, ada: str) -> None:
    engine.append(tenant, "s", [event("profile.set", key="seat", value="window")])
    engine.append(tenant, "s", [event("block.defined", label="persona", text="kind", limit=10)])
    data = engine.memories.export(tenant, ada)
    told = engine.memories.restore(tenant, "twin", data)
    assert [one["act"] for one in told["decisions"]] == ["ADD", "ADD"]
    assert sorted(texts(engine, tenant, "twin")) == sorted(texts(engine, tenant, ada))
    head = engine.memories.listing(tenant, "twin")["head"]
    again = engine.memories.restore(tenant, "twin", data)
    assert ({one["act"] for one in again["decisions"]}, again["events"]) == ({"NONE"}, 0)
    assert engine.memories.listing(tenant, "twin")["head"] == head
    copied = engine.memories.export(tenant, "twin")
    assert (copied["profile"], copied["blocks"]) == (data["profile"], data["blocks"])
    engine.memories.undo(tenant, "twin", told["change"])
    assert texts(engine, tenant, "twin") == []
    assert len(texts(engine, tenant, ada)) == 2
    assert {one["act"] for one in engine.memories.restore(tenant, "twin", data)["decisions"]} == {"ADD"}
    assert sorted(texts(engine, tenant, "twin")) == sorted(texts(engine, tenant, ada))
    data["memories"][0]["text"] = "x" * 2_000_000
    with pytest.raises(PayloadTooLarge):
        engine.memories.restore(tenant, "third", data)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({}, "format"),
        ({"format": "promptctx-memory/1", "memories": 1}, "memories"),
        ({"format": "promptctx-memory/1", "memories": [1]}, "memories.0"),
        ({"format": "promptctx-memory/1", "memories": [{"id": "m"}]}, "memories.0.text"),
        ({"format": "promptctx-memory/1", "memories": [{"id": "m", "text": "t", "importance": 7}]}, "importance"),
        ({"format": "promptctx-memory/1", "memories": [], "profile": [{"key": 1}]}, "profile.0"),
        ({"format": "promptctx-memory/1", "memories": [], "blocks": [{"label": "l", "limit": 0}]}, "blocks.0"),
        (
            {"format": "promptctx-memory/1", "memories": [{"id": "m", "text": "t", "importance": float("nan")}]},
            "importance",
        ),
    ],
)
def test_an_import_that_is_wrong_names_the_field(engine: Engine, tenant: str, data: Json, path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        engine.memories.restore(tenant, "ada", data)
    assert path in refused.value.details["path"]
