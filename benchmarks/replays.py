"""Every prompt of every session of a corpus, compiled again: elsewhere, later, and from a copy.

    python -m benchmarks.replays --corpus ../shared/corpus --json

Each session is compiled in two formats before its replies. All of its prompts are then replayed in another process,
after a rebuild of the read-models, and from the session's own bundle on an empty SQLite server and on an empty
PostgreSQL one. Exit code 0 if every replay is identical.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.corpus import Case, load, spread
from benchmarks.driving import TENANT, Refused, System, postgres_database, postgres_server, prepare
from benchmarks.processes import use_rank_files
from benchmarks.running import FORMATS, chosen

Json = Any

BUDGETS = (2_000, 8_000)
PLACES = ("process", "rebuild", "sqlite_import", "postgresql_import")


def main(given: Sequence[str] | None = None) -> int:
    options = parser().parse_args(given)
    use_rank_files()
    if options.replay:
        print(json.dumps(replayed(options.replay, options.session)))
        return 0
    if options.corpus is None or not options.corpus.is_dir():
        parser().error(f"--corpus: no such folder: {options.corpus}")
    report = run(options)
    print(json.dumps(report, indent=2) if options.json else as_text(report))
    return 1 if report["failures"] else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.replays", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--corpus", type=Path, help="a folder of agent logs")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    made.add_argument("--sessions", type=int, help="only so many sessions of each source")
    made.add_argument("--turns", type=int, default=4, help="turns of each session at which it is compiled")
    made.add_argument("--replay", help=argparse.SUPPRESS)
    made.add_argument("--session", help=argparse.SUPPRESS)
    return made


def run(options: Any) -> Json:
    started, corpus = time.monotonic(), load(options.corpus)
    counts: Counter[str] = Counter()
    failures: list[Json] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home = f"sqlite:///{folder / 'home.db'}"
        prepare(home)
        families = chosen(corpus, options.sessions)
        names = list(_compiled(home, families, options.turns, counts))
        failures += _told("process", _in_another_process(home, None), counts)
        failures += _rebuilt(home, counts)
        places = {"sqlite_import": f"sqlite:///{folder / 'copy.db'}"}
        if server := postgres_server():
            places["postgresql_import"] = stack.enter_context(postgres_database(server))
        for place, url in places.items():
            prepare(url)
            failures += _imported(place, home, url, names, counts)
    return {
        "sessions": len(names), "prompts": counts["prompts"], "refused": counts["refused"],
        "replays": {place: counts[place] for place in PLACES if place in counts},
        "failures": failures[:100], "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip


def _compiled(url: str, families: list[list[Case]], turns: int, counts: Counter[str]) -> Iterator[str]:
    system = System(url)
    for case in (case for family in families for case in family):
        head, done = 0, 0
        for place in [*spread(case.turns, turns), len(case.events)]:
            if events := case.events[done:place]:
                head, done = int(system.append(case.session, events, head)["head"]), place
            if head:
                _ask(system, case.session, counts)
        yield case.session
    system.close()


def _ask(system: System, session: str, counts: Counter[str]) -> None:
    for target in FORMATS:
        for budget in BUDGETS:
            try:
                system.request(session, target, budget)
                counts["prompts"] += 1
            except Refused:
                counts["refused"] += 1


def replayed(url: str, session: str | None) -> Json:
    """The verdicts on all prompts that a store holds."""
    system = System(url)
    found, after = [], None
    while True:
        page = system.engine.history.replays(TENANT, session, limit=100, after=after)
        found += [[one["session"], one["version"], one["verdict"], one["cause"]] for one in page["verdicts"]]
        after = page["next"]
        if after is None:
            system.close()
            return found


def _in_another_process(url: str, session: str | None) -> Json:
    command = [sys.executable, "-m", "benchmarks.replays", "--replay", url]
    command += ["--session", session] if session else []
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise SystemExit(f"The replaying process ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)


def _told(place: str, verdicts: Json, counts: Counter[str]) -> list[Json]:
    counts[place] += len(verdicts)
    return [
        {"place": place, "prompt": f"{one[0]}@{one[1]}", "cause": one[3]} for one in verdicts if one[2] != "identical"
    ]


def _rebuilt(url: str, counts: Counter[str]) -> list[Json]:
    system = System(url)
    told = system.engine.rebuild(TENANT)
    system.close()
    problems = [{"place": "rebuild", "prompt": None, "cause": str(one)} for one in told.get("problems", ())]
    return problems + _told("rebuild", replayed(url, None), counts)


def _imported(place: str, source: str, url: str, names: Sequence[str], counts: Counter[str]) -> list[Json]:
    """Each session from its own bundle, on a server that holds nothing else: what it shares is in the bundle."""
    home, there = System(source), System(url)
    found: list[Json] = []
    for number, name in enumerate(names):
        tenant = f"t{number}"
        there.engine.history.restore(tenant, home.engine.history.bundle(TENANT, session=name))
        page = there.engine.history.replays(tenant, name, limit=1000)
        verdicts = [[name, one["version"], one["verdict"], one["cause"]] for one in page["verdicts"]]
        found += _told(place, verdicts, counts)
    home.close()
    there.close()
    return found


def as_text(report: Json) -> str:
    rows = [f"{report['sessions']} sessions, {report['prompts']} prompts in {report['seconds']} s"]
    rows += [f"{place}: {count} replays" for place, count in report["replays"].items()]
    rows += [f"NOT IDENTICAL {one['place']} {one['prompt']}: {one['cause']}" for one in report["failures"]]
    return "\n".join([*rows, f"{len(report['failures'])} not identical"])


if __name__ == "__main__":
    sys.exit(main())
