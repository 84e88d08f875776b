"""An index kept as rows is the same index again."""

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from domain.recall.index import EMPTY, Index, Source, extended, joined
from domain.recall.packing import packed, unpacked

texts = st.text(max_size=60) | st.text("word wörter 词 4 x/y.py", min_size=500, max_size=1500)
said = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=8), texts, st.integers(-(2**62), 2**62)),
    max_size=8,
)


def index_of(told: list[tuple[str, str, str, int]], first: int = 1) -> Index:
    return extended(EMPTY, [Source(seq, *one) for seq, one in enumerate(told, first)])


def same(one: Index, other: Index) -> bool:
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(Index)]
    return all(left.dtype == right.dtype and np.array_equal(left, right) for left, right in pairs)


@given(said)
def test_rows_give_back_the_index_they_were_made_of(told: list[tuple[str, str, str, int]]) -> None:
    index = index_of(told)
    rows = list(packed(index))
    assert same(unpacked(index.seqs.tolist(), rows), index)
    assert all(row[:1] == b"\0" for row in rows)


@given(said, said)
def test_rows_of_some_messages_go_on_from_the_index_of_others(
    told: list[tuple[str, str, str, int]], more: list[tuple[str, str, str, int]]
) -> None:
    before, behind = index_of(told), index_of(more, 100)
    both = joined([before, unpacked(behind.seqs.tolist(), list(packed(behind)))])
    assert same(both, joined([before, behind]))


def test_places_of_passages_are_told_by_their_message_and_of_strangers_none() -> None:
    index = index_of([("user", "", text, 0) for text in ("one", "", "long words " * 100, "four")])
    places, inside = index.places(np.array([1, 3, 4, 9]), np.array([1, 2, 3, 1]))
    assert places[inside].tolist() == [0, 1, 2, index.first_passage(3)]
    assert inside.tolist() == [True, True, True, True, False, False, False]
