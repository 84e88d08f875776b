"""Agents at work through the client: each lives one session, writes, compiles and reads, and thinks in between.

What the server acknowledged is remembered, and asked for again afterwards.
"""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from benchmarks.workload import records, texts
from promptctx import AsyncClient
from promptctx.session import AsyncSession
from promptctx.values import Receipt

Json = Any

MODES = ("chat", "tool", "rag", "react")
FORMATS = ("openai", "anthropic", "text")
BUDGETS = (2_000, 4_000, 8_000)
WAIT = 20.0
"""Seconds that an agent waits for a prompt before it calls that an error."""

_NAMED = re.compile(r"/(sessions|prompts|jobs|documents)/[^/]+")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much traffic: sessions at once, seconds, and the mean seconds that an agent thinks between two requests."""

    sessions: int = 200
    seconds: float = 180.0
    think: float = 5.0
    seed: int = 1


@dataclass(slots=True)
class Seen:
    """What the agents saw: milliseconds by endpoint, errors, and what was acknowledged to them."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    acknowledged: dict[str, list[Receipt]] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)

    def took(self, endpoint: str, milliseconds: float) -> None:
        self.latencies.setdefault(endpoint, []).append(milliseconds)


class Watch(httpx2.AsyncBaseTransport):
    """Notes how long each request took and how it ended, retries of the client included."""

    def __init__(self, seen: Seen, connections: int) -> None:
        self._seen = seen
        limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        begun = time.perf_counter()
        try:
            answer = await self._inner.handle_async_request(request)
            await answer.aread()
        except httpx2.TransportError as error:
            self._seen.unanswered[type(error).__name__] += 1
            raise
        self._seen.took(f"{request.method} {endpoint(request.url.path)}", (time.perf_counter() - begun) * 1000)
        self._seen.statuses[answer.status_code] += 1
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


def endpoint(path: str) -> str:
    """The path with names instead of ids."""
    return _NAMED.sub(lambda found: f"/{found[1]}/{{}}", path)


async def drive(url: str, plan: Plan, seen: Seen) -> None:
    """All agents until the time is over."""
    until = time.monotonic() + plan.seconds
    async with AsyncClient(url, timeout=30.0, transport=Watch(seen, plan.sessions)) as client:
        await asyncio.gather(*(_Agent(client, number, plan, seen).live(until) for number in range(plan.sessions)))


class _Agent:
    """One session, from its first event on."""

    def __init__(self, client: AsyncClient, number: int, plan: Plan, seen: Seen) -> None:
        self.chance = random.Random(plan.seed * 100_000 + number)
        self.client, self.seen, self.think = client, seen, plan.think
        self.said, self.found = texts(number, words=40), records(number)
        self.name, self.turns = f"load-{number:04}", 0
        # Two sessions share a subject: their memories meet.
        self.session: AsyncSession = client.session(
            self.name, subject=f"subject-{number // 2:04}", mode=MODES[number % 4], locale="en", model="gpt-4o"
        )
        self.asked: dict[str, Any] = {"budget": self.chance.choice(BUDGETS), "format": FORMATS[number % 3]}
        self.receipts = seen.acknowledged.setdefault(self.name, [])

    async def live(self, until: float) -> None:
        # They do not all begin in one moment.
        await asyncio.sleep(self.chance.uniform(0, min(self.think * 2, (until - time.monotonic()) / 3)))
        steps: list[Callable[[], Awaitable[None]]] = [self._open]
        while time.monotonic() < until:
            for step in steps:
                if time.monotonic() > until:
                    return
                await self._try(step)
                await asyncio.sleep(self.chance.expovariate(1 / self.think))
            steps = [self._ask, self._compile, self._act, *self.chance.sample(self._reads(), 2), self._answer]

    async def _try(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception as error:
            told = f"{step.__name__.strip('_')} of {self.name}: {type(error).__name__}: {error}"
            self.seen.errors.append(told)

    def _note(self, receipts: Iterable[Receipt]) -> None:
        self.receipts.extend(receipts)

    async def _open(self) -> None:
        async with self.session.batch() as batch:
            batch.instructions(role="You are a careful agent of a shop.", rules=["Answer briefly."])
            batch.constraint("ask-first", "Never change an order without consent", level="block")
            batch.tool("orders", "search orders", {"type": "object", "properties": {"q": {"type": "string"}}})
        self._note(batch.receipts)

    async def _ask(self) -> None:
        self.turns += 1
        self._note([await self.session.user(next(self.said))])

    async def _compile(self) -> None:
        job = await self.session.compile(**self.asked, wait=self.chance.choice((0.0, 5.0)))
        prompt = await job.result(timeout=WAIT)
        self.seen.prompts.append(prompt.id)

    async def _act(self) -> None:
        call = f"c-{self.turns}"
        async with self.session.batch() as batch:
            batch.assistant("", tool_calls=[{"id": call, "name": "orders", "arguments": {"q": f"order {self.turns}"}}])
            batch.tool_result(call, next(self.found))
            if self.turns % 4 == 0:
                batch.remember(next(self.said), importance=0.6)
            if self.turns % 3 == 0:
                batch.plan(f"t-{self.turns}", ["look it up", "tell the customer"], current_step="1")
        self._note(batch.receipts)

    async def _answer(self) -> None:
        self._note([await self.session.assistant(next(self.said), snapshot_id=self.session.prompt_id)])

    def _reads(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._state, self._events, self._versions, self._prompt, self._sessions, self._replay]

    async def _state(self) -> None:
        await self.session.state()

    async def _events(self) -> None:
        async for _ in self.session.events(after=max(0, self.session.seq - 20)):
            pass

    async def _versions(self) -> None:
        await anext(self.session.prompts(limit=20), None)

    async def _prompt(self) -> None:
        if self.session.prompt_id:
            await self.client.prompt(self.session.prompt_id)

    async def _sessions(self) -> None:
        await anext(self.client.sessions(limit=20), None)

    async def _replay(self) -> None:
        if self.session.prompt_id and self.turns % 5 == 0:
            replayed = await (await self.client.prompt(self.session.prompt_id)).replay()
            if not replayed.identical:
                self.seen.errors.append(f"replay of {self.name}: {self.session.prompt_id} is not identical")


async def lost(url: str, seen: Seen) -> list[str]:
    """Every acknowledged event that is not in the log exactly once, where its receipt says."""
    missing: list[str] = []
    async with AsyncClient(url, timeout=60.0) as client:
        for name, receipts in seen.acknowledged.items():
            for stream in sorted({receipt.stream for receipt in receipts}):
                stored = client.session(name).events(stream=stream)  # type: ignore[arg-type]
                places: dict[str, list[int]] = {}
                async for event in stored:
                    places.setdefault(event.event_id, []).append(event.seq)
                missing += [
                    f"{name} {stream}: {one.event_id} acknowledged as {one.seq}, found at {places.get(one.event_id)}"
                    for one in receipts
                    if one.stream == stream and places.get(one.event_id) != [one.seq]
                ]
    return missing
