"""The server that an example talks to: the one that PROMPTCTX_URL names, else one of its own for as long as it runs."""

import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import stamina

ROOT = Path(__file__).resolve().parents[1]

logging.getLogger("promptctx").setLevel(logging.ERROR)  # the stories tell what was cut; else it is a warning each time


@contextmanager
def serving() -> Iterator[str]:
    """Its URL. A server of the example's own is embedded: one process, one SQLite file in a temporary folder."""
    if named := os.environ.get("PROMPTCTX_URL"):
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PROMPTCTX_DATABASE_URL": f"sqlite:///{folder}/promptctx.db", "PROMPTCTX_PORT": "0"}
        server = subprocess.Popen(
            [sys.executable, "-m", "workers", "up"],
            cwd=ROOT,
            env={**os.environ, **settings, "PYTHONUNBUFFERED": "1", "PROMPTCTX_LOG_LEVEL": "ERROR"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = _address(server)
            _until_it_serves(url)
            yield url
        finally:
            server.terminate()
            server.wait(60)


def _address(server: "subprocess.Popen[str]") -> str:
    assert server.stdout
    for line in server.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            threading.Thread(target=server.stdout.read, daemon=True).start()  # so that its pipe never fills
            return found[0]
    raise SystemExit("The server did not start: run `make up` to see why.")


@stamina.retry(on=httpx2.ConnectError, attempts=None, timeout=120, wait_max=0.5)
def _until_it_serves(url: str) -> None:
    """The address is known a little before someone listens there."""
    httpx2.get(f"{url}/healthz", trust_env=False)
