"""Whom a query names: of those who spoke, and of whom memories tell. A name counts as a whole, in whatever case.

Nobody knows where a name ends among Chinese characters: every run of a few of them in the query might be one.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from domain.recall.terms import CJK, STOP, hashed

SPEAKER = 0.3
"""How much more counts what somebody said, or what is told of somebody, whom the query names."""

NOBODY = 0
WORDS, CHARACTERS = 5, 8
"""The longest name: in words, or in characters of a script that has none."""

LONGEST = 2_000
"""Characters of a query that are looked at for names."""

_WORD = re.compile(r"[^\W_]+(?:['’._-][^\W_]+)*")
BITS = (1 << 16) - 1


@lru_cache(1 << 16)
def marked(name: str) -> int:
    """A name as the index keeps it; `NOBODY` where there is none, or one that any text might hold."""
    return next(iter(_marks([_plain(name)])), NOBODY)


def _plain(name: str) -> str:
    runs = CJK.findall(name)
    return "".join(runs) if runs else " ".join(_words(name))


def _words(text: str) -> list[str]:
    return [word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(text.casefold())]


def _marks(names: list[str]) -> Iterator[int]:
    for name in names:
        if len(name) > 1 and name not in STOP:
            yield hashed(f"\0{name}") or 1


def names(query: str) -> frozenset[int]:
    """All that a query might name."""
    return frozenset(_marks(list(_candidates(query[:LONGEST]))))


def _candidates(query: str) -> Iterator[str]:
    for run in CJK.findall(query):
        for start in range(len(run)):
            yield from (run[start:end] for end in range(start + 2, min(start + CHARACTERS, len(run)) + 1))
    words = _words(CJK.sub(" ", query))
    for start in range(len(words)):
        yield from (" ".join(words[start:end]) for end in range(start + 1, min(start + WORDS, len(words)) + 1))


def by_named(speakers: NDArray[np.uint32], query: str) -> NDArray[np.bool_] | None:
    """For each message, by the mark of who said it, whether the query names that one; None where it names nobody."""
    wanted = np.array(sorted(names(query)), dtype=np.uint32)
    if not len(wanted):
        return None
    likely = np.zeros(BITS + 1, dtype=np.bool_)
    likely[wanted & BITS] = True
    found: NDArray[np.bool_] = likely[speakers & np.uint32(BITS)]
    places = np.flatnonzero(found)
    found[places] = np.isin(speakers[places], wanted)
    return found if found.any() else None
