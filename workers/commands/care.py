"""Commands that look after a store: migrate, sweep, retry, verify, rebuild."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from workers import assembly
from workers.commands import Command
from workers.commands.screen import shown_progress
from workers.engine import Deps, Engine
from workers.settings import Settings, masked
from workers.store import Database, backup, migrate

Json = dict[str, Any]


def add(command: Command) -> None:
    made = command("migrate", migrations, "bring the store to the revision that this release needs")
    made.add_argument("--check", action="store_true", help="only check that the migrations make what the code expects")
    command("sweep", sweep, "do all the work that is due, then end")
    made = command("retry", retry, "take up again what is parked: stopped at an error until somebody has looked")
    made.add_argument("--tenant", help="of all tenants when left out")
    made.add_argument("--session", help="only what this session writes to")
    made = command("backup", back_up, "copy a SQLite store while it is in use; PostgreSQL has pg_dump")
    made.add_argument("file", type=Path, metavar="FILE", help="must not exist yet")
    about = "check hash chains, numbering, read-models, prompts, and that what was erased is gone"
    _scoped(command("verify", verify, about))
    made = _scoped(command("rebuild", rebuild, "fold the log into new read-models beside the live ones, then switch"))
    made.add_argument("--old", action="store_true", help="only those that another version of the fold wrote")


def _scoped(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    made.add_argument("--tenant")
    made.add_argument("--session")
    made.add_argument("--json", action="store_true")
    return made


def opened(settings: Settings) -> Engine:
    """An engine for a command: it does its own work and rings nobody."""
    migrate.check(settings.database_url)
    return assembly.build(settings.model_copy(update={"dispatcher": "inline"}))


def migrations(settings: Settings, asked: argparse.Namespace) -> int:
    if asked.check:
        found = migrate.differences()
        for difference in found:
            print(f"workers migrate: the migrations don't make what the code expects: {difference}", file=sys.stderr)
        return 1 if found else 0
    migrate.upgrade(settings.database_url)
    print(f"{masked(settings.database_url)} is at revision {migrate.current(settings.database_url)}")
    return 0


def sweep(settings: Settings, asked: argparse.Namespace) -> int:
    engine = opened(settings)
    done = 0
    while found := engine.sweep():
        done += found
    swept = engine.sweep_uploads()
    assembly.close(engine)
    print(f"{done} pieces of work done" + (f", {swept} unfinished uploads swept away" if swept else ""))
    return 0


def retry(settings: Settings, asked: argparse.Namespace) -> int:
    """Take up again what an error stopped: the work is due, and who does it is told or finds it."""
    migrate.check(settings.database_url)
    engine = Engine(Deps(Database(settings.database_url, settings.sync_mode)))  # rings nobody: the sweepers find it
    freed = engine.retry(_tenant(asked), asked.session)
    assembly.close(engine)
    print(f"{freed} pieces of work are due again")
    return 0


def back_up(settings: Settings, asked: argparse.Namespace) -> int:
    with shown_progress("backing up", "pages") as progress:
        backup.backup(settings.database_url, asked.file, progress)
    print(f"{masked(settings.database_url)} is copied to {asked.file}")
    return 0


def verify(settings: Settings, asked: argparse.Namespace) -> int:
    engine = opened(settings)
    with shown_progress("verifying") as progress:
        report = engine.verify(_tenant(asked), asked.session, progress)
    assembly.close(engine)
    told = f"{report['events']:,} events in {report['streams']:,} streams: {'ok' if report['ok'] else 'NOT OK'}"
    return _told(asked, report, told)


def rebuild(settings: Settings, asked: argparse.Namespace) -> int:
    engine = opened(settings)
    with shown_progress("rebuilding") as progress:
        report = engine.rebuild(_tenant(asked), asked.session, progress, only_old=asked.old)
    assembly.close(engine)
    return _told(asked, report, f"{report['events']:,} events in {report['streams']:,} streams folded anew")


def _tenant(asked: argparse.Namespace) -> str | None:
    tenant: str | None = asked.tenant or ("default" if asked.session else None)
    return tenant


def _told(asked: argparse.Namespace, report: Json, last: str) -> int:
    if asked.json:
        print(json.dumps(report))
    else:
        for found in report["problems"]:
            print(f"{found['tenant']} {found['stream']}: {found['problem']}\n    {found['hint']}")
        print(last)
    return 0 if report["ok"] else 1
