"""Migrations under a lock. Workers check and never migrate; `migrate`, `up` and embedded use do."""

import tempfile
from collections.abc import Iterator
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

from domain.errors import StoreUnavailable
from workers.store.database import Database
from workers.store.tables import metadata

ROOT = Path(__file__).resolve().parents[2]
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
        with database.read() as unit:
            return revision(unit.connection)
    finally:
        database.dispose()


def revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def check(url: str) -> None:
    """Raises StoreUnavailable unless the store has the tables that this code needs."""
    found, wanted = current(url), newest()
    if found != wanted:
        raise StoreUnavailable(
            f"The store is at revision {found or 'none'}, not at {wanted}; run `python -m workers migrate`.",
            found=found, wanted=wanted,
        )  # fmt: skip


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the store to a revision; of several processes that try, one does it and the others wait."""
    with exclusive(url) as connection:
        chosen = config()
        chosen.attributes["connection"] = connection
        command.upgrade(chosen, revision)


def downgrade(url: str, revision: str = "base") -> None:
    with exclusive(url) as connection:
        chosen = config()
        chosen.attributes["connection"] = connection
        command.downgrade(chosen, revision)


@contextmanager
def exclusive(url: str) -> Iterator[sa.Connection]:
    """A transaction that no other migration shares.

    On SQLite the write lock is the lock, and foreign keys are off from before it began. On PostgreSQL it is an advisory
    lock of the session, so that it also covers what must run outside a transaction.
    """
    database = Database(url)
    try:
        engine, _ = database.engines()
        with engine.connect() as connection:
            if database.dialect == "postgresql":
                connection.exec_driver_sql("SELECT set_config('lock_timeout', '0', false)")
                connection.exec_driver_sql(f"SELECT pg_advisory_lock({_LOCK})")
                connection.commit()
            try:
                with connection.begin():
                    yield connection
            finally:
                if database.dialect == "postgresql":
                    connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_LOCK})")
                    connection.commit()
    finally:
        database.dispose()


def differences() -> list[Any]:
    """What the tables in the code have that the migrations don't make, or the other way round."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/check.db"
        upgrade(url)
        database = Database(url)
        try:
            with database.read() as unit:
                context = MigrationContext.configure(unit.connection, opts={"compare_type": True})
                return list(compare_metadata(context, metadata))
        finally:
            database.dispose()
