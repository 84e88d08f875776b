"""How fast the time machine is, each figure beside its goal; medians of one run, in processor time.

    python -m benchmarks.timemachine --json

Replay is measured as its parts: the fold of the log, and the compile from the folded state. Exit code 0 if every
goal is met.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from benchmarks.driving import TENANT, System, prepare
from benchmarks.processes import use_rank_files
from domain.history import in_force
from domain.state import fold
from workers.store import log, streams

Json = Any

NAMESPACE = UUID("5a0a7c7e-52f1-5e0f-8a63-2b8f7c1d9e44")
WORDS = "the agent looked up order {n} and found that the parcel waits in depot {n} since day {n}; "


def main(given: Sequence[str] | None = None) -> int:
    options = parser().parse_args(given)
    use_rank_files()
    report = run(options)
    print(json.dumps(report, indent=2) if options.json else as_text(report))
    return 0 if all(row["met"] for row in report["goals"].values()) else 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.timemachine", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    made.add_argument("--events", type=int, default=10_000, help="events of the long session")
    made.add_argument("--versions", type=int, default=1_000, help="versions of the session that is bisected")
    made.add_argument("--runs", type=int, default=5)
    return made


def event(kind: str, number: int, payload: Json) -> Json:
    return {"kind": kind, "event_id": str(uuid5(NAMESPACE, f"{kind}/{number}")), "payload": payload}


def turn(number: int) -> list[Json]:
    """Four events: a question, a call, its result, an answer."""
    text = WORDS.format(n=number)
    call = {"id": f"c{number}", "name": "look_up", "arguments": json.dumps({"order": number})}
    return [
        event("user.input", number, {"content": f"Where is parcel {number}? {text}"}),
        event("assistant.output", 2 * number, {"tool_calls": [call]}),
        event("tool.result", number, {"call_id": f"c{number}", "content": text * 4}),
        event("assistant.output", 2 * number + 1, {"content": f"Parcel {number} is in a depot. {text}"}),
    ]


def run(options: Any) -> Json:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'store.db'}"
        prepare(url)
        system = System(url)
        measured = {**long_session(system, options), **many_versions(system, options)}
        system.close()
    return {"events": options.events, "versions": options.versions, "runs": options.runs, "goals": goals(measured)}


def goals(measured: dict[str, float]) -> Json:
    limits = {
        "replay_over_compile_and_fold": ("at most", 1.5), "fold_events_per_second": ("at least", 20_000),
        "diff_32k_ms": ("at most", 50), "why_ms": ("at most", 100), "blame_ms": ("at most", 100),
        "bisect_s": ("at most", 5),
    }  # fmt: skip
    found = {}
    for name, (kind, limit) in limits.items():
        value = measured[name]
        met = value <= limit if kind == "at most" else value >= limit
        found[name] = {"value": round(value, 3), "goal": f"{kind} {limit:g}", "met": met}
    found["replay_over_compile_and_fold"]["parts_ms"] = {
        name: round(measured[name], 1) for name in ("compile_ms", "fold_ms", "replay_ms")
    }
    return found


def timed(work: Callable[[], Any], runs: int, before: Callable[[], Any] = lambda: None) -> float:
    """Milliseconds of this process's processor time, the median: what else the machine does is left out."""
    found = []
    for _ in range(runs):
        before()
        started = time.process_time()
        work()
        found.append((time.process_time() - started) * 1000)
    return statistics.median(found)


def long_session(system: System, options: Any) -> dict[str, float]:
    engine, session = system.engine, "long"
    engine.append(TENANT, session, [event("instruction.set", 0, {"role": "You track parcels."})])
    for number in range(options.events // 4):
        engine.append(TENANT, session, turn(number))
    # A view of its own for each, so that nothing is carried over: each compile is the first of its view.
    asked = iter(range(options.runs))
    compiled: list[str] = []
    compile_ms = timed(lambda: compiled.append(system.request(session, "openai", 8_000 + next(asked))), options.runs)
    engine.append(TENANT, session, turn(options.events))
    small, large = compiled[-1], system.request(session, "openai", 32_000)
    engine.append(TENANT, session, turn(options.events + 1))
    larger = system.request(session, "openai", 32_000)
    history, forget = engine.history, engine.deps.folds.forget
    events = _events(system, session)
    fold_ms = timed(lambda: _folded(system, session), options.runs)
    replay_ms = timed(lambda: engine.replay(TENANT, small), options.runs, forget)
    pure_ms = timed(lambda: fold(in_force(events)), options.runs)
    return {
        "compile_ms": compile_ms, "fold_ms": fold_ms, "replay_ms": replay_ms,
        "replay_over_compile_and_fold": (replay_ms - fold_ms) / compile_ms,
        "fold_events_per_second": len(events) / pure_ms * 1000,
        "diff_32k_ms": timed(lambda: history.diff(TENANT, large, larger), options.runs),
        "why_ms": timed(lambda: history.why(TENANT, large, str(options.events // 2)), options.runs),
        "blame_ms": timed(lambda: history.blame(TENANT, large), options.runs),
    }  # fmt: skip


def _events(system: System, session: str) -> list[Any]:
    with system.database.read(TENANT) as unit:
        row = streams.get(unit, TENANT, f"session/{session}")
        assert row is not None
        return list(map(log.fact, log.since(unit, TENANT, row.number, 0)))


def _folded(system: System, session: str) -> Any:
    """What a replay has to do before it can compile: read the log and fold it."""
    return fold(in_force(_events(system, session)))


def many_versions(system: System, options: Any) -> dict[str, float]:
    session = "versions"
    for number in range(options.versions):
        system.engine.append(TENANT, session, turn(1_000_000 + number)[:1])
        system.request(session, "openai", 1_000)
    text = f"Where is parcel {1_000_000 + options.versions // 2}?"
    return {"bisect_s": timed(lambda: system.engine.history.bisect(TENANT, session, text), 1) / 1000}


def as_text(report: Json) -> str:
    rows = [f"{report['events']} events, {report['versions']} versions, medians of {report['runs']}"]
    for name, row in report["goals"].items():
        rows.append(f"{'ok  ' if row['met'] else 'MISS'} {name}: {row['value']} ({row['goal']})")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
