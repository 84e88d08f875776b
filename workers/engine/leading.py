"""Where facts lead from what a query names: to words, to the messages that those facts were made from, and, of what was
recalled, over which facts it was found."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from domain.memorising.current import current
from domain.recall.graph import Reached, lent, walk
from domain.recall.ranking import Led
from domain.recall.terms import terms
from workers.engine.contexts import Loaded
from workers.engine.shelves import Shelf
from workers.store import Unit, recall

MOST_EVENTS = 32
"""Events that facts were made from that are looked for."""


class Leading:
    """The walk of one query over the facts that it may see."""

    def __init__(self, loaded: Loaded, query: str, hops: int) -> None:
        context = loaded.context
        states = (context.session, context.subject, context.tenant)
        facts = (memory for state in states for memory in state.rows("memories"))
        self._reached: Sequence[Reached] = walk(query, current(facts, context.as_of), hops) if hops else ()
        self._words = [(one, frozenset(terms(one.name))) for one in self._reached]

    def led(self, unit: Unit, tenant: str, shelves: Sequence[Shelf]) -> Led | None:
        """What the ranking needs of it; None where no fact leads anywhere."""
        if not self._reached:
            return None
        firsts = list(accumulate((shelf.index.messages for shelf in shelves), initial=0))
        at = {shelf.stream: (first, shelf) for first, shelf in zip(firsts, shelves, strict=False) if not shelf.document}
        messages = np.zeros(firsts[-1])
        weights = self._weights()
        for stream, seq, event in recall.places(unit, tenant, at.keys(), weights.keys()):
            first, shelf = at[stream]
            place = int(shelf.index.seqs.searchsorted(seq))
            if place < shelf.index.messages and shelf.index.seqs[place] == seq:
                messages[first + place] = weights[event]
        return Led(lent(self._reached), messages)

    def _weights(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for one in self._reached:
            for event in one.events:
                found.setdefault(event, one.weight)
        return dict(list(found.items())[:MOST_EVENTS])

    def through(self, event: str, text: str) -> tuple[str, ...]:
        """The facts that led to a passage, by the events that told them: it is what the last of them was made from, or
        mentions what that leads to."""
        if not self._reached:
            return ()
        held = frozenset(terms(text))
        for one, words in self._words:
            if event in one.events or (words and words <= held):
                return one.path
        return ()
