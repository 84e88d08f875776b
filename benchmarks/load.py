"""Many agents at once through HTTP, against real processes: nothing fails, nothing is lost, memory stays flat.

    python -m benchmarks.load --json [--seconds N] [--sessions N] [--deployment sqlite|postgresql]

Two deployments, one after the other: the embedded server on SQLite, and a server with two Celery workers on PostgreSQL
and Redis. Loopback only. Exits 1 if anything failed, was lost, or grew. docs/benchmarks-pipeline.md says how to read
it.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.core import versions
from benchmarks.pipelines import page
from benchmarks.pipelines.figures import percentiles
from benchmarks.pipelines.memory import Sampler
from benchmarks.pipelines.services import Deployment, Missing, distributed, embedded
from benchmarks.pipelines.traffic import Plan, Seen, drive, lost
from benchmarks.processes import ROOT, use_rank_files
from benchmarks.trajectory import reporting
from workers import telemetry

Json = Any

DEPLOYMENTS: dict[str, Callable[[], AbstractContextManager[Deployment]]] = {
    "sqlite": embedded,
    "postgresql": distributed,
}
DRAINS_WITHIN = 60.0
"""Seconds until no work may be left, once nobody asks for any."""
COMPLAINT = re.compile(r"Traceback|\b(?:ERROR|CRITICAL)\b|level=(?:error|critical)")
SHOWN = 20
"""Errors and losses that are told in words."""


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add, usual = parser.add_argument, Plan()
    add("--json", action="store_true", help="print the report as JSON")
    add("--seconds", type=float, default=usual.seconds, help="how long the agents work (%(default)s)")
    add("--sessions", type=int, default=usual.sessions, help="agents at once (%(default)s)")
    add("--think", type=float, default=usual.think, help="mean seconds between two requests of one (%(default)s)")
    add("--deployment", choices=(*DEPLOYMENTS, "both"), default="both", help="against what (%(default)s)")
    add("--doc", type=Path, metavar="FILE", help="write the tables into a page of the documentation")
    asked = parser.parse_args(given)
    use_rank_files()
    telemetry.configure("ERROR")  # else what the client tries again is told on stdout, amid the JSON
    chosen = list(DEPLOYMENTS) if asked.deployment == "both" else [asked.deployment]
    report = run(Plan(asked.sessions, asked.seconds, asked.think), chosen)
    print(json.dumps(report, indent=2) if asked.json else page.load_text(report))
    if asked.doc:
        reporting.write(asked.doc, page.load_parts(report).get)
    return 0 if report["ok"] else 1


def run(plan: Plan, deployments: Sequence[str]) -> Json:
    found, missing, before = [], [], os.getloadavg()
    for name in deployments:
        try:
            with DEPLOYMENTS[name]() as deployment:
                print(f"{deployment.name}: {plan.sessions} sessions, {plan.seconds:g} s", file=sys.stderr)
                found.append(under_load(deployment, plan))
        except Missing as error:
            missing.append(str(error))
            print(f"NOT MEASURED: {error}", file=sys.stderr)
    return {
        "ok": bool(found) and not missing and all(one["ok"] for one in found),
        "plan": asdict(plan),
        "deployments": found,
        "missing": missing,
        "load_before": [round(value, 2) for value in before],
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "versions": versions(),
    }


def under_load(deployment: Deployment, plan: Plan) -> Json:
    """The agents against one deployment, and then what is left of it."""
    seen, begun = Seen(), time.monotonic()
    roots = {role: process.pid for role, process in deployment.processes.items()}
    with Sampler(roots, every=min(1.0, plan.seconds / 30)) as memory:
        asyncio.run(drive(deployment.url, plan, seen))
        lasted = time.monotonic() - begun
    print(f"{deployment.name}: worked for {lasted:.0f} s; is all there, and does it verify?", file=sys.stderr)
    drained = _drained(deployment.url)
    gone = asyncio.run(lost(deployment.url, seen))
    verified = _verified(deployment)
    grown = memory.report(plan.seconds)
    ended = [role for role, process in deployment.processes.items() if process.poll() is not None]
    refused = {str(status): count for status, count in seen.statuses.items() if status >= 400}
    told = _complaints(deployment)
    ok = not (seen.errors or refused or gone or ended or told or not verified["ok"])
    requests = sum(len(one) for one in seen.latencies.values())
    return {
        "deployment": deployment.name,
        "store": deployment.store,
        "ok": ok and drained is not None and all(row["flat"] is not False for row in grown),
        "requests": requests,
        "requests_per_second": round(requests / lasted, 1),
        "acknowledged": sum(len(one) for one in seen.acknowledged.values()),
        "prompts": len(seen.prompts),
        "errors": len(seen.errors),
        "lost": len(gone),
        "refused": refused,
        "unanswered": dict(seen.unanswered),
        "ended": ended,
        "complaints": told[:SHOWN],
        "drained_seconds": drained,
        "verify": {key: verified[key] for key in ("ok", "streams", "events", "snapshots")},
        "problems": [*seen.errors[:SHOWN], *gone[:SHOWN], *map(str, verified["problems"][:SHOWN])],
        "endpoints": _endpoints(seen),
        "memory": grown,
    }


def _endpoints(seen: Seen) -> list[Json]:
    return [
        {"endpoint": name, "count": len(taken), **percentiles(taken), "max": round(max(taken), 1)}
        for name, taken in sorted(seen.latencies.items())
    ]


def _drained(url: str) -> float | None:
    """Seconds until nothing waits any more; None if it never ended, or something is parked."""
    begun = time.monotonic()
    with httpx2.Client(trust_env=False, timeout=10) as client:
        while time.monotonic() < begun + DRAINS_WITHIN:
            work = client.get(f"{url}/v1/work").json()
            if not work["due"] and not work["open"]:
                return round(time.monotonic() - begun, 2) if not work["parked"] else None
            time.sleep(0.2)
    return None


def _verified(deployment: Deployment) -> Json:
    """What the store's own check says, as an operator asks for it."""
    done = subprocess.run(
        [sys.executable, "-m", "workers", "verify", "--json"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, **deployment.environment},
    )  # fmt: skip
    if not done.stdout:
        refused = {"problem": "verify did not run", "said": (done.stderr.strip().splitlines() or ["nothing"])[-1]}
        return {"ok": False, "streams": 0, "events": 0, "snapshots": 0, "problems": [refused]}
    return json.loads(done.stdout)


def _complaints(deployment: Deployment) -> list[str]:
    """What the processes wrote into their logs that an operator would have to look at."""
    lines = [line for log in sorted(deployment.logs.glob("*.log")) for line in log.read_text().splitlines()]
    return [line[:300] for line in lines if COMPLAINT.search(line)]


if __name__ == "__main__":
    sys.exit(main())
