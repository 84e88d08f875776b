"""Tests by the number in their name, and the pages of the documentation whose last column lists them."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^]]+)\]\(\.\./(tests/[\w/]+\.py)\)")

Named = tuple[str, str, str]
"""(number, file, the test's name as a sentence)."""


def named_after(test: re.Pattern[str], number: str) -> Iterator[Named]:
    """Every test that `test` matches, once for each number before its sentence that fits `number`, as in `b(\\d+)_`."""
    for path in sorted(ROOT.glob("tests/*/test_*.py")):
        for ids, name in test.findall(path.read_text(encoding="utf-8")):
            for found in re.findall(number, ids):
                yield f"{number[0].upper()}{found}", path.relative_to(ROOT).as_posix(), name.replace("_", " ")


def links(named: Iterable[Named]) -> dict[str, str]:
    """What the column says of each number that has tests."""
    found: dict[str, list[str]] = {}
    for number, path, sentence in named:
        found.setdefault(number, []).append(f"[{sentence}](../{path})")
    return {number: "; ".join(one) for number, one in found.items()}


def linked(number: str, column: str) -> set[Named]:
    """The tests that the column names."""
    return {(number, path, sentence) for sentence, path in LINK.findall(column)}
