"""Searching memories: each with its score, and what made it, term by term."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.memorising.caring import lasts
from domain.memorising.current import current
from domain.recall.scoring import (
    IMPORTANCE_WEIGHT,
    RELEVANCE_WEIGHT,
    about,
    decayed,
    favoured,
    relevances,
    score,
    shares,
    with_favour,
)
from domain.rows import Memory


@dataclass(frozen=True, slots=True)
class Found:
    """`terms` are the terms of the query that the memory holds, each with what it adds to the relevance, and `favour`
    what it adds that the query names whom the memory tells of; the score is 0.7 relevance and 0.3 importance, and
    importance decays with the days since it was recorded."""

    memory: Memory
    score: float
    relevance: float
    importance: float
    terms: Mapping[str, float]
    favour: float = 0.0

    def explained(self) -> dict[str, object]:
        told: dict[str, object] = {
            "score": self.score,
            "relevance": round(self.relevance, 6),
            "importance": round(self.importance, 6),
            "weights": {"relevance": RELEVANCE_WEIGHT, "importance": IMPORTANCE_WEIGHT},
            "recorded_importance": self.memory.importance,
            "terms": {term: round(part, 6) for term, part in self.terms.items()},
        }
        return told | {"named": {self.memory.subject or "": round(self.favour, 6)}} if self.favour else told


def search(query: str, memories: Sequence[Memory], as_of: int) -> list[Found]:
    """The memories in force at a moment that share a term with the query, best first."""
    held = current(memories, as_of)
    texts = [about(memory) for memory in held]
    found = []
    columns = held, relevances(query, texts), shares(query, texts), favoured(query, held)
    for memory, plain, parts, favour in zip(*columns, strict=True):
        relevance = with_favour(plain, favour)
        importance = decayed(memory.importance, memory.recorded_at, as_of, procedural=lasts(memory))
        if parts:
            found.append(Found(memory, score(relevance, importance), relevance, importance, parts, relevance - plain))
    return sorted(found, key=lambda one: (-one.score, one.memory.id))
