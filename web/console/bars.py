"""Tokens by zone as lengths, for bars that are drawn as SVG: a page without inline styles can set no widths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

ZONES: Mapping[str, str] = {
    "tools": "Tools",
    "anchor_system": "System anchor",
    "slots": "Slots",
    "few_shot": "Few-shot",
    "summary": "Summary",
    "pinned": "Pinned",
    "window": "Window",
    "anchor_business": "Business anchor",
    "reinforcement": "Reinforcement",
    "format": "Format",
    "prompt": "Not told apart",
}
"""Zones with their names, in the order in which they stand in a prompt."""

WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Piece:
    """A zone in a bar: where it begins and how long it is, in thousandths of the whole."""

    zone: str
    tokens: int
    start: float
    length: float
    share: float


@dataclass(frozen=True, slots=True)
class Bar:
    pieces: Sequence[Piece]
    used: int
    budget: int

    @property
    def free(self) -> int:
        return max(0, self.budget - self.used)

    @property
    def full(self) -> float:
        """How full, in percent."""
        return 100 * self.used / self.budget if self.budget else 0.0

    @property
    def end(self) -> float:
        return self.pieces[-1].start + self.pieces[-1].length if self.pieces else 0.0


def bar(zones: Mapping[str, int], used: int, budget: int, scale: int | None = None) -> Bar:
    """`zones` are in counted tokens, `used` and `budget` in the model's; they are brought together by their sums.
    `scale` is what the whole width stands for, if not the budget."""
    ordered = [(zone, zones[zone]) for zone in _ordered(zones) if zones[zone] > 0] or [("prompt", used)]
    total, whole = sum(tokens for _, tokens in ordered), max(scale or budget, used, 1)
    return Bar(tuple(_pieces(ordered, used / total if total else 0.0, whole)), used, budget)


def _ordered(zones: Mapping[str, int]) -> list[str]:
    return [*(zone for zone in ZONES if zone in zones), *(zone for zone in zones if zone not in ZONES)]


def _pieces(zones: Sequence[tuple[str, int]], factor: float, whole: int) -> Iterator[Piece]:
    start = 0.0
    for zone, tokens in zones:
        length = WIDTH * tokens * factor / whole
        yield Piece(zone, tokens, round(start, 2), round(length, 2), tokens * factor / whole)
        start += length


def strip(prompts: Sequence[Json]) -> list[Json]:
    """Versions, oldest first, each with a bar on one scale: the largest budget among them."""
    scale = max((one["budget"] for one in prompts), default=1)
    return [
        {**one, "bar": bar(one["zones"], one["tokens"], one["budget"], scale),
         "limit": round(WIDTH - WIDTH * one["budget"] / scale, 2)}
        for one in reversed(prompts)
    ]  # fmt: skip
