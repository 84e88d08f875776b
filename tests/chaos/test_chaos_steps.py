"""kill -9 at each numbered step: nothing acknowledged is lost, nothing happens twice, prompts are as ever."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos_world import Agents, check, drained, observer
from private_servers import until

from workers import faults
from workers.settings import load_settings

TURNS = 6
BOTH_STORES = (
    "append.after_head", "append.committed", "request.after_job", "project.after_rows", "project.committed",
    "refold.before_flip", "compile.claimed", "compile.after_snapshot", "compile.committed",
)  # fmt: skip
"""One step inside of each transaction and one behind it. What a step leaves undone is the same on every store: the
others are tried on SQLite, and on PostgreSQL in `make chaos`."""


def _everywhere() -> Iterator[Any]:
    for store in ("sqlite", "postgresql"):
        for point in faults.POINTS:
            rare = store == "postgresql" and point not in BOTH_STORES
            yield pytest.param(store, point, marks=[pytest.mark.rare] if rare else [])


@pytest.mark.parametrize(("store_url", "point"), list(_everywhere()), indirect=["store_url"])
def test_f02_f09_f50_a_process_killed_at_any_step_is_followed_by_another(
    agents: Agents, store_url: str, tenant: str, journal: Path, point: str
) -> None:
    settings = load_settings(database_url=store_url, dispatcher="inline", lease_seconds=1)
    killed = agents.start(settings, tenant, ["s"], TURNS, journal, fault=f"{point}:kill", sweeps=1)
    assert agents.ended(killed) == -signal.SIGKILL, "the step was never reached"
    follower = agents.start(settings, tenant, ["s"], TURNS, journal)
    assert agents.ended(follower) == 0
    engine = observer(settings)
    drained(engine, tenant, sweep=True)
    found = check(engine, tenant, journal, TURNS)
    assert (found["acknowledged"], found["prompts"]) == (2 * TURNS, TURNS)


@pytest.mark.parametrize("point", ["project.folded", "compile.compiled", "refold.before_flip"])
def test_f79_a_process_that_wakes_after_its_lease_writes_nothing(
    agents: Agents, store_url: str, tenant: str, journal: Path, point: str
) -> None:
    settings = load_settings(database_url=store_url, dispatcher="inline", lease_seconds=1)
    paused = agents.start(settings, tenant, ["s"], TURNS, journal, fault=f"{point}:stop", sweeps=1)
    until(lambda: _is_stopped(paused), "the process is paused at the step")
    engine = observer(settings)
    drained(engine, tenant, sweep=True)
    os.kill(paused, signal.SIGCONT)
    assert agents.ended(paused) == 0
    drained(engine, tenant, sweep=True)
    assert check(engine, tenant, journal, TURNS)["prompts"] == TURNS


def _is_stopped(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"
