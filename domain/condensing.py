"""A tool result made smaller in place: JSON stays valid JSON, a text keeps its telling lines in their order."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from domain.choosing import choose_fragments
from domain.extracts import Fragment, Note, leaves, lines_of, parsed
from domain.fields import declared
from domain.text import shorten

STRUCTURAL = 0.5
"""The share of a JSON result that must fit for it to stay JSON; below, its leaves are listed instead."""

Marker = Callable[[int], str]


def condense(text: str, limit: int, count: Callable[[str], int], marker: Marker, rules: Sequence[str] = ()) -> str:
    """The text in at most `limit` tokens, the marker of what was left out included; empty when nothing would be left.

    The text itself if it fits; else the fields that `rules` declare, then ever less of the JSON or of the lines.
    """
    whole = count(text)
    if whole <= limit:
        return text
    value = parsed(text)
    made = None
    if rules and (fields := declared(value, rules)):
        value = fields
        made = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
        if count(made) <= limit:
            return made
        made = None
    if isinstance(value, dict | list):
        if limit >= whole * STRUCTURAL:
            made = structural(value, limit, count)
        made = made or extracted(list(leaves(value)), limit, count)
    if made is None:
        made = telling_lines(text, limit, count, marker)
    return made or shorten(text, limit, count, marker)


def extracted(fragments: list[Fragment], limit: int, count: Callable[[str], int]) -> str | None:
    """The leaves that tell most as `key: value`, in their order."""
    room: float = limit
    for _ in range(4):
        chosen = choose_fragments(Note.of("", fragments), room)
        made = "; ".join(one.text for place, one in enumerate(fragments) if place in chosen) + " …"
        spent = count(made)
        if spent <= limit:
            return made if chosen else None
        room *= 0.95 * limit / spent
    return None


def structural(value: Any, limit: int, count: Callable[[str], int]) -> str | None:
    """The JSON value without the leaves that tell least."""
    fragments = list(leaves(value))
    room = limit
    for _ in range(5):
        chosen = choose_fragments(Note.of("", fragments), room)
        kept = _pruned(value, iter(range(len(fragments))), chosen)
        made = json.dumps(kept, ensure_ascii=False, separators=(", ", ": "))
        spent = count(made)
        if kept in ({}, [], None):
            return None
        if spent <= limit:
            return made
        room = int(room * limit / spent * 0.95) - 2
        if room <= 0:
            return None
    return None


_GONE = object()


def _pruned(value: Any, places: Iterator[int], chosen: frozenset[int]) -> Any:
    found = _prune(value, places, chosen)
    return None if found is _GONE else found


def _prune(value: Any, places: Iterator[int], chosen: frozenset[int]) -> Any:
    # Walks in the order of `leaves`, one place per leaf.
    if isinstance(value, dict):
        kept = {name: found for name, item in value.items() if (found := _prune(item, places, chosen)) is not _GONE}
        return kept or _GONE
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [found for item in value if (found := _prune(item, places, chosen)) is not _GONE]
        return items or _GONE
    if value in (None, "", [], {}):
        return _GONE
    return value if next(places) in chosen else _GONE


def telling_lines(text: str, limit: int, count: Callable[[str], int], marker: Marker) -> str | None:
    """The lines that tell most, in their order, with a mark where others were left out."""
    lines = lines_of(text)
    note = Note.of("", [fragment for _, fragment in lines])
    whole, room = count(text), limit - count(marker(count(text))) - 2
    for _ in range(5):
        if room <= 0:
            return None
        chosen = choose_fragments(note, room)
        kept, last = [], -1
        for place, (line, _) in enumerate(lines):
            if place in chosen:
                if place > last + 1:
                    kept.append("…")
                kept.append(line)
                last = place
        body = "\n".join(kept)
        made = f"{body}\n{marker(whole - count(body))}"
        spent = count(made)
        if spent <= limit:
            return made if chosen else None
        room = int(room * limit / spent * 0.95) - 2
    return None
