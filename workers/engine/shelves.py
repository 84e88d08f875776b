"""The indexes of sessions, kept in memory: built from the read-models when first asked for, then only extended."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from domain.recall import index as indexing
from domain.recall.index import EMPTY, Index

KEPT = 4096
KEPT_JOINED = 4


@dataclass(frozen=True, slots=True)
class Shelf:
    """One session, as far as it is indexed."""

    stream: int
    generation: int
    index: Index


class Shelves:
    """Indexes kept in memory: of each session the newest. Thread-safe; an entry can be old, never wrong."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._shelves: OrderedDict[tuple[str, int], Shelf] = OrderedDict()
        self._joined: OrderedDict[tuple[object, ...], Index] = OrderedDict()

    def get(self, tenant: str, stream: int, generation: int) -> Shelf:
        with self._lock:
            found = self._shelves.get((tenant, stream))
        return found if found is not None and found.generation == generation else Shelf(stream, generation, EMPTY)

    def put(self, tenant: str, shelf: Shelf) -> None:
        with self._lock:
            self._shelves[tenant, shelf.stream] = shelf
            self._shelves.move_to_end((tenant, shelf.stream))
            while len(self._shelves) > self._kept:
                self._shelves.popitem(last=False)

    def joined(self, tenant: str, shelves: Sequence[Shelf]) -> Index:
        key = (tenant, *((one.stream, one.generation, one.index.last) for one in shelves))
        with self._lock:
            found = self._joined.get(key)
        if found is None:
            found = indexing.joined([one.index for one in shelves])
            with self._lock:
                self._joined[key] = found
                while len(self._joined) > KEPT_JOINED:
                    self._joined.popitem(last=False)
        return found
