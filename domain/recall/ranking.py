"""The ranking of passages for a query: by their own words, by those of their message, and by what was said around it.

Nothing in it depends on a budget, so that a larger budget only ever shows more of the same list.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domain.recall.index import Index
from domain.recall.naming import SPEAKER, by_named
from domain.recall.terms import hashed, terms

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.integer[Any]]

SATURATION, LENGTH = 1.2, 0.75
"""BM25: how soon a repeated term counts no more, and how much a long text is marked down."""

OTHERS = 0.3
"""What the words of an assistant or a tool weigh beside the user's own: facts about users come from users."""

MESSAGE, AROUND = 1.0, 0.8
"""What the words of the whole message and of the messages around it weigh beside the passage's own."""

REACH, FADING = 8, 0.8
"""How many messages on either side count as around, and how much less each further one does."""

FEEDBACK, ADDED, ADDED_WEIGHT = 5, 10, 0.3
"""The best messages lend the query their most telling terms: how many of each, and at what weight."""

BRIEF, SHORT = 0.3, 160
"""How much a shorter passage is preferred, down to a width at which all are short: a list of five short answers beats
one long one, but a short turn of a chat is no better than its neighbour for saying less."""

LIKENESS, LIKE_AROUND = 0.7, 0.5
"""What a likeness in meaning weighs beside the words, and that of the messages next to it beside its own."""

TIME = 0.3
"""What being of a time that the query names weighs beside all else."""

BITS = (1 << 17) - 1

WEAK = 0.35
"""The share of a perfect match under which even the best hit is no full hit."""


@dataclass(frozen=True, slots=True)
class Led:
    """What facts lead to from what a query names: terms with their weights, and for each message how much of a source
    of such a fact it is, 0..1."""

    terms: Mapping[str, float]
    messages: Floats


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage by its place in the index. `relevance` is 0..1: 1 is first in every signal. `in_time` tells that it is
    of a time that the query names, `by_named` that whoever said it is named there."""

    passage: int
    message: int
    relevance: float
    in_time: bool = False
    by_named: bool = False


def query_terms(query: str, led: Led | None = None) -> dict[str, float]:
    return {**(led.terms if led else {}), **dict.fromkeys(terms(query), 1.0)}


def ranked(
    index: Index, query: str, likeness: Floats | None = None, in_time: Flags | None = None, shown: Flags | None = None
) -> list[Hit]:
    """All that `best_first` tells."""
    return list(best_first(index, query, likeness, in_time, shown))


def best_first(
    index: Index, query: str, likeness: Floats | None = None, in_time: Flags | None = None, shown: Flags | None = None,
    led: Led | None = None,
) -> Iterator[Hit]:  # fmt: skip
    """All passages with any relevance, best first; equals in the order of the log, newest first. `likeness` tells for
    each passage how alike it is to the query in meaning, from 0 where nobody knows to 1 where it surely is;
    `in_time` whether it is of a time that the query names. `shown` tells which messages the prompt shows anyway: the
    question is often one of them, and beside a perfect match that nobody looks for all others would seem poor. `led` is
    what facts lead to."""
    if not index.messages:
        return
    role = np.where(index.said_by_user, 1.0, OTHERS)
    counting = np.ones(index.messages) if shown is None else (~shown).astype(np.float64)
    fused = _by_words(index, query_terms(query, led), role, counting)
    if likeness is not None:
        # A query that shares no word with anything is one that words have nothing to say of.
        weight = 1.0 if fused @ counting[index.of_message] else 0.0
        fused = (weight * fused + LIKENESS * _by_meaning(index, likeness, counting)) / (weight + LIKENESS)
    named = by_named(index.speakers, query)
    if named is not None:
        fused = fused * (1 + SPEAKER * named[index.of_message])
    if in_time is not None:
        fused = (fused + TIME * in_time) / (1 + TIME)
    fused *= role[index.of_message] * ((np.maximum(index.widths, SHORT) + SHORT) / (2 * SHORT)) ** -BRIEF
    fused = np.minimum(fused, 1.0)
    if led is not None:
        fused += led.messages[index.of_message] * (1.0 - fused)
    yield from _in_order(index, fused, in_time, named)


def _by_meaning(index: Index, likeness: Floats, counting: Floats) -> Floats:
    """Shares of the best likeness, or of what one worth the name would be; what stands next to it is meant as well."""
    counted = counting[index.of_message]
    shares = _share(np.maximum(likeness, 0.0), counted, 1.0)
    of_message = np.zeros(index.messages)
    np.maximum.at(of_message, index.of_message, shares * counted)
    beside = np.zeros_like(of_message)
    beside[1:] += of_message[:-1]
    beside[:-1] += of_message[1:]
    return (shares + LIKE_AROUND * beside[index.of_message] / 2) / (1 + LIKE_AROUND)


def _by_words(index: Index, query: Mapping[str, float], role: Floats, counting: Floats) -> Floats:
    """Relevance by the words of passages, of their messages and of what was said around these; 0..1."""
    telling = role * counting
    wanted = {hashed(term): weight for term, weight in query.items()}
    scan = _Scan(index)
    by_message, ideal = scan.messages(wanted)
    if not by_message.any():
        return np.zeros(len(index.of_message))
    wanted = {**_feedback(index, scan, by_message * telling, wanted), **wanted}
    by_message, _ = scan.messages(wanted)
    by_passage, ideal_passage = scan.passages(wanted)
    around = _around(by_message * telling)
    return (
        _share(by_passage, counting[index.of_message], WEAK * ideal_passage)
        + MESSAGE * _share(by_message, counting, WEAK * ideal)[index.of_message]
        + AROUND * _share(around, counting, 0.0)[index.of_message]
    ) / (1 + MESSAGE + AROUND)


def _in_order(index: Index, fused: Floats, in_time: Flags | None, named: Flags | None) -> Iterator[Hit]:
    found = np.flatnonzero(fused > 0)
    order = np.lexsort((-found, -np.round(fused[found], 9)))
    for one in found[order]:
        message = int(index.of_message[one])
        there = in_time is not None and bool(in_time[one])
        yield Hit(int(one), message, float(fused[one]), there, named is not None and bool(named[message]))


def _share(scores: Floats, counting: Floats, least: float) -> Floats:
    """Scores as shares of the best that counts, or of what a match worth the name would have."""
    best = max(float((scores * counting).max(initial=0.0)), least)
    return np.minimum(scores / best, 1.0) if best else np.minimum(scores, 1.0)


def _around(scores: Floats) -> Floats:
    found = np.zeros_like(scores)
    for step in range(1, min(REACH, len(scores) - 1) + 1):
        weight = FADING ** (step - 1)
        found[step:] += weight * scores[:-step]
        found[:-step] += weight * scores[step:]
    return found


class _Scan:
    """BM25 over passages and over whole messages."""

    def __init__(self, index: Index) -> None:
        self._index = index
        per_passage = np.bincount(index.of_passage, minlength=len(index.of_message)).astype(np.float64)
        per_message = np.bincount(index.of_message, weights=per_passage, minlength=index.messages).astype(np.float64)
        self._passage_norm, self._message_norm = _norm(per_passage), _norm(per_message)
        self._held: dict[int, Places] = {}

    def holding(self, term: int) -> Places:
        """The passages that hold a term, as often as they do."""
        if term not in self._held:
            self._held[term] = self._index.of_passage[np.flatnonzero(self._index.terms == np.uint32(term))]
        return self._held[term]

    def passages(self, wanted: Mapping[int, float]) -> tuple[Floats, float]:
        return _bm25([(self.holding(term), weight) for term, weight in wanted.items()], self._passage_norm)

    def messages(self, wanted: Mapping[int, float]) -> tuple[Floats, float]:
        of_message = self._index.of_message
        held = [(of_message[self.holding(term)], weight) for term, weight in wanted.items()]
        return _bm25(held, self._message_norm)

    def frequency(self) -> Places:
        """About how often each term stands in the index, by its last bits: enough to tell rare from common."""
        return np.bincount(self._index.terms & np.uint32(BITS), minlength=BITS + 1)


def _norm(lengths: Floats) -> Floats:
    mean = lengths.mean() if len(lengths) else 1.0
    return SATURATION * (1 - LENGTH + LENGTH * lengths / (mean or 1.0))


def _bm25(held: Sequence[tuple[Places, float]], norm: Floats) -> tuple[Floats, float]:
    """The scores, and what a text would have that holds every term, each often."""
    scores, ideal = np.zeros(len(norm)), 0.0
    for places, weight in held:
        number, times = np.unique(places, return_counts=True)
        rarity = weight * _rarity(len(number), len(norm)) * (SATURATION + 1)
        ideal += rarity
        scores[number] += rarity * times / (times + norm[number])
    return scores, ideal


def _rarity(holding: int, of: int) -> float:
    return float(np.log(1 + (of - holding + 0.5) / (holding + 0.5)))


def _feedback(index: Index, scan: _Scan, scores: Floats, wanted: Mapping[int, float]) -> dict[int, float]:
    """The terms that stand out in the best messages: they name what the query only describes."""
    best = np.lexsort((np.arange(len(scores)), -scores))[:FEEDBACK]
    found: dict[int, float] = {}
    for message in best[scores[best] > 0]:
        start = index.starts[message]
        end = index.starts[message + 1] if message + 1 < index.messages else len(index.terms)
        number, times = np.unique(index.terms[start:end], return_counts=True)
        for term, often in zip(number.tolist(), times.tolist(), strict=True):
            found[term] = found.get(term, 0.0) + float(scores[message]) * often / float(end - start)
    often_at_all = scan.frequency()
    weighed = (
        (weight * _rarity(min(often_at_all[term & BITS], index.messages), index.messages), term)
        for term, weight in found.items()
    )
    told = sorted(weighed, reverse=True)[:ADDED]
    most = told[0][0] if told else 0.0
    return {term: ADDED_WEIGHT * weight / most for weight, term in told} if most else {}
