"""Fault points: the numbered steps of the pipeline at which a chaos run kills, stops or fails the process.

    PROMPTCTX_FAULT=project.after_rows:kill       at the first time that this step is reached
    PROMPTCTX_FAULT=project.after_rows:kill@3     at the third

`kill` is SIGKILL, `stop` SIGSTOP (a process that is paused and wakes later), `raise` an error that nobody expects.
Without the variable a step costs one comparison.
"""

import os
import signal
from dataclasses import dataclass

VARIABLE = "PROMPTCTX_FAULT"

POINTS = (
    # Append: one transaction, then the ring.
    "append.began", "append.locked", "append.after_events", "append.after_head", "append.after_work",
    "append.committed", "append.rung",
    # A request for a prompt: one transaction, then the ring.
    "request.after_number", "request.after_job", "request.committed",
    # Project: claim, read, fold; one transaction a batch.
    "project.claimed", "project.read", "project.folded", "project.after_lease", "project.after_checkpoint",
    "project.after_rows", "project.committed",
    # Project after a rollback or an erasure: beside the live rows, then the flip.
    "refold.began", "refold.after_chunk", "refold.before_flip", "refold.flipped",
    # Compile: claim, load, compute; one transaction a job.
    "compile.claimed", "compile.loaded", "compile.compiled", "compile.after_lease", "compile.after_snapshot",
    "compile.after_audit", "compile.after_job", "compile.committed",
)  # fmt: skip
"""In the order in which they are reached."""

ACTIONS = ("kill", "stop", "raise")


class Fault(Exception):
    """What `raise` raises."""


@dataclass(slots=True)
class _Chosen:
    point: str
    action: str
    left: int


def _read(told: str | None) -> _Chosen | None:
    if not told:
        return None
    name, _, rest = told.partition(":")
    action, _, times = rest.partition("@")
    if name not in POINTS or action not in ACTIONS or not (times or "1").isdecimal():
        raise SystemExit(f"{VARIABLE}={told}: must be POINT:ACTION or POINT:ACTION@TIMES; see workers/faults.py.")
    return _Chosen(name, action, int(times or "1"))


_chosen = _read(os.environ.get(VARIABLE))


def arm(told: str | None) -> None:
    """Choose a fault for this process from here on, as the variable does from its start."""
    global _chosen
    _chosen = _read(told)


def point(name: str) -> None:
    """This step is reached."""
    if _chosen is not None and _chosen.point == name:
        _hit(_chosen)


def _hit(chosen: _Chosen) -> None:
    chosen.left -= 1
    if chosen.left != 0:
        return
    if chosen.action == "raise":
        raise Fault(f"fault at {chosen.point}")
    os.kill(os.getpid(), signal.SIGKILL if chosen.action == "kill" else signal.SIGSTOP)
