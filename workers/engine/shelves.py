"""The indexes of sessions, kept in memory: built from the read-models when first asked for, then only extended."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.recall import index as indexing
from domain.recall.index import EMPTY, Index
from workers.engine.meanings import Vectors
from workers.store.kept import Kept

KEPT = 4096
KEPT_JOINED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """One session, as far as it is indexed."""

    stream: int
    generation: int
    index: Index
    vectors: Vectors


def _empty(stream: int, generation: int) -> Shelf:
    return Shelf(stream, generation, EMPTY, Vectors())


class Shelves:
    """Indexes kept in memory: of each session the newest. Thread-safe; an entry can be old, never wrong."""

    def __init__(self, kept: int = KEPT) -> None:
        self._shelves = Kept[tuple[str, int], Shelf](kept)
        self._joined = Kept[tuple[object, ...], Index](KEPT_JOINED)

    def get(self, tenant: str, stream: int, generation: int) -> Shelf:
        found = self._shelves.get((tenant, stream))
        return found if found is not None and found.generation == generation else _empty(stream, generation)

    def put(self, tenant: str, shelf: Shelf) -> None:
        self._shelves.put((tenant, shelf.stream), shelf)

    def joined(self, tenant: str, shelves: Sequence[Shelf]) -> Index:
        key = (tenant, *((one.stream, one.generation, one.index.last) for one in shelves))
        found = self._joined.get(key)
        if found is None:
            found = indexing.joined([one.index for one in shelves])
            self._joined.put(key, found)
        return found

    def forget(self) -> None:
        self._shelves.clear()
        self._joined.clear()
