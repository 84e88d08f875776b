"""An index as rows: what it holds of each message as bytes, and these as an index again, without a look at any text.

head (20 bytes): telling, passages, at, who    widths (2 bytes each)    counts of terms (2)    terms (4)
"""

from collections.abc import Iterator, Sequence

import numpy as np

from domain.recall.index import EMPTY, Index, Ints

VERSION = 2
"""Of the rows. It changes with the terms of a text and with the cut of its passages: other rows tell nothing then."""

_HEAD = 5
"""Words of four bytes: whether its speaker tells facts, its passages, the time in two, and the mark of the
speaker."""

_TELLING = 1 << 8
"""Not the first byte: that is 0 in every row."""

_WORD, _HALF = np.dtype("<u4"), np.dtype("<u2")


def packed(index: Index) -> Iterator[bytes]:
    """What the index holds of each of its messages, in order."""
    counts = np.bincount(index.of_passage, minlength=len(index.of_message))
    firsts = np.searchsorted(index.of_message, np.arange(index.messages + 1))
    ends = np.append(index.starts[1:], len(index.terms))
    for at in range(index.messages):
        mine = slice(firsts[at], firsts[at + 1])
        when = int(index.times[at]) & (1 << 64) - 1
        head = [
            _TELLING * int(index.said_by_user[at]),
            int(firsts[at + 1] - firsts[at]),
            when & (1 << 32) - 1,
            when >> 32,
            int(index.speakers[at]),
        ]
        yield b"".join(
            (
                np.array(head, dtype=_WORD).tobytes(),
                index.widths[mine].astype(_HALF).tobytes(),
                counts[mine].astype(_HALF).tobytes(),
                index.terms[index.starts[at] : ends[at]].astype(_WORD).tobytes(),
            )
        )


def unpacked(seqs: Sequence[int], rows: Sequence[bytes]) -> Index:
    """The index of the messages with these seqs, in order, by what `packed` told of each."""
    if not rows:
        return EMPTY
    words = np.frombuffer(b"".join(rows), dtype=_WORD)
    sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) // 4
    starts = np.cumsum(sizes) - sizes
    parts = words[starts + 1].astype(np.int64)
    held = sizes - _HEAD - parts
    halves, first = words.view(_HALF), 2 * (starts + _HEAD)
    counts = halves[_runs(first + parts, parts)]
    return Index(
        seqs=np.array(seqs, dtype=np.int64),
        times=words[starts + 2].astype(np.int64) | words[starts + 3].astype(np.int64) << 32,
        said_by_user=words[starts] > 0,
        of_message=np.repeat(np.arange(len(rows)), parts),
        widths=halves[_runs(first, parts)].astype(np.int64),
        terms=words[_runs(starts + _HEAD + parts, held)].astype(np.uint32),
        of_passage=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        starts=np.cumsum(held) - held,
        speakers=words[starts + 4].astype(np.uint32),
    )


def _runs(starts: Ints, lengths: Ints) -> Ints:
    """The places of runs that begin at `starts`, one after the other."""
    before = np.cumsum(lengths) - lengths
    found: Ints = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return found
