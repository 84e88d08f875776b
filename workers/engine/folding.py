"""Folding events into a state while noting which rows changed."""

from collections.abc import Iterable

from domain.events import Event
from domain.state import ContextState, changes
from workers import telemetry
from workers.engine.leases import Parked
from workers.store.models import Dirty


def fold_into(state: ContextState, events: Iterable[Event]) -> set[Dirty]:
    """Apply the events to `state`; which rows changed. Raises Parked on an event that cannot be folded."""
    dirty: set[Dirty] = set()
    for event in events:
        try:
            found = changes(state, event)
        except Exception as error:
            raise Parked(f"{event.kind} cannot be folded: {telemetry.told(error)}", event.seq) from error
        state.apply(found)
        dirty.update((table, key) for table, key, _ in found)
    return dirty
