"""`python -m workers …` as an operator runs it."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import started

from workers.engine import Deps, Engine
from workers.store import Database, migrate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def begun(url: str, *command: str, **settings: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PROMPTCTX_DATABASE_URL": url, "PROMPTCTX_LOG_LEVEL": "WARNING", **settings}
    return started.start(
        [sys.executable, "-m", "workers", *command],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ran(url: str, *command: str, **settings: str) -> tuple[int, str, str]:
    process = begun(url, *command, **settings)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def called(base: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{base}{path}", data), timeout=300) as answer:
        return json.loads(answer.read())


def test_up_migrates_serves_works_and_stops(sqlite_url: str) -> None:
    process = begun(sqlite_url, "up", "--port", "0")
    assert process.stdout is not None
    base = process.stdout.readline().split()[1]
    assert base.startswith("http://127.0.0.1:")
    assert called(base, "/v1/sessions/s/events", {"kind": "user.input", "payload": {"content": "hi"}})["head"] == 1
    prompt = called(base, "/v1/sessions/s/prompts", {"wait": 60})
    assert prompt["payload"]["messages"][-1]["content"] == "hi"
    assert called(base, "/readyz")["status"] == "ok"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    code, out, _ = ran(sqlite_url, "verify")
    assert (code, "ok" in out) == (0, True)


def test_up_with_several_processes_on_one_file_serves_and_works(sqlite_url: str) -> None:
    process = begun(sqlite_url, "up", "--port", "0", "--processes", "2")
    assert process.stdout is not None
    base = process.stdout.readline().split()[1]
    for number in range(20):
        called(base, f"/v1/sessions/s{number}/events", {"kind": "user.input", "payload": {"content": f"hi {number}"}})
        prompt = called(base, f"/v1/sessions/s{number}/prompts", {"wait": 60})
        assert prompt["payload"]["messages"][-1]["content"] == f"hi {number}"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    code, out, _ = ran(sqlite_url, "verify")
    assert (code, "ok" in out) == (0, True)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_server_whose_port_is_taken_does_no_work_before_it_says_so(tmp_path: Path, processes: str) -> None:
    file = tmp_path / "store.db"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = ran(f"sqlite:///{file}", "up", "--port", port, "--processes", processes)
    assert code == 1
    assert f"Port {port} of 127.0.0.1 cannot be used" in err
    assert not file.exists(), "not even its tables were made"


def test_a_file_that_another_program_has_locked_is_named_with_what_to_do(sqlite_url: str) -> None:
    migrate.upgrade(sqlite_url)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None) as browser:
        browser.execute("PRAGMA locking_mode = EXCLUSIVE")
        browser.execute("BEGIN EXCLUSIVE")
        code, _, err = ran(sqlite_url, "sweep")
    assert code == 1
    assert "is locked by another program" in err
    assert err.strip().count("\n") == 0


def test_what_needs_a_migrated_store_says_so_in_one_line(sqlite_url: str) -> None:
    for command in ("web", "worker", "sweep", "verify"):
        code, out, err = ran(sqlite_url, command)
        assert (code, out) == (1, "")
        assert err.strip().count("\n") == 0
        assert "python -m workers migrate" in err


def test_migrate_then_sweep_does_what_is_due(sqlite_url: str) -> None:
    assert ran(sqlite_url, "migrate")[0] == 0
    engine = Engine(Deps(Database(sqlite_url)))
    engine.append("default", "s", [{"kind": "user.input", "payload": {"content": "hi"}}])
    job = engine.request_prompt("default", "s", {})
    code, out, _ = ran(sqlite_url, "sweep")
    assert (code, "work done" in out) == (0, True)
    assert engine.job("default", job["id"])["status"] == "done"


def test_a_worker_without_a_broker_finds_work_by_itself(sqlite_url: str) -> None:
    migrate.upgrade(sqlite_url)
    engine = Engine(Deps(Database(sqlite_url)))
    engine.append("default", "s", [{"kind": "user.input", "payload": {"content": "hi"}}])
    job = engine.request_prompt("default", "s", {})
    process = begun(sqlite_url, "worker")
    assert engine.wait_job("default", job["id"], 300)["status"] == "done"
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0


def test_doctor_tells_what_is_wrong(sqlite_url: str) -> None:
    code, out, _ = ran(sqlite_url, "doctor", "--json")
    found = json.loads(out)
    assert code == 1
    assert any("migrate" in problem for problem in found["problems"])
    migrate.upgrade(sqlite_url)
    assert ran(sqlite_url, "doctor")[0] == 0
    broken = {"PROMPTCTX_DISPATCHER": "celery", "PROMPTCTX_BROKER_URL": "redis://:secret@127.0.0.1:1/0"}
    code, out, _ = ran(sqlite_url, "doctor", **broken)
    assert code == 1
    assert "does not answer" in out
    assert "secret" not in out


def test_usage_errors_exit_with_2(sqlite_url: str) -> None:
    assert ran(sqlite_url, "nonsense")[0] == 2
    assert ran(sqlite_url)[0] == 2


def test_the_migrations_are_those_of_the_code(sqlite_url: str) -> None:
    assert ran(sqlite_url, "migrate", "--check")[0] == 0
