"""Extractive summaries: what stands for the units that left the window. Deterministic and offline.

Each line is made from the sources of one unit, never from another summary, and names the events it was derived from.
Room is spent where it tells most: on values that stand nowhere else in the prompt, beside the words they stood with,
newer ones and ones that calls used before others.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from domain.extracts import Fragment, Note, Reading, identifiers, notes
from domain.rendering.neutral import arguments_of, text_of
from domain.text import inline
from domain.windows import Unit

HALF_LIFE = 100
"""Units after which a value is worth half as much."""

USED = 1.0
"""What a value gains that a call has used as an argument, or that a user has said."""

MARGIN = 1.15
"""How much more than its room is chosen at first: costs are estimates, and the worst are given back."""

SLACK = 32
"""Tokens more than that: of short lines the estimate is off by more than a share of them."""

LINE_COST = 4
"""Tokens that opening a line costs, about."""


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """What is left of one unit. `given` is what the unit had, `tokens` what the line has, `notes` what it says."""

    unit: int
    derived_from: tuple[str, ...]
    notes: tuple[Note, ...]
    tokens: int
    given: int

    @property
    def text(self) -> str:
        return _text(self.notes)

    def dump(self) -> list[Any]:
        rows = [[note.lead, note.close, note.role, [one.text for one in note.fragments]] for note in self.notes]
        return [self.unit, list(self.derived_from), rows, self.tokens, self.given]

    @classmethod
    def load(cls, data: Sequence[Any]) -> "SummaryLine":
        unit, derived_from, rows, tokens, given = data
        found = tuple(Note(lead, tuple(map(_reread, texts)), close, role) for lead, close, role, texts in rows)
        return cls(unit, tuple(derived_from), found, tokens, given)


def _text(found: Iterable[Note]) -> str:
    return " · ".join(note.lead + "; ".join(one.text for one in note.fragments) + note.close for note in found)


def _reread(text: str) -> Fragment:
    _, _, value = text.rpartition(": ")
    return Fragment(text, identifiers(text) or ((value,) if 4 <= len(value) <= 80 else ()))


@dataclass(frozen=True, slots=True)
class _Source:
    unit: int
    events: tuple[str, ...]
    notes: tuple[Note, ...]
    given: int


Place = tuple[int, int, int]


class Extractor:
    """Sources of one trim: what went or may go, read once. `kept` units are in the prompt for certain."""

    def __init__(
        self, carried: Sequence[SummaryLine], units: Sequence[Unit], kept: Iterable[Unit], reading: Reading
    ) -> None:
        listed = {unit.seq for unit in units}
        self._carried = [
            _Source(line.unit, line.derived_from, line.notes, line.given) for line in carried if line.unit not in listed
        ]
        self.reading = reading
        self._whole = {unit.seq: unit for unit in units}
        self._read: dict[int, _Source] = {}
        self._values: dict[tuple[int, int], frozenset[str]] = {}
        self._kept = list(kept)

    def lines(
        self, gone: Sequence[Unit], window: Sequence[Unit], room: int, count: Callable[[str], int]
    ) -> tuple[SummaryLine, ...]:
        """Lines for the units that went, together at most `room` tokens: nothing that the window says is said twice."""
        if room <= 0:
            return ()
        sources = self._sources(gone)
        picked = _choose(sources, self._told(window), room * MARGIN + SLACK)
        lines = _Lines(sources, count)
        for pick in picked:
            lines.add(pick)
        while picked and lines.spent() > room:
            lines.remove(picked.pop())
        return lines.made()

    def fair_share(self, gone: Sequence[Unit], newest: Unit, room: int) -> float:
        """How much of the newest unit is worth its room when all that may go competes for it; 0..1."""
        sources = self._sources((*gone, newest))
        last = len(sources) - 1
        total = sum(_cost(one) for note in sources[last].notes for one in note.fragments)
        picked = _choose(sources, self._told(()), room)
        held = sum(_cost(sources[last].notes[which].fragments[place]) for at, which, place in picked if at == last)
        return held / total if total else 1.0

    def _sources(self, units: Sequence[Unit]) -> list[_Source]:
        return [*self._carried, *map(self._source, units)]

    def _source(self, unit: Unit) -> _Source:
        found = self._read.get(unit.seq)
        if found is None:
            unit = self._whole.get(unit.seq, unit)
            found = _Source(unit.seq, unit.events, tuple(notes(unit, self.reading)), unit.given)
            self._read[unit.seq] = found
        return found

    def _told(self, window: Sequence[Unit]) -> set[str]:
        told: set[str] = set()
        for unit in (*self._kept, *window):
            values = self._values.get((unit.seq, unit.tokens))
            if values is None:
                values = self._values[unit.seq, unit.tokens] = frozenset(_values_of(unit))
            told |= values
        return told


class _Lines:
    """The lines that chosen fragments make, with their exact tokens, as fragments come and go."""

    def __init__(self, sources: Sequence[_Source], count: Callable[[str], int]) -> None:
        self._sources = sources
        self._count = count
        self._chosen: dict[int, set[tuple[int, int]]] = {}
        self._tokens: dict[int, int] = {}

    def spent(self) -> int:
        """The tokens of all lines; only those that changed since are counted again."""
        for at in self._chosen.keys() - self._tokens.keys():
            self._tokens[at] = self._count(f"- {_text(self._notes(at))}\n") if self._chosen[at] else 0
        return sum(self._tokens.values())

    def add(self, pick: Place) -> None:
        at, which, place = pick
        self._chosen.setdefault(at, set()).add((which, place))
        self._tokens.pop(at, None)

    def remove(self, pick: Place) -> None:
        at, which, place = pick
        self._chosen[at].discard((which, place))
        self._tokens.pop(at, None)

    def made(self) -> tuple[SummaryLine, ...]:
        """The lines, but for those that would be longer than what they stand for."""
        self.spent()
        lines = (self._line(at) for at in sorted(self._chosen) if self._chosen[at])
        return tuple(line for line in lines if line.tokens <= line.given)

    def _line(self, at: int) -> SummaryLine:
        source = self._sources[at]
        return SummaryLine(source.unit, source.events, tuple(self._notes(at)), self._tokens[at], source.given)

    def _notes(self, at: int) -> list[Note]:
        """The notes with what was chosen, as a stored layout gives them back: carrying on from either gives the same
        bytes."""
        chosen, kept = self._chosen[at], []
        for which, note in enumerate(self._sources[at].notes):
            texts = [one.text for place, one in enumerate(note.fragments) if (which, place) in chosen]
            if texts:
                kept.append(Note(note.lead, tuple(_reread(inline(text)) for text in texts), note.close, note.role))
        return kept


def choose_fragments(note: Note, room: float) -> frozenset[int]:
    """The places of the fragments of one note that tell most in about `room` tokens."""
    picked = _choose([_Source(0, (), (note,), 0)], set(), room)
    return frozenset(place for _, _, place in picked)


def _choose(sources: Sequence[_Source], told: set[str], room: float) -> list[Place]:
    """Fragments to keep, the one worth most per token first, each value once."""
    used, newest = _used(sources), len(sources)
    waiting: list[tuple[float, int, int, int, Fragment, float]] = []
    for at, source in enumerate(sources):
        age = 0.5 ** ((newest - at) / HALF_LIFE)
        for which, note in enumerate(source.notes):
            for place, fragment in enumerate(note.fragments):
                cost = _cost(fragment)
                worth = _worth(fragment, told, used) * age / cost
                if worth > 0:
                    waiting.append((-worth, -at, which, place, fragment, cost))
    heapq.heapify(waiting)
    told, picked, opened = set(told), list[Place](), set[tuple[int, int]]()
    while waiting and room > 0:
        before, back, which, place, fragment, cost = heapq.heappop(waiting)
        worth = _worth(fragment, told, used) * 0.5 ** ((newest + back) / HALF_LIFE) / cost
        if worth <= 0:
            continue
        if -before > worth * 1.0001 and waiting and -waiting[0][0] > worth:
            heapq.heappush(waiting, (-worth, back, which, place, fragment, cost))
            continue
        price = cost + (0 if (-back, which) in opened else LINE_COST)
        if price <= room:
            room -= price
            opened.add((-back, which))
            picked.append((-back, which, place))
            told.update(fragment.values)
    return picked


def _worth(fragment: Fragment, told: set[str], used: Mapping[str, float]) -> float:
    worth = 0.0
    for value in fragment.values:
        if value not in told:
            worth += _rarity(value) + used.get(value, 0.0)
    return worth + fragment.weight if worth or fragment.weight > 0 else 0.0


_OPAQUE = re.compile(r"(?=.*[A-Za-z_])(?=.*[0-9_/])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}")
_NUMBER = re.compile(r"[-+$€¥]?[\d.,:%-]+")


@lru_cache(maxsize=65_536)
def _rarity(value: str) -> float:
    """What a value is worth by its looks: an opaque name cannot be guessed, a plain word or number often can."""
    if _DATE.fullmatch(value):
        return 1.0
    if _NUMBER.fullmatch(value):
        return 0.4
    return 1.5 if _OPAQUE.match(value) else 0.6


def _cost(fragment: Fragment) -> float:
    text = fragment.text
    return 2 + (len(text) / 3.2 if text.isascii() else len(text) / 1.5)


def _used(sources: Sequence[_Source]) -> dict[str, float]:
    found: dict[str, float] = {}
    for source in sources:
        for note in source.notes:
            if note.role in ("call", "user"):
                for fragment in note.fragments:
                    for value in fragment.values:
                        found[value] = USED
    return found


def _values_of(unit: Unit) -> Iterable[str]:
    for message in unit.messages:
        for part in message.parts:
            yield from identifiers(text_of(part))
        for call in message.calls:
            yield from identifiers(arguments_of(call))
