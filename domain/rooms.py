"""How the room of a window is shared between its units and the summary of what went."""

from collections.abc import Callable, Sequence

from domain.counting import Counter
from domain.events import TextPart
from domain.rendering.neutral import Neutral
from domain.summaries import SummaryLine
from domain.windows import Unit
from domain.wording import Wording

SUMMARY_SHARES = ((600, 0.85), (8_000, 0.6), (16_000, 0.25), (None, 0.05))
"""How much of the window the summary may take: of its first thousand tokens most, since whole turns would not fit there
anyway, of further ones less, of many hardly any."""

SMALLEST_SUMMARY = 48
"""Tokens below which there is no summary: hardly more than its heading would fit."""


def summary_share(target: int) -> int:
    """What the summary may take of a target; what it leaves to the window only ever grows with the target."""
    if target < SMALLEST_SUMMARY:
        return 0
    taken, below = 0.0, 0
    for upto, share in SUMMARY_SHARES:
        top = target if upto is None else min(target, upto)
        taken += max(0, top - below) * share
        below = max(below, top)
    return min(int(taken), target - SMALLEST_SUMMARY)


def suffix(units: Sequence[Unit], room: int, charge: Callable[[Unit], float]) -> tuple[Unit, ...]:
    """The longest suffix that fits, by what each unit is charged."""
    first, left = len(units), float(room)
    while first and (taken := charge(units[first - 1])) <= left:
        first -= 1
        left -= taken
    return tuple(units[first:])


def summary_tokens(lines: Sequence[SummaryLine], count: Counter, words: Wording) -> int:
    return heading(count, words) + sum(line.tokens for line in lines) if lines else 0


def heading(count: Counter, words: Wording) -> int:
    rows = (words.summary, words.earlier.format(units=10_000), words.expandable)
    part = TextPart(type="text", text="\n".join(rows))
    return count.neutral([Neutral("user", "summary", (part,))])
