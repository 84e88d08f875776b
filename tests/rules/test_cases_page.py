"""docs/cases.md names, for each case, tests that exist. UPDATE_GOLDEN=1 writes its last column anew."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cases.md"
LATER = "not yet"

ROW = re.compile(r"(?m)^\| (B\d+) \| (.+?) \| (.+) \|$")
LINK = re.compile(r"\[([^]]+)\]\(\.\./(tests/[\w/]+\.py)\)")
TEST = re.compile(r"(?m)^(?:async )?def test_((?:b\d+_)+)(\w+)\(")


def named_after_cases() -> Iterator[tuple[str, str, str]]:
    """(case, file, the test's name as a sentence) for every test that is named after a case."""
    for path in sorted(ROOT.glob("tests/*/test_*.py")):
        for ids, name in TEST.findall(path.read_text(encoding="utf-8")):
            for number in re.findall(r"\d+", ids):
                yield f"B{number}", path.relative_to(ROOT).as_posix(), name.replace("_", " ")


def written(page: str) -> str:
    """The page with the tests as they are now."""
    found: dict[str, list[str]] = {}
    for case, path, sentence in named_after_cases():
        found.setdefault(case, []).append(f"[{sentence}](../{path})")

    def row(old: re.Match[str]) -> str:
        return f"| {old[1]} | {old[2]} | {'; '.join(found.get(old[1], [old[3] if LATER in old[3] else LATER]))} |"

    return ROW.sub(row, page)


def test_each_case_names_tests_that_exist_and_no_tested_case_is_missing() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page := written(page), encoding="utf-8")
    rows = ROW.findall(page)
    there = set(named_after_cases())
    for case, _, column in rows:
        named = [(case, path, sentence) for sentence, path in LINK.findall(column)]
        assert set(named) <= there, (
            f"{case} names a test that is not there: UPDATE_GOLDEN=1 pytest {Path(__file__).name}"
        )
        assert bool(named) != (LATER in column), f"{case} names tests, or says {LATER!r}"
    cases = [case for case, _, _ in rows]
    assert {case for case, _, _ in there} <= set(cases), "a test is named after a case that the page does not tell"
    assert cases == sorted(set(cases), key=lambda case: int(case[1:]))
    assert len(cases) == 92
    waiting = [case for case, _, column in rows if LATER in column]
    assert len(waiting) <= 4, f"{waiting}: no case loses its tests"
