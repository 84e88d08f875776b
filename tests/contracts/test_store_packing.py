"""Packing: whatever goes in comes out, and what the log says is not stored again."""

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from store_histories import any_json, any_text

from workers.store.packing import LONG, Said, opened, pack, squeeze, unsqueeze

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
