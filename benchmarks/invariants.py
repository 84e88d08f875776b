"""The promises, over real agent logs: every session compiled at every turn, every prompt judged, every prompt replayed.

    python -m benchmarks.invariants --corpus ../shared/corpus --json

Exit code 0 if every counter from `overflows_wrong` to `replay_mismatches` is 0. docs/benchmarks.md explains them.
"""

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from platform import platform, python_version
from typing import Any

import psycopg

from benchmarks import corpus, selftest
from benchmarks.checker import COUNTERS
from benchmarks.driving import libpq, postgres_database, postgres_server, prepare
from benchmarks.processes import Progress, run_orders, use_rank_files
from benchmarks.running import SHOWN, Order, chosen
from domain.snapshots import COMPILER

Json = Any

SEEDS = {"sqlite": ("1", "4711"), "postgres": ("815", "42")}
"""PYTHONHASHSEED of the processes that compile and of those that replay, by store."""


EACH = 10
"""On the second store all prompts are compiled anew and compared by hash; one in so many is replayed there, too."""

TOLD = 20
"""Findings that the plain report tells; the JSON has more."""


def main(given: Sequence[str] | None = None) -> int:
    options = parser().parse_args(given)
    use_rank_files()
    if options.self_test:
        told = selftest.run()
        print(json.dumps(told, indent=2))
        return 0 if all(told["self_test"].values()) else 1
    if options.corpus is None or not options.corpus.is_dir():
        parser().error(f"--corpus: no such folder: {options.corpus}")
    report = run(options)
    print(json.dumps(report, indent=2, ensure_ascii=False) if options.json else as_text(report))
    failed = report["errors"] or any(report[name] for name in COUNTERS)
    short = any(found["expected"] not in (None, found["sessions"]) for found in report["sources"].values())
    return 1 if failed or short else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.invariants", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--corpus", type=Path, help="a folder of agent logs")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    made.add_argument("--sessions", type=int, help="only so many sessions of each source")
    made.add_argument("--turns", type=_turns, default=None, metavar="every|sample:N", help="which turns to compile at")
    made.add_argument("--store", choices=("sqlite", "postgres", "both"), help="default: both, if PostgreSQL answers")
    made.add_argument("--edges", action="store_true", help="compile with the floor itself as a budget, too")
    made.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once")
    made.add_argument("--self-test", action="store_true", help="break one prompt per counter; each counter must rise")
    return made


def _turns(value: str) -> int | None:
    if value == "every":
        return None
    kind, _, number = value.partition(":")
    if kind != "sample" or not number.isdigit() or not int(number):
        raise argparse.ArgumentTypeError("every, or sample:N with N of 1 or more")
    return int(number)


def run(options: argparse.Namespace) -> Json:
    began = time.monotonic()
    found = corpus.load(options.corpus)
    sessions = sum(map(len, chosen(found, options.sessions)))
    counts: Counter[str] = Counter()
    findings: list[Json] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="promptctx-")))
        stores = _stores(options, folder, stack)
        progress = Progress(2 * len(stores) * sessions)
        made: list[dict[tuple[Json, ...], Json]] = []
        for place, (store, urls) in enumerate(stores):
            orders = [_order(options, folder, store, urls, share, not place) for share in range(options.processes)]
            compiled = run_orders("compile", orders, SEEDS[store][0], progress)
            replays = [_replay(order, EACH if place else 1) for order in orders]
            replayed = run_orders("replay", replays, SEEDS[store][1], progress)
            for outcome in (*(compiled if not place else ()), *replayed):
                counts.update(outcome["counts"])
                findings += outcome["findings"]
            made.append({tuple(row[:5]): row[6:] for outcome in compiled for row in outcome["made"]})
        progress.close()
    differing = [key for one in made[1:] for key in made[0].keys() | one.keys() if made[0].get(key) != one.get(key)]
    counts["replay_mismatches"] += len(differing)
    findings += [{"counter": "replay_mismatches", "what": "the stores differ", "where": list(key)} for key in differing]
    names = [store for store, _ in stores]
    return {**_report(found, sessions, counts, findings), **_surroundings(names, time.monotonic() - began)}


def _stores(options: argparse.Namespace, folder: Path, stack: ExitStack) -> list[tuple[str, list[str]]]:
    """Each store with the URL for each process: a SQLite file of its own, or one database on PostgreSQL for all."""
    wanted = {"both": ("sqlite", "postgres")}.get(options.store, (options.store,) if options.store else None)
    server = postgres_server()
    if wanted is None:
        wanted = ("sqlite", "postgres") if server else ("sqlite",)
        if not server:
            print("NOT CHECKED: PostgreSQL does not answer; set PROMPTCTX_TEST_POSTGRES_URL", file=sys.stderr)
    made = []
    for store in wanted:
        if store == "sqlite":
            urls = [f"sqlite:///{folder}/share-{share}.db" for share in range(options.processes)]
        elif server:
            urls = [stack.enter_context(postgres_database(server))] * options.processes
        else:
            raise SystemExit("PostgreSQL does not answer; set PROMPTCTX_TEST_POSTGRES_URL or use --store sqlite.")
        for url in dict.fromkeys(urls):
            prepare(url)
        made.append((store, urls))
    return made


def _order(options: argparse.Namespace, folder: Path, store: str, urls: list[str], share: int, judge: bool) -> Order:
    return Order(
        corpus=str(options.corpus), url=urls[share], out=str(folder / f"{store}-{share}.json"), share=share,
        shares=options.processes, sessions=options.sessions, turns=options.turns, judge=judge, edges=options.edges,
    )  # fmt: skip


def _replay(order: Order, each: int) -> Order:
    out = order.out.replace(".json", "-replayed.json")
    return Order(order.corpus, order.url, out=out, known=order.out, each=each)


def _report(found: corpus.Corpus, sessions: int, counts: Counter[str], findings: list[Json]) -> Json:
    return {
        "sessions": sessions,
        "compiles": counts["compiles"],
        "overflows": counts["overflows"],
        **{name: counts[name] for name in COUNTERS},
        "skipped": [{"path": path, "reason": reason} for path, reason in found.skipped],
        "sources": {one.name: {"sessions": one.sessions, "expected": one.stated} for one in found.sources},
        "errors": counts["errors"],
        "replays": counts["replays"],
        "findings": findings[:SHOWN],
    }


def _surroundings(stores: list[str], seconds: float) -> Json:
    versions = {
        "python": python_version(),
        "platform": platform(),
        "compiler": COMPILER,
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("sqlalchemy", "tiktoken", "pydantic")},
    }
    server = postgres_server()
    if server and "postgres" in stores:
        with psycopg.connect(libpq(server)) as connection:
            versions["postgres"] = connection.info.parameter_status("server_version") or ""
    return {"stores": stores, "seconds": round(seconds, 1), "versions": versions}


def as_text(report: Json) -> str:
    names = ("sessions", "compiles", "overflows", *COUNTERS, "errors", "replays")
    rows = [f"{name:20}{report[name]:>8}" for name in names]
    rows += [f"{len(report['skipped'])} files gave no session; --json names them"]
    for name, found in report["sources"].items():
        stated = "" if found["expected"] is None else f" of {found['expected']} stated"
        rows.append(f"  {name:24}{found['sessions']:>4}{stated}")
    rows += [f"{one['counter']}: {one['where']} {one['what'][:160]}" for one in report["findings"][:TOLD]]
    return "\n".join([*rows, f"{', '.join(report['stores'])}: {report['seconds']} s"])


if __name__ == "__main__":
    sys.exit(main())
