"""Recall: which terms find what, how long messages are parted, and how passages are ranked."""

import json
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.recall.index import EMPTY, Source, extended, joined
from domain.recall.naming import marked, names
from domain.recall.passages import passages, width
from domain.recall.ranking import ranked
from domain.recall.smalltalk import tells_something
from domain.recall.terms import terms

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


def messages(*texts: str, role: str = "user") -> list[Source]:
    return [Source(seq, role, "", text, 0) for seq, text in enumerate(texts, 1)]


def found(query: str, *texts: str) -> list[int]:
    """The seqs of the messages that a query finds, best first."""
    index = extended(EMPTY, messages(*texts))
    return list(dict.fromkeys(int(index.seqs[hit.message]) for hit in ranked(index, query)))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Which cameras did she buy?", "I bought a camera"),
        ("running", "She runs every day"),
        ("生日是哪天", "李华的生日是三月五日"),
        ("iPhone 的价格", "这部iPhone很贵"),
        ("src/app/main.py", "the fault is in src/app/main.py, line 3"),
        ("main.py", "the fault is in src/app/main.py, line 3"),
        ("order 48213", "order #48213 was shipped"),
        ("Caroline’s dog", "Caroline has a dog"),
    ],
)
def test_a_query_shares_terms_with_what_answers_it(query: str, text: str) -> None:
    assert set(terms(query)) & set(terms(text))


def test_words_that_every_text_holds_are_no_terms() -> None:
    assert terms("What is it that you have, and where?") == []
    assert terms("的 了 吗") == []


@given(words)
def test_any_text_has_terms_without_an_error(text: str) -> None:
    assert all(term and not term.isspace() for term in terms(text))


@given(words, st.integers(12, 200))
def test_passages_hold_the_whole_text_and_none_is_too_long(text: str, size: int) -> None:
    parts = passages(text, size)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)
    assert all(width(part) <= size for part in parts)


def parted_piece_by_piece(piece: str, size: int) -> list[str]:
    """How a sentence without an end is cut, told the plain way: what is left is measured anew after each cut. Short
    parts stand together where they fit."""
    found: list[str] = []
    while width(piece) > size:
        reach = size if piece.isascii() else size // 3
        space = piece.rfind(" ", reach // 2, reach)
        end = space if space > 0 else reach
        found.append(piece[:end].strip())
        piece = piece[end:].strip()
    together: list[str] = []
    for part in (*found, piece):
        fits = together and width(together[-1]) + 1 + width(part) <= size
        together[-1:] = [f"{together[-1]} {part}"] if fits else [*together[-1:], part]
    return together


@given(st.text(st.sampled_from("ab c é王 \u3000\U0001f600\u0301,"), min_size=1, max_size=400), st.integers(12, 200))
def test_a_sentence_without_an_end_is_cut_between_words_and_within_those_that_are_too_long(
    text: str, size: int
) -> None:
    one = " ".join(text.split())
    assert not one or passages(one, size) == parted_piece_by_piece(one, size)


def measured(call: Callable[[], object]) -> int:
    """How many characters a call has measured."""
    found = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        if event == "call" and frame.f_code is width.__code__:
            found += len(frame.f_locals["text"])

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


MEGABYTE = 1_000_000
ROWS = [{"id": row, "name": f"row {row}", "value": row * 7 % 1000} for row in range(30_000)]
CHINESE = [{"姓名": "王小明", "年龄": row % 90} for row in range(12_000)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" " * MEGABYTE, id="spaces"),
        pytest.param("\n " * (MEGABYTE // 2), id="empty lines"),
        pytest.param("中文没有标点" * (MEGABYTE // 18), id="Chinese without an end"),
        pytest.param("مرحبا بالعالم " * (MEGABYTE // 25), id="Arabic without an end"),
        pytest.param("a" * MEGABYTE + "é", id="one word"),
        pytest.param(json.dumps(ROWS), id="JSON of thirty thousand rows"),
        pytest.param(json.dumps(CHINESE, ensure_ascii=False, separators=(",", ":")), id="Chinese JSON"),
    ],
)
def test_no_text_is_measured_more_than_a_few_times(text: str) -> None:
    assert measured(lambda: passages(text)) <= 5 * len(text)


def test_a_long_message_is_parted_where_sentences_end() -> None:
    sentence = "The quick brown fox jumps over the lazy dog once more. "
    assert all(part.endswith("more.") for part in passages(sentence * 40))


def test_what_shares_the_rarer_words_comes_first() -> None:
    texts = ["We talked about the weather", "The weather in Bergen is wet", "Rain again, such weather"]
    assert found("weather in Bergen", *texts)[0] == 2


def test_nothing_is_found_for_a_query_that_nothing_answers() -> None:
    assert found("zeppelin", "We talked about the weather") == []
    assert found("", "We talked about the weather") == []
    assert ranked(EMPTY, "weather") == []


def test_the_users_own_words_come_before_an_assistants_long_answer() -> None:
    index = extended(EMPTY, [Source(1, "assistant", "", "Allergies: nuts, and so on. " * 9, 0)])
    index = extended(index, [Source(2, "user", "", "My allergies: nuts.", 0)])
    assert ranked(index, "allergies")[0].message == 1


def test_what_was_said_around_an_answer_comes_along() -> None:
    texts = ["Tell me about Bergen", "It is by the sea", *[f"Other matter {at}" for at in range(40)]]
    assert found("Bergen", *texts)[:2] == [1, 2]


def test_a_name_leads_to_what_was_said_of_it() -> None:
    other = [f"会议改到第{at}周" for at in range(60)]
    texts = ["我表哥叫王强", *other[:30], "王强的电话是5550100", *other[30:]]
    assert found("我表哥的电话号码", *texts).index(32) < 5


@given(st.lists(st.text("ab cd", max_size=12), max_size=12), st.text("ab cd", max_size=6), st.integers(0, 12))
def test_an_index_made_in_steps_ranks_like_one_made_at_once(texts: list[str], query: str, at: int) -> None:
    sources = messages(*texts)
    whole = extended(EMPTY, sources)
    steps = extended(extended(EMPTY, sources[:at]), sources[at:])
    parts = joined([extended(EMPTY, sources[:at]), extended(EMPTY, sources[at:])])
    assert ranked(whole, query) == ranked(steps, query) == ranked(parts, query)
    assert np.array_equal(whole.terms, steps.terms)


@given(st.lists(st.text("ab cd", max_size=12), min_size=1, max_size=12), st.text("ab cd", min_size=1, max_size=6))
def test_relevance_is_a_share_and_falls_along_the_list(texts: list[str], query: str) -> None:
    hits = ranked(extended(EMPTY, messages(*texts)), query)
    values = [hit.relevance for hit in hits]
    assert all(0 < value <= 1 for value in values)
    assert all(before >= after - 1e-9 for before, after in pairwise(values))


def test_what_the_prompt_shows_anyway_sets_no_measure_for_the_rest() -> None:
    answer, question = "Every employee has 27 days of paid leave.", "How many days of paid leave do employees have?"
    index = extended(EMPTY, messages(answer, *(f"The garden is green, {at}." for at in range(20)), question))
    plain, counted = (
        {hit.message: hit.relevance for hit in ranked(index, question, None, None, shown)}
        for shown in (None, np.arange(index.messages) == 21)
    )
    assert counted[0] > plain[0]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("What did Caroline say about pets?", "Caroline"),
        ("what is caroline’s job", "Caroline"),
        ("小明说过什么？", "小明"),
        ("Did Mary Ann Lee call?", "Mary Ann Lee"),
        ("Ask O'Brien-Smith", "O'Brien-Smith"),
        ("Wo wohnt José?", "José"),
    ],
)
def test_a_query_names_whole_names_in_whatever_case(query: str, name: str) -> None:
    assert marked(name) in names(query)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("What is a cat?", "A"),
        ("Will it rain?", "Will"),
        ("Caroline said so", "Carol"),
        ("Mary called", "Mary Ann"),
        ("小红来了", "红"),
        ("", ""),
    ],
)
def test_a_query_names_nobody_by_a_part_of_a_name_or_a_common_word(query: str, name: str) -> None:
    assert marked(name) not in names(query)


def test_of_two_who_say_the_same_the_one_whom_the_query_names_comes_first() -> None:
    said = [Source(seq, "user", who, "I have a pet at home.", 0) for seq, who in enumerate(["Ann", "Bob", "Ann"], 1)]
    hits = ranked(extended(EMPTY, said), "Which pet does Bob have at home?")
    assert (hits[0].message, hits[0].by_named) == (1, True)
    assert not any(hit.by_named for hit in hits[1:])
    said = [Source(seq, "user", who, "我在家养了宠物", 0) for seq, who in enumerate(["小明", "小红"], 1)]
    hits = ranked(extended(EMPTY, said), "小明养了什么宠物？")
    assert [(hit.message, hit.by_named) for hit in hits] == [(0, True), (1, False)]


@pytest.mark.parametrize(
    "text",
    [
        "Noted.",
        "OK, thanks!",
        "Sounds good 👍",
        "好的",
        "好的，谢谢！",
        "收到，我知道了。",
        "嗯嗯",
        "…",
        "You're welcome",
        "没问题，不客气 ok",
    ],
)
def test_a_greeting_a_thank_or_a_yes_tells_nothing(text: str) -> None:
    assert not tells_something(text)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, in Oslo.",
        "42",
        "ok, main.py",
        "好的，三点见",
        "谢谢小明",
        "No dogs",
        "我在青岛",
        "We got married",
        "Good Friday is off",
    ],
)
def test_a_word_more_tells_something(text: str) -> None:
    assert tells_something(text)
