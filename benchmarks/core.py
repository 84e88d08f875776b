"""Speed, measured beside its limits and peers in one run: medians, ratios, and whether each goal is reached.

    python -m benchmarks.core --json [--quick]

Rates depend on the machine and on what else it does; the ratios are what counts. docs/benchmarks.md explains them.
Always exits 0: a goal that is missed is a line in the report.
"""

import argparse
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from platform import platform, python_version
from typing import Any

from benchmarks import compiles, peers, speed
from benchmarks.driving import postgres_server
from benchmarks.processes import Progress, use_rank_files
from benchmarks.speed import QUICK, Measured, Scale
from domain.snapshots import COMPILER

Json = Any


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the report. `passed` is None where something needed was missing."""

    path: str
    goal: str
    reached: float | None
    passed: bool | None


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--quick", action="store_true", help="few and short runs: a look, no result")
    parser.add_argument("--parts", default="", help="only these, comma separated: append, compile, fold, tokens …")
    options = parser.parse_args(given)
    use_rank_files()
    report = run(QUICK if options.quick else Scale(), tuple(filter(None, options.parts.split(","))))
    print(json.dumps(report, indent=2) if options.json else as_text(report))
    return 0


def run(scale: Scale, parts: tuple[str, ...] = ()) -> Json:
    missing: list[str] = []
    load = os.getloadavg()
    figures = dict(_measured(scale, missing, parts))
    goals = list(_append_goals(figures)) + list(_other_goals(figures)) + list(_compile_goals(figures, scale))
    for reason in dict.fromkeys(missing):
        print(f"NOT MEASURED: {reason}", file=sys.stderr)
    return {
        "goals": [asdict(goal) for goal in goals],
        "figures": figures,
        "missing": list(dict.fromkeys(missing)),
        "scale": asdict(scale),
        "load_before": [round(value, 2) for value in load],
        "versions": versions(),
    }


def _measured(scale: Scale, missing: list[str], parts: tuple[str, ...]) -> Iterator[tuple[str, Measured]]:
    stores = ["sqlite", *(["postgres"] if postgres_server() else [])]
    if len(stores) == 1:
        missing.append("PostgreSQL does not answer; set PROMPTCTX_TEST_POSTGRES_URL")
    steps: list[tuple[str, Callable[[], Measured]]] = []
    for store in stores:
        steps += [(f"append_{store}", partial(speed.append, store, scale, missing))]
        steps += [(f"projection_{store}", partial(speed.projection, store, scale))]
    steps += [
        ("fold", partial(speed.folding, scale)),
        ("tokens", partial(speed.token_count, scale)),
        ("hostile", speed.hostile_text),
        ("storage", partial(speed.storage, scale)),
    ]
    steps += [(f"compile_{length}", partial(_compiles, length, scale, missing)) for length in scale.lengths]
    steps = [step for step in steps if not parts or step[0].startswith(parts)]
    progress = Progress(len(steps))
    for name, step in steps:
        progress.step(name)
        yield name, {key: round(value, 4) for key, value in step().items()}
    progress.close()


def _compiles(length: int, scale: Scale, missing: list[str]) -> Measured:
    return {
        **compiles.floor_pass(length, scale),
        **compiles.pure_compile(length, scale),
        **compiles.engine_compile(length, scale),
        **compiles.trim_messages(length, scale, missing),
    }


def _append_goals(figures: dict[str, Measured]) -> Iterator[Goal]:
    sqlite = figures.get("append_sqlite", {})
    yield at_least("append, 1 per call, SQLite, to Core's single rows", 0.5, sqlite, "ours_one", "core_one")
    for peer, called in (("eventsourcing", "as it comes"), ("eventsourcing_normal", "at NORMAL")):
        path = f"append, 1 per call, SQLite, to eventsourcing {called}"
        yield at_least(path, 1.3, sqlite, "ours_one", f"{peer}_one")
    yield at_least("append, 100 per call, SQLite, to Core's batches", 0.5, sqlite, "ours_hundred", "core_hundred")
    postgres = figures.get("append_postgres", {})
    yield at_least("append, 100 per call, PostgreSQL, to Core's batches", 0.5, postgres, "ours_hundred", "core_hundred")
    yield at_least(
        "append, 100 per call, PostgreSQL, to eventsourcing", 2, postgres, "ours_hundred", "eventsourcing_hundred"
    )


def _other_goals(figures: dict[str, Measured]) -> Iterator[Goal]:
    for store, name, least in (("sqlite", "SQLite", 5_000), ("postgres", "PostgreSQL", 2_500)):
        found = figures.get(f"projection_{store}", {})
        yield at_least(f"projection catch-up, {name}, events/s", least, found, "ours")
        yield at_least(f"projection catch-up, {name}, to Core's batch inserts", 0.2, found, "ours", "core_hundred")
    yield at_least("fold in memory, events/s", 20_000, figures.get("fold", {}), "fold")
    tokens = figures.get("tokens", {})
    yield at_least("token count, cold, to encode_ordinary", 0.85, tokens, "cold", "encode_ordinary")
    yield at_least("token count, seen before, to encode_ordinary", 100, tokens, "seen", "encode_ordinary")
    yield at_most("token count, hostile texts that raised", 0, figures.get("hostile", {}), "raised")
    yield at_most("storage, to the bytes appended", 3, figures.get("storage", {}), "stored", "appended")


def _compile_goals(figures: dict[str, Measured], scale: Scale) -> Iterator[Goal]:
    ends = {
        name: found["engine"]
        for name, length in (("shortest", scale.lengths[0]), ("longest", scale.lengths[-1]))
        if (found := figures.get(f"compile_{length}"))
    }
    span = f"{scale.lengths[-1]:,} events to {scale.lengths[0]:,}"
    yield at_most(f"compile through the engine, {span}", 1.3, ends, "longest", "shortest")
    for length in scale.lengths:
        found = figures.get(f"compile_{length}", {})
        yield at_most(f"compile, pure, {length:,}, to one exact backward pass", 2, found, "pure", "floor")
        yield at_most(f"compile, pure, {length:,}, at the next turn, to that pass", 2, found, "pure_next", "floor")
        yield at_most(f"compile through the engine, {length:,}, to that pass", 5, found, "engine", "floor")
        for kind, name in (("pure_next", "pure"), ("engine", "through the engine")):
            path = f"compile, {name}, {length:,}, one that trims to one that fits"
            yield at_most(path, 3, found, f"{kind}_trims", f"{kind}_fits")
        if least := {1_000: 5, 10_000: 50}.get(length):
            yield at_least(f"compile, {length:,}, faster than trim_messages", least, found, "trim_messages", "engine")


def at_least(path: str, goal: float, found: Measured, above: str, below: str | None = None) -> Goal:
    reached = _ratio(found, above, below)
    return Goal(path, f"≥ {goal:g}", reached, None if reached is None else reached >= goal)


def at_most(path: str, goal: float, found: Measured, above: str, below: str | None = None) -> Goal:
    reached = _ratio(found, above, below)
    return Goal(path, f"≤ {goal:g}", reached, None if reached is None else reached <= goal)


def _ratio(found: Measured, above: str, below: str | None) -> float | None:
    if above not in found or (below is not None and below not in found):
        return None
    return round(found[above] / (found[below] if below else 1), 3)


def versions() -> Json:
    names = ("sqlalchemy", "psycopg", "tiktoken", "pydantic", "celery")
    return {
        "python": python_version(), "platform": platform(), "processors": os.cpu_count(), "compiler": COMPILER,
        "sqlite": sqlite3.sqlite_version, **{name: version(name) for name in names},
        **{name: pins[0].rpartition("==")[2] for name, pins in peers.PINNED.items()},
    }  # fmt: skip


def as_text(report: Json) -> str:
    verdicts = {True: "reached", False: "MISSED", None: "not measured"}
    rows = [
        f"{goal['path']:62}{goal['goal']:>9}{'' if goal['reached'] is None else format(goal['reached'], ',.2f'):>14}"
        f"  {verdicts[goal['passed']]}"
        for goal in report["goals"]
    ]
    rows += list(_compile_times(report["figures"]))
    rows += [f"{name}: {', '.join(f'{key} {value:,.1f}' for key, value in found.items())}"
             for name, found in report["figures"].items()]  # fmt: skip
    return "\n".join(rows)


def _compile_times(figures: dict[str, Measured]) -> Iterator[str]:
    """A table of compile times: median and 95th percentile by the number of messages."""
    shown = [(name.partition("_")[2], found) for name, found in figures.items() if name.startswith("compile_")]
    yield "".join(f"{title:>24}" for title in ["compile, ms p50 / p95", *(f"{length} messages" for length, _ in shown)])
    for kind in ("floor", "pure", "pure_next", "pure_next_fits", "pure_next_trims", "engine", "engine_fits",
                 "engine_trims", "trim_messages"):  # fmt: skip
        cells = [
            " / ".join(f"{found[key]:,.1f}" for key in (kind, f"{kind}_p95") if key in found) for _, found in shown
        ]
        yield f"{kind:>24}" + "".join(f"{cell:>24}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
