"""What the pipeline costs, store by store and dispatcher by dispatcher, beside its limits and peers in one run.

    python -m benchmarks.pipeline --json [--quick] [--deep] [--doc FILE]

Rates depend on the machine and on what else it does; the ratios are what counts. docs/benchmarks-pipeline.md says how
to read them. Always exits 0: a goal that is missed, and what could not be measured, are lines in the report.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import compiles, speed
from benchmarks.core import Goal, as_text, at_least, at_most, versions
from benchmarks.driving import postgres_server
from benchmarks.pipelines import cells, growth, page
from benchmarks.pipelines.beside import beside
from benchmarks.pipelines.services import Missing
from benchmarks.processes import Progress, use_rank_files
from benchmarks.speed import QUICK, Measured, Scale
from benchmarks.trajectory import reporting

Json = Any
Figures = dict[str, Measured]

STORES = page.STORES
MARKS, DEEP = (1_000, 10_000, 100_000), 1_000_000
"""Events in one stream when appends to it are timed."""


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--json", action="store_true", help="print the report as JSON")
    add("--quick", action="store_true", help="few and short runs: a look, no result")
    add("--deep", action="store_true", help=f"grow one stream to {DEEP:,} events; takes minutes")
    add("--without-peers", action="store_true", help="install and measure no other library")
    add("--store", choices=STORES, help="only this one")
    add("--dispatcher", choices=cells.DISPATCHERS, help="only this one")
    add("--doc", type=Path, metavar="FILE", help="write the tables into a page of the documentation")
    asked = parser.parse_args(given)
    use_rank_files()
    scale = replace(QUICK if asked.quick else Scale(), peers=not asked.without_peers)
    marks = MARKS[:2] if asked.quick else (*MARKS, DEEP) if asked.deep else MARKS
    stores = [asked.store] if asked.store else list(STORES)
    dispatchers = [asked.dispatcher] if asked.dispatcher else list(cells.DISPATCHERS)
    report = run(scale, marks, stores, dispatchers)
    print(json.dumps(report, indent=2) if asked.json else as_text(report))
    if asked.doc:
        reporting.write(asked.doc, page.pipeline_parts(report).get)
    return 0


def run(scale: Scale, marks: Sequence[int], stores: Sequence[str], dispatchers: Sequence[str]) -> Json:
    missing: list[str] = []
    before = os.getloadavg()
    figures: Figures = {}
    steps = list(_steps(scale, marks, stores, dispatchers, missing))
    progress = Progress(len(steps))
    for name, step in steps:
        progress.step(name)
        try:
            figures[name] = {key: round(value, 4) for key, value in step().items()}
        except (Missing, OSError) as error:
            missing.append(f"{name}: {error}")
    progress.close()
    missing = list(dict.fromkeys(missing))
    for reason in missing:
        print(f"NOT MEASURED: {reason}", file=sys.stderr)
    return {
        "goals": [asdict(goal) for store in stores for goal in _goals(store, figures, marks, dispatchers)],
        "figures": figures,
        "missing": missing,
        "scale": asdict(scale),
        "load_before": [round(value, 2) for value in before],
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "versions": versions(),
    }


Step = tuple[str, Callable[[], Measured]]


def _steps(
    scale: Scale, marks: Sequence[int], stores: Sequence[str], dispatchers: Sequence[str], missing: list[str]
) -> Iterator[Step]:
    if "postgres" in stores and not postgres_server():
        missing.append("PostgreSQL does not answer; set PROMPTCTX_TEST_POSTGRES_URL")
        stores = [store for store in stores if store != "postgres"]
    for store in stores:
        yield f"append_{store}", partial(speed.append, store, scale, missing)
        if scale.peers:
            yield f"peers_{store}", partial(beside, store, scale, missing)
        yield f"projection_{store}", partial(speed.projection, store, scale)
        yield f"compile_{store}", partial(compiles.engine_compile, 100, scale, store)
        for dispatcher in dispatchers:
            if dispatcher in cells.BROKERS:  # right before what it is the limit of: the machine's load changes
                yield f"noop_{store}_{dispatcher}", partial(cells.noop, dispatcher, scale)
            yield f"{store}_{dispatcher}", partial(cells.measured, store, dispatcher, scale)
        yield f"storage_{store}", partial(speed.storage, scale, store)
        yield f"streams_{store}", partial(growth.streams, store, scale)
        yield f"growth_{store}", partial(growth.appended, store, marks, scale)


# --- goals ------------------------------------------------------------------------------------------------------------


def _goals(store: str, figures: Figures, marks: Sequence[int], dispatchers: Sequence[str]) -> Iterator[Goal]:
    yield from _append_goals(store, figures, marks)
    yield from _projection_goals(store, figures)
    for dispatcher in dispatchers:
        yield from _waiting_goals(store, dispatcher, figures)
    found = figures.get(f"storage_{store}", {})
    yield at_most(f"storage, {STORES[store]}, to the bytes appended", 3, found, "stored", "appended")


def _append_goals(store: str, figures: Figures, marks: Sequence[int]) -> Iterator[Goal]:
    name, found = STORES[store], {**figures.get(f"append_{store}", {}), **figures.get(f"peers_{store}", {})}
    one, hundred = f"append, 1 per call, {name}, to", f"append, 100 per call, {name}, to"
    if store == "sqlite":
        yield at_least(f"{one} Core's single rows", 0.5, found, "ours_one", "core_one")
        yield at_least(f"{one} eventsourcing", 1.3, found, "ours_one", "eventsourcing_one")
        yield at_least(f"{one} eventsourcing at NORMAL", 1.3, found, "ours_one", "eventsourcing_normal_one")
    yield at_least(f"{hundred} Core's batches", 0.5, found, "ours_hundred", "core_hundred")
    if store == "postgres":
        yield at_least(f"{hundred} eventsourcing", 2, found, "ours_hundred", "eventsourcing_hundred")
    grown = figures.get(f"growth_{store}", {})
    for mark in marks[1:]:
        for size in (1, 100):
            path = f"append, {size} per call, {name}, stream of {mark:,} to 1,000"
            yield at_least(path, 0.9, grown, f"long_{size}_at_{mark}", f"short_{size}_at_{mark}")


def _projection_goals(store: str, figures: Figures) -> Iterator[Goal]:
    found, least = figures.get(f"projection_{store}", {}), {"sqlite": 5_000, "postgres": 2_500}[store]
    yield at_least(f"projection catch-up, {STORES[store]}, events/s (idle machine)", least, found, "ours")
    yield at_least(f"projection catch-up, {STORES[store]}, to Core's batches", 0.2, found, "ours", "core_hundred")


def _waiting_goals(store: str, dispatcher: str, figures: Figures) -> Iterator[Goal]:
    found, name = figures.get(f"{store}_{dispatcher}", {}), f"{STORES[store]}, {dispatcher}"
    if dispatcher not in cells.BROKERS:
        yield at_most(f"doorbell to projected, p95, {name}, ms", 20, found, "doorbell_p95")
        return
    nothing = figures.get(f"noop_{store}_{dispatcher}", {})
    found = {**found, **nothing}
    yield at_most(f"doorbell to projected, p95, {name}, to a no-op task", 2, found, "doorbell_p95", "noop_p95")
    alone = figures.get(f"compile_{store}", {})
    if nothing and alone:
        found["allowed"] = 2 * nothing["noop_p50"] + alone["engine"]
    path = f"compile round trip, p50, {name}, to two no-ops and the compile"
    yield at_most(path, 1, found, "compile_p50", "allowed")


if __name__ == "__main__":
    sys.exit(main())
