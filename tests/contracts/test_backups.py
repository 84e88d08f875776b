"""Backups: a restored store verifies, compiles the same bytes, and goes on where the backup was taken."""

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from store_histories import drain, event, said
from test_erasure import SECRET, compiled, everything

from domain.errors import InvalidRequest
from workers.engine import Deps, Engine
from workers.store import Database, migrate
from workers.store.backup import backup

Json = dict[str, Any]


def fill(engine: Engine, tenant: str) -> Json:
    engine.append(tenant, "s", [event("session.started", subject="ann"), event("instruction.set", role="terse")])
    engine.append(tenant, "s", [said(f"turn {number}, {SECRET} " * 20) for number in range(10)])
    engine.append(tenant, "s", [event("memory.recorded", id="m", text="likes trains")])
    drain(engine)
    return compiled(engine, tenant)


def check_restored(engine: Engine, tenant: str, prompt: Json) -> None:
    """F44 as well: numbers and chains go on after a restore, for nothing in them is the database's own."""
    report = engine.verify(tenant)
    assert report["ok"], report["problems"]
    assert engine.replay(tenant, prompt["id"])["identical"]
    assert compiled(engine, tenant, fresh=True)["content_hash"] == prompt["content_hash"]
    head = engine.events(tenant, "s")["head"]
    assert engine.append(tenant, "s", [said("after the restore")])["head"] == head + 1
    engine.append(tenant, "another", [said("a new stream gets a number of its own")])
    drain(engine)
    assert engine.verify(tenant)["ok"]


def test_f44_a_sqlite_backup_taken_under_load_is_whole(sqlite_url: str, tmp_path: Path) -> None:
    migrate.upgrade(sqlite_url)
    engine = Engine(Deps(Database(sqlite_url)))
    prompt = fill(engine, "default")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            engine.append("default", "busy", [said("x" * 1000)])

    writer = threading.Thread(target=write)
    writer.start()
    told: list[tuple[int, int]] = []
    try:
        backup(sqlite_url, tmp_path / "copy.db", lambda done, total: told.append((done, total)))
    finally:
        stop.set()
        writer.join(30)
    assert sum(done for done, _ in told) == told[-1][1]
    check_restored(Engine(Deps(Database(f"sqlite:///{tmp_path / 'copy.db'}"))), "default", prompt)


def test_a_backup_overwrites_nothing(sqlite_url: str, tmp_path: Path) -> None:
    migrate.upgrade(sqlite_url)
    (tmp_path / "kept").write_text("kept")
    with pytest.raises(InvalidRequest, match="exists"):
        backup(sqlite_url, tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.services
def test_f44_a_postgresql_dump_is_restored_into_another_database(
    new_postgres_url: str, postgres_url: str, postgres_server: str, tmp_path: Path
) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("NOT TESTED: no pg_dump on this machine")
    migrate.upgrade(new_postgres_url)
    prompt = fill(Engine(Deps(Database(new_postgres_url))), "default")
    dump = tmp_path / "store.dump"
    plain = new_postgres_url.replace("+psycopg", "")
    subprocess.run(["pg_dump", "--format=custom", f"--file={dump}", plain], check=True, timeout=120)
    name = f"{new_postgres_url.rsplit('/', 1)[1]}_r"
    server = postgres_server.replace("+psycopg", "")
    base = plain.rsplit("/", 1)[0]
    subprocess.run(["psql", "--quiet", "--command", f'CREATE DATABASE "{name}"', server], check=True, timeout=60)
    restored = Database(f"{new_postgres_url.rsplit('/', 1)[0]}/{name}")
    try:
        command = ["pg_restore", "--exit-on-error", f"--dbname={base}/{name}", str(dump)]
        subprocess.run(command, check=True, timeout=120, env=os.environ)
        migrate.check(str(restored.url))
        check_restored(Engine(Deps(restored)), "default", prompt)
    finally:
        restored.dispose()
        drop = f'DROP DATABASE "{name}" WITH (FORCE)'
        subprocess.run(["psql", "--quiet", "--command", drop, server], check=True, timeout=60)


def test_f70_who_was_erased_is_erased_again_after_an_older_backup_was_restored(sqlite_url: str, tmp_path: Path) -> None:
    migrate.upgrade(sqlite_url)
    engine = Engine(Deps(Database(sqlite_url)))
    fill(engine, "default")
    backup(sqlite_url, tmp_path / "before.db")
    engine.erase("default", "ann", "asked for")
    account = engine.erasures("default")

    restored = Database(f"sqlite:///{tmp_path / 'before.db'}")
    again = Engine(Deps(restored))
    assert SECRET in everything(restored, "default")
    for one in account:
        again.erase(one["tenant"], one["subject"], one["reason"])
    assert SECRET not in everything(restored, "default")
    assert again.verify()["ok"]
