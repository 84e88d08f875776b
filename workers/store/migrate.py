"""Migrations under a lock. Workers check and never migrate; `migrate`, `up` and embedded use do."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import exc

from domain.errors import StoreUnavailable
from workers.store import walls
from workers.store.database import EVERY, Database
from workers.store.tables import metadata

ROOT = Path(__file__).resolve().parents[2]
LOCK_SECONDS = 10.0
_LOCK = 7_237_817_104  # any number, the same for all who migrate this schema


def config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(ROOT / "migrations"))
    made.set_main_option("path_separator", "os")
    return made


@cache
def newest() -> str:
    """The revision that this code needs."""
    return str(ScriptDirectory.from_config(config()).get_current_head())


def current(url: str) -> str | None:
    """The revision that the store is at; None when it has never been migrated."""
    database = Database(url)
    try:
        with database.read(EVERY) as unit:
            return revision(unit.connection)
    finally:
        database.dispose()


def revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def check(url: str) -> None:
    """Raises StoreUnavailable unless the store has the tables that this code needs."""
    found, wanted = current(url), newest()
    if found != wanted:
        _refuse_newer(found)
        raise StoreUnavailable(
            f"The store is at revision {found or 'none'}, not at {wanted}; run `python -m workers migrate`.",
            found=found, wanted=wanted,
        )  # fmt: skip


def _refuse_newer(found: str | None) -> None:
    """A later release's tables: its migrations are not here, so there is no way back by them."""
    known = {script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()}
    if found is not None and found not in known:
        raise StoreUnavailable(
            f"The store is at revision {found}, which a later release made: start that release, or restore a backup"
            " from before the upgrade.",
            found=found, wanted=newest(),
        )  # fmt: skip


def upgrade(url: str, target: str = "head", lock_seconds: float = LOCK_SECONDS) -> None:
    """Bring the store to a revision; of several processes that try, one does it and the others wait."""
    with exclusive(url, lock_seconds) as connection:
        _refuse_newer(revision(connection))
        _run(connection, command.upgrade, target)


def downgrade(url: str, revision: str = "base") -> None:
    with exclusive(url) as connection:
        _run(connection, command.downgrade, revision)


def _run(connection: sa.Connection, step: Callable[[Config, str], None], target: str) -> None:
    chosen = config()
    chosen.attributes["connection"] = connection
    with unwalled(connection):
        step(chosen, target)


@contextmanager
def unwalled(connection: sa.Connection) -> Iterator[None]:
    """On PostgreSQL the owner sees all rows meanwhile; the walls stand before anyone else sees the tables again."""
    guarded = connection.dialect.name == "postgresql"
    if guarded and revision(connection) not in (None, newest()):
        walls.lower(connection)
    yield
    if guarded and revision(connection) == newest():
        walls.build(connection)


@contextmanager
def exclusive(url: str, lock_seconds: float = LOCK_SECONDS) -> Iterator[sa.Connection]:
    """A transaction that no other migration shares.

    On SQLite the write lock is the lock, and foreign keys are off from before it began. On PostgreSQL it is an advisory
    lock of the session, so that it also covers what must run outside a transaction: a migration wants a connection to
    the server itself, not to a pooler. A table that stays in use for `lock_seconds` ends it with nothing changed, so
    that nothing queues up behind it.
    """
    database = Database(url)
    try:
        engine, _ = database.engines()
        with engine.connect() as connection:
            if database.dialect == "postgresql":
                with _locked(connection.execution_options(isolation_level="READ COMMITTED"), lock_seconds):
                    yield connection
            else:
                with connection.begin():
                    yield connection
    except exc.OperationalError as error:
        reason = str(error.orig).splitlines()[0]
        raise StoreUnavailable(f"The migration changed nothing: {reason}; try again when the store is idle.") from error
    finally:
        database.dispose()


@contextmanager
def _locked(connection: sa.Connection, seconds: float) -> Iterator[None]:
    connection.exec_driver_sql(f"SELECT pg_advisory_lock({_LOCK})")
    connection.commit()
    try:
        with connection.begin():
            connection.exec_driver_sql(f"SELECT set_config('lock_timeout', '{int(seconds * 1000)}', true)")
            yield
    finally:
        connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_LOCK})")
        connection.commit()


def findings(url: str) -> dict[str, Any] | None:
    """What `walls.findings` says of whoever uses the store by this URL; None on SQLite, where files are the walls."""
    database = Database(url)
    try:
        if database.dialect != "postgresql":
            return None
        with database.read(EVERY) as unit:
            found: dict[str, Any] = walls.findings(unit.connection)
            return found
    finally:
        database.dispose()


def differences() -> list[Any]:
    """What the tables in the code have that the migrations don't make, or the other way round."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/check.db"
        upgrade(url)
        database = Database(url)
        try:
            with database.read(EVERY) as unit:
                context = MigrationContext.configure(unit.connection, opts={"compare_type": True})
                return list(compare_metadata(context, metadata))
        finally:
            database.dispose()
