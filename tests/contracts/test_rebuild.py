"""Rebuild and verify, as an operator uses them: new read-models beside the old ones, and findings with a way out."""

import threading
from typing import Any

import pytest
import sqlalchemy as sa
from store_histories import drain, event, said

from workers.engine import Engine, refold
from workers.engine.folds import fold_log
from workers.engine.leases import Parked
from workers.store import Database, models, streams
from workers.store.streams import StreamRow


def row_of(database: Database, tenant: str, name: str = "session/s") -> StreamRow:
    with database.read(tenant) as unit:
        found = streams.get(unit, tenant, name)
    assert found is not None
    return found


def changed(database: Database, sql: str, **params: Any) -> None:
    with database.write(params["t"]) as unit:
        unit.execute(sa.text(sql), params)


def filled(engine: Engine, tenant: str, session: str = "s") -> None:
    engine.append(tenant, session, [event("session.started", subject="ann"), event("instruction.set", role="terse")])
    engine.append(tenant, session, [said(f"turn {number} " * 20) for number in range(12)])
    engine.append(tenant, session, [event("memory.recorded", id="m1", text="likes trains")])
    drain(engine)


def compiled(engine: Engine, tenant: str, session: str = "s", **body: Any) -> dict[str, Any]:
    job = engine.request_prompt(tenant, session, {"budget": 2000, **body})
    done = engine.run_job(tenant, job["id"])
    return engine.prompt(tenant, done["prompt"])


def test_verify_names_the_tables_that_differ_and_rebuild_makes_them_right(
    engine: Engine, tenant: str, database: Database
) -> None:
    filled(engine, tenant)
    before = compiled(engine, tenant)
    changed(database, "DELETE FROM messages WHERE tenant = :t AND seq = 5", t=tenant)
    found = engine.verify(tenant, "s")["problems"]
    assert [(one["check"], one["stream"]) for one in found] == [("tables", "session/s")]
    assert "messages" in found[0]["problem"]
    assert f"python -m workers rebuild --tenant {tenant} --session s" in found[0]["hint"]

    told: list[tuple[int, int]] = []
    report = engine.rebuild(tenant, "s", lambda done, total: told.append((done, total)))
    assert (report["ok"], report["problems"]) == (True, [])
    # 14 events of the session and one of its subject; the audit stream has no read-models.
    assert (report["streams"], report["events"]) == (2, 15)
    assert sum(done for done, _ in told) == told[-1][1]
    assert engine.verify(tenant, "s")["ok"]
    assert compiled(engine, tenant, fresh=True)["content_hash"] == before["content_hash"]


def test_f74_compiles_and_appends_go_on_during_a_rebuild(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rebuild is stopped after its first chunk; what happens then must not be lost by the flip."""
    filled(engine, tenant)
    row = row_of(database, tenant)
    with database.read(tenant) as unit:
        old = models.checkpoint(unit, tenant, row.number).generation
    monkeypatch.setattr(refold, "CHUNK", 5)
    reached, go_on = threading.Event(), threading.Event()

    def progress(done: int, total: int) -> None:
        reached.set()
        assert go_on.wait(30)

    rebuilding = threading.Thread(target=engine.rebuild, args=(tenant, "s", progress))
    rebuilding.start()
    assert reached.wait(30)
    engine.append(tenant, "s", [said("said during the rebuild")])
    prompt = compiled(engine, tenant)
    with database.read(tenant) as unit:
        assert models.checkpoint(unit, tenant, row.number).generation == old
    go_on.set()
    rebuilding.join(30)

    assert prompt["payload"]["messages"][-1]["content"] == "said during the rebuild"
    with database.read(tenant) as unit:
        after = models.checkpoint(unit, tenant, row.number)
        left = unit.execute(
            sa.text("SELECT DISTINCT generation FROM messages WHERE tenant = :t AND stream = :s"),
            {"t": tenant, "s": row.number},
        )
        assert list(left.scalars()) == [after.generation]
    assert after.generation > old
    assert engine.verify(tenant, "s")["ok"]
    assert engine.replay(tenant, prompt["id"])["identical"]


def test_a_rollback_during_a_rebuild_wins(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(engine, tenant)
    monkeypatch.setattr(refold, "CHUNK", 5)
    rolled: list[int] = []

    def progress(done: int, total: int) -> None:
        if not rolled:
            rolled.append(done)
            engine.append(tenant, "s", [event("context.rolled_back", to_seq=4)])
            drain(engine)

    assert engine.rebuild(tenant, "s", progress)["ok"]
    drain(engine)
    assert engine.verify(tenant, "s")["ok"]
    assert engine.state(tenant, "s")["anchors"]["business"]["seq"] == 4


def test_b116_rows_of_an_older_fold_are_not_read_and_are_folded_anew(
    engine: Engine, tenant: str, database: Database
) -> None:
    filled(engine, tenant)
    right = compiled(engine, tenant)["content_hash"]
    row = row_of(database, tenant)
    changed(database, "UPDATE checkpoints SET fold = 0 WHERE tenant = :t AND stream = :s", t=tenant, s=row.number)
    changed(database, "DELETE FROM messages WHERE tenant = :t AND stream = :s", t=tenant, s=row.number)
    engine.deps.states.forget()
    assert compiled(engine, tenant, fresh=True)["content_hash"] == right
    report = engine.rebuild(tenant, "s", only_old=True)
    assert report["streams"] == 1
    assert engine.verify(tenant, "s")["ok"]
    assert engine.rebuild(tenant, "s", only_old=True)["streams"] == 0


def test_the_next_event_folds_rows_of_an_older_fold_anew(engine: Engine, tenant: str, database: Database) -> None:
    filled(engine, tenant)
    changed(database, "UPDATE checkpoints SET fold = 0 WHERE tenant = :t", t=tenant)
    changed(database, "DELETE FROM messages WHERE tenant = :t", t=tenant)
    engine.append(tenant, "s", [said("one more")])
    drain(engine)
    assert engine.verify(tenant, "s")["ok"]


def test_f71_an_event_that_cannot_be_folded_is_reported_and_the_live_rows_stay(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(engine, tenant)
    filled(engine, tenant, "other")
    number = row_of(database, tenant).number
    real = refold.fold_into

    def poisoned(state: Any, events: Any) -> Any:
        if any(one.event_id == victim for one in events):
            raise Parked("cannot be folded", 3)
        return real(state, events)

    victim = engine.events(tenant, "s")["events"][2]["event_id"]
    monkeypatch.setattr(refold, "fold_into", poisoned)
    report = engine.rebuild(tenant)
    assert [one["stream"] for one in report["problems"]] == ["session/s"]
    assert report["streams"] == 3
    monkeypatch.undo()
    with database.read(tenant) as unit:
        assert models.checkpoint(unit, tenant, number).seq == 14
    assert engine.verify(tenant, "s")["ok"]


def test_f73_a_rebuild_appends_nothing_and_makes_no_prompt(engine: Engine, tenant: str) -> None:
    filled(engine, tenant)
    prompt = compiled(engine, tenant)
    places = ("session", "subject", "audit")
    before = [engine.events(tenant, "s", place)["head"] for place in places]
    engine.rebuild(tenant)
    assert [engine.events(tenant, "s", place)["head"] for place in places] == before
    assert [one["id"] for one in engine.prompts(tenant, "s")["prompts"]] == [prompt["id"]]


def test_verify_finds_a_prompt_that_is_not_what_was_hashed(engine: Engine, tenant: str, database: Database) -> None:
    filled(engine, tenant)
    prompt = compiled(engine, tenant)
    changed(
        database,
        "UPDATE snapshots SET content_hash = :h WHERE tenant = :t AND id = :id",
        h="0" * 64,
        id=prompt["id"],
        t=tenant,
    )
    (found,) = engine.verify(tenant, "s")["problems"]
    assert (found["check"], prompt["id"] in found["problem"]) == ("snapshots", True)


def test_verify_finds_what_was_lost_without_a_redaction(engine: Engine, tenant: str, database: Database) -> None:
    filled(engine, tenant)
    number = row_of(database, tenant).number
    sql = "UPDATE events SET payload = NULL, salt = NULL WHERE tenant = :t AND stream = :s AND seq = 6"
    changed(database, sql, t=tenant, s=number)
    found = engine.verify(tenant, "s")["problems"]
    assert {one["check"] for one in found} == {"tables", "erasure"}
    assert any("seq 6" in one["problem"] and "backup" in one["hint"] for one in found)


def test_the_log_folds_the_same_after_a_rebuild(engine: Engine, tenant: str, database: Database) -> None:
    filled(engine, tenant)
    row = row_of(database, tenant)
    engine.rebuild(tenant)
    with database.read(tenant) as unit:
        generation = models.checkpoint(unit, tenant, row.number).generation
        assert models.load_all(unit, tenant, row.number, generation) == fold_log(unit, tenant, row.number, row.head)


def test_f72_an_event_that_is_skipped_is_noted_and_a_rebuild_notes_it_again(
    engine: Engine, tenant: str, database: Database
) -> None:
    filled(engine, tenant)
    engine.append(tenant, "s", [event("weather.changed", to="rain"), said("and now?")])
    drain(engine)
    before = compiled(engine, tenant)
    row = row_of(database, tenant)
    with database.read(tenant) as unit:
        notes = fold_log(unit, tenant, row.number, row.head).tables["notices"]
    assert notes["unknown:weather.changed"].seq == row.head - 1
    assert engine.verify(tenant, "s")["ok"], "the tables note it as the log does"
    assert engine.rebuild(tenant, "s")["problems"] == []
    assert engine.verify(tenant, "s")["ok"]
    assert engine.replay(tenant, before["id"])["identical"]
