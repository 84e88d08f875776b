"""Real processes of promptctx on this machine, as an operator starts them, and gone at the end."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from benchmarks.driving import postgres_database, postgres_server
from benchmarks.processes import ROOT
from workers.store import migrate

REDIS = os.environ.get("PROMPTCTX_TEST_REDIS_URL", "redis://127.0.0.1:6379/0")
RABBITMQ = os.environ.get("PROMPTCTX_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")
STARTS_WITHIN = 90.0
"""Seconds until a process must say that it is there."""

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class Missing(Exception):
    """Something that cannot be run here, with the reason."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A server that answers at `url`, and the processes that it is made of, by role."""

    store: str
    name: str
    url: str
    processes: dict[str, "subprocess.Popen[str]"]
    environment: dict[str, str]
    logs: Path


@contextmanager
def embedded() -> Iterator[Deployment]:
    """One process on a SQLite file: web, and threads that work."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="promptctx-")))
        environment = {
            "PROMPTCTX_DATABASE_URL": f"sqlite:///{folder / 'promptctx.db'}", "PROMPTCTX_DISPATCHER": "thread"
        }  # fmt: skip
        server = Process("server", ("up", "--port", "0"), environment, folder)
        stack.callback(server.stop)
        yield Deployment("sqlite", "sqlite, thread", server.address(), {"server": server.popen}, environment, folder)


@contextmanager
def distributed(broker: str = REDIS, workers: int = 2) -> Iterator[Deployment]:
    """A web process and Celery workers on PostgreSQL and a broker."""
    with ExitStack() as stack:
        url = stack.enter_context(postgres_store())
        migrate.upgrade(url)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="promptctx-")))
        environment = celery_environment(url, broker)
        web = Process("web", ("web", "--port", "0"), environment, folder)
        stack.callback(web.stop)
        begun = {"web": web}
        for number in range(1, workers + 1):
            begun[f"worker-{number}"] = stack.enter_context(worker(environment, folder, f"worker-{number}"))
        name = f"postgresql, celery on {broker.partition(':')[0]}"
        processes = {role: process.popen for role, process in begun.items()}
        yield Deployment("postgresql", name, web.address(), processes, environment, folder)


@contextmanager
def postgres_store() -> Iterator[str]:
    server = postgres_server()
    if server is None:
        raise Missing("PostgreSQL does not answer; set PROMPTCTX_TEST_POSTGRES_URL")
    with postgres_database(server) as url:
        yield url


def celery_environment(url: str, broker: str) -> dict[str, str]:
    """Settings with queues and keys of their own: a shared broker has other users."""
    return {
        "PROMPTCTX_DATABASE_URL": url, "PROMPTCTX_DISPATCHER": "celery", "PROMPTCTX_BROKER_URL": broker,
        "PROMPTCTX_QUEUE_PREFIX": f"bench-{uuid4().hex[:12]}",
    }  # fmt: skip


@contextmanager
def worker(environment: dict[str, str], folder: Path, role: str = "worker") -> Iterator["Process"]:
    """A Celery worker that is ready, with two children."""
    process = Process(role, ("worker", "--concurrency=2"), {**environment, "PROMPTCTX_LOG_LEVEL": "INFO"}, folder)
    try:
        process.wait_for(" ready.")
        yield process
    finally:
        process.stop()
        forget_queues(environment)


def forget_queues(environment: dict[str, str]) -> None:
    """Take away the queues that this deployment alone knew, with whatever rings still wait in them."""
    from workers.app import dead_letters, make_app, queues
    from workers.settings import load_settings

    settings = load_settings(
        database_url=environment["PROMPTCTX_DATABASE_URL"], dispatcher="celery",
        broker_url=environment["PROMPTCTX_BROKER_URL"], queue_prefix=environment["PROMPTCTX_QUEUE_PREFIX"],
    )  # fmt: skip
    with make_app(settings).connection_for_write() as connection:
        for queue in (*queues(settings, environment["PROMPTCTX_BROKER_URL"]), dead_letters(settings)):
            try:
                queue(connection.default_channel).delete()  # type: ignore[no-untyped-call]
            except connection.channel_errors:
                continue


@dataclass(slots=True)
class Process:
    """`python -m workers …` (or another module), in a process group of its own; what it says goes into a file."""

    role: str
    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    module: str = "workers"
    popen: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        paths = [str(ROOT), str(ROOT / "sdk"), *filter(None, [os.environ.get("PYTHONPATH")])]
        given = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths), "PROMPTCTX_LOG_LEVEL": "WARNING"}
        with self.log.open("a") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.command], cwd=ROOT, text=True,
                env={**os.environ, **given, **self.environment}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / f"{self.role}.log"

    def address(self) -> str:
        """Where it serves; it says so when it listens."""
        found = _ADDRESS.search(self.wait_for("http://127.0.0.1:"))
        assert found
        return found[0]

    def wait_for(self, said: str) -> str:
        """All that it said, once this is among it. Raises Missing if it ends or stays silent."""
        until, pause = time.monotonic() + STARTS_WITHIN, threading.Event()
        while time.monotonic() < until:
            text = self.log.read_text(errors="replace")
            if said in text:
                return text
            if self.popen.poll() is not None:
                break
            pause.wait(0.05)
        raise Missing(f"{self.role} did not start: {(self.log.read_text().strip().splitlines() or ['silent'])[-1]}")

    def signal(self, number: signal.Signals) -> None:
        """To all of its group: children as well."""
        os.killpg(self.popen.pid, number)

    def stop(self) -> None:
        """As an operator stops it; killed when it does not end in time."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(30)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
                self.popen.wait(30)
