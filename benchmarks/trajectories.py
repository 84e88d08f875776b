"""How much of what the next step needs is left in a prompt that fits: promptctx and its peers on real agent logs.

python -m benchmarks.trajectories --corpus DIR --json
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.trajectory.measuring import CELLS, Results, Sums, cell, measure, row
from benchmarks.trajectory.methods import LastN, Method, Promptctx
from benchmarks.trajectory.peers import FOLDER, install, started
from benchmarks.trajectory.sessions import Session, load
from benchmarks.trajectory.showing import misses, prompt
from workers.tokens import Tokens

ENCODING = "o200k_base"
QUICK_SESSIONS, QUICK_TURNS = 3, 12
"""Sessions of a source and turns of a session that a quick run looks at."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    begun = time.perf_counter()
    if asked.install_peers:
        return install(_listed(asked.methods), asked.peers)
    if asked.show:
        print(prompt(_sessions(asked), Promptctx(), asked.show))
        return 0
    methods, skipped = _methods(asked)
    for name, reason in skipped.items():
        print(f"SKIPPED {name}: {reason}", file=sys.stderr)
    sessions = _sessions(asked)
    most = asked.max_turns or (QUICK_TURNS if asked.quick else None)
    results: Results = {}
    try:
        for session, found in measure(sessions, methods, most, _listed(asked.cells) or CELLS):
            for key, sums in found.items():
                results.setdefault(key, Sums()).add(sums)
            print(f"{session.source} {session.id}: {session.tokens} tokens", file=sys.stderr)
    finally:
        for method in methods:
            method.close()
    report = _report(methods, results, sessions)
    report["skipped"] = skipped
    report["seconds"] = round(time.perf_counter() - begun, 1)
    if asked.json:
        print(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        print(_table(report))
    if asked.misses:
        print(misses(results, "promptctx", asked.misses), file=sys.stderr if asked.json else sys.stdout)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trajectories", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path(__file__).parents[2] / "shared" / "corpus")
    parser.add_argument("--json", action="store_true", help="print JSON, as docs/benchmarks-trajectories.md describes")
    parser.add_argument("--quick", action="store_true", help="a sample of sessions and turns")
    parser.add_argument("--methods", default="", help="names, comma separated; default: all")
    parser.add_argument("--sources", default="", help="formats of logs, comma separated; default: all")
    parser.add_argument("--cells", default="", help=f"of {', '.join(CELLS)}; default: all")
    parser.add_argument("--max-turns", type=int, help="turns of a session that are scored, spread evenly")
    parser.add_argument("--low-water", default="", help="water marks, comma separated: promptctx once more with each")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="where the environments of the peers are")
    parser.add_argument("--install-peers", action="store_true", help="make the environments of the peers, and stop")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="the N values that were missed most often")
    parser.add_argument("--show", metavar="SESSION,SEQ,CELL", help="one prompt of promptctx, whole, and stop")
    return parser


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _sessions(asked: argparse.Namespace) -> list[Session]:
    found = list(load(asked.corpus, Tokens().counter(ENCODING), ENCODING, _listed(asked.sources)))
    if not asked.quick:
        return found
    found.sort(key=lambda session: (session.source, -len(session.sizes), session.id))
    return [
        session for _, group in groupby(found, key=lambda one: one.source) for session in list(group)[:QUICK_SESSIONS]
    ]


def _methods(asked: argparse.Namespace) -> tuple[list[Method], dict[str, str]]:
    """The methods that run, and why each of the others does not."""
    wanted = _listed(asked.methods)
    ours: list[Method] = [Promptctx(), LastN()]
    ours += [Promptctx(f"promptctx@{mark}", float(mark)) for mark in _listed(asked.low_water)]
    ours = [one for one in ours if not wanted or one.name.split("@")[0] in wanted]
    peers, skipped = started(wanted, asked.peers)
    return [*ours, *peers], skipped


def _report(methods: Sequence[Method], results: Results, sessions: Sequence[Session]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for method in methods:
        mine = {key[1:]: sums for key, sums in results.items() if key[0] == method.name}
        names = [name for name in CELLS if any(key[0] == name for key in mine)]
        sources = sorted({key[1] for key in mine})
        made[method.name] = {
            "version": method.version,
            "low_water": method.low_water,
            "cells": {name: cell([sums for key, sums in mine.items() if key[0] == name]) for name in names},
            "sources": {
                source: {name: row(mine[name, source]) for name in names if (name, source) in mine}
                for source in sources
            },
            "failures": sorted({text for sums in mine.values() for text in sums.failures})[:5],
        }
    return {
        "encoding": ENCODING,
        "sessions": {
            source: sum(one.source == source for one in sessions) for source in sorted({one.source for one in sessions})
        },
        "methods": made,
    }


def _table(report: dict[str, Any]) -> str:
    columns = ("grounding", "any_size", "reuse", "bound", "breaks", "before", "after", "ms_p50", "turns")
    keys = (
        "grounding", "grounding_any_size", "prefix_reuse", "prefix_bound", "rule_breaks", "tokens_before",
        "tokens_after", "ms_p50", "turns",
    )  # fmt: skip
    rows = [f"{'method':<22}{'cell':>6}" + "".join(f"{name:>11}" for name in columns)]
    for name, method in report["methods"].items():
        for where, found in method["cells"].items():
            numbers = "".join(f"{_shown(found[key]):>11}" for key in keys)
            rows.append(f"{name:<22}{where:>6}{numbers}")
    for name, method in report["methods"].items():
        rows += ["", f"grounding of {name} by source"]
        for source, cells in method["sources"].items():
            numbers = "  ".join(
                f"{key} {_shown(found['grounding'])} ({found['needed']})" for key, found in cells.items()
            )
            rows.append(f"  {source:<20}{numbers}")
        rows += [f"  failed: {text}" for text in method["failures"]]
    return "\n".join([*rows, f"{report['seconds']} s"])


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
