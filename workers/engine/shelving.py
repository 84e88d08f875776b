"""Shelves brought up to date for a query: what the store keeps of messages is read, and of those that were not indexed
yet a bounded number is made here and now; the rest is found once the index has caught up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from domain.recall import index as indexing
from domain.recall.index import EMPTY, Index
from domain.recall.packing import unpacked
from workers.engine.deps import Deps
from workers.engine.indexing import sources
from workers.engine.shelves import Shelf
from workers.store import Unit, passages, recall
from workers.store.passages import Stretch

MADE, AT_ONCE = 20_000, 2_000
"""Messages that one prompt makes the terms of at the most, about a second, and that it reads at once."""

SIZE = 2_000_000
"""Characters of messages after which one prompt makes the terms of no further one: some messages are long."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A session that is looked through: its rows of this generation, projected up to `seq`."""

    stream: int
    generation: int
    seq: int


class Shelving:
    """Shelves of one tenant, inside one read unit. `complete` tells whether they hold all that was projected."""

    def __init__(self, deps: Deps, unit: Unit, tenant: str) -> None:
        self._deps, self._unit, self._tenant = deps, unit, tenant
        self._room, self._size = MADE, SIZE
        self.complete = True

    def shelves(self, wanted: Sequence[Wanted]) -> list[Shelf]:
        """One for each session, in order. The last one matters most: it comes first where not all can be made."""
        found = [self._deps.shelves.get(self._tenant, one.stream, one.generation) for one in wanted]
        behind = [at for at, one in enumerate(wanted) if found[at].upto < one.seq]
        stretches = [
            Stretch(wanted[at].stream, wanted[at].generation, found[at].index.last, wanted[at].seq) for at in behind
        ]
        kept = passages.terms(self._unit, self._tenant, stretches)
        for at in reversed(behind):
            found[at] = self._extended(found[at], wanted[at], kept.get(wanted[at].stream))
            self._deps.shelves.put(self._tenant, found[at])
        return found

    def _extended(self, shelf: Shelf, wanted: Wanted, kept: passages.Rows | None) -> Shelf:
        index = shelf.index if kept is None else indexing.joined([shelf.index, unpacked(*kept)])
        made, whole = self._made(wanted, index.last)
        self.complete = self.complete and whole
        upto = wanted.seq if whole else shelf.upto
        return replace(shelf, index=indexing.joined([index, *made]), upto=upto)

    def _made(self, wanted: Wanted, after: int) -> tuple[list[Index], bool]:
        """Of the messages after a seq as many as there is room for, and whether that is all."""
        made: list[Index] = []
        while self._room > 0 and self._size > 0:
            most = min(AT_ONCE, self._room)
            found = recall.after(self._unit, self._tenant, wanted.stream, wanted.generation, after, most, self._size)
            if not found:
                return made, True
            made.append(indexing.extended(EMPTY, sources(found)))
            self._room -= len(found)
            self._size -= sum(len(one.text) for one in found)
            after = found[-1].seq
        return made, not recall.after(self._unit, self._tenant, wanted.stream, wanted.generation, after, 1, 1)

    def understood(self, shelves: Sequence[Shelf], model: str) -> None:
        """Read what the store keeps of what the messages mean, as far as it was not read yet."""
        behind = {one.stream: one for one in shelves if not one.document and one.vectors.seq < one.index.last}
        stretches = [Stretch(one.stream, one.generation, one.vectors.seq, one.index.last) for one in behind.values()]
        for stream, (seqs, bodies) in passages.vectors(self._unit, self._tenant, model, stretches).items():
            behind[stream].vectors.put(behind[stream].index, seqs, bodies)
