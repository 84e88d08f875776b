"""Which fragments of what went are worth their room: the one that tells most for each of its tokens first."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from domain.extracts import USED, Fragment, Note

HALF_LIFE = 100
"""Units after which a value is worth half as much."""

LINE_COST = 4
"""Tokens that opening a line costs, about."""

LOOKED_AT = -1
"""The rank of a fragment that waits with what it really is worth."""

MISFITS = 32
"""Fragments that find no room before the room counts as full."""


@dataclass(frozen=True, slots=True)
class Source:
    """One unit that went: the seq, its events, what it says and the tokens that it had."""

    unit: int
    events: tuple[str, ...]
    notes: tuple[Note, ...]
    given: int


Place = tuple[int, int, int]
"""A fragment: the places of its source, of its note there, and of itself in it."""


def choose_fragments(note: Note, room: float) -> frozenset[int]:
    """The places of the fragments of one note that tell most in about `room` tokens."""
    picked = chosen([Source(0, (), (note,), 0)], set(), room)
    return frozenset(place for _, _, place in picked)


def chosen(sources: Sequence[Source], told: set[str], room: float) -> list[Place]:
    """Fragments to keep, the one worth most per token first, each value once. `told` values stand elsewhere.

    Of each note the fragment that may be worth most waits with the most that it may be worth; once it is the first of
    all, it is looked at and waits with what it really is worth, and the next of its note waits beside it.
    """
    choice, newest, misfits = _Choice(sources, told, room), len(sources), 0
    ages = [0.5 ** ((newest - at) / HALF_LIFE) for at in range(newest)]
    waiting = [
        (-note.fragments[note.order[0]].most * _age(note, ages[at]), -at, which, note.order[0], 0)
        for at, source in enumerate(sources)
        for which, note in enumerate(source.notes)
        if note.order
    ]
    heapq.heapify(waiting)
    while waiting and misfits < MISFITS:
        before, back, which, place, rank = waiting[0]
        note = sources[-back].notes[which]
        age = _age(note, ages[-back])
        worth = choice.density((-back, which, place)) * age
        if rank >= 0 and rank + 1 < len(note.order):
            following = note.order[rank + 1]
            heapq.heapreplace(waiting, (-note.fragments[following].most * age, back, which, following, rank + 1))
        else:
            heapq.heappop(waiting)
        if not worth:
            continue
        if waiting and worth < -waiting[0][0] and worth < -before:
            heapq.heappush(waiting, (-worth, back, which, place, LOOKED_AT))
        elif not choice.take((-back, which, place)):
            misfits += 1
    return choice.picked


def _age(note: Note, age: float) -> float:
    """A user's wish holds until the user says otherwise; all else is worth less as it grows old."""
    return 1.0 if note.role == "user" else age


class _Choice:
    """What was chosen so far, and what that leaves another fragment worth."""

    def __init__(self, sources: Sequence[Source], told: set[str], room: float) -> None:
        self.picked: list[Place] = []
        self._sources = sources
        self._told = set(told)
        self._room = room
        self._keys: set[tuple[int, int, str]] = set()
        self._opened: set[tuple[int, int]] = set()
        self._used = set[str]()
        for source in sources:
            for note in source.notes:
                if note.role in ("call", "user"):
                    for fragment in note.fragments:
                        self._used.update(fragment.values)

    def density(self, place: Place) -> float:
        """What a fragment is worth for each of its tokens."""
        fragment, alike = self._found(place)
        worth = 0.0 if fragment.text in self._told else fragment.weight
        for value, rarity in zip(fragment.values, fragment.rarities, strict=True):
            if value not in self._told:
                worth += rarity + (USED if value in self._used else 0.0)
        return worth / (fragment.cost - (fragment.named if alike else 0.0))

    def take(self, place: Place) -> bool:
        """Whether there is room for a fragment, which then is taken."""
        fragment, alike = self._found(place)
        price = fragment.cost - (fragment.named if alike else 0.0) + (LINE_COST if place[:2] not in self._opened else 0)
        if price > self._room:
            return False
        self._room -= price
        self._opened.add(place[:2])
        self.picked.append(place)
        self._told.update(fragment.values)
        self._told.add(fragment.text)
        self._keys.add((*place[:2], fragment.key))
        return True

    def _found(self, place: Place) -> tuple[Fragment, bool]:
        """The fragment, and whether another of its key was taken of its note."""
        at, which, within = place
        fragment = self._sources[at].notes[which].fragments[within]
        return fragment, (at, which, fragment.key) in self._keys and fragment.key != ""
