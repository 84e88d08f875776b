"""Times by rank."""

import statistics
from collections.abc import Sequence


def percentiles(milliseconds: Sequence[float], digits: int = 1) -> dict[str, float]:
    """Half of all took no longer, and 95 and 99 in a hundred."""
    taken = list(milliseconds)
    ranks = statistics.quantiles(taken, n=100, method="inclusive") if len(taken) > 1 else taken * 99
    return {f"p{rank}": round(ranks[rank - 1], digits) for rank in (50, 95, 99)}
