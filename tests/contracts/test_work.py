"""Work rows: the most urgent first, leases that end, pauses that are kept; what stops is seen and taken up again."""

from collections.abc import Iterator

import httpx2
import pytest
import sqlalchemy as sa
from store_histories import drain, event, said

from domain.errors import UnknownSession
from workers import faults
from workers.dispatch import Sweeper, Threads
from workers.engine import Deps, Engine, Outcome, project
from workers.store import EVERY, Database, streams, work
from workers.store.work import Claim

pytest_plugins = ["api_server"]


@pytest.fixture
def fault() -> Iterator[None]:
    """Whatever fault a test arms is off again after it."""
    yield
    faults.arm(None)


def stream_of(database: Database, tenant: str, session: str = "s") -> int:
    with database.read(tenant) as unit:
        row = streams.get(unit, tenant, f"session/{session}")
    assert row is not None
    return row.number


def claimed(database: Database, tenant: str, stream: int, patience: int | None = None) -> Claim | None:
    with database.write(tenant) as unit:
        return work.claim(unit, tenant, stream, "project", patience=patience)


def status(database: Database, tenant: str, stream: int, kind: str = "project") -> dict[str, object]:
    with database.read(tenant) as unit:
        found = work.status(unit, tenant, stream, kind)
    assert found is not None
    return found


def change(database: Database, tenant: str, what: str) -> None:
    """As if time had passed, or a clock had jumped."""
    with database.write(tenant) as unit:
        unit.execute(sa.text(f"UPDATE work SET {what} WHERE tenant = :tenant"), {"tenant": tenant})


# --- order ------------------------------------------------------------------------------------------------------------


def test_prompts_come_before_projections_and_the_longest_waiting_first(
    engine: Engine, database: Database, tenant: str
) -> None:
    for session in ("a", "b", "c"):
        engine.append(tenant, session, [said("x")])
    engine.request_prompt(tenant, "c", {})
    with database.read(EVERY) as unit:
        found = [(one.stream_id, one.kind) for one in work.due(unit, 100_000) if one.tenant == tenant]
    assert found == [
        ("session/c", "compile"),
        ("session/a", "project"),
        ("session/b", "project"),
        ("session/c", "project"),
    ]


def test_a_sweep_takes_what_is_urgent_when_it_cannot_take_all(sqlite_url: str, tenant: str) -> None:
    from workers.store import migrate

    migrate.upgrade(sqlite_url)
    engine = Engine(Deps(Database(sqlite_url)))
    for number in range(5):
        engine.append(tenant, f"s{number}", [said("x")])
    job = engine.request_prompt(tenant, "s4", {})
    assert engine.sweep(limit=1) == 1
    assert engine.job(tenant, job["id"])["status"] == "done"


def test_f67_a_thousand_appends_leave_one_row_for_each_stream_and_kind(
    engine: Engine, database: Database, tenant: str
) -> None:
    for number in range(20):
        engine.append(tenant, f"s{number % 2}", [said(str(at)) for at in range(50)])
        drain(engine)
    with database.read(tenant) as unit:
        rows = unit.execute(sa.text("SELECT kind, stream FROM work WHERE tenant = :tenant"), {"tenant": tenant})
        assert len(rows.fetchall()) == 2


# --- leases -----------------------------------------------------------------------------------------------------------


def test_a_lease_is_taken_over_from_a_holder_without_progress_only(
    engine: Engine, database: Database, tenant: str
) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = stream_of(database, tenant)
    assert claimed(database, tenant, stream) is not None
    assert claimed(database, tenant, stream) is None
    assert claimed(database, tenant, stream, patience=30_000_000) is None
    change(database, tenant, "due_at = due_at - 31000000")
    assert claimed(database, tenant, stream, patience=30_000_000) is not None


@pytest.mark.parametrize("broken", ["project.read:raise@3", "refold.flipped:raise"])
def test_f09_work_given_up_beyond_what_it_was_told_of_is_taken_up_again(
    engine: Engine, database: Database, tenant: str, fault: None, broken: str
) -> None:
    """A row that waits is not told of what comes meanwhile; whoever works on it goes to the head all the same."""
    for _ in range(3):
        engine.append(tenant, "s", [said(str(number)) for number in range(150)])
    if broken.startswith("refold"):
        engine.append(tenant, "s", [event("context.rolled_back", to_seq=1)])
    stream = stream_of(database, tenant)
    faults.arm(broken)
    engine.project(tenant, "session/s")
    faults.arm(None)
    assert int(str(status(database, tenant, stream)["done_seq"])) > 150
    change(database, tenant, "leased = 1, due_at = 1")  # as if it had died instead, and its lease had ended
    drain(engine)
    assert engine.backlog(tenant)["open"] == 0
    assert engine.verify(tenant)["ok"]


def test_a_pause_after_a_failure_is_kept_by_those_who_wait_too(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = stream_of(database, tenant)
    held = claimed(database, tenant, stream)
    assert held is not None
    assert (engine.backlog(tenant)["at_work"], engine.backlog(tenant)["due"]) == (1, 0)
    with database.write(tenant) as unit:
        assert work.fail(unit, held, {"message": "not now"}, park=False)
    change(database, tenant, "due_at = due_at + 20000000")
    assert claimed(database, tenant, stream, patience=0) is None
    assert engine.backlog(tenant) | {"streams": []} == {
        "due": 0, "oldest_due_seconds": 0.0, "open": 1, "at_work": 0, "failing": 1, "parked": 0, "streams": [],
    }  # fmt: skip


def test_attempts_count_from_the_last_progress(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("a"), said("b")])
    stream = stream_of(database, tenant)
    for _ in range(work.MAX_ATTEMPTS):
        held = claimed(database, tenant, stream, patience=0)
    assert held is not None
    with database.write(tenant) as unit:
        assert work.keep(unit, held, 0)
    assert status(database, tenant, stream)["attempts"] == work.MAX_ATTEMPTS
    with database.write(tenant) as unit:
        assert work.keep(unit, held, 1)
    assert status(database, tenant, stream)["attempts"] == 1


def test_a_clock_that_goes_back_a_day_stops_nothing(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    change(database, tenant, "due_at = due_at + 86400000000")
    drain(engine)
    assert engine.backlog(tenant)["open"] == 0
    assert engine.verify(tenant)["ok"]


def test_a_clock_that_goes_forward_a_day_lets_nothing_happen_twice(
    engine: Engine, database: Database, tenant: str
) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = stream_of(database, tenant)
    slow = claimed(database, tenant, stream)
    assert slow is not None
    change(database, tenant, "due_at = due_at - 86400000000")
    drain(engine)
    with database.write(tenant) as unit:
        assert work.settle(unit, slow, 1) is None
    assert engine.verify(tenant)["ok"]


# --- failures ---------------------------------------------------------------------------------------------------------


def test_f21_what_fails_comes_back_after_a_pause_and_says_why(
    engine: Engine, database: Database, tenant: str, fault: None
) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = stream_of(database, tenant)
    faults.arm("project.read:raise")
    assert project.project(engine.deps, tenant, stream) is Outcome.IDLE
    seen = status(database, tenant, stream)
    assert (seen["attempts"], seen["parked"]) == (1, False)
    assert "workers.faults.Fault at " in str(seen["last_error"])
    assert project.project(engine.deps, tenant, stream) is Outcome.IDLE, "it is in its pause"
    change(database, tenant, "due_at = 1")
    drain(engine)
    seen = status(database, tenant, stream)
    assert (seen["attempts"], seen["last_error"], seen["due_at"]) == (0, None, None)


def test_the_pause_doubles_up_to_a_minute(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("a")])
    stream = stream_of(database, tenant)
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        held = claimed(database, tenant, stream, patience=0)
        assert held is not None
        with database.write(tenant) as unit:
            before = unit.now()
            assert work.fail(unit, held, {"message": "not now"}, park=False)
            after = unit.now()
        due_at = int(str(status(database, tenant, stream)["due_at"]))
        assert before + seconds * 1_000_000 <= due_at <= after + seconds * 1_000_000
        change(database, tenant, "due_at = 1")


def parked(engine: Engine, database: Database, tenant: str, session: str) -> None:
    engine.append(tenant, session, [said("a"), said("b")])
    for _ in range(work.MAX_ATTEMPTS):
        faults.arm("project.read:raise")
        change(database, tenant, "due_at = 1")
        project.project(engine.deps, tenant, stream_of(database, tenant, session))
    faults.arm(None)


def test_f71_parked_work_is_shown_with_its_error_and_taken_up_again(
    engine: Engine, database: Database, tenant: str, fault: None
) -> None:
    parked(engine, database, tenant, "bad")
    engine.append(tenant, "good", [said("a")])
    drain(engine)
    seen = engine.backlog(tenant)
    assert (seen["parked"], seen["open"]) == (1, 0)
    assert (seen["streams"][0]["stream"], seen["streams"][0]["kind"]) == ("session/bad", "project")
    assert "workers.faults.Fault at " in seen["streams"][0]["reason"]
    engine.append(tenant, "bad", [said("c")])
    drain(engine)
    assert engine.backlog(tenant)["parked"] == 1, "an append does not take it up"
    assert engine.retry(tenant, "good") == 0
    assert engine.retry(tenant, "bad") == 1
    drain(engine)
    assert engine.backlog(tenant) == {
        "due": 0, "oldest_due_seconds": 0.0, "open": 0, "at_work": 0, "failing": 0, "parked": 0, "streams": [],
    }  # fmt: skip
    assert engine.verify(tenant)["ok"]


def test_nobody_takes_up_the_work_of_another_tenant(
    engine: Engine, database: Database, tenant: str, fault: None
) -> None:
    parked(engine, database, tenant, "bad")
    engine.append(f"{tenant}-other", "bad", [said("a")])
    assert engine.backlog(f"{tenant}-other")["streams"] == []
    assert engine.retry(f"{tenant}-other", "bad") == 0
    assert engine.retry(f"{tenant}-other") == 0
    with pytest.raises(UnknownSession):
        engine.retry(tenant, "nothing")
    assert engine.retry(tenant) == 1


def test_parked_work_is_seen_and_taken_up_again_over_http(http: httpx2.Client) -> None:
    http.post("/v1/sessions/s/events", content=b'{"kind": "user.input", "payload": {"content": "hi"}}')
    assert http.get("/v1/work").json()["parked"] == 0
    assert http.post("/v1/work/retry").json() == {"retried": 0}
    assert http.post("/v1/work/retry", params={"session": "s"}).json() == {"retried": 0}
    assert http.post("/v1/work/retry", params={"session": "nobody"}).status_code == 404


# --- who does it ------------------------------------------------------------------------------------------------------


def test_a_sweeper_hands_over_what_is_due_and_the_most_urgent_is_done_first(
    engine: Engine, database: Database, tenant: str
) -> None:
    engine.append(tenant, "s", [event("user.input", content="x")])
    job = engine.request_prompt(tenant, "s", {})
    threads = Threads(threads=1, every=(1e6, 1e6))
    deps = Deps(database, threads)
    threads.start(deps)
    assert Engine(deps).wait_job(tenant, job["id"], 60)["status"] == "done"
    threads.close()


def test_a_sweeper_of_some_kinds_leaves_the_others(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said("x")])
    job = engine.request_prompt(tenant, "s", {})
    sweeper = Sweeper(engine.deps, (1e6, 1e6), kinds=("compile",))
    sweeper.start()
    assert engine.wait_job(tenant, job["id"], 60)["status"] == "done"
    sweeper.close()
    engine.append(tenant, "s", [said("y")])
    again = Sweeper(engine.deps, (1e6, 1e6), kinds=("summarize", "maintenance"))
    again.start()
    again.close()
    assert engine.backlog(tenant)["due"] == 1
