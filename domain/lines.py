"""How the items of a section read one after the other: a day is told once, and so is who speaks.

What an item costs is what the section grows by when it comes in between the others; it is never less than nothing, so
that a larger budget always shows the same items and more.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from domain.slots import SlotItem

GOES_ON = "  "
"""Begins a line by whoever spoke in the line before: what stands in it can pass itself off as nobody else's."""

_YEAR = len("2026-")


def read(item: SlotItem, before: SlotItem | None) -> tuple[str, str, bool]:
    """The heading that stands above an item after the one before it, if any, its text, and whether it goes on in the
    same line."""
    heading = _heading(item, before)
    if heading or before is None:
        return heading, f"- {item.lead}{item.text}", False
    if item.follows and item.follows == before.key:
        return "", f" {item.text}", True
    same = bool(item.heading) and item.lead == before.lead
    return "", f"{GOES_ON}{item.text}" if same else f"- {item.lead}{item.text}", False


def _heading(item: SlotItem, before: SlotItem | None) -> str:
    """The day of an item where it is another than that of the one before, without its year where that is the same."""
    above = before.heading if before else ""
    if item.heading == above:
        return ""
    return item.heading[_YEAR:] if item.heading[:_YEAR] == above[:_YEAR] else item.heading


class Page:
    """A section that grows by one item after the other, each in its place, and what each adds to its tokens."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._shown: list[SlotItem] = []

    def grown(self, item: SlotItem) -> int:
        """Puts an item in its place; the tokens by which the section grows with it."""
        place = bisect_left(self._shown, item.order, key=_order)
        before = self._shown[place - 1] if place else None
        behind = self._shown[place] if place < len(self._shown) else None
        grown = self._tokens(item, before)
        if behind is not None:
            grown += self._tokens(behind, item) - self._tokens(behind, before)
        self._shown.insert(place, item)
        return max(0, grown)

    def _tokens(self, item: SlotItem, before: SlotItem | None) -> int:
        heading, text, goes_on = read(item, before)
        return (self._count(f"{heading}\n") if heading else 0) + self._count(text if goes_on else f"{text}\n")


def _order(item: SlotItem) -> tuple[object, ...]:
    return item.order


def lines(items: Sequence[SlotItem]) -> list[tuple[str, tuple[str, ...]]]:
    """The lines of a section, each with the events that it came from."""
    found: list[tuple[str, tuple[str, ...]]] = []
    before: SlotItem | None = None
    for item in items:
        heading, text, goes_on = read(item, before)
        if heading:
            found.append((heading, ()))
        if goes_on:
            found[-1] = (found[-1][0] + text, found[-1][1])
        else:
            found.append((text, item.events))
        before = item
    return found
