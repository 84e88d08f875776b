"""Fresh processes for the parts of a run, and one line of progress on a terminal."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.running import Order
from workers.tokens import unpack_ranks

Json = Any

ROOT = Path(__file__).resolve().parents[1]


def use_rank_files() -> None:
    """tiktoken finds its files without a network, here and in the processes begun from here."""
    for encoding in ("o200k_base", "cl100k_base"):
        os.environ["TIKTOKEN_CACHE_DIR"] = str(unpack_ranks(encoding))


class Progress:
    """A line that is written over; in a file a line every ten seconds at most."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done = steps, 0
        self._shown, self._told = sys.stderr.isatty(), 0.0
        self._lock = threading.Lock()

    def step(self, what: str) -> None:
        with self._lock:
            self._done += 1
            if self._shown:
                print(f"\r\x1b[K{self._done}/{self._steps} {what[:80]}", end="", file=sys.stderr, flush=True)
            elif time.monotonic() > self._told + 10:
                self._told = time.monotonic()
                print(f"{self._done}/{self._steps} {what[:80]}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run_orders(verb: str, orders: Sequence[Order], seed: str, progress: Progress) -> list[Json]:
    """Each order in a new process, all at once; what they left, in the order given."""
    threads, begun = [], []
    for order in orders:
        process = begin(verb, order, seed)
        watcher = threading.Thread(target=_watch, args=(process, verb, progress), daemon=True)
        watcher.start()
        threads.append(watcher)
        begun.append(process)
    failed = [process.wait() for process in begun]
    for watcher in threads:
        watcher.join()
    if any(failed):
        raise SystemExit(f"A process that should {verb} failed; what it said stands above.")
    return [json.loads(Path(order.out).read_text()) for order in orders]


def begin(verb: str, order: Order, seed: str) -> "subprocess.Popen[str]":
    paths = [str(ROOT), str(ROOT / "sdk"), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.running", verb],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(json.dumps(asdict(order)))
    return process


def _watch(process: "subprocess.Popen[str]", verb: str, progress: Progress) -> None:
    for line in process.stdout or ():
        progress.step(f"{verb} {line.strip()}")
