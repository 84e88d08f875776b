"""The index: the terms of every passage in one flat array, scanned whole for each term of a query.

A scan of a million terms takes about a millisecond, so there is nothing to balance, merge or rebuild: a message that
comes is appended. Terms are kept as 32-bit hashes. The same messages give the same index on every database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.recall.naming import NOBODY, marked
from domain.recall.passages import passages, width
from domain.recall.terms import hashed, terms

Ints = NDArray[np.int64]

DOCUMENT = "document"
"""The role of what a user attached: it tells as much as what users say themselves."""

TELLING = frozenset({"user", DOCUMENT})


@dataclass(frozen=True, slots=True)
class Source:
    """A message as the index takes it: its `seq`, who said it, its text, and when, in microseconds UTC. Or a part
    of a document: its `seq` is the character that it begins with, its `speaker` the title, and `under` its headings."""

    seq: int
    role: str
    speaker: str
    text: str
    at: int
    under: str = ""


@dataclass(frozen=True, slots=True)
class Index:
    """Messages in order, their passages, and the hashed terms of these. `of_message` and `of_passage` say whose a
    passage or a term is; `starts` where the terms of a message begin; `speakers` the marks of who said them."""

    seqs: Ints
    times: Ints
    said_by_user: NDArray[np.bool_]
    of_message: Ints
    widths: Ints
    terms: NDArray[np.uint32]
    of_passage: NDArray[np.int32]
    starts: Ints
    speakers: NDArray[np.uint32]

    @property
    def messages(self) -> int:
        return len(self.seqs)

    @property
    def last(self) -> int:
        """The seq of the newest message; 0 for none."""
        return int(self.seqs[-1]) if len(self.seqs) else 0

    def first_passage(self, message: int) -> int:
        return int(np.searchsorted(self.of_message, message))

    def places(self, seqs: Ints, counts: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Where so many passages of the messages with these seqs stand, and which of them the index holds at all."""
        messages = np.searchsorted(self.seqs, seqs)
        known = (
            self.seqs[np.minimum(messages, self.messages - 1)] == seqs if self.messages else np.zeros(len(seqs), bool)
        )
        first, end = (np.searchsorted(self.of_message, messages + more) for more in (0, 1))
        ends = np.cumsum(counts)
        number = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        inside = np.repeat(known, counts) & (number < np.repeat(end - first, counts))
        return np.repeat(first, counts) + number, inside


def _none(kind: type) -> NDArray:  # type: ignore[type-arg]
    return np.zeros(0, dtype=kind)


EMPTY = Index(
    _none(np.int64), _none(np.int64), _none(np.bool_), _none(np.int64), _none(np.int64), _none(np.uint32),
    _none(np.int32), _none(np.int64), _none(np.uint32),
)  # fmt: skip


def extended(index: Index, messages: Iterable[Source]) -> Index:
    """The index with more messages, which all come after those it holds."""
    return joined([index, _made(list(messages))])


def joined(indexes: Sequence[Index]) -> Index:
    """One index over several: what is rare in all of them together is rare."""
    indexes = [one for one in indexes if one.messages]
    if len(indexes) < 2:
        return indexes[0] if indexes else EMPTY
    before = [(0, 0, 0)]
    for one in indexes:
        messages, parts, words = before[-1]
        before.append((messages + one.messages, parts + len(one.of_message), words + len(one.terms)))
    pairs = list(zip(indexes, before, strict=False))
    return Index(
        seqs=np.concatenate([one.seqs for one in indexes]),
        times=np.concatenate([one.times for one in indexes]),
        said_by_user=np.concatenate([one.said_by_user for one in indexes]),
        of_message=np.concatenate([one.of_message + base[0] for one, base in pairs]),
        widths=np.concatenate([one.widths for one in indexes]),
        terms=np.concatenate([one.terms for one in indexes]),
        of_passage=np.concatenate([one.of_passage + np.int32(base[1]) for one, base in pairs]),
        starts=np.concatenate([one.starts + base[2] for one, base in pairs]),
        speakers=np.concatenate([one.speakers for one in indexes]),
    )


def _made(messages: Sequence[Source]) -> Index:
    of_message: list[int] = []
    widths: list[int] = []
    words: list[int] = []
    of_passage: list[int] = []
    starts: list[int] = []
    for place, message in enumerate(messages):
        starts.append(len(words))
        above = [hashed(term) for term in terms(f"{message.speaker} {message.under}")]
        for passage in passages(message.text):
            found = [hashed(term) for term in terms(passage)] + above
            of_passage += [len(of_message)] * len(found)
            words += found
            of_message.append(place)
            widths.append(width(passage))
    return Index(
        seqs=np.array([one.seq for one in messages], dtype=np.int64),
        times=np.array([one.at for one in messages], dtype=np.int64),
        said_by_user=np.array([one.role in TELLING for one in messages], dtype=np.bool_),
        of_message=np.array(of_message, dtype=np.int64),
        widths=np.array(widths, dtype=np.int64),
        terms=np.array(words, dtype=np.uint32),
        of_passage=np.array(of_passage, dtype=np.int32),
        starts=np.array(starts, dtype=np.int64),
        speakers=np.array([marked(one.speaker) if one.speaker else NOBODY for one in messages], dtype=np.uint32),
    )
