"""When a query asks about: its temporal words, in English and Chinese, as spans of days, and what lies in them.

A day or month without a year is that of each of the last years; a word like `yesterday` counts from the day of asking.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from domain.recall.index import Index
from domain.recall.terms import hashed

YEARS = 10
"""How far back a day or month without a year is looked for."""

DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `first` to the one before `end`."""

    first: date
    end: date


Found = re.Match[str]
Meaning = Callable[[Found, date], Iterator[Span]]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CHINESE = "一二三四五六七八九"
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "两": 2,
}  # fmt: skip
_UNITS = {"天": "day", "日": "day", "周": "week", "星期": "week", "礼拜": "week", "月": "month", "年": "year"}
_BACK = {"今": 0, "这": 0, "本": 0, "昨": 1, "去": 1, "上": 1, "前": 2, "上上": 2, "大前": 3}

# Verbs and names begin like months do: without a capital, only what cannot be one counts.
_MONTH = (
    r"([Jj]an(?:uary)?|[Ff]eb(?:ruary)?|Mar(?:ch)?|[Aa]pr(?:il)?|May|[Jj]une?|[Jj]uly?|[Aa]ug(?:ust)?"
    r"|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?|(?<=in )may|(?<=last )may|(?<=in )march)\b"
)
_NTH = r"(\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?:,?\s+((?:19|20)\d\d)\b)?"
_COUNT = r"(\d{1,4}|a couple of|an?|one|two|three|four|five|six|seven|eight|nine|ten)"
_DIGITS = "([0-9]{1,2}|[一二三四五六七八九十]{1,3})"


def spans(query: str, today: date) -> tuple[Span, ...]:
    """The times that a query names, none where it names none."""
    found: list[Span] = []

    def take(match: Found, meaning: Meaning) -> str:
        with suppress(ValueError, OverflowError):  # a day that no calendar has
            found.extend(meaning(match, today))
        return " "

    for pattern, meaning in _WORDS:
        query = pattern.sub(lambda match, meaning=meaning: take(match, meaning), query)  # type: ignore[misc]
    return tuple(dict.fromkeys(found))


def asked_about(index: Index, query: str, as_of: int, shift: int) -> NDArray[np.bool_] | None:
    """For each passage whether it was said in a time that the query names, or names that day itself; None where the
    query names no time, or nothing is of it. `shift` is by how much clocks there are ahead of UTC; microseconds."""
    asked = spans(query, datetime.fromtimestamp((as_of + shift) // 1_000_000, UTC).date())
    if not asked:
        return None
    days, inside = (index.times + shift) // DAY, np.zeros(index.messages, dtype=np.bool_)
    for span in asked:
        inside |= (days >= (span.first - _EPOCH).days) & (days < (span.end - _EPOCH).days)
    found = inside[index.of_message] | _naming(index, asked)
    return found if found.any() else None


def _naming(index: Index, asked: Sequence[Span]) -> NDArray[np.bool_]:
    """The passages that write one of these days, in digits or by its month."""
    ways: set[tuple[str, ...]] = set()
    for day in (span.first for span in asked if span.end - span.first == timedelta(1)):
        names = _MONTHS[day.month - 1], day.strftime("%B").lower()
        ways |= {(day.isoformat(),), *((str(day.day), name) for name in names)}
        ways |= {(f"{day.month}月", f"{day.day}{end}") for end in "日号"}
    found = np.zeros(len(index.of_message), dtype=np.bool_)
    for way in sorted(ways):
        holding = [index.of_passage[index.terms == np.uint32(hashed(term))] for term in way]
        found[reduce(np.intersect1d, holding)] = True
    return found


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text.lower() in _NUMBERS:
        return _NUMBERS[text.lower()]
    tens, ten, ones = text.rpartition("十")
    whole = 10 * (_CHINESE.index(tens) + 1 if tens else 1) if ten else 0
    return whole + (_CHINESE.index(ones) + 1 if ones else 0)


def _back(unit: str, count: int, today: date) -> Span:
    """The day, week, month or year so many before that of today."""
    if unit == "day":
        return Span(today - timedelta(count), today - timedelta(count - 1))
    if unit == "week":
        monday = today - timedelta(today.weekday() + 7 * count)
        return Span(monday, monday + timedelta(7))
    if unit == "year":
        return _named(today.year - count)
    months = today.year * 12 + today.month - 1 - count
    return _named(months // 12, months % 12 + 1)


def _named(year: int, month: int | None = None, day: int | None = None) -> Span:
    if month is None:
        return Span(date(year, 1, 1), date(year + 1, 1, 1))
    if day is None:
        return Span(date(year, month, 1), date(year + month // 12, month % 12 + 1, 1))
    return Span(date(year, month, day), date(year, month, day) + timedelta(1))


def _dated(year: str | None, month: int, day: str | None, today: date) -> Iterator[Span]:
    for one in [int(year)] if year else range(today.year, today.year - YEARS, -1):
        try:
            yield _named(one, month, _number(day) if day else None)
        except ValueError:
            continue  # the 29th of February


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


def _last_month(match: Found, today: date) -> Iterator[Span]:
    """The newest month of that name that is over."""
    month = _month(match[1])
    yield _named(today.year - (month >= today.month), month)


def _weekday(match: Found, today: date) -> Iterator[Span]:
    """The newest such day before today."""
    yield _back("day", (today.weekday() - _WEEKDAYS.index(match[1][:3].lower()) - 1) % 7 + 1, today)


def _chinese_weekday(match: Found, today: date) -> Iterator[Span]:
    """Of the week that is named; without one the newest such day before today."""
    number = 6 if match[2] in "日天" else _CHINESE.index(match[2])
    if match[1]:
        day = _back("week", _BACK[match[1]], today).first + timedelta(number)
        yield Span(day, day + timedelta(1))
    else:
        yield _back("day", (today.weekday() - number - 1) % 7 + 1, today)


def _chinese_date(match: Found, today: date) -> Iterator[Span]:
    year = str(today.year - _BACK[match[1][0]]) if match[1] in ("今年", "去年", "前年") else match[1] and match[1][:4]
    return _dated(year, _number(match[2]), match[3], today)


def _fixed(unit: str, count: int) -> Meaning:
    return lambda match, today: iter([_back(unit, count, today)])


def _words(*rows: tuple[str, Meaning]) -> list[tuple[re.Pattern[str], Meaning]]:
    return [(re.compile(pattern), meaning) for pattern, meaning in rows]


# In this order: what was read is not read again as a part of something else.
_WORDS = _words(
    (r"\b(\d{4})[-/](\d{1,2})[-/](\d{1,2})\b", lambda m, today: _dated(m[1], int(m[2]), m[3], today)),
    (rf"\b{_NTH}\s+(?:of\s+)?{_MONTH}{_YEAR}", lambda m, today: _dated(m[3], _month(m[2]), m[1], today)),
    (rf"\b{_MONTH}\s+{_NTH}{_YEAR}", lambda m, today: _dated(m[3], _month(m[1]), m[2], today)),
    (rf"\b{_MONTH}(?:,|\s+of)?\s+((?:19|20)\d\d)\b", lambda m, today: _dated(m[2], _month(m[1]), None, today)),
    (rf"(?i:\blast) {_MONTH}", _last_month),
    (rf"(?i:\b(?:in|since|during|until|early|late|this)) {_MONTH}",
     lambda m, today: _dated(None, _month(m[1]), None, today)),
    (r"(?i:\b(?:in|since|during|until|year|early|late|of)) ((?:19|20)\d\d)\b", lambda m, _: iter([_named(int(m[1]))])),
    (r"(?i)\bday before yesterday\b", _fixed("day", 2)),
    (r"(?i)\b(?:yesterday|last night)\b", _fixed("day", 1)),
    (r"(?i)\b(?:today|tonight|this (?:morning|afternoon|evening))\b", _fixed("day", 0)),
    (r"(?i)\b(?:last|past) (week|month|year)\b", lambda m, today: iter([_back(m[1].lower(), 1, today)])),
    (r"(?i)\bthis (week|month|year)\b", lambda m, today: iter([_back(m[1].lower(), 0, today)])),
    (rf"(?i)\b{_COUNT} (day|week|month|year)s? ago\b",
     lambda m, today: iter([_back(m[2].lower(), _number(m[1]), today)])),
    (r"(?i)\b(?:last|on|this) (mon|tues|wednes|thurs|fri|satur|sun)day\b", _weekday),
    (rf"(?:((?:19|20)\d\d年|今年|去年|前年)的?)?{_DIGITS}月(?:份|{_DIGITS}[日号])?", _chinese_date),
    (r"((?:19|20)\d\d)年", lambda m, _: iter([_named(int(m[1]))])),
    (r"([0-9]{1,4}|[一二两三四五六七八九十]{1,3})个?(天|日|周|星期|礼拜|月|年)(?:之|以)?前",
     lambda m, today: iter([_back(_UNITS[m[2]], _number(m[1]), today)])),
    (r"(上上|上|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天])", _chinese_weekday),
    (r"(上上|上|这|本)一?个?(周|星期|礼拜|月)", lambda m, today: iter([_back(_UNITS[m[2]], _BACK[m[1]], today)])),
    (r"(今|去|前)年", lambda m, today: iter([_back("year", _BACK[m[1]], today)])),
    (r"(今|昨|大前|前)[天日晚]|(今)早", lambda m, today: iter([_back("day", _BACK[m[1] or m[2]], today)])),
)  # fmt: skip
