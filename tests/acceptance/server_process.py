"""The real server, `python -m workers up`, in a process of its own on a SQLite file."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2
import stamina
import started

ROOT = Path(__file__).resolve().parents[2]
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass(slots=True)
class Running:
    url: str
    process: "subprocess.Popen[str]"


@contextmanager
def running(
    folder: Path, *, python: str = sys.executable, command: Sequence[str] = ("-m", "workers", "up"), **settings: str
) -> Iterator[Running]:
    """A server on a port that is free, with its store in `folder`; stopped at the end as an operator would."""
    log = (folder / "server.log").open("a+")
    process = started.start(
        [python, *command],
        cwd=ROOT,
        env={**os.environ, **environment(folder), **settings},
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert process.stdout
    try:
        url = _address(process.stdout, log)
        _until_it_serves(url)
        yield Running(url, process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        finally:
            started.end(process)
            log.close()


def _until_it_serves(url: str) -> None:
    """The address is known a little before someone listens there."""
    for attempt in stamina.retry_context(on=httpx2.ConnectError, attempts=None, timeout=300, wait_max=0.5):
        with attempt:
            httpx2.get(f"{url}/healthz", trust_env=False)


def environment(folder: Path) -> dict[str, str]:
    return {
        "PROMPTCTX_DATABASE_URL": f"sqlite:///{folder / 'promptctx.db'}",
        "PROMPTCTX_PORT": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT / "sdk"),
    }


def free_port() -> int:
    """For a server whose address must be known before it starts."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def _address(output: IO[str], log: IO[str]) -> str:
    """The address that the server prints when it serves."""
    for line in output:
        if found := _ADDRESS.search(line):
            # Whatever it prints from now on must not fill the pipe.
            threading.Thread(target=output.read, daemon=True).start()
            return found[0]
    log.seek(0)
    raise AssertionError(f"the server ended without serving:\n{log.read()}")
