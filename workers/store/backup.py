"""A copy of a SQLite store while it is in use, whole and as of one moment. PostgreSQL has its own tools."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from domain.errors import InvalidRequest, StoreUnavailable
from workers.store.database import Database

PAGES = 500
"""Copied at a time; writers come in between."""

Progress = Callable[[int, int], None]
"""Told of pages copied since the last time, and how many there are."""


def backup(url: str, target: Path, progress: Progress | None = None) -> None:
    """Copy the store to a file that does not exist yet. Raises InvalidRequest and StoreUnavailable."""
    database = Database(url)
    if database.dialect != "sqlite":
        raise InvalidRequest("PostgreSQL is backed up by pg_dump; docs/operations.md has the command.")
    if target.exists():
        raise InvalidRequest(f"{target} exists; name a file that does not.")
    part = target.with_name(target.name + ".part")
    try:
        _copy(Path(str(database.url.database)), part, progress)
        part.replace(target)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"The backup did not succeed: {error}.") from error
    finally:
        part.unlink(missing_ok=True)


def _copy(source: Path, part: Path, progress: Progress | None) -> None:
    part.unlink(missing_ok=True)
    done = 0

    def told(status: int, remaining: int, total: int) -> None:
        nonlocal done
        if progress is not None:
            progress(total - remaining - done, total)
        done = total - remaining

    reading = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
    writing = sqlite3.connect(part)
    try:
        # In one read transaction, so that a busy writer cannot make it begin anew for ever.
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        reading.backup(writing, pages=PAGES, progress=told)
    finally:
        writing.close()
        reading.close()
