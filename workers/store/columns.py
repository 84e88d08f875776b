"""Rows of a report by column: what stands alike below each other compresses better than what stands alike in rows."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

Json = dict[str, Any]

_RISING = ("from_seq", "to_seq")
"""Columns of whole numbers that mostly rise by little: their steps are stored."""


def by_column(rows: Sequence[Mapping[str, Any]]) -> Json:
    """`shapes` are the sets of fields that rows have, `rows` the shape of each, `columns` the values of each field from
    the first row that has it to the last; of those in `steps` how much each is more than the one before."""
    shapes: dict[tuple[str, ...], int] = {}
    columns: dict[str, list[Any]] = {}
    which = [shapes.setdefault(tuple(sorted(row)), len(shapes)) for row in rows]
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    steps = [name for name in _RISING if all(type(value) is int for value in columns.get(name, ()))]
    told = {name: _steps(values) if name in steps else values for name, values in columns.items()}
    return {"shapes": [list(shape) for shape in shapes], "rows": which, "columns": told, "steps": steps}


def by_row(told: Mapping[str, Any]) -> list[Json]:
    """The rows that were put into columns."""
    steps = told["steps"]
    left = {name: accumulate(held) if name in steps else iter(held) for name, held in told["columns"].items()}
    return [{name: next(left[name]) for name in told["shapes"][shape]} for shape in told["rows"]]


def _steps(values: Sequence[int]) -> list[int]:
    return [*values[:1], *(after - before for before, after in pairwise(values))]
