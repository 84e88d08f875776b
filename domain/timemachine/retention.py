"""Which prompts keep their bytes: labelled ones, flagged ones, the last of each session. Others can be rebuilt."""

from collections.abc import Iterable, Sequence, Set


def prunable(versions: Iterable[tuple[str, int]], kept: Set[str], last: int) -> list[str]:
    """The prompts that may lose their bytes, oldest first. `versions` are (prompt, version) of one session."""
    ordered = sorted(versions, key=lambda one: one[1])
    candidates = ordered[: len(ordered) - last] if last else ordered
    return [prompt for prompt, _ in candidates if prompt not in kept]


def sample(found: Sequence[str], size: int) -> list[str]:
    """So many of them, evenly spread, the first and the last among them."""
    if len(found) <= size:
        return list(found)
    if size < 2:
        return list(found[:size])
    return [found[at * (len(found) - 1) // (size - 1)] for at in range(size)]
