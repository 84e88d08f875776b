"""The judge judged: one prompt is broken per counter, and each counter must rise; with nothing broken none may.

Needs no corpus: a small log is compiled through the engine in both formats.
"""

import copy
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from benchmarks import checker
from benchmarks.checker import Compiled
from benchmarks.driving import System, prepare
from benchmarks.processes import Progress, run_orders
from benchmarks.running import FORMATS, Made, Order
from benchmarks.sourcelog import SourceLog
from benchmarks.tally import canonical

Json = Any

SESSION = "self-test"
BUDGET = 8_000
RULE = "Never delete a file"
DIRECTIVE = "What is the weather in Paris, and what was it yesterday?"


def _events() -> list[Json]:
    calls = [{"id": "a", "name": "weather", "arguments": '{"day":"today"}'}, {"id": "b", "name": "weather"}]
    said: list[tuple[str, Json]] = [
        ("session.started", {"mode": "react", "locale": "en"}),
        ("instruction.set", {"text": "You tell people about the weather."}),
        ("constraint.set", {"id": "files", "level": "block", "text": RULE}),
        ("tool.registered", {"name": "weather", "description": "the weather of a day", "parameters": {}}),
        ("user.input", {"content": "Hello!"}),
        ("assistant.output", {"content": "Hello, where are you?"}),
        ("user.input", {"content": DIRECTIVE}),
        ("assistant.output", {"content": "One moment.", "tool_calls": calls}),
        ("tool.result", {"call_id": "a", "content": "rain"}),
        ("tool.result", {"call_id": "b", "content": "sun"}),
    ]
    return [
        {"event_id": str(uuid5(NAMESPACE_OID, f"{SESSION} {place}")), "kind": kind, "payload": payload}
        for place, (kind, payload) in enumerate(said)
    ]


Break = Callable[[Json, Json, str], None]
"""Breaks a payload or its report, in place, for a format."""


def _bloat(payload: Json, report: Json, target: str) -> None:
    _last_text(payload, target, " and more" * BUDGET)


def _orphan(payload: Json, report: Json, target: str) -> None:
    """One of two answers goes."""
    if target == "openai":
        del payload["messages"][next(at for at, one in enumerate(payload["messages"]) if one["role"] == "tool")]
        return
    for message in payload["messages"]:
        answers = [block for block in message["content"] if block["type"] == "tool_result"]
        if answers:
            message["content"].remove(answers[0])


def _twice(payload: Json, report: Json, target: str) -> None:
    """Two calls get one id, as do their answers."""
    _rewrite(payload, lambda text: "a" if text == "b" else text)


def _no_system(payload: Json, report: Json, target: str) -> None:
    _rewrite(payload, lambda text: text.replace("You tell people", "You tell nobody"))


def _no_directive(payload: Json, report: Json, target: str) -> None:
    _rewrite(payload, lambda text: "What?" if text == DIRECTIVE else text)


def _no_rule(payload: Json, report: Json, target: str) -> None:
    _rewrite(payload, lambda text: text.replace(f"- [BLOCK] {RULE}", "- [WARN] nothing"))


def _unaccounted(payload: Json, report: Json, target: str) -> None:
    """A unit is missing from the report, though it says that it closes."""
    del report["units"][0]


def _invented(payload: Json, report: Json, target: str) -> None:
    _rewrite(payload, lambda text: "snow" if text == "rain" else text)


BREAKS: tuple[tuple[str, Break], ...] = (
    ("over_budget", _bloat), ("orphans", _orphan), ("orphans", _twice), ("lost_anchors", _no_system),
    ("lost_anchors", _no_directive), ("lost_constraints", _no_rule), ("ledger_errors", _unaccounted),
    ("ledger_errors", _invented),
)  # fmt: skip


def run() -> Json:
    """For each counter whether it rose every time it should have."""
    with tempfile.TemporaryDirectory(prefix="promptctx-") as folder:
        url = f"sqlite:///{folder}/self-test.db"
        prepare(url)
        log, prompts = _compiled(url)
        rose = dict(_judged(log, prompts))
        rose["replay_mismatches"] = _replayed(Path(folder), url, prompts)
    told = {name: rose.get(name, True) for name in ("nothing_broken", *checker.COUNTERS)}
    return {"self_test": told}


def _compiled(url: str) -> tuple[SourceLog, dict[str, tuple[str, Compiled]]]:
    system, log, events = System(url), SourceLog(), _events()
    system.append(SESSION, events, 0)
    for seq, event in enumerate(events, 1):
        log.add(seq, event)
    names = {target: system.request(SESSION, target, BUDGET) for target in FORMATS}
    prompts = {target: (name, system.prompt(name)) for target, name in names.items()}
    system.close()
    return log, prompts


def _judged(log: SourceLog, prompts: dict[str, tuple[str, Compiled]]) -> Iterator[tuple[str, bool]]:
    rose: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    clean = True
    for target, (_, prompt) in prompts.items():
        clean = clean and not list(checker.check(log, target, BUDGET, prompt))
        for counter, damage in BREAKS:
            wanted[counter] += 1
            found = checker.check(log, target, BUDGET, _broken(prompt, target, damage))
            rose[counter] += any(finding.counter == counter for finding in found)
        floor = checker.floor(log, target)
        wanted["overflows_wrong"] += 1
        rose["overflows_wrong"] += bool(list(checker.check_overflow(log, target, floor)))
        clean = clean and not list(checker.check_overflow(log, target, floor - 1))
    yield "nothing_broken", clean
    yield from ((counter, rose[counter] == wanted[counter]) for counter in wanted)


def _broken(prompt: Compiled, target: str, damage: Break) -> Compiled:
    payload, report = copy.deepcopy(prompt.payload), copy.deepcopy(prompt.report)
    damage(payload, report, target)
    return replace(prompt, payload=payload, report=report, content_hash=sha256(canonical(payload).encode()).hexdigest())


def _replayed(folder: Path, url: str, prompts: dict[str, tuple[str, Compiled]]) -> bool:
    """A process that replays finds nothing wrong, and then the prompts of which another payload is told."""
    mismatches = []
    for damage in (lambda *_: None, _invented):
        made = [
            Made(SESSION, 0, target, "", BUDGET, name, _broken(prompt, target, damage).content_hash)
            for target, (name, prompt) in prompts.items()
        ]
        known = folder / "known.json"
        known.write_text(json.dumps({"made": made}))
        order = Order("", url, str(folder / "replayed.json"), known=str(known))
        outcome = run_orders("replay", [order], "4711", Progress(0))[0]
        mismatches.append(outcome["counts"].get("replay_mismatches", 0))
    return mismatches == [0, len(prompts)]


def _rewrite(value: Json, change: Callable[[str], str]) -> None:
    """Changes every text in a JSON value, in place."""
    places = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(places):
        if isinstance(item, str):
            value[key] = change(item)
        elif isinstance(item, dict | list):
            _rewrite(item, change)


def _last_text(payload: Json, target: str, more: str) -> None:
    last = payload["messages"][-1]
    if target == "openai":
        last["content"] += more
    else:
        last["content"].append({"type": "text", "text": more})
