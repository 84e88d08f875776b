"""Extractive summaries: what stands for the units that left the window. Deterministic and offline.

Each line is made from the sources of one unit, never from another summary, and names the events it was derived from.
Room is spent where it tells most: on values that stand nowhere else in the prompt, beside the words they stood with,
newer ones and ones that calls used before others.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from domain.choosing import Place, Source, chosen
from domain.extracts import REMEMBERED, Fragment, Note, Reading, identifiers, notes, wish_weight
from domain.remembering import remembered
from domain.rendering.neutral import arguments_of, text_of
from domain.rows import StoredSummary
from domain.text import inline
from domain.windows import Unit
from domain.written import StandIn, stand_ins

MARGIN = 1.15
"""How much more than its room is chosen at first: costs are estimates, and the worst are given back."""

SLACK = 32
"""Tokens more than that: of short lines the estimate is off by more than a share of them."""

ENDINGS = frozenset(";,.:!?{；，。：！？")

NEAR = 60
"""Characters behind a key in which its name still says what a value is."""

TRIES = 5
"""How often lines are counted until as many fragments are found as fit."""


WRITTEN = "written"
"""The role of a note that is not made of fragments: a whole text that a model or an agent wrote."""


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """What is left of one unit. `given` is what the unit had, `tokens` what the line has, `notes` what it says: nothing
    where the text of a later unit's line stands for this one too."""

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
        found = tuple(
            Note.of(lead, [_reread(text, role) for text in texts], close, role) for lead, close, role, texts in rows
        )
        return cls(unit, tuple(derived_from), found, tokens, given)


def _text(found: Iterable[Note]) -> str:
    return " · ".join([note.lead + _joined(note.fragments) + note.close for note in found])


def _joined(fragments: Iterable[Fragment]) -> str:
    """In one line, apart; what ends with a mark of its own needs no other, and a key is said once for the values that
    stand near it."""
    text, key, reach = "", "", 0
    for one in fragments:
        value = one.text[len(one.key) + 2 :] if one.key else ""
        if value and one.key == key and reach + len(value) <= NEAR:
            text += f", {value}"
            reach += len(value) + 2
            continue
        text += f"{' ' if text[-1] in ENDINGS else '; '}{one.text}" if text else one.text
        key, reach = one.key, len(value)
    return text


@lru_cache(maxsize=16_384)
def _reread(text: str, role: str) -> Fragment:
    _, _, value = text.rpartition(": ")
    values = identifiers(text) or ((value,) if 4 <= len(value) <= 80 else ())
    key = _KEY.match(text) if role in ("tool", "call") else None
    return Fragment.of(text, values, wish_weight(text) if role == "user" else 0.0, key[1] if key else "")


@lru_cache(maxsize=16_384)
def _settled(text: str, role: str) -> Fragment:
    """The fragment as a stored line gives it back."""
    return _reread(inline(text), role)


_KEY = re.compile(r"([A-Za-z_][\w-]{1,40}): (?=\S)")


def _carried(line: SummaryLine) -> Source:
    """What the parent left of a unit. A written text is no source: it stands anew, or goes."""
    notes = tuple(note for note in line.notes if note.role != WRITTEN)
    return Source(line.unit, line.derived_from, notes, line.given)


def _stood_for(source: Source, standing: StandIn) -> SummaryLine:
    """The line of a unit that a written text stands for: the newest of them bears the text."""
    if source.unit != max(standing.units):
        return SummaryLine(source.unit, source.events, (), 0, source.given)
    note = Note.of("", [_settled(standing.text, WRITTEN)], "", WRITTEN)
    return SummaryLine(source.unit, standing.events, (note,), standing.tokens, source.given)


class Extractor:
    """Sources of one trim: what went or may go, read once. `kept` units are in the prompt for certain."""

    def __init__(
        self, carried: Sequence[SummaryLine], units: Sequence[Unit], kept: Iterable[Unit], reading: Reading,
        written: Sequence[StoredSummary] = (), mask: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        listed = {unit.seq for unit in units}
        self._carried = [_carried(line) for line in carried if line.unit not in listed]
        self._written, self._mask = written, mask
        self.reading = reading
        self._whole = {unit.seq: unit for unit in units}
        self._read: dict[int, Source] = {}
        self._values: dict[tuple[int, int], frozenset[str]] = {}
        self._kept = list(kept)

    def lines(
        self, gone: Sequence[Unit], window: Sequence[Unit], room: int, count: Callable[[str], int]
    ) -> tuple[SummaryLine, ...]:
        """Lines for the units that went, together at most `room` tokens: nothing that the window says is said twice."""
        if room <= 0:
            return ()
        sources, told = self._sources(gone), self._told(window)
        standing = stand_ins(self._written, sources, room, count, self._mask)
        covered = {unit: one for one in standing for unit in one.units}
        room -= sum(one.tokens for one in standing)
        told.update(value for one in standing for value in identifiers(one.text))
        left = [one for one in sources if one.unit not in covered]
        picked = chosen(left, told, room * MARGIN + SLACK)
        lines = _Lines(left, count)
        lines.fit(picked, room)
        written = [_stood_for(one, covered[one.unit]) for one in sources if one.unit in covered]
        return tuple(sorted((*lines.made(), *written), key=lambda line: line.unit)) if written else lines.made()

    def fair_share(self, gone: Sequence[Unit], newest: Unit, room: int) -> float:
        """How much of the newest unit is worth its room when all that may go competes for it; 0..1."""
        sources = self._sources((*gone, newest))
        last = len(sources) - 1
        total = sum(one.cost for note in sources[last].notes for one in note.fragments)
        picked = chosen(sources, self._told(()), room)
        held = sum(sources[last].notes[which].fragments[place].cost for at, which, place in picked if at == last)
        return held / total if total else 1.0

    def _sources(self, units: Sequence[Unit]) -> list[Source]:
        return [*self._carried, *map(self._source, units)]

    def _source(self, unit: Unit) -> Source:
        found = self._read.get(unit.seq)
        if found is None:
            unit = self._whole.get(unit.seq, unit)
            found = Source(unit.seq, unit.events, tuple(notes(unit, self.reading)), unit.given)
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

    def __init__(self, sources: Sequence[Source], count: Callable[[str], int]) -> None:
        self._sources = sources
        self._count = count
        self._chosen: dict[int, set[tuple[int, int]]] = {}
        self._notes: dict[int, list[Note]] = {}
        self._tokens: dict[int, int] = {}
        self._taken = 0

    def fit(self, picked: Sequence[Place], room: int) -> None:
        """As many of the fragments as fit, in this order: about how many the estimates say, each try is exact."""
        sizes = list(accumulate((self._fragment(pick).cost for pick in picked), initial=0.0))
        fits, over, wanted = 0, len(picked) + 1, len(picked)
        for _ in range(TRIES):
            if not fits < wanted < over:
                break
            spent = self._spent_on(picked, wanted)
            fits, over = (wanted, over) if spent <= room else (fits, wanted)
            guess = bisect_right(sizes, sizes[wanted] * room / spent) - 1
            wanted = min(max(guess, fits + (spent > room)), over - 1)
        self._spent_on(picked, fits)

    def _fragment(self, pick: Place) -> Fragment:
        at, which, place = pick
        return self._sources[at].notes[which].fragments[place]

    def _spent_on(self, picked: Sequence[Place], number: int) -> int:
        """The tokens of all lines with the first fragments alone; only lines that changed are counted again."""
        changed = picked[min(number, self._taken) : max(number, self._taken)]
        for at, which, place in changed:
            chosen = self._chosen.setdefault(at, set())
            chosen.symmetric_difference_update({(which, place)})
        self._taken = number
        for at in dict.fromkeys(at for at, _, _ in changed):
            self._notes[at] = self._noted(at)
            self._tokens[at] = self._count(f"- {_text(self._notes[at])}\n") if self._chosen[at] else 0
        return sum(self._tokens.values())

    def made(self) -> tuple[SummaryLine, ...]:
        """The lines, but for those that would be longer than what they stand for."""
        lines = (self._line(at) for at in sorted(self._chosen) if self._chosen[at])
        return tuple(line for line in lines if line.tokens <= line.given)

    def _line(self, at: int) -> SummaryLine:
        source = self._sources[at]
        kept = tuple(Note.of(note.lead, note.fragments, note.close, note.role) for note in self._notes[at])
        return SummaryLine(source.unit, source.events, kept, self._tokens[at], source.given)

    def _noted(self, at: int) -> list[Note]:
        """The notes with what was chosen, as a stored layout gives them back: carrying on from either gives the same
        bytes. In which order their fragments count is made out for the line alone."""
        found, places = self._sources[at].notes, dict[int, list[int]]()
        for which, place in sorted(self._chosen[at]):
            places.setdefault(which, []).append(place)
        calls = [which for which, note in enumerate(found) if note.role == "call"]
        told = len(calls) == 1 and calls[0] in places
        kept = list[Note]()
        for which, told_of in places.items():
            note = found[which]
            lead = f"{note.tool} {note.lead}" if note.tool and not told else note.lead
            settled = tuple([_settled(note.fragments[place].text, note.role) for place in told_of])
            kept.append(Note(lead, settled, note.close, note.role, ()))
        return kept


def _values_of(unit: Unit) -> Iterable[str]:
    for message in unit.messages:
        for part in message.parts:
            yield from _named(text_of(part))
        for call in message.calls:
            yield from _named(arguments_of(call))


_named = remembered(REMEMBERED)(identifiers)
