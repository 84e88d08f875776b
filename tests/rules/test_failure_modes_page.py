"""docs/failure-modes.md names tests that exist, or says why there are none. UPDATE_GOLDEN=1 writes its last column."""

import os
import re
from pathlib import Path

from named_tests import ROOT, linked, links, named_after

PAGE = ROOT / "docs" / "failure-modes.md"

ROW = re.compile(r"(?m)^\| (F\d\d) \| (.+?) \| (.+?) \| (.+) \|$")
TEST = re.compile(r"(?m)^(?:async )?def test_((?:[a-z]+\d+_)+)(\w+)\(")
NUMBER = r"f(\d\d)_"


def written(page: str) -> str:
    """The page with the tests as they are now."""
    found = links(named_after(TEST, NUMBER))

    def row(old: re.Match[str]) -> str:
        return f"| {old[1]} | {old[2]} | {old[3]} | {found.get(old[1], old[4])} |"

    return ROW.sub(row, page)


def test_each_failure_mode_names_tests_that_exist_or_says_why_none_applies() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page := written(page), encoding="utf-8")
    rows = ROW.findall(page)
    assert [failure for failure, *_ in rows] == [f"F{number:02}" for number in range(1, 81)]
    there = set(named_after(TEST, NUMBER))
    for failure, _, _, column in rows:
        named = linked(failure, column)
        assert named <= there, f"{failure} names a test that is not there: UPDATE_GOLDEN=1 pytest {Path(__file__).name}"
        assert named or column.startswith("none: "), f"{failure} has no test and no reason"
