"""Several processes on one store: nothing lost, nothing twice, and a crash costs at most the batch it was in."""

import subprocess
import sys
from pathlib import Path

from store_histories import drain, said

from workers.engine import Engine
from workers.store import Database, streams, work

ROOT = Path(__file__).resolve().parents[2]

START = """
import os, sys
from workers.engine import Deps, Engine
from workers.store import Database
url, tenant, name = sys.argv[1:4]
engine = Engine(Deps(Database(url)))
"""

APPEND = """
for number in range(25):
    engine.append(tenant, "s", [{"kind": "user.input", "payload": {"content": f"{name}/{number}"}}])
    if number % 5 == 0:
        engine.sweep()
"""

DIE_AFTER_COMMIT = """
class Gone:
    def ring(self, *args):
        os._exit(9)
engine.deps.dispatcher = Gone()
engine.append(tenant, "s", [{"kind": "user.input", "payload": {"content": "acknowledged by nobody"}}])
"""

DIE_IN_THE_BATCH = """
from workers.engine import project
from workers.store import models
models.save = lambda *args: os._exit(9)
engine.project(tenant, "session/s")
"""


def start(code: str, url: str, tenant: str, name: str = "") -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", START + code, url, tenant, name], cwd=ROOT)


def test_f49_f58_four_processes_append_and_project_at_once(store_url: str, engine: Engine, tenant: str) -> None:
    running = [start(APPEND, store_url, tenant, str(number)) for number in range(4)]
    assert [process.wait(timeout=120) for process in running] == [0] * 4
    drain(engine)
    page = engine.events(tenant, "s", limit=1000)
    texts = [one["payload"]["content"][0]["text"] for one in page["events"]]
    assert sorted(texts) == sorted(f"{name}/{number}" for name in range(4) for number in range(25))
    assert [one["seq"] for one in page["events"]] == list(range(1, 101))
    assert engine.verify(tenant)["ok"]


def test_f02_a_crash_after_the_commit_is_healed_by_the_sweep(
    store_url: str, engine: Engine, database: Database, tenant: str
) -> None:
    assert start(DIE_AFTER_COMMIT, store_url, tenant).wait(timeout=60) == 9
    drain(engine)
    with database.read(tenant) as unit:
        row = streams.get(unit, tenant, "session/s")
        assert row is not None
        status = work.status(unit, tenant, row.number, "project")
    assert status is not None
    assert (status["done_seq"], status["due_at"]) == (1, None)


def test_f09_a_crash_inside_a_batch_leaves_it_undone(
    store_url: str, engine: Engine, database: Database, tenant: str
) -> None:
    engine.append(tenant, "s", [said("a")])
    assert start(DIE_IN_THE_BATCH, store_url, tenant).wait(timeout=60) == 9
    with database.read(tenant) as unit:
        row = streams.get(unit, tenant, "session/s")
    assert row is not None
    with database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, row.number, "project", patience=0)
        assert claimed is not None
        assert claimed.attempts == 2
        assert work.settle(unit, claimed, 0) == 1
    drain(engine)
    assert engine.verify(tenant, "s")["ok"]


def test_f08_f33_a_forked_child_uses_connections_of_its_own(store_url: str, engine: Engine, tenant: str) -> None:
    code = """
engine.append(tenant, "s", [{"kind": "custom.parent"}])
child = os.fork()
for number in range(10):
    engine.append(tenant, "s", [{"kind": "custom.child" if child == 0 else "custom.parent"}])
if child == 0:
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert start(code, store_url, tenant).wait(timeout=60) == 0
    assert engine.events(tenant, "s")["head"] == 21
    assert engine.verify(tenant, "s")["ok"]
