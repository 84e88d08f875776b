"""Payloads sealed with a key of their subject: read as before while it is there, by nobody once it is gone."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from store_histories import drain, event, said
from test_erase_subject import filled
from test_erasure import SECRET, compiled, everything

from domain.errors import SnapshotRedacted, StoreUnavailable
from workers.engine import Deps, Engine
from workers.store import Database, migrate
from workers.store.sealing import Sealing

Json = dict[str, Any]
LONG = f"{SECRET}, and a prompt names a text as long as this by its place in the log. " * 4
MASTER = "m" * 32


@pytest.fixture(params=[None, MASTER], ids=["plain keys", "wrapped keys"])
def sealed(store_url: str, request: pytest.FixtureRequest) -> Iterator[Engine]:
    database = Database(store_url, sealing=Sealing(True, request.param))
    engine = Engine(Deps(database))
    yield engine
    drain(engine)  # or other tests would meet work whose keys they cannot unwrap
    database.dispose()


def rows_of(engine: Engine, tenant: str, table: str) -> list[Any]:
    with engine.deps.database.read(tenant) as unit:
        query = sa.text(f"SELECT * FROM {table} WHERE tenant = :t ORDER BY 1, 2, 3")
        return [tuple(row) for row in unit.execute(query, {"t": tenant})]


def logged(engine: Engine, tenant: str) -> bytes:
    return b"\n".join(one for row in rows_of(engine, tenant, "events") for one in row if isinstance(one, bytes))


def told(engine: Engine, tenant: str, session: str = "s", place: str = "session") -> list[Json]:
    found: list[Json] = engine.events(tenant, session, place, 0, 1000)["events"]
    return found


def lose_keys(engine: Engine, tenant: str) -> None:
    """As in a backup whose key table is kept apart, restored after the key was deleted."""
    with engine.deps.database.write(tenant) as unit:
        unit.execute(sa.text("DELETE FROM subject_keys WHERE tenant = :t"), {"t": tenant})
    engine.deps.states.forget()
    engine.deps.folds.forget()


def history() -> list[Json]:
    return [
        event("session.started", subject="ann", mode="react"),
        event("instruction.set", role=f"You know: {SECRET}."),
        event("constraint.set", id="c", level="block", text=SECRET),
        *(said(f"{number}: {LONG}") for number in range(40)),
        event("plan.updated", task_id="t", phase=SECRET),
        event("profile.set", key="phone", value=SECRET),
    ]


def test_a_sealed_log_says_the_same_and_holds_no_plain_text(sealed: Engine, engine: Engine, tenant: str) -> None:
    events, plain = history(), f"{tenant}-plain"
    for one, name in ((sealed, tenant), (engine, plain)):
        one.append(name, "s", events)
        drain(one)
    assert SECRET.encode() not in logged(sealed, tenant)
    assert SECRET.encode() in logged(sealed, plain)
    for place in ("session", "subject"):
        here, there = told(sealed, tenant, place=place), told(engine, plain, place=place)
        assert [one["payload"] for one in here] == [one["payload"] for one in there]
    first = compiled(sealed, tenant, query="phone")
    assert first["content_hash"] == compiled(engine, plain, query="phone")["content_hash"]
    assert sealed.replay(tenant, first["id"])["identical"]
    assert sealed.stats(tenant, "s")
    sealed.rebuild(tenant)
    assert sealed.verify(tenant)["ok"]


def test_the_same_events_again_are_known(sealed: Engine, tenant: str) -> None:
    events = history()
    sealed.append(tenant, "s", events)
    again = sealed.append(tenant, "s", events)["events"]
    assert all(one["duplicate"] for one in again)
    assert sealed.append(tenant, "s", events[3:4])["events"][0]["duplicate"]


def test_erasing_a_subject_deletes_its_key_and_nobody_elses(sealed: Engine, tenant: str) -> None:
    prompts = filled(sealed, tenant)
    before = {row[2]: row[1] for row in rows_of(sealed, tenant, "subject_keys")}
    assert {"ann", "bob"} <= before.keys()
    sealed.erase(tenant, "ann", "asked for")
    drain(sealed)
    after = {row[2]: row[1] for row in rows_of(sealed, tenant, "subject_keys")}
    assert "ann" not in after
    assert after["bob"] == before["bob"]
    assert SECRET not in everything(sealed.deps.database, tenant)
    assert sealed.verify(tenant)["ok"]
    for name in ("ann-1", "ann-2", "helper"):
        with pytest.raises(SnapshotRedacted):
            sealed.replay(tenant, prompts[name]["id"])
    sealed.append(tenant, "ann-1", [said("hello again")])
    drain(sealed)
    assert compiled(sealed, tenant, "ann-1")["payload"]["messages"][-1]["content"] == "hello again"
    assert "ann" in {row[2] for row in rows_of(sealed, tenant, "subject_keys")}, "under a new key"


def test_without_the_key_events_are_tombstones_and_the_chain_still_verifies(sealed: Engine, tenant: str) -> None:
    """What an old backup is after the erasure, when its key table was kept apart from it."""
    sealed.append(tenant, "s", history())
    drain(sealed)
    asked = sealed.request_prompt(tenant, "s", {"budget": 4000})
    prompt = sealed.run_job(tenant, asked["id"])["prompt"]
    lose_keys(sealed, tenant)
    everyone = [*told(sealed, tenant), *told(sealed, tenant, place="subject")]
    assert all(one["payload"] is None and one["redacted"] for one in everyone)
    with pytest.raises(SnapshotRedacted):
        sealed.prompt(tenant, prompt)
    with pytest.raises(SnapshotRedacted):
        sealed.replay(tenant, prompt)
    assert sealed.rebuild(tenant)["ok"]
    found = sealed.verify(tenant)["problems"]
    assert {one["check"] for one in found if one["stream"] != "audit/s"} <= {"keys", "snapshots"}
    assert "chain" not in {one["check"] for one in found}
    assert any("subject_keys" in one["hint"] for one in found if one["check"] == "keys")
    assert SECRET not in str(sealed.state(tenant, "s"))
    sealed.append(tenant, "s", [said("hello again")])
    drain(sealed)
    assert compiled(sealed, tenant)["payload"]["messages"][-1]["content"] == "hello again"
    sealed.erase(tenant, "ann", "again, after the restore")
    drain(sealed)
    assert SECRET not in everything(sealed.deps.database, tenant)
    assert SECRET not in str(compiled(sealed, tenant))
    report = sealed.verify(tenant)
    assert report["ok"], report["problems"]


def test_a_fork_goes_with_the_key_of_its_original_whoever_it_belongs_to(sealed: Engine, tenant: str) -> None:
    sealed.append(tenant, "s", history())
    sealed.append(tenant, "mine", [event("session.forked", parent="s", at_seq=10)])
    sealed.append(tenant, "mine", [event("session.started", subject="bob"), said("hello")])
    drain(sealed)
    assert SECRET in str(told(sealed, tenant, "mine"))
    with sealed.deps.database.write(tenant) as unit:
        unit.execute(sa.text("DELETE FROM subject_keys WHERE tenant = :t AND subject = 'ann'"), {"t": tenant})
    left = [one["payload"] for one in told(sealed, tenant, "mine") if one["payload"] is not None]
    assert SECRET not in str(left)
    assert "hello" in str(left)


def test_what_was_changed_under_its_seal_is_found(sqlite_url: str, tenant: str) -> None:
    migrate.upgrade(sqlite_url)
    engine = Engine(Deps(Database(sqlite_url, sealing=Sealing(True))))
    engine.append(tenant, "s", [said(SECRET)])
    with engine.deps.database.write(tenant) as unit:
        unit.execute(sa.text("DROP TRIGGER events_update"))
        stored = bytes(unit.execute(sa.text("SELECT payload FROM events")).scalar_one())
        changed = stored[:-1] + bytes([stored[-1] ^ 1])
        unit.execute(sa.text("UPDATE events SET payload = :changed"), {"changed": changed})
    (problem,) = engine.verify(tenant)["problems"]
    assert (problem["check"], problem["problem"]) == ("chain", "the payload of seq 1 was changed")


def test_another_master_key_is_an_error_and_no_erasure(store_url: str, tenant: str) -> None:
    right = Engine(Deps(Database(store_url, sealing=Sealing(True, MASTER))))
    right.append(tenant, "s", [said(SECRET)])
    drain(right)
    for master, told_so in (("n" * 32, "is not the one"), (None, "set PROMPTCTX_MASTER_KEY")):
        other = Engine(Deps(Database(store_url, sealing=Sealing(False, master))))
        with pytest.raises(StoreUnavailable, match=told_so):
            other.events(tenant, "s")
