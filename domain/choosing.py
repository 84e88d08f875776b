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
    choice, waiting, misfits = _Choice(sources, told, room), _waiting(sources), 0
    heapq.heapify(waiting)
    while waiting and misfits < MISFITS:
        before, back, which, place, rank, age, fragments, order = waiting[0]
        worth = choice.density(back, which, fragments[place]) * age
        if 0 <= rank < len(order) - 1:
            following = order[rank + 1]
            most = -fragments[following].most * age
            heapq.heapreplace(waiting, (most, back, which, following, rank + 1, age, fragments, order))
        else:
            heapq.heappop(waiting)
        if not worth:
            continue
        if waiting and worth < -waiting[0][0] and worth < -before:
            heapq.heappush(waiting, (-worth, back, which, place, LOOKED_AT, age, fragments, order))
        elif not choice.take(back, which, place, fragments[place]):
            misfits += 1
    return choice.picked


_Waiting = tuple[float, int, int, int, int, float, tuple[Fragment, ...], tuple[int, ...]]
"""Less what it may be worth, less the place of its source, the places of its note and of itself, its rank in the order
of its note, what its age leaves of its worth, the fragments of its note, and their order. No two agree in the places,
so that none is compared by more."""


def _waiting(sources: Sequence[Source]) -> list[_Waiting]:
    found = list[_Waiting]()
    for at, source in enumerate(sources):
        old = 0.5 ** ((len(sources) - at) / HALF_LIFE)
        for which, note in enumerate(source.notes):
            if note.order:
                # A user's wish holds until the user says otherwise; all else is worth less as it grows old.
                first, age = note.order[0], 1.0 if note.role == "user" else old
                found.append((-note.fragments[first].most * age, -at, which, first, 0, age, note.fragments, note.order))
    return found


class _Choice:
    """What was chosen so far, and what that leaves another fragment worth."""

    def __init__(self, sources: Sequence[Source], told: set[str], room: float) -> None:
        self.picked: list[Place] = []
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

    def density(self, back: int, which: int, fragment: Fragment) -> float:
        """What a fragment is worth for each of its tokens."""
        text, values, rarities, worth, cost, _, key, named = fragment
        told, used = self._told, self._used
        if text in told:
            worth = 0.0
        for value, rarity in zip(values, rarities, strict=True):
            if value not in told:
                worth += rarity + USED if value in used else rarity
        return worth / (cost - named if key and (back, which, key) in self._keys else cost)

    def take(self, back: int, which: int, place: int, fragment: Fragment) -> bool:
        """Whether there is room for a fragment, which then is taken."""
        price = fragment.cost - (fragment.named if (back, which, fragment.key) in self._keys else 0.0)
        price += LINE_COST if (back, which) not in self._opened else 0
        if price > self._room:
            return False
        self._room -= price
        self._opened.add((back, which))
        self.picked.append((-back, which, place))
        self._told.update(fragment.values)
        self._told.add(fragment.text)
        if fragment.key:
            self._keys.add((back, which, fragment.key))
        return True
