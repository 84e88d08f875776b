"""Folded states kept in memory, so that the next batch of a stream need not load them again.

A state is named by its stream, generation and seq, and those decide its content; so an entry can be old, never wrong.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from domain.rows import LOOKED_UP
from domain.state import ContextState

KEPT = 256
KEPT_WHOLE = 8


@dataclass(frozen=True, slots=True)
class StateKey:
    tenant: str
    stream: int
    generation: int
    seq: int


class StateCache:
    """The newest state of each of the streams used last. Thread-safe."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._states: OrderedDict[tuple[str, int], tuple[StateKey, ContextState]] = OrderedDict()

    def get(self, key: StateKey) -> ContextState | None:
        """A copy of the caller's own: rows are frozen, so the tables are all that is copied."""
        with self._lock:
            found = self._states.get((key.tenant, key.stream))
            return copied(found[1]) if found is not None and found[0] == key else None

    def put(self, key: StateKey, state: ContextState) -> None:
        """Keeps the state without the growing tables; the caller may go on changing its own."""
        kept = copied(state)
        for name in LOOKED_UP:
            kept.tables[name] = {}
        with self._lock:
            self._states[key.tenant, key.stream] = key, kept
            self._states.move_to_end((key.tenant, key.stream))
            while len(self._states) > self._kept:
                self._states.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._states.clear()


def copied(state: ContextState) -> ContextState:
    return ContextState({name: dict(table) for name, table in state.tables.items()})


class FoldCache:
    """The newest folded state of each of a few streams, growing tables included. Thread-safe."""

    def __init__(self, kept: int = KEPT_WHOLE) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, int], tuple[int, ContextState]] = OrderedDict()

    def get(self, tenant: str, stream: int) -> tuple[int, ContextState] | None:
        """(seq, state); the state must not be changed."""
        with self._lock:
            return self._found.get((tenant, stream))

    def put(self, tenant: str, stream: int, seq: int, state: ContextState) -> None:
        with self._lock:
            self._found[tenant, stream] = seq, state
            self._found.move_to_end((tenant, stream))
            while len(self._found) > self._kept:
                self._found.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._found.clear()
