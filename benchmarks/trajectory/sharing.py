"""The measuring shared between processes: a session in a cell at a time, the methods side by side in each."""

import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.trajectory.framed import RuleSummary
from benchmarks.trajectory.measuring import Results, Sums, budgets, measure
from benchmarks.trajectory.methods import LastN, Method, Promptctx
from benchmarks.trajectory.peers import started
from benchmarks.trajectory.sessions import Session

MARKED = ("25%", "10%")
"""The cells in which other water marks are measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`wanted` methods, promptctx once more with each of `marks`, at most `most` turns of a session."""

    wanted: tuple[str, ...]
    marks: tuple[float, ...]
    peers: Path
    most: int | None
    processes: int


Task = tuple[int, str, bool]
"""The place of a session, the cell, and whether it is for the other water marks."""


def measured(
    sessions: Sequence[Session], plan: Plan, cells: Sequence[str], minutes: float | None
) -> tuple[Results, list[Method], dict[str, str]]:
    """The sums, the methods that ran, and why each of the others did not. What was not begun in time is left out for
    all methods alike; a water mark of which some was left out in a cell is left out of it."""
    deadline = time.monotonic() + minutes * 60 if minutes is not None else None
    _Worker.sessions, _Worker.plan, _Worker.deadline = sessions, plan, deadline
    methods, skipped = _Worker.start()
    tasks = _tasks(sessions, plan, cells)
    if plan.processes < 2:
        found = [_measured(task) for task in tasks]
    else:
        with multiprocessing.get_context("fork").Pool(plan.processes, initializer=_Worker.start) as pool:
            found = list(pool.imap(_measured, tasks))
    for method in methods:
        method.close()
    late = [task for task, sums in zip(tasks, found, strict=True) if sums is None]
    if main := [task for task in late if not task[2]]:
        skipped["late"] = f"{len(main)} of {len(tasks)} sessions in a cell were not begun in time"
    partly = {cell for _, cell, marked in late if marked}
    results: Results = {}
    for (_, cell, marked), sums in zip(tasks, found, strict=True):
        for key, one in (sums or {}).items() if not (marked and cell in partly) else ():
            results.setdefault(key, Sums()).add(one)
    return results, methods, skipped


def _tasks(sessions: Sequence[Session], plan: Plan, cells: Sequence[str]) -> list[Task]:
    """The largest of every source first, so that none is waited for at the end and the sources stay even."""
    ranks: dict[str, int] = {}
    placed = []
    for at in sorted(range(len(sessions)), key=lambda at: -sum(sessions[at].sizes)):
        ranks[sessions[at].source] = rank = ranks.get(sessions[at].source, -1) + 1
        placed.append((rank, at))
    order = [(at, cell) for _, at in sorted(placed) for cell in budgets(sessions[at]) if cell in cells]
    marks = [(at, cell, True) for at, cell in order if cell in MARKED] if plan.marks else []
    return [*((at, cell, False) for at, cell in order), *marks]


def _measured(task: Task) -> Results | None:
    at, cell, marked = task
    if _Worker.deadline is not None and time.monotonic() > _Worker.deadline:
        return None
    session, methods = _Worker.sessions[at], [one for one in _Worker.methods if ("@" in one.name) == marked]
    results: Results = {}
    for _, found in measure([session], methods, _Worker.plan.most, [cell]):
        results.update(found)
    print(f"{session.source} {session.id} {cell}{' marks' if marked else ''}", file=sys.stderr, flush=True)
    return results


class _Worker:
    """What a process has at hand: the sessions as they were read, and the methods that it started."""

    sessions: Sequence[Session] = ()
    plan: Plan
    deadline: float | None = None
    methods: Sequence[Method] = ()

    @classmethod
    def start(cls) -> tuple[list[Method], dict[str, str]]:
        plan = cls.plan
        ours: list[Method] = [one for one in (Promptctx(), LastN(), RuleSummary()) if one.name in plan.wanted]
        if Promptctx.name in plan.wanted:
            ours += [Promptctx(f"{Promptctx.name}@{mark:g}", mark) for mark in plan.marks]
        peers, skipped = started(plan.wanted, plan.peers)
        cls.methods = methods = [*ours, *peers]
        return methods, skipped
