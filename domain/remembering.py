"""Memory of what pure functions of texts gave: the same text is read once, however many prompts it stands in.

What is remembered is what would be computed again, so no result depends on it.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar

Found = TypeVar("Found")

ENTRY = 100
"""Characters that an entry counts for besides its text."""


def remembered(limit: int) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """Remembers the results of a pure function by its arguments, the first of them a text: of about `limit` characters
    of texts, those asked for last. Two generations: a full young one becomes the old one, and what is not asked for
    before the next change is forgotten."""

    def remember(function: Callable[..., Found]) -> Callable[..., Found]:
        young: dict[Hashable, Any] = {}
        old: dict[Hashable, Any] = {}
        used = 0

        @wraps(function)
        def remembering(text: str, *others: Hashable) -> Found:
            nonlocal young, old, used
            key = (text, *others) if others else text
            found: Found | None = young.get(key)
            if found is not None:
                return found
            found = old.get(key)
            if found is None:
                found = function(text, *others)
            size = len(text) + ENTRY
            if size <= limit // 4:
                if used + size > limit // 2:
                    old, young, used = young, {}, 0
                young[key] = found
                used += size
            return found

        return remembering

    return remember
