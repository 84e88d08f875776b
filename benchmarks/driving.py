"""The system under test: the engine on a database of its own, with a clock that tells the same times in every run."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks.checker import Compiled
from workers import telemetry
from workers.engine import Deps, Engine
from workers.store import Database, migrate

Json = Any

# What the engine tells as it works would stand on stdout, amid the JSON of a report.
telemetry.configure("WARNING")

TENANT = "default"
BEGIN = 1_750_000_000_000_000
STEP = 97_000_000
"""Microseconds from event to event: long sessions go over midnight, where times are shown with their date."""


POSTGRES_URLS = (
    "postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
    "postgresql+psycopg://root@127.0.0.1:5432/root",
)


class LogClock:
    """Tells a time that follows from the place in the log alone, whatever the store and the order of sessions."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return BEGIN + self.at * STEP


class Refused(Exception):
    """A compile that failed, with the code of its error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class System:
    """One engine. `compile` and `replay` are what an agent and an engineer call."""

    def __init__(self, url: str) -> None:
        self.clock = LogClock()
        self.database = Database(url)
        self.engine = Engine(Deps(self.database, clock=self.clock))

    def append(self, session: str, events: Sequence[Json], head: int) -> Json:
        """The events in one batch, behind the head that the caller knows."""
        self.clock.at = head
        return self.engine.append(TENANT, session, list(events), expected_seq=head)

    def request(self, session: str, target: str, budget: int) -> str:
        """The id of the compiled prompt. Raises Refused."""
        job = self.engine.request_prompt(TENANT, session, {"format": target, "budget": budget})
        if job["status"] in ("queued", "running"):
            job = self.engine.run_job(TENANT, job["id"])
        if job["error"]:
            raise Refused(job["error"]["code"], job["error"]["message"])
        return str(job["prompt"])

    def prompt(self, name: str) -> Compiled:
        found = self.engine.prompt(TENANT, name)
        return Compiled(found["payload"], found["report"], found["tokens"], found["content_hash"])

    def hashes(self, session: str) -> dict[str, str]:
        """The content hash of every prompt of a session."""
        found: dict[str, str] = {}
        after: str | None = None
        while True:
            page = self.engine.prompts(TENANT, session, 200, after)
            found.update({row["id"]: row["content_hash"] for row in page["prompts"]})
            after = page["next"]
            if after is None:
                return found

    def replay(self, prompt: str) -> Json:
        return self.engine.replay(TENANT, prompt)

    def close(self) -> None:
        self.database.dispose()


def prepare(url: str) -> None:
    """The tables, in an empty database."""
    migrate.upgrade(url)


@contextmanager
def postgres_database(server: str) -> Iterator[str]:
    """A database that is gone at the end, on a server where we may create one."""
    name = f"promptctx_bench_{uuid4().hex}"
    plain = libpq(server)
    with psycopg.connect(plain, autocommit=True, connect_timeout=5) as connection:
        connection.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'".encode())
    try:
        yield f"{server.rsplit('/', 1)[0]}/{name}"
    finally:
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


@cache
def postgres_server() -> str | None:
    """The URL of a role that may create databases, if one answers."""
    chosen = os.environ.get("PROMPTCTX_TEST_POSTGRES_URL")
    for url in (chosen,) if chosen else POSTGRES_URLS:
        try:
            with psycopg.connect(libpq(url), connect_timeout=3) as connection:
                row = connection.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
                if (row.fetchone() or [False])[0]:
                    return url
        except psycopg.OperationalError:
            continue
    return None


def libpq(url: str) -> str:
    return url.replace("postgresql+psycopg:", "postgresql:", 1)
