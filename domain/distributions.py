"""How sizes are spread. They are tallied, how many items have so many tokens: memory grows with the number of different
sizes and not with the history, and every figure is exact."""

import math
from typing import Any

Json = dict[str, Any]
Tally = dict[int, int]

LONG = 0.05
"""The share of the largest items whose part of all tokens is the long tail."""


def add(tally: Tally, size: int) -> None:
    tally[size] = tally.get(size, 0) + 1


def at_rank(tally: Tally, rank: int) -> int:
    """The size of the item that stands at this rank, 1 being the smallest."""
    passed = 0
    for size in sorted(tally):
        passed += tally[size]
        if passed >= rank:
            return size
    return 0


def quantile(tally: Tally, share: float) -> int:
    """The smallest size that this share of the items does not exceed (nearest rank); 0 of nothing."""
    # A share such as 0.95 is no binary fraction: 0.95 * 20 must be 19, not a little more.
    return at_rank(tally, math.ceil(round(share * sum(tally.values()), 6)))


def distribution(tally: Tally) -> Json:
    """Count, sum, mean, median, p95, peak, the long tail, and a histogram by powers of two."""
    count, tokens = sum(tally.values()), sum(size * times for size, times in tally.items())
    middle = (at_rank(tally, (count + 1) // 2) + at_rank(tally, count // 2 + 1)) / 2
    return {
        "count": count,
        "tokens": tokens,
        "mean": round(tokens / count, 2) if count else 0,
        "median": int(middle) if middle.is_integer() else middle,
        "p95": quantile(tally, 0.95),
        "peak": max(tally, default=0),
        "long_tail": round(_largest(tally, math.ceil(round(count * LONG, 6))) / tokens, 4) if tokens else 0,
        "histogram": _histogram(tally),
    }


def _largest(tally: Tally, items: int) -> int:
    """Tokens of so many of the largest items."""
    found = 0
    for size in sorted(tally, reverse=True):
        taken = min(items, tally[size])
        found, items = found + taken * size, items - taken
    return found


def _histogram(tally: Tally) -> list[Json]:
    """How many items are at most so large, and larger than the step before."""
    steps: Tally = {}
    for size, times in tally.items():
        step = max(0, size - 1).bit_length()
        steps[step] = steps.get(step, 0) + times
    return (
        [{"to": 1 << step, "count": steps.get(step, 0)} for step in range(min(steps), max(steps) + 1)] if tally else []
    )
