"""What is measured: promptctx as its users run it, and the usual ways to pick messages for a question."""

import math
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from benchmarks.driving import TENANT
from benchmarks.recalling.datasets import Conversation, Fact, Turn
from domain.recall.terms import terms
from workers.embeddings import Embedder
from workers.engine import Deps, Engine
from workers.engine.meanings import Meanings
from workers.store import Database, migrate

ASKING = "What do you remember?"
"""Stands for the question, which goes into the request, so that no question is a memory when the next one is asked."""

FRAME, SLACK = 32, 200
"""Tokens of a budget that go to the lines around what is recalled, and one in so many by which counts of parts may miss
that of the whole."""

Count = Callable[[str], int]


class Method(Protocol):
    """Answers with the text shown for a question within a budget of tokens."""

    def shown(self, question: str, budget: int) -> str: ...


class Promptctx:
    """The conversation as the sessions of one subject; each question is a request in a new one."""

    name = "promptctx"

    def __init__(
        self, conversation: Conversation, folder: Path, embedder: Embedder | None, hops: int | None = None
    ) -> None:
        self._hops: dict[str, int] = {} if hops is None else {"hops": hops}
        url = f"sqlite:///{folder}/recall.db"
        migrate.upgrade(url)
        self._meanings = Meanings(embedder) if embedder else None
        self.engine = Engine(Deps(Database(url), meanings=self._meanings))
        self.times: list[float] = []
        self._started = {"kind": "session.started", "payload": {"subject": "user", "locale": conversation.locale}}
        for number, turns in enumerate(conversation.sessions):
            self._import(f"past-{number}", turns)
            self.engine.index(TENANT, f"past-{number}")
        self.engine.append(
            TENANT, "ask",
            [self._started, *map(_memory, conversation.facts), {"kind": "user.input", "payload": {"content": ASKING}}],
        )  # fmt: skip
        while self.engine.sweep():
            pass
        if self._meanings:
            self._meanings.settle(3600)

    def _import(self, session: str, turns: Sequence[Turn]) -> None:
        events = [self._started, *map(_event, turns)]
        for at in range(0, len(events), 200):
            self.engine.append(TENANT, session, events[at : at + 200])

    def shown(self, question: str, budget: int) -> str:
        """All that the model would see besides the question itself and the fixed text."""
        messages = self._ask(question, budget)["messages"]
        return "\n".join(text for message in messages for text in _texts(message["content"]) if text != ASKING)

    def _ask(self, question: str, budget: int) -> Any:
        room = budget - FRAME - budget // SLACK
        recall = {"token_budget": room, "top_k": 0, "min_score": 0.0, **self._hops}
        overrides = {"global_slot_budget": budget, "lending": False, "slots": {"recall": recall}}
        request = {"mode": "rag", "query": question, "budget": budget + 20_000, "overrides": overrides}
        begun = perf_counter()
        job = self.engine.request_prompt(TENANT, "ask", request)
        if job["status"] in ("queued", "running"):
            job = self.engine.run_job(TENANT, job["id"])
        self.times.append(perf_counter() - begun)
        return self.engine.prompt(TENANT, job["prompt"])["payload"]


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if "text" in part] if isinstance(content, list) else []


def _event(turn: Turn) -> dict[str, object]:
    payload: dict[str, object] = {"content": turn.text}
    if turn.speaker:
        payload["name"] = turn.speaker
    kind = "user.input" if turn.role == "user" else "assistant.output"
    return {
        "event_id": _event_id(turn.id),
        "kind": kind,
        "payload": payload,
        **({"occurred_at": turn.at} if turn.at else {}),
    }


def _event_id(turn: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, turn))


def _memory(fact: Fact) -> dict[str, object]:
    told = {"subject": fact.subject, "predicate": fact.predicate, "object": fact.object}
    text, name = " ".join(told.values()), f"{fact.subject}/{fact.predicate}/{fact.object}"
    more = {"id": name, "text": text, "category": "fact", "derived_from": [_event_id(fact.told_in)]}
    return {"kind": "memory.recorded", "payload": {**told, **more}}


class Ordered:
    """A baseline: whole messages in the order of a ranking, as many as fit."""

    def __init__(self, conversation: Conversation, count: Count, rank: "Rank") -> None:
        self._turns, self._count = conversation.turns, count
        self._rank = rank(self._turns)
        self._lines = [f"{turn.speaker or turn.role}: {turn.text}" for turn in self._turns]
        self._tokens = [count(f"{line}\n") for line in self._lines]

    def shown(self, question: str, budget: int) -> str:
        taken: list[int] = []
        for place in self._rank(question):
            if self._tokens[place] > budget:
                break
            budget -= self._tokens[place]
            taken.append(place)
        return "\n".join(self._lines[place] for place in sorted(taken))


Rank = Callable[[Sequence[Turn]], Callable[[str], Sequence[int]]]


def last_n(turns: Sequence[Turn]) -> Callable[[str], Sequence[int]]:
    order = range(len(turns) - 1, -1, -1)
    return lambda question: order


def bm25_words(turns: Sequence[Turn]) -> Callable[[str], Sequence[int]]:
    return _bm25([turn.text.lower().split() for turn in turns], lambda text: text.lower().split(), around=0.0)


def bm25_stems_neighbours(turns: Sequence[Turn]) -> Callable[[str], Sequence[int]]:
    return _bm25([terms(f"{turn.speaker} {turn.text}") for turn in turns], terms, around=0.3)


def _bm25(
    held: Sequence[Sequence[str]], split: Callable[[str], Sequence[str]], around: float
) -> Callable[[str], Sequence[int]]:
    counts = [Counter(words) for words in held]
    holding = Counter(word for words in counts for word in words)
    mean = sum(map(len, held)) / (len(held) or 1) or 1.0

    def rank(question: str) -> Sequence[int]:
        wanted = set(split(question))
        scores = [
            math.fsum(
                math.log(1 + (len(held) - holding[word] + 0.5) / (holding[word] + 0.5))
                * words[word] * 2.2 / (words[word] + 1.2 * (0.25 + 0.75 * words.total() / mean))
                for word in wanted & words.keys()
            )
            for words in counts
        ]  # fmt: skip
        beside = [
            score + around * max([0.0, *scores[max(0, at - 1) : at], *scores[at + 1 : at + 2]])
            for at, score in enumerate(scores)
        ]
        return sorted((at for at, score in enumerate(beside) if score), key=lambda at: (-beside[at], at))

    return rank


BASELINES: dict[str, Rank] = {
    "last-n": last_n,
    "bm25-words": bm25_words,
    "bm25-stems-neighbours": bm25_stems_neighbours,
}
