"""What recall keeps in the store: made behind, in steps, once for each text; erased with its source; never needed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from store_histories import compiled, drain, event, said
from test_recall_by_meaning import TEXTS, Broken, Pets, shown, told

from workers.assembly import INDEX_AFTER
from workers.embeddings import Rows
from workers.engine import Deps, Engine, Outcome, indexing, shelving
from workers.engine.meanings import Meanings
from workers.engine.shelves import Shelves
from workers.store import Database, migrate, passages, streams, work
from workers.store.sealing import MARK, Sealing

Json = dict[str, Any]
VECTORS = passages.TABLES[1]


class Counting(Pets):
    """Notes what it was asked, and lets something happen meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.asked: list[str] = []
        self._meanwhile = meanwhile

    def encode(self, texts: Sequence[str]) -> Rows:
        self.asked += texts
        found = super().encode(texts)
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return found


def number(engine: Engine, tenant: str, session: str) -> int:
    with engine.deps.database.read(tenant) as unit:
        row = streams.get(unit, tenant, f"session/{session}")
    assert row is not None
    return row.number


def kept(engine: Engine, tenant: str, session: str = "before") -> tuple[int, ...]:
    """How many messages there are terms of, and vectors."""
    stream = number(engine, tenant, session)
    with engine.deps.database.read(tenant) as unit:
        counts = [
            sa.select(sa.func.count()).where(table.c.tenant == tenant, table.c.stream == stream)
            for table in passages.TABLES
        ]
        return tuple(int(unit.execute(one).scalar_one()) for one in counts)


def forgotten(engine: Engine, tenant: str) -> None:
    """As in a store of an older release: nothing is kept."""
    with engine.deps.database.write(tenant) as unit:
        for table in passages.TABLES:
            unit.execute(sa.delete(table).where(table.c.tenant == tenant))
    anew(engine)


def anew(engine: Engine, meanings: Meanings | None = None) -> None:
    """As in a process that has just begun; the model is there, if it has one."""
    engine.deps.shelves, engine.deps.meanings = Shelves(), meanings
    if meanings is not None:
        meanings.encoded(["anything"])


def indexed(engine: Engine, tenant: str) -> None:
    for session in ("before", "now"):
        assert engine.index(tenant, session) is Outcome.DONE


def test_work_for_it_is_due_some_time_after_something_was_said_and_nobody_waits_for_it(
    engine: Engine, tenant: str
) -> None:
    engine.deps.index_after = INDEX_AFTER
    told(engine, tenant)
    assert kept(engine, tenant) == (0, 0)
    stream = number(engine, tenant, "before")
    with engine.deps.database.read(tenant) as unit:
        row = work.status(unit, tenant, stream, "index")
    assert row is not None
    assert row["due_at"] is not None
    backlog = engine.backlog(tenant)
    assert (backlog["due"], backlog["open"], backlog["parked"]) == (0, 0, 0)


def test_a_sweep_makes_what_is_due(engine: Engine, tenant: str) -> None:
    engine.deps.index_after, engine.deps.meanings = 1, Meanings(Pets())
    told(engine, tenant)
    for _ in range(10_000):  # it is due a moment later than it was asked for
        engine.sweep()
        if kept(engine, tenant) == (len(TEXTS), len(TEXTS)):
            return
    pytest.fail("nobody made it")


def test_a_new_process_finds_by_meaning_with_its_first_prompts_and_asks_the_model_for_no_passage(
    engine: Engine, tenant: str
) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    indexed(engine, tenant)
    model = Counting()
    anew(engine, Meanings(model))
    model.asked.clear()
    prompt, text = shown(engine, tenant)
    assert "beagle" in text
    assert model.asked == ["How is the puppy at home?"]
    assert engine.replay(tenant, prompt["id"])["identical"]


def test_what_is_kept_finds_what_is_found_without_it(engine: Engine, tenant: str) -> None:
    told(engine, tenant)
    query = {"query": "the weather of day 7"}
    before, _ = shown(engine, tenant, **query)
    indexed(engine, tenant)
    anew(engine)
    after, _ = shown(engine, tenant, **query)
    forgotten(engine, tenant)
    without, _ = shown(engine, tenant, **query)
    assert before["content_hash"] == after["content_hash"] == without["content_hash"]
    assert before["report"]["slots"]["recall"]["items"] == after["report"]["slots"]["recall"]["items"]


def test_prompts_replay_with_vectors_absent_made_anew_of_another_model_and_on_the_other_database(
    engine: Engine, tenant: str, sqlite_url: str, postgres_url: str
) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    indexed(engine, tenant)
    prompt, text = shown(engine, tenant)
    assert "beagle" in text

    def identical(where: Engine, who: str) -> bool:
        found = where.replay(who, prompt["id"])
        return bool(found["identical"] and found["content_hash"] == prompt["content_hash"])

    forgotten(engine, tenant)
    assert identical(engine, tenant)
    indexed(engine, tenant)
    assert identical(engine, tenant)
    anew(engine, Meanings(Turned()))
    indexed(engine, tenant)
    assert identical(engine, tenant)
    url = postgres_url if engine.deps.database.dialect == "sqlite" else sqlite_url
    migrate.upgrade(url)
    other = Engine(Deps(Database(url)))
    other.history.restore(f"{tenant}-moved", engine.history.bundle(tenant, prompt=prompt["id"]))
    assert identical(other, f"{tenant}-moved")
    other.deps.database.dispose()


class Turned(Pets):
    """Another model, whose vectors are longer."""

    name = "turned"

    def encode(self, texts: Sequence[str]) -> Rows:
        return np.hstack([super().encode(texts)[:, ::-1], np.zeros((len(texts), 1), dtype=np.float32)])


def test_vectors_of_another_model_are_not_used_and_go_once_the_new_ones_are_there(engine: Engine, tenant: str) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    indexed(engine, tenant)
    anew(engine, Meanings(Turned()))
    assert "beagle" not in shown(engine, tenant)[1]
    indexed(engine, tenant)
    assert "beagle" in shown(engine, tenant)[1]
    assert kept(engine, tenant) == (len(TEXTS), len(TEXTS))


def test_work_yields_and_goes_on_where_it_ended(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "YIELD_AFTER", -1.0)
    monkeypatch.setattr(indexing, "BATCH", 8)
    monkeypatch.setattr(indexing, "FEW", 5)
    model = Counting()
    told(engine, tenant)
    engine.deps.meanings = Meanings(model)
    indexed(engine, tenant)
    assert kept(engine, tenant) == (len(TEXTS), len(TEXTS))
    assert sorted(model.asked) == sorted([*TEXTS, "How is the puppy at home?"])
    stream = number(engine, tenant, "before")
    with engine.deps.database.write(tenant) as unit:
        work.reopen(unit, tenant, stream, "index", 1)
    with engine.deps.database.write(tenant) as unit:
        unit.execute(sa.delete(passages.TABLES[0]).where(passages.TABLES[0].c.tenant == tenant))
    assert indexing.index(engine.deps, tenant, stream, now=True) is Outcome.MORE
    assert kept(engine, tenant)[0] == 8


def test_it_stands_back_while_others_wait_for_their_prompts(engine: Engine, tenant: str) -> None:
    told(engine, tenant)
    stream = number(engine, tenant, "before")
    engine.append(tenant, "other", [said("hi")])
    with engine.deps.database.write(tenant) as unit:
        work.reopen(unit, tenant, stream, "index", 1)
    assert indexing.index(engine.deps, tenant, stream) is Outcome.IDLE
    assert kept(engine, tenant) == (0, 0)
    with engine.deps.database.read(tenant) as unit:
        row = work.status(unit, tenant, stream, "index")
    assert row is not None
    assert (row["leased"], row["attempts"], row["last_error"]) == (0, 0, None)
    assert row["due_at"] is not None
    assert engine.index(tenant, "before") is Outcome.DONE
    assert kept(engine, tenant)[0] == len(TEXTS)


def test_the_same_text_is_asked_for_once_in_a_tenant_and_again_in_another(engine: Engine, tenant: str) -> None:
    model, strange = Counting(), f"{tenant}-2"
    told(engine, tenant)
    told(engine, strange)
    engine.append(tenant, "fork", [event("session.forked", parent="before", at_seq=len(TEXTS) + 1)])
    drain(engine)
    engine.deps.meanings = Meanings(model)
    indexed(engine, tenant)
    model.asked.clear()
    engine.index(tenant, "fork")
    assert model.asked == []
    assert kept(engine, tenant, "fork") == (len(TEXTS), len(TEXTS))
    engine.index(strange, "before")
    assert sorted(model.asked) == sorted(TEXTS)


def test_a_prompt_makes_only_so_much_itself_says_so_and_finds_the_rest_later(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelving, "MADE", 6)
    monkeypatch.setattr(shelving, "AT_ONCE", 4)
    told(engine, tenant)
    asked = {"query": "the weather of day 7 and the beagle"}
    first, text = shown(engine, tenant, **asked)
    assert "beagle" not in text
    assert any("the rest is not indexed yet" in one for one in first["report"]["warnings"])
    assert engine.replay(tenant, first["id"])["identical"]
    indexed(engine, tenant)
    prompt, text = shown(engine, tenant, **asked)
    assert "beagle" in text
    assert not prompt["report"]["warnings"]


def test_what_is_erased_is_erased_there_too(engine: Engine, tenant: str) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    engine.append(tenant, "copy", [event("session.forked", parent="before", at_seq=len(TEXTS) + 1)])
    drain(engine)
    indexed(engine, tenant)
    engine.index(tenant, "copy")
    source = engine.events(tenant, "before")["events"][-1]["event_id"]
    engine.append(tenant, "before", [event("event.redacted", event_id=source, reason="asked")])
    assert kept(engine, tenant) == kept(engine, tenant, "copy") == (len(TEXTS) - 1, len(TEXTS) - 1)
    engine.erase(tenant, "ada", "asked")
    drain(engine)
    assert kept(engine, tenant) == kept(engine, tenant, "copy") == (0, 0)
    indexed(engine, tenant)
    assert kept(engine, tenant) == (0, 0)


def test_what_is_erased_while_the_model_thinks_about_it_is_not_kept(engine: Engine, tenant: str) -> None:
    told(engine, tenant)
    source = engine.events(tenant, "before")["events"][3]["event_id"]
    redaction = event("event.redacted", event_id=source, reason="asked")
    engine.deps.meanings = Meanings(Counting(lambda: engine.append(tenant, "before", [redaction])))
    indexed(engine, tenant)
    assert kept(engine, tenant) == (len(TEXTS) - 1, len(TEXTS) - 1)


def test_what_an_erasure_left_behind_is_found_by_verify_and_taken_away_by_a_rebuild(
    engine: Engine, tenant: str
) -> None:
    """As when one of the tables alone was restored from a backup."""
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    indexed(engine, tenant)
    source = engine.events(tenant, "before")["events"][4]["event_id"]
    stream = number(engine, tenant, "before")
    with engine.deps.database.read(tenant) as unit:
        before = unit.execute(sa.select(VECTORS).where(*of(tenant, stream), VECTORS.c.seq == 5)).mappings().one()
    engine.append(tenant, "before", [event("event.redacted", event_id=source, reason="asked")])
    drain(engine)
    assert engine.verify(tenant)["ok"]
    with engine.deps.database.write(tenant) as unit:
        unit.execute(sa.insert(VECTORS).values(dict(before)))
    (problem,) = engine.verify(tenant)["problems"]
    assert "seq 5 was erased, but recall still keeps something of it" in problem["problem"]
    assert engine.rebuild(tenant)["ok"]
    assert engine.verify(tenant)["ok"]


def of(tenant: str, stream: int) -> tuple[Any, ...]:
    return VECTORS.c.tenant == tenant, VECTORS.c.stream == stream


def test_a_rollback_hides_what_is_kept_and_rolled_back_it_shows_it_again(engine: Engine, tenant: str) -> None:
    engine.deps.meanings = Meanings(Pets())
    told(engine, tenant)
    indexed(engine, tenant)
    assert "beagle" in shown(engine, tenant)[1]
    engine.append(tenant, "before", [event("context.rolled_back", to_seq=5)])
    drain(engine)
    anew(engine, engine.deps.meanings)
    assert "beagle" not in shown(engine, tenant)[1]
    engine.append(tenant, "before", [event("context.rolled_back", to_seq=len(TEXTS) + 1)])
    drain(engine)
    assert "beagle" in shown(engine, tenant)[1]


def test_a_model_that_fails_is_asked_again_after_a_pause_and_words_are_there(engine: Engine, tenant: str) -> None:
    engine.deps.meanings = Meanings(Broken())
    told(engine, tenant)
    assert engine.index(tenant, "before") is Outcome.IDLE
    assert kept(engine, tenant) == (len(TEXTS), 0)
    assert engine.backlog(tenant)["failing"] == 1
    engine.deps.meanings = Meanings(Pets())
    indexed(engine, tenant)
    assert kept(engine, tenant) == (len(TEXTS), len(TEXTS))
    assert engine.backlog(tenant)["failing"] == 0


def test_of_a_sealed_store_terms_and_vectors_are_sealed_too(store_url: str, tenant: str) -> None:
    database = Database(store_url, sealing=Sealing(True, None))
    engine = Engine(Deps(database, meanings=Meanings(Pets())))
    told(engine, tenant)
    indexed(engine, tenant)
    with database.read(tenant) as unit:
        for table in passages.TABLES:
            rows = unit.execute(sa.select(table).where(table.c.tenant == tenant)).mappings().all()
            assert rows
            assert all(row["body"][:1] == MARK and row.get("hash") is None for row in rows)
    anew(engine, Meanings(Pets()))
    assert "beagle" in shown(engine, tenant)[1]
    database.dispose()


def test_a_rebuild_makes_the_terms_anew(engine: Engine, tenant: str) -> None:
    told(engine, tenant)
    indexed(engine, tenant)
    before, _ = shown(engine, tenant)
    engine.deps.index_after = 1
    assert engine.rebuild(tenant)["ok"]
    assert kept(engine, tenant)[0] == 0
    drain(engine)
    assert kept(engine, tenant)[0] == len(TEXTS)
    anew(engine)
    assert shown(engine, tenant)[0]["content_hash"] == before["content_hash"]


def test_a_store_of_an_older_release_is_asked_to_index_what_it_has(database_url: str) -> None:
    migrate.upgrade(database_url)
    engine = Engine(Deps(Database(database_url)))
    told(engine, "old")
    migrate.downgrade(database_url, "0011_refolds")
    migrate.upgrade(database_url)
    drain(engine)
    assert kept(engine, "old")[0] == len(TEXTS)
    assert "weather" in str(compiled(engine, "old", "now", mode="rag", query="the weather")["payload"])
    engine.deps.database.dispose()


def test_an_answer_of_any_length_is_indexed_in_small_batches(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "before", [event("session.started"), said("word " * 40_000), said(""), said("the end")])
    drain(engine)
    model = Counting()
    engine.deps.meanings = Meanings(model)
    assert engine.index(tenant, "before") is Outcome.DONE
    assert kept(engine, tenant) == (3, 3)
    assert len(model.asked) == indexing.MOST + 1
