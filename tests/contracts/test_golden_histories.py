"""Histories that earlier releases compiled: each still replays, or says which change of the compiler it is.

A release's histories are written once, by `UPDATE_GOLDEN=1 pytest tests/contracts/test_golden_histories.py`, and never
again. When one of them fails here, the compiler gives other bytes: raise COMPILER in domain/snapshots.py.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.canonical import parse_json
from domain.events import TextPart
from domain.snapshots import COMPILER
from workers.engine import Deps, Engine, recompile, sides
from workers.store import Database, migrate

FOLDER = Path(__file__).resolve().parents[1] / "golden_histories"
RELEASE = FOLDER / "0.1"
HISTORIES = sorted(FOLDER.glob("*/*.jsonl"))
NAMESPACE = uuid.UUID("7d4c1f6e-0f0b-5f4c-9b0e-3c8e2a1d5f66")
WORDS = "many words about trains and seats "
Json = dict[str, Any]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path / 'golden.db'}"
    migrate.upgrade(url)
    database = Database(url)
    yield Engine(Deps(database))
    database.dispose()


class Writer:
    """A session that is written event by event, with ids that are the same at every writing."""

    def __init__(self, engine: Engine, session: str) -> None:
        self.engine, self.session, self.count = engine, session, 0

    def add(self, kind: str, **payload: Any) -> str:
        self.count += 1
        name = str(uuid.uuid5(NAMESPACE, f"{self.session}/{self.count}"))
        self.engine.append("t", self.session, [{"kind": kind, "event_id": name, "payload": payload}])
        return name

    def compile(self, **body: Any) -> Json:
        job = self.engine.request_prompt("t", self.session, body, ring=False)
        job = self.engine.run_job("t", job["id"])
        assert job["status"] == "done", job["error"]
        return self.engine.prompt("t", job["prompt"])


def trains(engine: Engine) -> Writer:
    """A long task: react, zh, tools, a plan, memory, a budget that trims, both chat formats."""
    log = Writer(engine, "trains")
    log.add("session.started", subject="u-1", model="gpt-4o", mode="react", locale="zh", time_zone="Asia/Shanghai")
    log.add("instruction.set", role="你预订火车票。", rules=[{"text": "付款前先询问。", "core": True}])
    log.add("constraint.set", id="no-pay", text="不得支付超过 100")
    log.add("tool.registered", name="find", description="查询车次", required=["to"], fields=["trains[].at"])
    log.add("profile.set", key="座位", value="靠窗")
    log.add("memory.recorded", id="m1", text="上次去伯尔尼坐的是 07:04", category="episodic", importance=0.8)
    log.add("run.started", run_id="r1", goal="去伯尔尼")
    steps = [{"id": "1", "text": "查询"}, {"id": "2", "text": "预订", "tool": "book", "deps": ["1"]}]
    log.add("plan.updated", task_id="t-1", status="running", phase="executing", current_step="2", steps=steps)
    for turn in range(8):
        log.add("user.input", content=f"第 {turn} 问：去伯尔尼的火车？{WORDS * 6}")
        log.add(
            "assistant.output", content="查一下", tool_calls=[{"id": f"c{turn}", "name": "find", "arguments": "{}"}]
        )
        found = {"trains": [{"at": f"0{turn}:04", "seats": [turn] * 40}]}
        log.add("tool.result", call_id=f"c{turn}", content=[{"type": "data", "data": found}])
        log.add("observation.recorded", step_id="1", tool="find", result=f"0{turn}:04 有座")
        log.compile(budget=750, format="openai" if turn % 2 else "anthropic")
        log.compile(budget=6000, format="text")
    return log


def changes(engine: Engine) -> Writer:
    """Chat, en: a rule that changes, a rollback and one of it, an erasure."""
    log = Writer(engine, "changes")
    log.add("session.started", model="claude-sonnet-4-5", mode="chat", locale="en")
    log.add("instruction.set", role="You book trains.")
    log.add("constraint.set", id="no-pay", text="never pay more than 100")
    log.add("profile.set", key="seat", value="window")
    log.add("user.input", content="To Bern, please. " + WORDS * 8)
    first = log.compile(budget=900)
    log.add("assistant.output", content="There are two. " + WORDS * 8)
    secret = log.add("user.input", content="my pin is 7391")
    log.add("profile.set", key="seat", value="aisle")
    log.add("constraint.set", id="no-pay", text="never pay more than 50")
    second = log.compile(budget=900)
    for goal in (first, second, first):
        log.add("context.rolled_back", to_seq=goal["inputs"]["session"]["seq"], to_version=goal["version"])
        log.compile(budget=900)
    log.add("event.redacted", event_id=secret)
    log.add("user.input", content="And back. " + WORDS * 30)
    log.compile(budget=900)
    return log


@pytest.mark.skipif(not os.environ.get("UPDATE_GOLDEN"), reason="histories of a release are written once")
@pytest.mark.parametrize("write", [trains, changes])
def test_write_the_histories_of_this_release(engine: Engine, write: Any) -> None:
    log = write(engine)
    RELEASE.mkdir(parents=True, exist_ok=True)
    (RELEASE / f"{log.session}.jsonl").write_bytes(b"".join(engine.history.bundle("t", session=log.session)))


def restored(engine: Engine, path: Path) -> list[Json]:
    """The verdicts on all prompts of a history."""
    session = engine.history.restore("t", path.read_bytes().splitlines(keepends=True))["session"]
    found: list[Json] = engine.history.replays("t", session, limit=1000)["verdicts"]
    return found


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_b115_f77_a_history_of_an_earlier_release_replays(engine: Engine, path: Path) -> None:
    compiled_by = {
        line["prompt"]["id"]: line["prompt"]["body"]["inputs"]["compiler"]
        for line in map(parse_json, path.read_bytes().splitlines())
        if "prompt" in line and isinstance(line["prompt"], dict)
    }
    verdicts = restored(engine, path)
    assert {one["prompt"] for one in verdicts} == set(compiled_by) != set()
    for one in verdicts:
        if compiled_by[one["prompt"]] == COMPILER:
            assert one["identical"], f"raise COMPILER: version {one['version']}: {one['cause']}"
        else:
            assert one["identical"] or one["because"]["kind"] == "compiler"


def test_f77_another_compiler_names_itself_and_the_zone_that_it_changed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recompile.compile_prompt

    def later(*args: Any) -> Any:
        made = real(*args)
        changed = [
            replace(one, parts=(TextPart(type="text", text=f"other {at}"),), lines=()) if one.zone == "summary" else one
            for at, one in enumerate(made.messages)
        ]
        payload = (
            {**made.payload, "messages": [*made.payload["messages"], "summary"]} if "messages" in made.payload else {}
        )
        return replace(made, messages=tuple(changed), payload=payload or made.payload)

    monkeypatch.setattr(recompile, "compile_prompt", later)
    monkeypatch.setattr(sides, "COMPILER", "0.2-next")
    found = [one for one in restored(engine, RELEASE / "trains.jsonl") if not one["identical"]]
    summarized = [one for one in found if one["changes"]]
    assert summarized
    for one in summarized:
        assert one["cause"] == f"compiler {COMPILER} → 0.2-next changed zone summary"
        assert one["first_difference"]["zone"] == "summary"
        assert one["changes"][0]["segment"] == "summary"
