"""Scoring of memories: how relevant a text is to a query, and how important it still is."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from domain.recall.naming import SPEAKER, marked, names
from domain.recall.terms import terms
from domain.rows import Memory

RELEVANCE_WEIGHT, IMPORTANCE_WEIGHT = 0.7, 0.3
DECAY_PER_DAY = 0.995
LASTING = 0.7
FORGOTTEN = 0.3
DAY = 86_400_000_000


def relevances(query: str, texts: Iterable[str]) -> list[float]:
    """For each text the share of the query's terms that it holds, rare terms weighing more; 0..1."""
    wanted, held, weights = _weighed(query, texts)
    if not wanted or not held:
        return [0.0] * len(held)
    total = math.fsum(weights.values())
    return [math.fsum(weights[term] for term in sorted(wanted & one)) / total for one in held]


def shares(query: str, texts: Iterable[str]) -> list[dict[str, float]]:
    """The relevance of each text term by term: what each term of the query that it holds adds to it."""
    wanted, held, weights = _weighed(query, texts)
    total = math.fsum(weights.values()) or 1.0
    return [{term: weights[term] / total for term in sorted(wanted & one)} for one in held]


def _weighed(query: str, texts: Iterable[str]) -> tuple[frozenset[str], list[frozenset[str]], dict[str, float]]:
    wanted = frozenset(terms(query))
    held = [frozenset(terms(text)) for text in texts]
    holding = Counter(term for one in held for term in one & wanted)
    weights = {term: _rarity(holding[term], len(held)) for term in sorted(wanted)}
    return wanted, held, weights


def _rarity(holding: int, of: int) -> float:
    return math.log(1 + (of - holding + 0.5) / (holding + 0.5))


def about(memory: Memory) -> str:
    """The words by which a memory is found: its own, and what it tells of where it says so apart."""
    return " ".join(filter(None, (memory.text, memory.subject, memory.object)))


def favoured(query: str, memories: Sequence[Memory]) -> list[float]:
    """For each memory how much more its relevance counts because the query names whom it tells of."""
    wanted = names(query)
    return [SPEAKER if one.subject and marked(one.subject) in wanted else 0.0 for one in memories]


def decayed(importance: float, recorded_at: int, as_of: int, *, procedural: bool = False) -> float:
    """The importance at `as_of`: what is procedural or important does not decay, the rest 0.5 % a day."""
    if procedural or importance >= LASTING:
        return importance
    days = max(0, as_of - recorded_at) // DAY
    return importance * DECAY_PER_DAY**days


def with_favour(relevance: float, favour: float) -> float:
    return min(1.0, relevance * (1 + favour))


def score(relevance: float, importance: float) -> float:
    return round(RELEVANCE_WEIGHT * relevance + IMPORTANCE_WEIGHT * importance, 6)
