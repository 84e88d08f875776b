"""Engines on both databases, each test with a tenant of its own."""

import uuid
from collections.abc import Iterator

import pytest

from workers.engine import Deps, Engine
from workers.store import Database, migrate


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A migrated store; PostgreSQL's is shared by all tests of this process, so use `tenant`."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    migrate.upgrade(url)
    return url


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = Database(store_url)
    yield opened
    opened.dispose()


@pytest.fixture
def engine(database: Database) -> Engine:
    """An engine whose doorbell rings nobody: tests drain by hand."""
    return Engine(Deps(database))
