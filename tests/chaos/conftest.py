"""Servers and agents that may be killed. `make test-chaos` runs this folder; `make test` leaves it out."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_world import Agents
from private_servers import Missing, PrivatePostgres, PrivateRabbit, PrivateRedis
from required import unavailable

from workers.store import migrate

Private = PrivatePostgres | PrivateRabbit | PrivateRedis


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    started = Agents()
    yield started
    started.close()


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def _own(kind: type[Private], folder: Path) -> Iterator[Private]:
    try:
        server = kind(folder)
    except Missing as missing:
        unavailable(str(missing), "PATH")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def private_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    yield from _own(PrivateRedis, tmp_path_factory.mktemp("servers") / "redis")


@pytest.fixture(scope="session")
def private_rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    yield from _own(PrivateRabbit, tmp_path_factory.mktemp("servers") / "rabbitmq")


@pytest.fixture(scope="session")
def private_postgres(private_folder: Path) -> Iterator[Private]:
    yield from _own(PrivatePostgres, private_folder / "postgres")


@pytest.fixture(scope="session")
def private_folder() -> Iterator[Path]:
    """A folder that another user than ours can reach: pytest's own are closed to them."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="promptctx-chaos-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A migrated store that the tests of a module share, each with a tenant of its own."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('store')}/promptctx.db"
    else:
        url = request.getfixturevalue("private_postgres").new_database(f"chaos_{uuid.uuid4().hex}")
    migrate.upgrade(url)
    return url
