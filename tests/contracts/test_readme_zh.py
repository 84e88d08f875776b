"""README.zh.md is README.md in Chinese, whole: the same parts, commands, links, code, numbers. Change both together."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "README.zh.md")
ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in NAMES)
FENCE = re.compile(r"^```\w*\n.*?^```\n", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    return FENCE.sub("", text)


def links(text: str) -> list[str]:
    return sorted("README" if link in NAMES else link for link in re.findall(r"\]\(([^)]+)\)", text))


def code(text: str) -> list[str]:
    """Blocks of Python and of commands, without comments: these are translated."""
    blocks = re.findall(r"^```python\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)
    blocks += re.findall(r"(?:^ {4}\S.*\n)+", prose(text), re.MULTILINE)
    return [re.sub(r" *# (?!reply).*", "", block) for block in blocks]


def inline(text: str) -> Counter[str]:
    return Counter(re.findall(r"`([^`\n]+)`", prose(text)))


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:[.,]\d+)*", prose(text)))


def shape(text: str) -> list[str]:
    """What each paragraph is: a heading of a level, a table of so many rows, code of so many lines, or words."""
    whole = FENCE.sub(lambda block: f"```{block[0].count(chr(10))}\n", text.strip())
    kinds = r"#+ |\||```\d+| {4}|!\["
    found = [(re.match(kinds, part), part.count("\n")) for part in re.split(r"\n{2,}", whole)]
    return [f"{start[0]} {lines}" if start else "words" for start, lines in found]


@pytest.mark.parametrize("what", [links, code, inline, numbers, shape], ids=lambda what: what.__name__)
def test_both_languages_have_the_same(what: object) -> None:
    assert callable(what)
    assert what(CHINESE) == what(ENGLISH)


def test_the_comparison_sees_what_there_is() -> None:
    assert len(code(ENGLISH)) == 4
    assert inline(ENGLISH)["make up"] >= 2
    assert numbers(ENGLISH)["2,957"] == 1
    assert "# reply = openai" in code(ENGLISH)[0]
    assert links(ENGLISH).count("README") == 1


def test_the_chinese_page_is_in_chinese() -> None:
    words = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "", prose(CHINESE))
    assert len(re.findall(r"[\u4e00-\u9fff]", words)) > 3 * len(re.findall(r"\b[A-Za-z]{3,}\b", words))
