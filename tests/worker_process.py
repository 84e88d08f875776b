"""Real worker processes, and brokers on which tests do not meet: each has queues and keys of its own name."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kombu
import redis
import started

from workers.app import dead_letters, make_app, queues
from workers.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[1]


def environment(settings: Settings) -> dict[str, str]:
    """What a process must be told to run with these settings."""
    told = {
        "DATABASE_URL": settings.database_url,
        "BROKER_URL": settings.broker_url or "",
        "DISPATCHER": settings.dispatcher,
        "QUEUE_PREFIX": settings.queue_prefix,
        "LEASE_SECONDS": str(settings.lease_seconds),
        "LOG_LEVEL": "WARNING",
    }
    return {**os.environ, **{f"PROMPTCTX_{name}": value for name, value in told.items()}}


@contextmanager
def working(settings: Settings, *options: str, **more: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A worker process in a process group of its own, gone at the end. `more` are variables of its environment."""
    command = [sys.executable, "-m", "workers", "worker", *options]
    process = started.start(command, cwd=ROOT, env={**environment(settings), **more})
    try:
        yield process
    finally:
        started.end(process)


@contextmanager
def own_queues(broker_url: str) -> Iterator[str]:
    """A queue prefix that nobody else uses; what it left on the broker is gone at the end."""
    prefix = f"promptctx-test-{uuid.uuid4().hex[:12]}"
    try:
        yield prefix
    finally:
        settings = Settings(broker_url=broker_url, queue_prefix=prefix)
        forget_keys(broker_url, prefix) if broker_url.startswith("redis") else forget_queues(settings)


@contextmanager
def on_celery(broker_url: str, database_url: str, lease_seconds: int = 2) -> Iterator[Settings]:
    """Settings for Celery on queues of its own."""
    with own_queues(broker_url) as prefix:
        yield load_settings(
            database_url=database_url, dispatcher="celery", broker_url=broker_url, queue_prefix=prefix,
            lease_seconds=lease_seconds,
        )  # fmt: skip


def forget_keys(broker_url: str, prefix: str) -> None:
    with redis.Redis.from_url(broker_url) as client:
        for key in client.scan_iter(f"{prefix}:*"):
            client.delete(key)


def forget_queues(settings: Settings) -> None:
    broker_url = str(settings.broker_url)
    with make_app(settings).connection_for_write() as connection, connection.channel() as channel:
        for queue in (*queues(settings, broker_url), dead_letters(settings)):
            bound: kombu.Queue = queue(channel)
            bound.delete()
            bound.exchange(channel).delete()
