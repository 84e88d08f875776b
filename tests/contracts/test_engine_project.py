"""Projection: the tables hold what the log folds to, whatever is repeated, interleaved, interrupted or rolled back."""

import threading
import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_histories import append_valid, drain, event, histories, said, with_causes

from domain.errors import StoreUnavailable
from domain.state import ContextState
from workers.engine import Engine, Outcome, project
from workers.engine.folds import fold_log
from workers.engine.project import catch_up
from workers.store import Database, models, streams, work
from workers.store.streams import StreamRow

shared_fixtures = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def row_of(database: Database, tenant: str, name: str = "session/s") -> StreamRow:
    with database.read(tenant) as unit:
        found = streams.get(unit, tenant, name)
    assert found is not None
    return found


def both_states(database: Database, tenant: str, name: str = "session/s") -> tuple[ContextState, ContextState]:
    """What the tables hold, and what the log folds to."""
    row = row_of(database, tenant, name)
    with database.read(tenant) as unit:
        checkpoint = models.checkpoint(unit, tenant, row.number)
        assert checkpoint.seq == row.head
        held = models.load_all(unit, tenant, row.number, checkpoint.generation)
        return held, fold_log(unit, tenant, row.number, row.head)


@shared_fixtures
@given(
    history=histories,
    picks=st.lists(st.integers(0, 1000), min_size=25, max_size=25),
    sizes=st.lists(st.integers(1, 6), min_size=25, max_size=25),
    orders=st.lists(st.sampled_from(["append", "project", "again", "sweep", "forget"]), min_size=60, max_size=60),
)
def test_inv9_the_tables_hold_what_the_log_folds_to(
    engine: Engine, database: Database, history: list[Any], picks: list[int], sizes: list[int], orders: list[str]
) -> None:
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    waiting = with_causes(history, picks)
    done: list[Any] = []
    for order, size in zip(orders, sizes * 3, strict=False):
        if order == "append" and waiting:
            batch, waiting = waiting[:size], waiting[size:]
            done += append_valid(engine, tenant, "s", batch)
        elif order == "again" and done:
            engine.append(tenant, "s", done[-size:])
        elif order == "project":
            engine.project(tenant, "session/s")
        elif order == "forget":
            engine.deps.states.forget()
        else:
            engine.sweep()
    append_valid(engine, tenant, "s", [*waiting, said("the end")])
    drain(engine)
    drain(engine)
    for name in ("session/s", "subject/session:s", "tenant/shared"):
        with database.read(tenant) as unit:
            if streams.get(unit, tenant, name) is None:
                continue
        held, folded = both_states(database, tenant, name)
        assert held == folded
    assert engine.verify(tenant, "s")["ok"]


def test_nothing_is_due_once_all_is_projected(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said("a"), event("profile.set", key="k", value=1)])
    drain(engine)
    row = row_of(database, tenant)
    with database.read(tenant) as unit:
        status = work.status(unit, tenant, row.number, "project")
    assert status is not None
    assert (status["due_at"], status["leased"], status["done_seq"]) == (None, 0, 1)
    assert engine.project(tenant, "session/s") is Outcome.IDLE


def test_a_long_backlog_is_projected_in_batches(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said(str(number)) for number in range(project.BATCH * 2 + 1)])
    drain(engine)
    held, folded = both_states(database, tenant)
    assert held == folded
    assert held.progress.messages == project.BATCH * 2 + 1


def test_f11_of_workers_that_come_at_once_one_gets_the_claim(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = row_of(database, tenant).number
    barrier = threading.Barrier(4)
    claims = []

    def claim() -> None:
        barrier.wait()
        with database.write(tenant) as unit:
            claims.append(work.claim(unit, tenant, stream, "project"))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in claims if one is not None]) == 1


def test_f79_a_worker_that_lost_its_lease_writes_nothing(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = row_of(database, tenant).number
    with database.write(tenant) as unit:
        slow = work.claim(unit, tenant, stream, "project")
    assert slow is not None
    assert project.project(engine.deps, tenant, stream) is Outcome.IDLE
    assert project.project(engine.deps, tenant, stream, patience=0) is Outcome.DONE
    with database.write(tenant) as unit:
        assert not work.keep(unit, slow, 1)
        assert work.settle(unit, slow, 1) is None
        assert not work.fail(unit, slow, {"message": "late"}, park=True)


def test_f09_work_of_a_dead_worker_is_due_when_its_lease_ends(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = row_of(database, tenant).number
    with database.write(tenant) as unit:
        assert work.claim(unit, tenant, stream, "project") is not None
    drain(engine)
    with database.read(tenant) as unit:
        assert models.checkpoint(unit, tenant, stream).seq == 0
    with database.write(tenant) as unit:  # the lease ends
        unit.execute(sa.text("UPDATE work SET due_at = 1 WHERE tenant = :tenant"), {"tenant": tenant})
    drain(engine)
    held, folded = both_states(database, tenant)
    assert held == folded


def test_an_append_during_a_projection_is_due_again(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = row_of(database, tenant).number
    with database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, stream, "project")
    assert claimed is not None
    engine.append(tenant, "s", [said("b")])
    with database.write(tenant) as unit:
        assert work.settle(unit, claimed, 1) == 2
        assert any(one.stream == stream for one in work.due(unit, 1000))


def test_f10_work_that_never_ends_is_parked(engine: Engine, tenant: str, database: Database) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = row_of(database, tenant).number
    for _ in range(work.MAX_ATTEMPTS):
        with database.write(tenant) as unit:
            assert work.claim(unit, tenant, stream, "project", patience=0) is not None
    project.project(engine.deps, tenant, stream, patience=0)
    with database.write(tenant) as unit:
        status = work.status(unit, tenant, stream, "project")
        assert status is not None
        assert status["parked"]
        assert "attempts" in status["last_error"]["message"]
        assert len(work.unpark(unit, tenant)) == 1
    drain(engine)
    held, folded = both_states(database, tenant)
    assert held == folded


def test_f71_an_event_that_cannot_be_folded_parks_its_stream_alone(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.engine import folding

    real = folding.changes

    def poisoned(state: Any, one: Any) -> Any:
        if one.kind == "custom.poison":
            raise ValueError("boom")
        return real(state, one)

    monkeypatch.setattr(folding, "changes", poisoned)
    engine.append(tenant, "s", [said("a"), event("custom.poison"), said("b")])
    engine.append(tenant, "other", [said("a")])
    drain(engine)
    row = row_of(database, tenant)
    with database.read(tenant) as unit:
        status = work.status(unit, tenant, row.number, "project")
        assert models.checkpoint(unit, tenant, row.number).seq == 1
        assert models.checkpoint(unit, tenant, row_of(database, tenant, "session/other").number).seq == 1
    assert status is not None
    assert status["parked"]
    assert status["last_error"]["seq"] == 2
    with pytest.raises(StoreUnavailable, match="parked"):
        catch_up(engine.deps, tenant, row.number, 3)
    assert engine.health()["parked"] >= 1
    monkeypatch.undo()
    with database.write(tenant) as unit:
        work.unpark(unit, tenant)
    drain(engine)
    held, folded = both_states(database, tenant)
    assert held == folded


def test_f46_a_gap_is_corruption_and_never_waited_out(sqlite_url: str, tenant: str) -> None:
    from workers.engine import Deps
    from workers.store import migrate

    migrate.upgrade(sqlite_url)
    database = Database(sqlite_url)
    engine = Engine(Deps(database))
    engine.append(tenant, "s", [said("a"), said("b"), said("c")])
    with database.write(tenant) as unit:
        unit.execute(sa.text("DROP TRIGGER events_delete"))
        unit.execute(sa.text("DELETE FROM events WHERE seq = 2"))
    drain(engine)
    row = row_of(database, tenant)
    with database.read(tenant) as unit:
        status = work.status(unit, tenant, row.number, "project")
    assert status is not None
    assert status["parked"]
    assert status["last_error"]["seq"] == 2


def test_erased_content_leaves_the_tables(engine: Engine, tenant: str, database: Database) -> None:
    secret = said("my secret 7f3a")
    engine.append(tenant, "s", [said("a"), secret, event("profile.set", key="k", value="my secret 7f3b")])
    drain(engine)
    routed = engine.events(tenant, "s", "subject")["events"][0]
    for erased in (secret["event_id"], routed["event_id"]):
        engine.append(tenant, "s", [event("event.redacted", event_id=erased)])
    drain(engine)
    for name in ("session/s", "subject/session:s"):
        held, folded = both_states(database, tenant, name)
        assert held == folded
        assert "my secret" not in repr(held.tables)
    with database.read(tenant) as unit:
        for table, column in (("rows", "body"), ("messages", "body"), ("events", "payload")):
            found = unit.execute(sa.text(f"SELECT {column} FROM {table} WHERE tenant = '{tenant}'"))
            assert not any(b"my secret" in bytes(body) for (body,) in found if body)


def test_f74_readers_see_the_old_generation_until_the_new_one_is_whole(
    engine: Engine, tenant: str, database: Database
) -> None:
    engine.append(tenant, "s", [said("a"), said("b"), said("c")])
    drain(engine)
    row = row_of(database, tenant)
    with database.read(tenant) as unit:
        before = models.checkpoint(unit, tenant, row.number)
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=1)])
    with database.read(tenant) as unit:
        assert models.load_all(unit, tenant, row.number, before.generation).progress.messages == 3
    drain(engine)
    with database.read(tenant) as unit:
        after = models.checkpoint(unit, tenant, row.number)
        assert models.load_all(unit, tenant, row.number, after.generation).progress.messages == 1
        assert models.load_all(unit, tenant, row.number, before.generation) == ContextState()
    assert (after.generation, after.seq) == (before.generation + 1, 4)


def test_a_projection_that_yields_before_the_end_is_taken_up_again(
    engine: Engine, database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "YIELD_AFTER", -1.0)
    for batch in range(2):
        engine.append(tenant, "s", [event("user.input", content=f"{batch} {at}") for at in range(project.BATCH)])
    outcome = engine.project(tenant, "session/s")
    assert outcome is Outcome.MORE
    drain(engine)
    held, folded = both_states(database, tenant)
    assert held == folded
