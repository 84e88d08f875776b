"""Other libraries on the same history, each in an environment of its own, so that none of ours changes.

An environment is made once in the user's cache folder. Where it cannot be made, its figures are missing and the report
says so, loudly.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

Json = Any

PINNED = {
    "eventsourcing": ("eventsourcing[postgres]==9.5.6",),
    "langgraph": (
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary,pool]>=3.2",
    ),
    "adk": ("google-adk[db]==2.13.0", "aiosqlite==0.22.1", "asyncpg==0.32.0", "greenlet>=3"),
    "trim_messages": ("langchain-core==1.8.3", "tiktoken==0.14.0"),
}
HERE = Path(__file__).resolve().parent


class PeerMissing(Exception):
    """A peer that cannot be measured here."""


def measure(peer: str, order: Json) -> Json:
    """What the peer's script answers to an order. Raises PeerMissing."""
    python = _environment(peer)
    done = subprocess.run(
        [str(python), str(HERE / f"{peer}_peer.py")],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerMissing(f"{peer} failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return json.loads(done.stdout)


def _environment(peer: str) -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"{peer}-{sys.version_info.major}.{sys.version_info.minor}-{PINNED[peer][0].rpartition('==')[2]}"
    folder = home / "promptctx" / "peers" / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"installing {', '.join(PINNED[peer])} for comparison (once)", file=sys.stderr)
        try:
            venv.create(folder, with_pip=True, clear=True)
            subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINNED[peer]],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            raise PeerMissing(f"{peer} could not be installed: {said[-1] if said else error}") from error
        ready.touch()
    return python
