"""Processes that tests start: each in a group of its own, and none outlives the test process, however that ends.

A watcher holds the other end of a pipe: when the test process is gone, killed by a time limit as well, the pipe is
closed and the watcher kills the groups that are still there, and with them what their leaders forked.
"""

import contextlib
import os
import signal
import subprocess
import sys
from functools import cache
from typing import Any

_WATCHER = """
import os, signal, sys
def began(process):
    try:
        with open(f"/proc/{process}/stat") as told:
            return told.read().rpartition(")")[2].split()[19]
    except OSError:
        return None
groups = {}
for line in sys.stdin:
    groups[int(line)] = began(int(line))
for group, then in groups.items():
    if began(group) in (None, then):  # else the number is another's by now
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
"""


@cache
def _watcher() -> "subprocess.Popen[str]":
    command = [sys.executable, "-S", "-c", _WATCHER]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, bufsize=1, start_new_session=True
    )


def watch(group: int) -> None:
    """Kill what is left of this process group when the test process is gone."""
    stdin = _watcher().stdin
    assert stdin is not None
    stdin.write(f"{group}\n")


def start(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """A process in a group of its own, watched."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    watch(process.pid)
    return process


def end(process: "subprocess.Popen[Any]", how: signal.Signals = signal.SIGKILL, seconds: float = 60) -> None:
    """The process and all that it forked, at once and without a word."""
    if process.returncode is None:  # even if it is a zombie its group is still its own
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
    process.wait(seconds)
