"""docs/failure-modes.md names tests that exist, or says why there are none. UPDATE_GOLDEN=1 writes its last column."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "failure-modes.md"

ROW = re.compile(r"(?m)^\| (F\d\d) \| (.+?) \| (.+?) \| (.+) \|$")
LINK = re.compile(r"\[([^]]+)\]\(\.\./(tests/[\w/]+\.py)\)")
TEST = re.compile(r"(?m)^(?:async )?def test_((?:[a-z]+\d+_)+)(\w+)\(")


def named_after_failures() -> Iterator[tuple[str, str, str]]:
    """(failure, file, the test's name as a sentence) for every test that is named after a failure mode."""
    for path in sorted(ROOT.glob("tests/*/test_*.py")):
        for ids, name in TEST.findall(path.read_text(encoding="utf-8")):
            for number in re.findall(r"f(\d\d)_", ids):
                yield f"F{number}", path.relative_to(ROOT).as_posix(), name.replace("_", " ")


def written(page: str) -> str:
    """The page with the tests as they are now."""
    found: dict[str, list[str]] = {}
    for failure, path, sentence in named_after_failures():
        found.setdefault(failure, []).append(f"[{sentence}](../{path})")

    def row(old: re.Match[str]) -> str:
        return f"| {old[1]} | {old[2]} | {old[3]} | {'; '.join(found.get(old[1], [old[4]]))} |"

    return ROW.sub(row, page)


def test_each_failure_mode_names_tests_that_exist_or_says_why_none_applies() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page := written(page), encoding="utf-8")
    rows = ROW.findall(page)
    assert [failure for failure, *_ in rows] == [f"F{number:02}" for number in range(1, 81)]
    there = set(named_after_failures())
    for failure, _, _, column in rows:
        named = {(failure, path, sentence) for sentence, path in LINK.findall(column)}
        assert named <= there, f"{failure} names a test that is not there: UPDATE_GOLDEN=1 pytest {Path(__file__).name}"
        assert named or column.startswith("none: "), f"{failure} has no test and no reason"
