"""What a chaos run needs: agents to kill, and the checks that hold after whatever happened."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import started
from chaos_agent import AS_OF, BUDGET, done, story
from private_servers import until

from domain.errors import StoreUnavailable
from workers import assembly
from workers.engine import Deps, Engine
from workers.settings import Settings, load_settings
from workers.store import Database, migrate

ROOT = Path(__file__).resolve().parents[2]

Json = dict[str, Any]


class Agents:
    """Starts agents, each a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, str(ROOT / "tests/chaos/chaos_agent.py")]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}"}
        self._parent = started.start(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(
        self, settings: Settings, tenant: str, sessions: list[str], turns: int, journal: Path, **more: Any
    ) -> int:
        """The id of the agent's process. `more`: fault, writer, asks, mischief, clock, sweeps."""
        told = {"settings": told_settings(settings), "tenant": tenant, "sessions": sessions, "turns": turns}
        return self._say({**told, "journal": str(journal), **more})

    def ended(self, agent: int) -> int:
        """Its exit code, or minus the signal that killed it."""
        return self._say({"wait": agent})

    def _say(self, told: Json) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(told) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def close(self) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        started.end(self._parent)


def told_settings(settings: Settings) -> Json:
    names = ("database_url", "broker_url", "dispatcher", "queue_prefix", "lease_seconds")
    return {name: getattr(settings, name) for name in names}


def observer(settings: Settings) -> Engine:
    """An engine that looks, and works only when told to sweep."""
    return Engine(Deps(Database(settings.database_url), lease=int(settings.lease_seconds * 1_000_000)))


# --- what must hold ---------------------------------------------------------------------------------------------------


def drained(engine: Engine, tenant: str, *, sweep: bool) -> None:
    """The backlog goes down to nothing: by who works there, or by sweeps of our own."""

    def quiet() -> bool:
        try:
            if sweep:
                while engine.sweep():
                    pass
            return bool(engine.backlog(tenant)["open"] == 0)
        except StoreUnavailable:
            return False

    until(quiet, "the backlog drains to 0")
    assert engine.backlog(tenant)["parked"] == 0, engine.backlog(tenant)


def check(engine: Engine, tenant: str, journal: Path, turns: int, *, writers: tuple[str, ...] = ("",)) -> Json:
    """All that was acknowledged is there once, tables are what the log folds to, prompts are those of a quiet run."""
    acknowledged = done(str(journal))
    sessions = sorted({step.split("/")[0] for step in acknowledged})
    counted: Json = {"sessions": len(sessions), "acknowledged": len(acknowledged), "events": 0, "prompts": 0}
    for session in sessions:
        events = whole_log(engine, tenant, session)
        counted["events"] += len(events)
        _each_once(events, session, acknowledged, turns, writers)
    report = engine.verify(tenant)
    assert report["ok"], report["problems"]
    counted["prompts"] = _as_in_a_quiet_run(engine, tenant, sessions, acknowledged)
    return counted


def _each_once(events: list[Json], session: str, acknowledged: list[str], turns: int, writers: tuple[str, ...]) -> None:
    times = Counter(one["event_id"] for one in events)
    assert not [name for name, count in times.items() if count > 1]
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    for writer in writers:
        ids = []
        for turn, told in enumerate(story(session, turns, writer)):
            own = [one["event_id"] for one in told if one["kind"] != "profile.set"]
            if f"{session}/{writer}/{turn}" in acknowledged:
                assert all(name in times for name in own), f"{session}: turn {turn} was acknowledged and is lost"
            assert len({name in times for name in own}) == 1, "a batch is there whole or not at all"
            ids += own
        mine = [one["event_id"] for one in events if one["event_id"] in set(ids)]
        assert mine == [name for name in ids if name in times], "in the order in which they were told"


def whole_log(engine: Engine, tenant: str, session: str, stream: str = "session") -> list[Json]:
    found: list[Json] = []
    while True:
        page = engine.events(tenant, session, stream, len(found), 1000)
        found += page["events"]
        if page["next"] is None:
            return found


def _as_in_a_quiet_run(engine: Engine, tenant: str, sessions: list[str], acknowledged: list[str]) -> int:
    """The same log in a store of its own, read by one process that nothing disturbs: every prompt is the same bytes."""
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/quiet.db"
        migrate.upgrade(url)
        quiet = assembly.build(load_settings(database_url=url, dispatcher="inline"))
        for session in sessions:
            found = engine.prompts(tenant, session, 1000)["prompts"][::-1]
            asked = {step for step in acknowledged if step.startswith(f"{session}/") and step.endswith("/prompt")}
            assert len(found) >= len(asked) or not asked, f"{session}: {len(found)} prompts for {len(asked)} requests"
            compared += _twin(engine, quiet, tenant, session, found)
        assembly.close(quiet)
    return compared


def _twin(engine: Engine, quiet: Engine, tenant: str, session: str, found: list[Json]) -> int:
    waiting = _in_order(engine, tenant, session)
    for listed in found:
        heads = engine.prompt(tenant, listed["id"])["inputs"]
        told = [one for one in waiting if one["seq"] <= heads[one["place"]]["seq"]]
        waiting = [one for one in waiting if one["seq"] > heads[one["place"]]["seq"]]
        if told:
            quiet.append(tenant, session, [_wire(one) for one in told])
        job = quiet.request_prompt(tenant, session, {"budget": BUDGET, "as_of": AS_OF})
        twin = quiet.prompt(tenant, job["prompt"])
        assert twin["content_hash"] == listed["content_hash"], f"{session}: version {listed['version']} differs"
    return len(found)


def _in_order(engine: Engine, tenant: str, session: str) -> list[Json]:
    """What was sent through the session, each fact about its subject where it came: it says behind which seq that was.

    What a rollback took back there is left out: the quiet run's own takes it back again.
    """
    own = [{**one, "place": "session", "at": one["seq"]} for one in whole_log(engine, tenant, session)]
    facts = [
        {**one, "place": "subject", "at": int(one["correlation_id"].rpartition("@")[2])}
        for one in whole_log(engine, tenant, session, "subject")
        if one["kind"] != "context.rolled_back"
    ]
    return sorted([*own, *facts], key=lambda one: (one["at"], one["place"] == "subject", one["seq"]))


def _wire(event: Json) -> Json:
    return {name: event[name] for name in ("kind", "payload", "event_id")}


def waited(agents: Agents, started: list[int]) -> list[int]:
    return [agents.ended(agent) for agent in started]


def steps_done(journals: list[Path], share: float, of: int) -> None:
    """So many of the steps were acknowledged: the load is in full swing."""
    until(lambda: sum(len(done(str(one))) for one in journals) >= share * of, f"{share:.0%} of the load is done")
