"""llms.txt has the form of llmstxt.org, its links lead somewhere, and no page is missing from it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "llms.txt").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)]+)\)", TEXT)


def test_it_is_a_title_a_summary_and_lists_of_links_with_notes() -> None:
    intro, *sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    assert re.match(r"# promptctx\n\n(> .+\n)+\n", intro)
    assert "\n#" not in intro.removeprefix("#")
    assert sections[-1].startswith("Optional\n")
    for section in sections:
        name, blank, *lines = section.rstrip("\n").split("\n")
        assert name
        assert blank == ""
        assert [line for line in lines if line and not re.fullmatch(r"- \[[^\]]+\]\([^)]+\): \S.*", line)] == []


def test_every_link_leads_somewhere() -> None:
    assert [link for link in LINKS if not (ROOT / link).is_file()] == []
    listed = [link for link in LINKS if link.endswith(".md")]
    assert len(listed) == len(set(listed))


def test_every_page_is_listed() -> None:
    """A new page needs a line in llms.txt. Decisions are listed by their own index, which another test keeps whole."""
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    decisions = {page for page in pages if page.startswith("docs/decisions/0")}
    assert sorted(pages - decisions - set(LINKS)) == []
