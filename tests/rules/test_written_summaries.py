"""Summaries that a model or an agent wrote: where they may stand, and what a model is asked for."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from domain.events import TextPart
from domain.manifests import LEAST, MOST, accepted, manifest
from domain.rendering.neutral import Neutral
from domain.rows import StoredSummary
from domain.windows import Unit
from domain.written import SHARE, StandIn, stand_ins


def unit(seq: int, tokens: int, text: str = "said") -> Unit:
    message = Neutral("user", "window", (TextPart(type="text", text=text),), seq=seq)
    return Unit(seq, seq, (message,), tokens, tokens, (f"e{seq}",), "user")


class Gone:
    """A unit that went, as a trim sees it."""

    def __init__(self, unit: int, given: int, events: tuple[str, ...] = ()) -> None:
        self.unit, self.given, self.events = unit, given, events or (f"e{unit}",)


def written(name: str, *units: int, text: str = "what was said") -> StoredSummary:
    return StoredSummary(name, text, tuple(f"e{one}" for one in units), "model", "m", max(units, default=0), name)


def words(text: str) -> int:
    return len(text.split())


def standing(rows: list[StoredSummary], *gone: Gone, room: int = 1000) -> list[StandIn]:
    return stand_ins(rows, gone, room, words)


def test_a_text_stands_only_where_all_that_it_was_made_from_has_gone() -> None:
    row = written("a", 1, 2)
    assert [one.units for one in standing([row], Gone(1, 50), Gone(2, 50))] == [{1, 2}]
    assert not standing([row], Gone(1, 50))
    assert not standing([written("none")], Gone(1, 50))


def test_part_of_a_unit_is_not_summarised() -> None:
    assert not standing([written("a", 1)], Gone(1, 50, ("e1", "e1-answer")))


def test_of_two_texts_for_one_unit_the_newer_stands() -> None:
    older, newer = written("a", 1, 2), written("b", 2, 3)
    found = standing([older, newer], *(Gone(seq, 50) for seq in (1, 2, 3)))
    assert [one.events[0] for one in found] == ["b"]


def test_a_text_that_is_no_shorter_than_its_units_or_over_its_share_is_left_out() -> None:
    long = written("a", 1, text="word " * 40)
    assert not standing([long], Gone(1, 30))
    assert standing([long], Gone(1, 50))
    assert not standing([long], Gone(1, 50), room=int(40 / SHARE) - 5)


@given(st.lists(st.integers(1, 3_000), max_size=40), st.sets(st.integers(0, 39)))
def test_a_block_is_large_enough_bounded_and_never_told_twice(sizes: list[int], told: set[int]) -> None:
    units = [unit(seq, size) for seq, size in enumerate(sizes)]
    rows = [written(f"s{seq}", seq) for seq in told]
    found = manifest(units, rows)
    if found is not None:
        assert LEAST <= found.tokens <= max(MOST, max(one.given for one in found.units))
        assert told.isdisjoint(one.seq for one in found.units)
        assert [one.seq for one in found.units] == sorted(one.seq for one in found.units)


@given(st.text(), st.text())
def test_what_a_model_is_given_is_one_json_line_for_each_message(first: str, second: str) -> None:
    found = manifest([unit(1, LEAST, first), unit(2, 10, second)], [])
    assert found is not None
    rows: list[Any] = [json.loads(line) for line in found.text.split("\n")]
    assert [(row["n"], row["role"]) for row in rows] == [(1, "user"), (2, "user")]
    json.dumps(rows, ensure_ascii=False).encode()


def test_an_empty_answer_and_one_longer_than_its_source_are_not_accepted() -> None:
    assert accepted("  in short ", 10, words) == "in short"
    assert accepted(" \n", 10, words) is None
    assert accepted("more words than there were", 3, words) is None
