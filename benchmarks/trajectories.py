"""How much of what the next step needs is left in a prompt that fits: promptctx and its peers on real agent logs.

    python -m benchmarks.trajectories --corpus DIR --json

docs/benchmarks-trajectories.md says what is measured, and shows the results.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.trajectory import reporting, sharing, shortfalls, showing
from benchmarks.trajectory.framed import RuleSummary
from benchmarks.trajectory.measuring import CELLS, Results
from benchmarks.trajectory.methods import LastN, Promptctx
from benchmarks.trajectory.peers import FOLDER, PEERS, install
from benchmarks.trajectory.sessions import Session, load
from promptctx.importers import ImportFailed
from workers.tokens import Tokens

ENCODING = "o200k_base"
QUICK_SESSIONS, QUICK_TURNS = 3, 12
"""Sessions of a source and turns of a session that a quick run looks at."""

NAMES = (Promptctx.name, LastN.name, RuleSummary.name, *(peer.name for peer in PEERS))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    for name in (*asked.methods, *asked.cells):
        if name not in (*NAMES, *CELLS):
            parser.error(f"{name!r} is none of {', '.join((*NAMES, *CELLS))}")
    if asked.install_peers:
        return min(1, install(asked.methods, asked.peers))
    try:
        sessions = _sessions(asked)
    except ImportFailed as error:
        parser.error(str(error))
    if asked.show:
        print(showing.prompt(sessions, Promptctx(), asked.show))
        return 0
    report, results = _run(asked, sessions)
    print(json.dumps(report, ensure_ascii=False, indent=1) if asked.json else reporting.table(report))
    if asked.misses:
        told = showing.misses(results, Promptctx.name, asked.misses)
        print(told, file=sys.stderr if asked.json else sys.stdout)
    if asked.doc:
        _write(asked.doc, report, results, sessions)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trajectories", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--corpus", type=Path, default=Path(__file__).parents[2] / "shared" / "corpus", help="a folder of agent logs")
    add("--json", action="store_true", help="print JSON")
    add("--quick", action="store_true", help=f"{QUICK_SESSIONS} sessions a source, {QUICK_TURNS} turns a session")
    add("--methods", type=_listed, default=[], help=f"some of {','.join(NAMES)}; default: all")
    add("--sources", type=_listed, default=[], help="folders of the corpus or formats of logs; default: all")
    add("--cells", type=_listed, default=[], help=f"some of {','.join(CELLS)}; default: all".replace("%", "%%"))
    add("--max-turns", type=int, metavar="N", help="score N turns of a session, spread evenly")
    add("--low-water", type=_listed, default=[], help="water marks: promptctx once more with each of these")
    add("--processes", type=int, default=1, metavar="N", help="measure in N processes, whose times disturb each other")
    add("--minutes", type=float, metavar="M", help="begin nothing new after M minutes; the marks come last")
    add("--misses", type=int, default=0, metavar="N", help="the N values that promptctx missed most often")
    add("--show", metavar="SESSION,SEQ,CELL", help="one prompt of promptctx beside its history, and stop")
    add("--peers", type=Path, default=FOLDER, help="where the environments of the peers are")
    add("--install-peers", action="store_true", help="make the environments of the peers, and stop")
    add("--doc", type=Path, metavar="FILE", help="write results and example prompts into a page of the documentation")
    return parser


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _sessions(asked: argparse.Namespace) -> list[Session]:
    found = list(load(asked.corpus, Tokens().counter(ENCODING), ENCODING, asked.sources))
    if not asked.quick:
        return found
    found.sort(key=lambda session: (session.source, -len(session.sizes), session.id))
    return [
        session for _, group in groupby(found, key=lambda one: one.source) for session in list(group)[:QUICK_SESSIONS]
    ]


def _run(asked: argparse.Namespace, sessions: Sequence[Session]) -> tuple[reporting.Report, Results]:
    begun = time.perf_counter()
    most = asked.max_turns or (QUICK_TURNS if asked.quick else None)
    cells = asked.cells or CELLS
    wanted = [name for name in NAMES if not asked.methods or name in asked.methods]
    plan = sharing.Plan(tuple(wanted), tuple(map(float, asked.low_water)), asked.peers, most, asked.processes)
    results, methods, skipped = sharing.measured(sessions, plan, cells, asked.minutes)
    for name, reason in skipped.items():
        print(f"SKIPPED {name}: {reason}", file=sys.stderr)
    report = reporting.report(methods, results, sessions, ENCODING)
    report["short"] = shortfalls.shortfalls(report, results)
    return {**report, "skipped": skipped, "seconds": round(time.perf_counter() - begun, 1)}, results


def _write(document: Path, report: reporting.Report, results: Results, sessions: Sequence[Session]) -> None:
    def fill(name: str) -> str | None:
        match name.split(" ", 1):
            case ["run"]:
                return reporting.about(report)
            case ["short"]:
                return shortfalls.told(report["short"], report)
            case ["results"]:
                return reporting.results(report)
            case ["sources"]:
                return reporting.by_source(report)
            case ["curves"]:
                return reporting.curves(report)
            case ["misses", most]:
                return f"```text\n{showing.misses(results, Promptctx.name, int(most)).strip()}\n```"
            case ["prompt", which]:
                return f"````text\n{showing.prompt(sessions, Promptctx(), which)}\n````"
        return None

    reporting.write(document, fill)


if __name__ == "__main__":
    sys.exit(main())
