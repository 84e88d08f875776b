"""Packing: whatever goes in comes out, and what the log says is not stored again."""

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_histories import any_json, any_text

from workers.store.columns import by_column, by_row
from workers.store.packing import (
    LONG,
    Said,
    Unreadable,
    dictionary_hash,
    opened,
    pack,
    repeated,
    squeeze,
    text_hash,
    unsqueeze,
)

EVENTS = [str(uuid.UUID(int=number)) for number in range(4)]
LONG_TEXTS = ["a" * LONG, "\ud800" * LONG, "\x01t0" + "b" * LONG, "火车" * LONG]

words = any_text | st.sampled_from([*EVENTS, *LONG_TEXTS, "\x01", "\x01t0", "\x01e1", "\x01u0", "\x01s", "\x01x1.0"])
values = st.recursive(
    words | any_json, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4)
)


@given(values, st.sets(st.sampled_from(EVENTS)), st.lists(st.sampled_from([*LONG_TEXTS, "short", None]), max_size=3))
def test_what_goes_in_comes_out(value: Any, known: set[str], texts: list[str | None]) -> None:
    log = {name: Said(place + 1, texts) for place, name in enumerate(sorted(known))}
    packed, apart = pack(value, log)
    by_seq = {one.seq: (name, one.texts) for name, one in log.items()}
    found = opened(packed)
    assert found.value(apart, by_seq) == value
    assert found.seqs() <= by_seq.keys()
    assert set(found.hashes) == set(apart)


def test_what_the_log_says_is_named_and_not_stored() -> None:
    text = "once " * 100
    packed, apart = pack({"a": [text, text], "b": EVENTS[1], "c": EVENTS[2]}, {EVENTS[1]: Said(7, [None, text])})
    assert apart == {}
    assert opened(packed).seqs() == {7}
    assert opened(packed).ids == [EVENTS[2]]


@given(st.binary(max_size=600))
def test_squeezing_is_undone(data: bytes) -> None:
    assert unsqueeze(squeeze(data)) == data
    assert unsqueeze(squeeze(b"x" + data)) == b"x" + data


@given(values, st.lists(st.sampled_from(LONG_TEXTS) | any_text, min_size=1, max_size=3))
def test_what_was_compressed_with_a_text_comes_out_with_it_alone(value: Any, texts: list[str]) -> None:
    dictionary = "said: " + " ".join(texts)
    packed, apart = pack(value, {}, dictionary)
    assert opened(packed, apart).value(apart, {}) == value
    assert dictionary_hash(packed) == text_hash(dictionary)
    assert apart[text_hash(dictionary)] == dictionary
    with pytest.raises(Unreadable):
        opened(packed)


def test_pieces_of_a_text_cost_next_to_nothing_beside_it() -> None:
    lines = [f"- user: the {place * 7919}th order of {place * 104729}, or whichever" for place in range(200)]
    layout = [[place, ["user: ", line[8:]]] for place, line in enumerate(lines)]
    summary = "\n".join(lines)
    assert repeated(layout, ["x" * 9_999, summary, "y" * 9_999]) == summary
    assert repeated(layout, ["x" * 9_999]) is None
    beside, _ = pack(layout, {}, summary)
    alone, _ = pack(layout, {})
    assert len(beside) < len(alone) / 2


ROWS = st.lists(
    st.dictionaries(
        st.sampled_from(["from_seq", "to_seq", "reason", "events"]), st.integers() | st.booleans() | any_json
    )
)


@given(ROWS)
def test_rows_by_column_are_the_same_rows(rows: list[dict[str, Any]]) -> None:
    assert by_row(json.loads(json.dumps(by_column(rows)))) == json.loads(json.dumps(rows))
