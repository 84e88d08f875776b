"""Scoring of recallable items: how relevant a text is to a query, and how important it still is.

Lexical and deterministic: words for alphabetic scripts, bigrams for Chinese, Japanese and Korean, identifiers whole.
"""

import math
import re
from collections.abc import Iterable

RELEVANCE_WEIGHT, IMPORTANCE_WEIGHT = 0.7, 0.3
DECAY_PER_DAY = 0.995
LASTING = 0.7
FORGOTTEN = 0.3
DAY = 86_400_000_000

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:#@-]*")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_STOP_WORDS = (
    "a an and are as at be by do for from has have how i in is it me my of on or that the this to was we what when"
    " where which who why will with you your"
)
_STOP = frozenset(_STOP_WORDS.split())


def terms(text: str) -> frozenset[str]:
    """The terms of a text: lower-cased words without the commonest, and bigrams of CJK runs."""
    found = {word.lower().rstrip("./:-") for word in _WORD.findall(text)} - _STOP
    for run in _CJK.findall(text):
        found |= {run[i : i + 2] for i in range(len(run) - 1)} or {run}
    found.discard("")
    return frozenset(found)


def relevances(query: str, texts: Iterable[str]) -> list[float]:
    """For each text the share of the query's terms that it holds, rare terms weighing more; 0..1."""
    wanted = terms(query)
    held = [terms(text) for text in texts]
    if not wanted or not held:
        return [0.0] * len(held)
    weights = {term: _rarity(sum(term in one for one in held), len(held)) for term in sorted(wanted)}
    total = math.fsum(weights.values())
    return [math.fsum(weights[term] for term in sorted(wanted & one)) / total for one in held]


def _rarity(holding: int, of: int) -> float:
    return math.log(1 + (of - holding + 0.5) / (holding + 0.5))


def decayed(importance: float, recorded_at: int, as_of: int, *, procedural: bool = False) -> float:
    """The importance at `as_of`: what is procedural or important does not decay, the rest 0.5 % a day."""
    if procedural or importance >= LASTING:
        return importance
    days = max(0, as_of - recorded_at) // DAY
    return importance * DECAY_PER_DAY**days


def score(relevance: float, importance: float) -> float:
    return round(RELEVANCE_WEIGHT * relevance + IMPORTANCE_WEIGHT * importance, 6)
