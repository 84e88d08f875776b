"""The real application on a port of this machine, in a thread of the test."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from web.app import assemble, create_app
from workers import assembly
from workers.engine import Engine
from workers.settings import Settings, load_settings
from workers.store import migrate


@contextmanager
def serving(engine: Engine, settings: Settings) -> Iterator[str]:
    """The address of the whole application."""
    with running(create_app(engine, settings)) as url:
        yield url


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The address. Its socket listens before the server runs, so whoever connects at once is only served later."""
    # Only of a socket that names its protocol does asyncio switch off Nagle's delays.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def http(sqlite_url: str) -> Iterator[httpx2.Client]:
    """A client of the real application on an empty store."""
    migrate.upgrade(sqlite_url)
    settings = load_settings(database_url=sqlite_url)
    engine = assembly.build(settings)
    with serving(engine, settings) as url, client(url) as opened:
        yield opened
    assembly.close(engine)


@pytest.fixture
def broken_http() -> Iterator[httpx2.Client]:
    """A client of an application that was put together without its engine: whatever is asked of it fails."""
    with running(assemble()) as url, client(url) as opened:
        yield opened


def client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=60, trust_env=False)
