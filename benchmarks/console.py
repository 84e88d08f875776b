"""How soon the console's pages are there, in a real Chromium: a session of 10,000 events, prompts of 128k tokens.

    python -m benchmarks.console --json [--events N] [--budget N] [--rounds N]

A server of its own on SQLite, on loopback. Of every page: its first paint (first-contentful-paint, the median and the
slowest of the rounds), and when the parts are there that it asks for by itself. Exits 1 if a first paint takes longer
than the goal.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
from playwright.sync_api import Browser, sync_playwright

from benchmarks.pipelines.services import embedded

Json = dict[str, Any]

GOAL = 1000.0
"""Milliseconds until the first paint of each page, in the median."""

BATCH = 1000
WORDS = "the agent reads logs runs tools and finds that a test fails because two workers share one port"
PENDING = "[hx-trigger=load] .htmx-indicator, .htmx-request"
PAGES = {
    "sessions": "",
    "search": "?q=long",
    "session": "/sessions/long",
    "event": "/sessions/long/events/5000",
    "anchors": "/sessions/long/anchors",
    "memory": "/sessions/long/memory",
    "prompt": "/prompts/long@{last}",
    "left out": "/prompts/long@{last}/left-out",
    "diff": "/prompts/long@{before}/diff?to=long@{last}",
    "pipeline": "/health",
    "settings": "/settings",
}
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--budget", type=int, default=128_000, help="tokens of the prompts (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is opened (%(default)s)")
    asked = parser.parse_args(given)
    chromium = os.environ.get("PROMPTCTX_TEST_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("NOT MEASURED: no Chromium; set PROMPTCTX_TEST_CHROMIUM", file=sys.stderr)
        return 1
    with embedded() as server, sync_playwright() as playwright:
        tokens = fill(server.url, asked.events, asked.budget)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pages = {name: timed(browser, server.url, path.format(last=2, before=1), asked.rounds)
                 for name, path in PAGES.items()}  # fmt: skip
        browser.close()
    report = {"events": asked.events, "tokens": tokens, "goal_ms": GOAL, "load": os.getloadavg()[0], "pages": pages}
    print(json.dumps(report, indent=2) if asked.json else as_text(report))
    return 0 if all(one["first_paint_ms"] <= GOAL for one in pages.values()) else 1


def fill(url: str, events: int, budget: int) -> list[int]:
    """A session of so many events with two prompts; their tokens."""
    found = []
    with httpx2.Client(base_url=url, timeout=120, trust_env=False) as http:

        def post(path: str, body: Json) -> Json:
            answer = http.post(path, content=json.dumps(body).encode()).raise_for_status()
            told: Json = json.loads(answer.content)
            return told

        told = list(log(events))
        for start in range(0, len(told), BATCH):
            post("/v1/sessions/long/events", {"events": told[start : start + BATCH]})
        for extra in ("one more", "and another"):
            post("/v1/sessions/long/events", {"kind": "user.input", "payload": {"content": extra}})
            made = post("/v1/sessions/long/prompts", {"budget": budget, "wait": 60})
            found.append(int(made["tokens"]))
    return found


def log(events: int) -> Iterator[Json]:
    chance, words = random.Random(1), WORDS.split()
    yield {"kind": "session.started", "payload": {"mode": "react", "model": "gpt-4o", "title": "A long task"}}
    yield {"kind": "instruction.set", "payload": {"role": "You mend tests."}}
    for turn in range((events - 4) // 3):
        said = " ".join(chance.choices(words, k=60))
        lines = "\n".join(" ".join(chance.choices(words, k=9)) for _ in range(12))
        call = {"id": f"c{turn}", "name": "shell", "arguments": {"cmd": f"make test-{turn}"}}
        yield {"kind": "user.input", "payload": {"content": f"{turn}: {said}"}}
        yield {"kind": "assistant.output", "payload": {"content": "", "tool_calls": [call]}}
        yield {"kind": "tool.result", "payload": {"call_id": f"c{turn}", "content": lines}}


def timed(browser: Browser, url: str, path: str, rounds: int) -> Json:
    """Milliseconds: of the first paint in the median and at worst, and until all parts are there, in the median."""
    painted, whole = [], []
    for _ in range(rounds):
        with browser.new_context(base_url=url) as context:
            page = context.new_page()
            page.goto(f"/console{path}")
            page.locator(PENDING).first.wait_for(state="detached", timeout=120_000)
            whole.append(float(page.evaluate("performance.now()")))
            painted.append(float(page.evaluate(PAINTED)))
    return {
        "first_paint_ms": round(statistics.median(painted)),
        "slowest_ms": round(max(painted)),
        "whole_ms": round(statistics.median(whole)),
    }


def as_text(report: Json) -> str:
    rows = [f"{'page':<10} {'first paint':>12} {'slowest':>9} {'all parts':>10}   ms, goal {report['goal_ms']:.0f}"]
    for name, one in report["pages"].items():
        rows.append(f"{name:<10} {one['first_paint_ms']:>12} {one['slowest_ms']:>9} {one['whole_ms']:>10}")
    return "\n".join(
        [*rows, f"{report['events']} events, prompts of {report['tokens']} tokens, load {report['load']:.1f}"]
    )


if __name__ == "__main__":
    sys.exit(main())
