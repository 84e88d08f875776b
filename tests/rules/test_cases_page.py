"""docs/cases.md names, for each case, tests that exist. UPDATE_GOLDEN=1 writes its last column anew."""

import os
import re
from pathlib import Path

from named_tests import ROOT, linked, links, named_after

PAGE = ROOT / "docs" / "cases.md"
LATER = "not yet"

ROW = re.compile(r"(?m)^\| (B\d+) \| (.+?) \| (.+) \|$")
TEST = re.compile(r"(?m)^(?:async )?def test_((?:b\d+_)+)(\w+)\(")
NUMBER = r"b(\d+)_"


def written(page: str) -> str:
    """The page with the tests as they are now."""
    found = links(named_after(TEST, NUMBER))

    def row(old: re.Match[str]) -> str:
        return f"| {old[1]} | {old[2]} | {found.get(old[1], old[3] if LATER in old[3] else LATER)} |"

    return ROW.sub(row, page)


def test_each_case_names_tests_that_exist_and_no_tested_case_is_missing() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page := written(page), encoding="utf-8")
    rows = ROW.findall(page)
    there = set(named_after(TEST, NUMBER))
    for case, _, column in rows:
        named = linked(case, column)
        assert named <= there, f"{case} names a test that is not there: UPDATE_GOLDEN=1 pytest {Path(__file__).name}"
        assert bool(named) != (LATER in column), f"{case} names tests, or says {LATER!r}"
    cases = [case for case, _, _ in rows]
    assert {case for case, _, _ in there} <= set(cases), "a test is named after a case that the page does not tell"
    assert cases == sorted(set(cases), key=lambda case: int(case[1:]))
    assert len(cases) == 92
    waiting = [case for case, _, column in rows if LATER in column]
    assert len(waiting) <= 4, f"{waiting}: no case loses its tests"
