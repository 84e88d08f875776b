"""Refining: a model may put a query in other words and tell which of the passages found answer it best.

It knows nobody's ids: passages have small numbers, and an answer that names another number, one twice or none at all is
no answer. It finds nothing by itself; what it may change is what is looked for besides the query, and the order.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from domain.answers import Malformed, json_line, read_answer
from domain.masking import Masker
from domain.rendering.neutral import Neutral, text_of
from domain.sources import SourceItem
from domain.text import opening, well_formed

CANDIDATES = 30
"""Passages that a model is shown, the best by words and meaning: as many whatever the budget."""

LONGEST = 600
"""Characters of one text that it is shown."""

TURNS = 6
"""Messages before the query that it is shown, so that it knows what `it` and `she` are."""


class _Queries(BaseModel):
    model_config = ConfigDict(strict=True)

    queries: Annotated[
        list[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]],
        Field(min_length=1, max_length=4),
    ]


class _Order(BaseModel):
    model_config = ConfigDict(strict=True)

    order: Annotated[list[int], Field(min_length=1, max_length=CANDIDATES)]


def other_words(query: str, said: Sequence[Neutral], mask: Masker) -> str:
    """What a model is asked to put in other words: JSON lines, what was said last and then the query."""
    told = [(one.role, "\n".join(map(text_of, one.parts))) for one in said]
    rows = [{"role": role, "said": _shown(text, mask)} for role, text in told if text.strip()]
    return "\n".join(map(json_line, [*rows[-TURNS:], {"query": _shown(query, mask)}]))


def read_queries(answer: str) -> tuple[str, ...]:
    """What to look for besides the query. Raises Malformed."""
    found = read_answer(answer, _Queries)
    return tuple(dict.fromkeys(" ".join(well_formed(one).split()) for one in found.queries))


def which(query: str, items: Sequence[SourceItem], mask: Masker) -> str:
    """What a model is asked to put in order: JSON lines, the query and then the passages under small numbers."""
    rows = [_row(number, item, mask) for number, item in enumerate(items[:CANDIDATES], 1)]
    return "\n".join(map(json_line, [{"query": _shown(query, mask)}, *rows]))


def read_order(answer: str, items: Sequence[SourceItem]) -> tuple[int, ...]:
    """The places of those that answer best, best first. Raises Malformed."""
    order = read_answer(answer, _Order).order
    if len(set(order)) < len(order) or not all(1 <= number <= min(len(items), CANDIDATES) for number in order):
        raise Malformed
    return tuple(number - 1 for number in order)


def reordered(items: Sequence[SourceItem], order: Sequence[int]) -> list[SourceItem]:
    """The items that `order` names first, the others behind as they were. Scores stay where they were: the first has
    the best, and as many are good enough as before."""
    chosen = set(order)
    places = [*order, *(place for place in range(len(items)) if place not in chosen)]
    return [replace(items[place], score=before.score) for place, before in zip(places, items, strict=True)]


def _row(number: int, item: SourceItem, mask: Masker) -> dict[str, str | int]:
    row: dict[str, str | int] = {"n": number, "text": _shown(item.text, mask)}
    if item.speaker or item.title:
        row["from"] = _shown(item.speaker or item.title, mask)
    if item.at is not None:
        row["on"] = datetime.fromtimestamp(item.at // 1_000_000, UTC).date().isoformat()
    return row


def _shown(text: str, mask: Masker) -> str:
    return opening(mask(well_formed(text)), LONGEST)
