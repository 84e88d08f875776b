"""The real application on a port of this machine, in a thread of the test."""

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from web.app import assemble, create_app
from workers import assembly
from workers.settings import Settings, load_settings
from workers.store import migrate


@contextmanager
def serving(settings: Settings) -> Iterator[httpx2.Client]:
    """A client of the whole application, put together from settings."""
    engine = assembly.build(settings)
    try:
        with running(create_app(engine, settings)) as url, client(url) as opened:
            yield opened
    finally:
        assembly.close(engine)


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


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that was migrated and holds nothing; to be copied."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    migrate.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def http(empty_store: Path, tmp_path: Path) -> Iterator[httpx2.Client]:
    """A client of the real application on an empty store, with the embedded server's worker threads."""
    sqlite_url = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'store.db')}"
    with serving(load_settings(database_url=sqlite_url)) as opened:
        yield opened


@pytest.fixture
def serve() -> Callable[[Settings], AbstractContextManager[httpx2.Client]]:
    """Serves by other settings, for the time of a `with`."""
    return serving


@pytest.fixture
def broken_http() -> Iterator[httpx2.Client]:
    """A client of an application that was put together without its engine: whatever is asked of it fails."""
    with running(assemble()) as url, client(url) as opened:
        yield opened


def client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=60, trust_env=False)
