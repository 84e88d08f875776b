"""Text as data: where it may be cut, and how it is made smaller."""

import pytest
from histories import count_text
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples, texts

from domain.masking import MASK, masked_value, masker
from domain.state import ContextState
from domain.text import clusters, harmless, head_within, inline, shorten, tail_within, well_formed


def marker(tokens: int) -> str:
    return f"…({tokens} left out)…"


def characters(text: str) -> int:
    """Another way to count, under which every cut is additive."""
    return len(text)


counters = st.sampled_from([count_text, characters])


@examples(200)
@given(texts, st.integers(0, 60), counters)
def test_head_and_tail_are_ends_of_the_text_in_whole_characters(text: str, limit: int, count: object) -> None:
    head, tail = head_within(text, limit, count), tail_within(text, limit, count)  # type: ignore[arg-type]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert max(count(head), count(tail)) <= limit  # type: ignore[operator]
    assert "".join(clusters(head)) == head
    assert clusters(text)[: len(clusters(head))] == clusters(head)


@examples(200)
@given(texts, st.integers(0, 80), counters)
def test_a_shortened_text_fits_and_tells_how_much_is_missing(text: str, limit: int, count: object) -> None:
    cut = shorten(text, limit, count, marker)  # type: ignore[arg-type]
    assert count(cut) <= limit  # type: ignore[operator]
    if count(text) <= limit:  # type: ignore[operator]
        assert cut == text
    elif cut:
        head, _, tail = cut.partition("…(")
        assert text.startswith(head)
        assert text.endswith(tail.partition(")…")[2])
        assert "left out" in cut


def test_as_much_of_a_text_stays_as_fits() -> None:
    text = "".join(f"{number:04}" for number in range(500))
    cut = shorten(text, 100, characters, marker)
    assert 90 <= len(cut) <= 100


def test_shortening_keeps_at_least_what_is_asked_or_nothing() -> None:
    text = "word " * 500
    assert shorten(text, 100, count_text, marker, least=95) == ""
    kept = shorten(text, 100, count_text, marker, least=60)
    assert count_text(kept.replace(marker(0), "")) >= 60


@pytest.mark.parametrize("text", ["", "a", "\ud83d", "a\udfffb", "\ud83d\ud83d", "😀"])
def test_well_formed_text_can_be_encoded(text: str) -> None:
    assert len(well_formed(text)) == len(text)
    well_formed(text).encode()
    assert well_formed("😀é") == "😀é"


def test_inline_text_reads_as_before_where_it_was_harmless() -> None:
    for text in (
        "plain text",
        "a # b",
        "#tag",
        "C# and F#",
        "x = [1, 2]  # note",
        "`code`",
        "a ~ b",
        "【重点】",
        "<|>",
        "a | b",
    ):
        assert inline(text).replace("\\", "") == text


def test_inline_text_shows_where_its_lines_ended() -> None:
    assert inline("one\ntwo\r\nthree\u2028four") == "one ⏎ two ⏎ three ⏎ four"


def test_harmless_text_keeps_its_lines() -> None:
    assert harmless("# Title\n  code\n【硬性约束】") == "\\# Title\n  code\n〖硬性约束〗"


# --- secrets ---------------------------------------------------------------------------------------------------------

KEYS = [
    "sk-ant-" + "a1B2c3D4" * 6,
    "ghp_" + "a1B2" * 9,
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-" + "x9Y8z7W6v5U4t3S2r1Q0",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", KEYS)
def test_known_key_formats_are_masked_and_what_is_around_them_stays(key: str) -> None:
    mask = masker(ContextState())
    assert mask(f"use {key} here") == f"use {MASK} here"
    assert masked_value({"env": [f"KEY={key}"]}, mask) == {"env": [f"KEY={MASK}"]}


@pytest.mark.parametrize(
    "text",
    [
        "d41d8cd98f00b204e9800998ecf8427e",
        "sk-learn",
        "the task-force",
        "550e8400-e29b-41d4-a716-446655440000",
        "x" * 80,
    ],
)
def test_what_only_looks_random_is_not_masked(text: str) -> None:
    assert masker(ContextState())(text) == text


@pytest.mark.parametrize("opening", ["e", "one two e"])
def test_a_text_that_is_one_giant_cluster_is_given_up_without_a_try_for_every_room(opening: str) -> None:
    asked = 0

    def counting(text: str) -> int:
        nonlocal asked
        asked += 1
        return len(text)

    assert shorten(opening + "\u0301" * 20_000, 5_000, counting, marker, least=16) == ""
    assert asked < 200
