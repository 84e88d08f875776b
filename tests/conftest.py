"""What all tests share: services, databases of their own, the corpus, hypothesis profiles.

A service or a corpus that is not there skips the tests that need it, with the reason; with
PROMPTCTX_REQUIRE_SERVICES=1, as in CI, they fail instead.

    PROMPTCTX_TEST_POSTGRES_URL   a role that may create databases
    PROMPTCTX_TEST_REDIS_URL      each test gets an empty database number of that server
    PROMPTCTX_TEST_RABBITMQ_URL
    PROMPTCTX_TEST_CORPUS         a folder of real agent logs
"""

import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import kombu
import psycopg
import pytest
import redis
from required import unavailable

from workers import telemetry

ROOT = Path(__file__).resolve().parents[1]
POSTGRES_URLS = [
    "postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
    "postgresql+psycopg://root@127.0.0.1:5432/root",
]

# The settings of whoever runs the tests must not steer them, nor the processes that they start.
for _name in [name for name in os.environ if name.startswith("PROMPTCTX_")]:
    if not _name.startswith(("PROMPTCTX_TEST_", "PROMPTCTX_REQUIRE_")):
        del os.environ[_name]

# Nor must what they start compile every module anew: a process then begins in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Lines as operators see them: tracebacks drawn in colours take seconds each.
telemetry.configure("WARNING")

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`tests/chaos` and `tests/browser` run when they are asked for: `make test-chaos`, `make test-browser`.
    `tests/adapters` has an environment of its own: `make test-adapters`."""
    name = collection_path.name
    asked_for = name in ("chaos", "browser") and any(name in asked for asked in config.args)
    return True if name in ("chaos", "browser", "adapters") and not asked_for else None


# --- databases --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'promptctx.db'}"


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a role that may create databases."""
    chosen = os.environ.get("PROMPTCTX_TEST_POSTGRES_URL")
    problems = []
    for url in [chosen] if chosen else POSTGRES_URLS:
        try:
            with psycopg.connect(_libpq(url), connect_timeout=3) as connection:
                row = connection.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
                if (row.fetchone() or [False])[0]:
                    return url
                problems.append("the role may not create databases")
        except psycopg.OperationalError as error:
            problems.append(str(error).strip())
    return unavailable(f"PostgreSQL ({'; '.join(problems)})", "PROMPTCTX_TEST_POSTGRES_URL")


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty PostgreSQL database for this test process, gone at the end."""
    with _fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="module")
def shared_postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty PostgreSQL database for the tests of one file."""
    with _fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def new_postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty PostgreSQL database for this test alone."""
    with _fresh_database(postgres_server) as url:
        yield url


@contextmanager
def _fresh_database(server: str) -> Iterator[str]:
    name = f"promptctx_test_{uuid.uuid4().hex}"
    with psycopg.connect(_libpq(server), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'")
    try:
        yield f"{server.rsplit('/', 1)[0]}/{name}"
    finally:
        with psycopg.connect(_libpq(server), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def pgbouncer() -> str:
    """The program of a connection pooler."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    return found or unavailable("PgBouncer is not installed", "PATH to where pgbouncer is")


def _libpq(url: str) -> str:
    return url.replace("postgresql+psycopg:", "postgresql:", 1)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The test runs twice: on a new SQLite file, and on a new PostgreSQL database."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "new_postgres_url")
    return url


# --- brokers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def redis_server() -> str:
    url = os.environ.get("PROMPTCTX_TEST_REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3) as client:
            client.ping()
    except redis.RedisError as error:
        unavailable(f"Redis ({error})", "PROMPTCTX_TEST_REDIS_URL")
    return url


@pytest.fixture
def redis_url(redis_server: str) -> Iterator[str]:
    """An empty database number that no other test uses meanwhile, emptied at the end."""
    base = redis_server.rsplit("/", 1)[0]
    with redis.Redis.from_url(redis_server) as claims:
        number = next((n for n in range(15, 0, -1) if _claim_redis(claims, base, n)), None)
        if number is None:
            unavailable("Redis has no empty database number from 1 to 15", "PROMPTCTX_TEST_REDIS_URL")
        try:
            yield f"{base}/{number}"
        finally:
            with redis.Redis.from_url(f"{base}/{number}") as client:
                client.flushdb()
            claims.delete(_claim_key(number))


def _claim_redis(claims: "redis.Redis", base: str, number: int) -> bool:
    """Claims are held in the server's first database; what a killed test left carries our mark and may be emptied."""
    if not claims.set(_claim_key(number), 1, nx=True, ex=1800):
        return False
    with redis.Redis.from_url(f"{base}/{number}") as client:
        if client.exists("promptctx-test"):
            client.flushdb()
        if client.dbsize() == 0:
            client.set("promptctx-test", 1)
            return True
    claims.delete(_claim_key(number))
    return False


def _claim_key(number: int) -> str:
    return f"promptctx-test:claim:{number}"


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """A RabbitMQ server that is shared: name queues so that tests don't meet."""
    url = os.environ.get("PROMPTCTX_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672//")
    try:
        with kombu.Connection(url, connect_timeout=3) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
    except (OSError, kombu.exceptions.OperationalError) as error:
        unavailable(f"RabbitMQ ({error})", "PROMPTCTX_TEST_RABBITMQ_URL")
    return url


# --- data -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real agent logs."""
    folder = Path(os.environ.get("PROMPTCTX_TEST_CORPUS") or ROOT.parent / "shared" / "corpus")
    if not folder.is_dir():
        unavailable(f"no corpus at {folder}", "PROMPTCTX_TEST_CORPUS")
    return folder
