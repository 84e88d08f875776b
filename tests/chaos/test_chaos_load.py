"""Rings that are lost, doubled and shuffled, writers that meet on one stream, clocks that jump, workers that die."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chaos_load import Load
from chaos_world import Agents, check, drained, observer
from private_servers import DEADLINE, until
from worker_process import on_celery, working

from workers.engine import Engine
from workers.settings import load_settings
from workers.store import EVERY, streams, work

TURNS = 6


def test_f49_f58_four_writers_on_one_stream_and_forty_streams(
    agents: Agents, store_url: str, tenant: str, tmp_path: Path
) -> None:
    settings = load_settings(database_url=store_url, dispatcher="thread", lease_seconds=5)
    writers, rest = ("", "-b", "-c", "-d"), [f"s{number}" for number in range(40)]
    journals = [tmp_path / f"journal-{place}" for place in range(4)]
    started = [
        agents.start(settings, tenant, ["shared"], TURNS, journal, writer=writer, asks=writer == "")
        for writer, journal in zip(writers, journals, strict=True)
    ]
    others = [tmp_path / f"others-{place}" for place in range(2)]
    started += [agents.start(settings, tenant, rest[place::2], 2, journal) for place, journal in enumerate(others)]
    assert [agents.ended(agent) for agent in started] == [0] * 6
    engine = observer(settings)
    drained(engine, tenant, sweep=True)
    whole = tmp_path / "shared"
    whole.write_text("".join(journal.read_text() for journal in journals))
    assert check(engine, tenant, whole, TURNS, writers=writers)["acknowledged"] == 4 * TURNS + TURNS
    whole.write_text("".join(journal.read_text() for journal in others))
    assert check(engine, tenant, whole, 2)["sessions"] == 40


def test_a_clock_that_jumps_by_a_day_at_every_look_changes_no_prompt(
    agents: Agents, store_url: str, tmp_path: Path
) -> None:
    settings = load_settings(database_url=store_url, dispatcher="thread", lease_seconds=1)
    load = Load(agents, settings, tmp_path, sessions=6, workers=0, writers=2, more={"clock": 7})
    load.run([(share, partial(_jump, days=days)) for share, days in ((0.2, -1), (0.4, 1), (0.6, -1))])


def _jump(load: Load, days: int) -> None:
    """The database's clock is set: every time in the work table is now so much later, or so much earlier."""
    from sqlalchemy import text

    database = observer(load.settings).deps.database
    with database.write(EVERY) as unit:
        unit.execute(text(f"UPDATE work SET due_at = due_at - ({days} * 86400000000) WHERE due_at IS NOT NULL"))
    database.dispose()


@pytest.mark.parametrize("broker", ["private_redis", "private_rabbit"])
def test_f03_f13_rings_lost_doubled_and_shuffled_change_nothing(
    request: pytest.FixtureRequest, agents: Agents, store_url: str, tmp_path: Path, broker: str
) -> None:
    url = request.getfixturevalue(broker).url
    with on_celery(url, store_url) as settings:
        Load(agents, settings, tmp_path, sessions=6, more={"mischief": 11}).run([(0.5, Load.kill_a_child)])


@pytest.mark.parametrize("point", ["project.after_rows", "compile.after_snapshot"])
def test_f09_a_worker_killed_inside_a_transaction_is_followed_by_another(
    private_redis: Any, agents: Agents, store_url: str, tenant: str, journal: Path, point: str
) -> None:
    with on_celery(private_redis.url, store_url) as settings:
        writing = agents.start(settings, tenant, ["s"], TURNS, journal)
        with working(settings, "--pool=solo", PROMPTCTX_FAULT=f"{point}:kill") as dying:
            assert dying.wait(DEADLINE) == -signal.SIGKILL
        with working(settings, "--pool=solo"):
            assert agents.ended(writing) == 0
            engine = observer(settings)
            drained(engine, tenant, sweep=False)
        assert check(engine, tenant, journal, TURNS)["prompts"] == TURNS


def test_f10_work_that_always_kills_its_process_is_parked_and_taken_up_again(
    private_redis: Any, agents: Agents, sqlite_url: str, tenant: str, journal: Path
) -> None:
    from workers.store import migrate

    migrate.upgrade(sqlite_url)
    with on_celery(private_redis.url, sqlite_url, lease_seconds=1) as settings:
        assert agents.ended(agents.start(settings, tenant, ["s"], 1, journal, asks=False)) == 0
        engine = observer(settings)
        with working(settings, "--concurrency=1", PROMPTCTX_FAULT="project.folded:kill") as process:
            until(lambda: engine.backlog(tenant)["parked"] == 1, "the work is parked")
            assert process.poll() is None
        assert "attempts" in engine.backlog(tenant)["streams"][0]["reason"]
        assert _attempts(engine, tenant) > work.MAX_ATTEMPTS
        assert engine.retry(tenant) == 1
        drained(engine, tenant, sweep=True)
        check(engine, tenant, journal, 1)


def _attempts(engine: Engine, tenant: str) -> int:
    with engine.deps.database.read(tenant) as unit:
        row = streams.get(unit, tenant, "session/s")
        status = work.status(unit, tenant, row.number, "project") if row else None
    assert status is not None
    return int(status["attempts"])
