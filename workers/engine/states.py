"""Folded states kept in memory, so that the next batch of a stream need not load them again.

A state is named by its stream, generation and seq, and those decide its content; so an entry can be old, never wrong.
"""

from dataclasses import dataclass

from domain.rows import LOOKED_UP
from domain.state import ContextState
from workers.store.kept import Kept

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
        self._states = Kept[tuple[str, int], tuple[StateKey, ContextState]](kept)

    def get(self, key: StateKey) -> ContextState | None:
        """A copy of the caller's own: rows are frozen, so the tables are all that is copied."""
        found = self._states.get((key.tenant, key.stream))
        return copied(found[1]) if found is not None and found[0] == key else None

    def put(self, key: StateKey, state: ContextState) -> None:
        """Keeps the state without the growing tables; the caller may go on changing its own."""
        kept = copied(state)
        for name in LOOKED_UP:
            kept.tables[name] = {}
        self._states.put((key.tenant, key.stream), (key, kept))

    def forget(self) -> None:
        self._states.clear()


def copied(state: ContextState) -> ContextState:
    return ContextState({name: dict(table) for name, table in state.tables.items()})


class FoldCache:
    """The newest folded state of each of a few streams, growing tables included. Thread-safe."""

    def __init__(self, kept: int = KEPT_WHOLE) -> None:
        self._found = Kept[tuple[str, int], tuple[int, ContextState]](kept)

    def get(self, tenant: str, stream: int) -> tuple[int, ContextState] | None:
        """(seq, state); the state must not be changed."""
        return self._found.get((tenant, stream))

    def put(self, tenant: str, stream: int, seq: int, state: ContextState) -> None:
        self._found.put((tenant, stream), (seq, state))

    def forget(self) -> None:
        self._found.clear()
