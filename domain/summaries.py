"""Extractive summaries: one line for each unit that left the window, made from the unit itself, never from a summary.

Each line names the events it was derived from. Deterministic and offline.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from domain.rendering.neutral import Neutral, arguments_of, text_of
from domain.text import head_within, inline
from domain.windows import Unit

LINE_LIMIT = 60
"""Tokens of one line."""

_SENTENCE = re.compile(r"(?<=[.!?。！？\n])\s*")
_SPEAKERS = {"zh": {"user": "用户", "assistant": "助手"}, "en": {"user": "user", "assistant": "assistant"}}


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """What is left of one unit. `given` is what the unit had, `tokens` what the line has."""

    unit: int
    derived_from: tuple[str, ...]
    text: str
    tokens: int
    given: int

    def dump(self) -> list[Any]:
        return [self.unit, list(self.derived_from), self.text, self.tokens, self.given]

    @classmethod
    def load(cls, data: Sequence[Any]) -> "SummaryLine":
        unit, derived_from, text, tokens, given = data
        return cls(unit, tuple(derived_from), text, tokens, given)


def summary_line(unit: Unit, locale: str, count: Callable[[str], int]) -> SummaryLine:
    """The line for a unit: who said what first, which tools were called with what, and how they answered."""
    said = " · ".join(found for message in unit.messages if (found := _said(message, locale)))
    text = head_within(inline(said), LINE_LIMIT, count).rstrip()
    return SummaryLine(unit.seq, unit.events, text, count(f"- {text}\n"), unit.given)


def _said(message: Neutral, locale: str) -> str:
    text = " ".join(text_of(part) for part in message.parts)
    if message.role == "tool":
        return f"→ {message.status or 'ok'}: {_opening(text, 80)}"
    calls = "; ".join(f"{call.name}({_opening(arguments_of(call), 120)})" for call in message.calls)
    opening = _opening(text, 160)
    return f"{_SPEAKERS[locale][message.role]}: {' '.join(filter(None, (opening, calls)))}" if opening or calls else ""


def _opening(text: str, limit: int) -> str:
    """The first sentences of a text, up to about `limit` characters."""
    found = ""
    for sentence in _SENTENCE.split(text[: limit * 4]):
        if found and len(found) + len(sentence) > limit:
            break
        found = f"{found} {sentence}".strip()
    return found if len(found) <= limit else found[:limit] + "…"
