"""The indexes of sessions, kept in memory: read from the store when first asked for, then only extended."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.recall import index as indexing
from domain.recall.index import EMPTY, Index
from workers.engine.meanings import Vectors
from workers.store.kept import Kept

KEPT = 4096
KEPT_DOCUMENTS = 256
KEPT_JOINED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """One session, as far as it is indexed: all that was projected up to `upto` is in it; or one `document` of it, by
    the id of the event that attached it."""

    stream: int
    generation: int
    index: Index
    vectors: Vectors
    document: str = ""
    upto: int = 0


def _empty(stream: int, generation: int) -> Shelf:
    return Shelf(stream, generation, EMPTY, Vectors())


class Shelves:
    """Indexes kept in memory: of each session the newest. Thread-safe; an entry can be old, never wrong."""

    def __init__(self, kept: int = KEPT) -> None:
        self._shelves = Kept[tuple[str, int], Shelf](kept)
        self._documents = Kept[tuple[str, int, str], Shelf](KEPT_DOCUMENTS)
        self._joined = Kept[tuple[object, ...], Index](KEPT_JOINED)

    def get(self, tenant: str, stream: int, generation: int) -> Shelf:
        found = self._shelves.get((tenant, stream))
        return found if found is not None and found.generation == generation else _empty(stream, generation)

    def put(self, tenant: str, shelf: Shelf) -> None:
        self._shelves.put((tenant, shelf.stream), shelf)

    def of_document(self, tenant: str, stream: int, document: str) -> Shelf | None:
        return self._documents.get((tenant, stream, document))

    def put_document(self, tenant: str, shelf: Shelf) -> None:
        self._documents.put((tenant, shelf.stream, shelf.document), shelf)

    def joined(self, tenant: str, shelves: Sequence[Shelf]) -> Index:
        key = (tenant, *((one.stream, one.generation, one.document, one.index.last) for one in shelves))
        found = self._joined.get(key)
        if found is None:
            found = indexing.joined([one.index for one in shelves])
            self._joined.put(key, found)
        return found

    def forget(self) -> None:
        self._shelves.clear()
        self._documents.clear()
        self._joined.clear()
