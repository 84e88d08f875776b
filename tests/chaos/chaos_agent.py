"""Agents in processes of their own, told what to do by lines of JSON; a chaos run kills them where it likes.

The parent of all of them loads everything once and then only forks: so an agent costs milliseconds, and a fork is made
by a process without threads.
"""

import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from domain.errors import PromptctxError, StoreUnavailable
from workers import assembly, faults, telemetry
from workers.clock import SystemClock
from workers.dispatch import Dispatcher
from workers.engine import Deps, Engine
from workers.settings import load_settings

Json = dict[str, Any]

AS_OF = "2026-01-01T00:00:00Z"
BUDGET = 900
DEADLINE = 300.0
_IDS = uuid.UUID("8f3c2f0a-5a55-4d3c-9d1c-0d7d3b1c6e11")


def story(session: str, turns: int, writer: str = "") -> Iterator[list[Json]]:
    """What happens in a session, turn by turn: always the same, event ids included."""
    for turn in range(turns):
        told = [
            ("user.input", {"content": f"{session}{writer}, turn {turn}: 请继续 " * 8}),
            ("assistant.output", {"content": f"answer {turn}", "tool_calls": [_call(writer, turn)]}),
            ("tool.result", {"call_id": f"c{writer}{turn}", "name": "look", "content": f"row {turn}\n" * 30}),
        ]
        if turn == 0 and not writer:
            told.insert(0, ("instruction.set", {"role": "You answer in one line."}))
            told.insert(1, ("constraint.set", {"id": "c1", "level": "block", "text": "不允许删除数据"}))
        if turn % 3 == 1:
            told.append(("profile.set", {"key": f"k{writer}", "value": turn}))
        if turn == 4 and not writer:
            told.append(("context.rolled_back", {"to_seq": 6}))
        yield [
            {"kind": kind, "payload": payload, "event_id": str(uuid.uuid5(_IDS, f"{session}/{writer}/{turn}/{place}"))}
            for place, (kind, payload) in enumerate(told)
        ]


def _call(writer: str, turn: int) -> Json:
    return {"id": f"c{writer}{turn}", "name": "look", "arguments": {"turn": turn}}


class JumpingClock(SystemClock):
    """A host's clock that somebody sets, forwards and backwards, at every look."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def now(self) -> int:
        return super().now() + self._rng.randint(-86_400, 86_400) * 1_000_000


class Mischief:
    """Loses three rings in ten, doubles some, and tells them in another order, before it rings at all."""

    at_once = False

    def __init__(self, inner: Dispatcher, seed: int) -> None:
        self._inner, self._rng = inner, random.Random(seed)
        self._kept: list[tuple[str, int, str]] = []

    def start(self, deps: Deps) -> None:
        self._inner.start(deps)

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        if self._rng.random() < 0.3:
            return
        self._kept += [(tenant, stream, kind)] * self._rng.choice((1, 1, 2))
        if len(self._kept) >= 5:
            self._rng.shuffle(self._kept)
            while self._kept:
                self._inner.ring(*self._kept.pop())

    def close(self) -> None:
        self._inner.close()


class Agent:
    """Tells its sessions' stories turn about. What was not acknowledged is sent again; what was is written down."""

    def __init__(self, engine: Engine, told: Json) -> None:
        self.engine, self.told = engine, told
        self.tenant, self.asks = told["tenant"], told.get("asks", True)
        self._done = set(done(told["journal"]))
        self._journal = os.open(told["journal"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def run(self) -> None:
        writer = self.told.get("writer", "")
        stories = {session: list(story(session, self.told["turns"], writer)) for session in self.told["sessions"]}
        for turn in range(self.told["turns"]):
            for session, turns in stories.items():
                self._once(f"{session}/{writer}/{turn}", partial(self._append, session, turns[turn]))
                if self.asks:
                    self._once(f"{session}/{writer}/{turn}/prompt", partial(self._ask, session))

    def _once(self, step: str, act: Callable[[], None]) -> None:
        end = time.monotonic() + DEADLINE
        while step not in self._done:
            try:
                act()
            except StoreUnavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)  # the database is away: try again until it is back
            else:
                os.write(self._journal, f"{step}\n".encode())
                self._done.add(step)

    def _append(self, session: str, events: list[Json]) -> None:
        self.engine.append(self.tenant, session, events)

    def _ask(self, session: str) -> None:
        self.engine.request_prompt(self.tenant, session, {"budget": BUDGET, "as_of": AS_OF})


def done(journal: str) -> list[str]:
    """The steps that were acknowledged."""
    try:
        with open(journal, encoding="utf-8") as lines:
            return lines.read().splitlines()
    except FileNotFoundError:
        return []


def build(told: Json) -> Engine:
    settings = load_settings(**told["settings"])
    dispatcher: Dispatcher = assembly.make_dispatcher(settings)
    if "mischief" in told:
        dispatcher = Mischief(dispatcher, told["mischief"])
    clock = JumpingClock(told["clock"]) if "clock" in told else None
    return assembly.build(settings, dispatcher=dispatcher, clock=clock)


def be(told: Json) -> int:
    """One agent, from its birth to its end."""
    faults.arm(told.get("fault"))
    engine = build(told)
    try:
        Agent(engine, told).run()
        for _ in range(told.get("sweeps", 0)):
            engine.sweep()
    except PromptctxError as error:
        print(f"agent: {error.message}", file=sys.stderr)
        return 1
    assembly.close(engine)
    return 0


def main() -> None:
    """Lines in: what an agent is to do. Lines out: the id of its process; at `wait ID`, how it ended."""
    telemetry.configure("ERROR")
    for line in sys.stdin:
        told = json.loads(line)
        if "wait" in told:
            _, status = os.waitpid(told["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = be(told)
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)


if __name__ == "__main__":
    main()
