"""Memory of processes and their children, sampled while they work."""

import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

Json = Any

FLAT = 1.1
"""The last third's median over the second third's, at most."""


class Sampler:
    """Reads the resident memory of each process, and of what it forked, every so many seconds."""

    def __init__(self, roots: Mapping[str, int], every: float = 1.0) -> None:
        self._roots, self._every = dict(roots), every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memory", daemon=True)
        self._samples: dict[str, list[tuple[float, float]]] = {}
        self._began = 0.0

    def __enter__(self) -> "Sampler":
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *told: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _loop(self) -> None:
        while not self._stop.wait(self._every):
            at = time.monotonic() - self._began
            for name, mebibytes in resident(self._roots).items():
                self._samples.setdefault(name, []).append((at, mebibytes))

    def report(self, seconds: float) -> list[Json]:
        """One row a process, over a run of so many seconds."""
        return [{"process": name, **thirds(found, seconds)} for name, found in sorted(self._samples.items())]


def thirds(samples: Sequence[tuple[float, float]], seconds: float) -> Json:
    """Medians of MiB by third of the run, and whether the last is flat. `None`: it did not live through both."""
    parts = [
        [value for at, value in samples if seconds * part / 3 <= at < seconds * (part + 1) / 3] for part in range(3)
    ]
    first, second, last = (round(statistics.median(part), 1) if part else None for part in parts)
    whole = min(len(parts[1]), len(parts[2])) >= 0.8 * max(len(part) for part in parts)
    growth = round(last / second, 3) if whole and second and last else None
    return {
        "samples": len(samples), "first_third": first, "second_third": second, "last_third": last, "growth": growth,
        "flat": None if growth is None else growth <= FLAT,
    }  # fmt: skip


def resident(roots: Mapping[str, int]) -> dict[str, float]:
    """MiB by process: `worker-1`, and its children as `worker-1/4711`."""
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [[int(word) for word in line.split()] for line in told.splitlines()]
    sizes = {pid: rss / 1024 for pid, _, rss in rows}
    found = {role: sizes[pid] for role, pid in roots.items() if pid in sizes}
    children = {pid: role for pid, parent, _ in rows for role, root in roots.items() if parent == root}
    return {**found, **{f"{role}/{pid}": sizes[pid] for pid, role in children.items()}}
