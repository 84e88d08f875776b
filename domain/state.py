"""The fold: state = `reduce` over the events in force. The read-model tables hold the same rows.

`changes(state, event)` gives meaning to an event as row changes; it is the only place that does. `reduce` applies
them to a copy, `fold` to a state of its own, the projection to the database.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from domain import reducers
from domain.events import Event, UnknownPayload
from domain.reducers import Change
from domain.rows import LOOKED_UP, TABLES, Lookups, Progress

FOLD = 2
"""The version of the fold: raised when the same events give other rows, so that rows of before are folded anew."""


class ContextState:
    """The rows of one stream by table and key. Equal when every row is equal."""

    __slots__ = ("tables",)

    def __init__(self, tables: Mapping[str, dict[str, Any]] | None = None) -> None:
        given = tables or {}
        self.tables: dict[str, dict[str, Any]] = {name: given.get(name, {}) for name in TABLES}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextState) and self.tables == other.tables

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        filled = ", ".join(f"{name}={len(rows)}" for name, rows in self.tables.items() if rows)
        return f"ContextState({filled})"

    @property
    def progress(self) -> Progress:
        row: Progress = self.tables["progress"].get("", Progress())
        return row

    @property
    def head(self) -> int:
        return self.progress.head

    def still_holds(self, head: int) -> bool:
        """Whether what was derived from the state at `head` holds: nothing of it was rolled back or redacted since."""
        return not any(row.upto < head < row.seq for row in self.tables["refolds"].values())

    def one(self, table: str) -> Any:
        """The only row of a single-row table, or None."""
        return self.tables[table].get("")

    def rows(self, table: str) -> list[Any]:
        """The rows of a table in the order of their events."""
        return sorted(self.tables[table].values(), key=lambda row: row.seq)

    def apply(self, found: Iterable[Change]) -> None:
        """Write the changes into this state. For states nobody else holds."""
        for table, key, row in found:
            if row is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = row


def changes(state: ContextState, event: Event) -> list[Change]:
    """What the event changes. Total: never raises on a stored event. A redacted one is a tombstone."""
    payload = event.payload
    found: list[Change] = []
    if payload is None:
        pass
    elif isinstance(payload, UnknownPayload):
        found += reducers.skipped(state.tables, event)
    elif rule := reducers.RULES.get(event.kind):
        found += rule(state.tables, event, payload)
    progress = state.progress
    begun = [row for table, _, row in found if table == "messages" and row is not None and row.seq == event.seq]
    found.append(
        (
            "progress",
            "",
            Progress(
                head=event.seq,
                recorded_at=event.recorded_at,
                units=progress.units + sum(row.unit == row.seq for row in begun),
                messages=progress.messages + len(begun),
                answers=_answers(progress, _joined(event, found)),
            ),
        )
    )
    return found


KEPT_ANSWERS = 32
"""Units whose newest answers are remembered, so that one that comes late is shown although its call left the window."""


def _joined(event: Event, found: Sequence[Change]) -> list[tuple[str, int, int]]:
    """What the event added to units that began before it: answers, approvals, and calls that came on their own."""
    messages = [row for table, _, row in found if table == "messages" and row is not None]
    return [(row.event_id, row.unit, event.seq) for row in messages if row.unit < event.seq]


def _answers(progress: Progress, new: Sequence[tuple[str, int, int]]) -> tuple[tuple[str, int, int], ...]:
    if not new:
        return progress.answers
    units = {unit for _, unit, _ in new}
    return (*(one for one in progress.answers if one[1] not in units), *new)[-KEPT_ANSWERS:]


def reduce(state: ContextState, event: Event) -> ContextState:
    """The state after the event; the given one stays as it was."""
    found = changes(state, event)
    touched = {table for table, _, _ in found}
    after = ContextState({name: dict(rows) if name in touched else rows for name, rows in state.tables.items()})
    after.apply(found)
    return after


def fold(events: Iterable[Event], state: ContextState | None = None) -> ContextState:
    """`reduce` over all events, on one private copy."""
    start = state or ContextState()
    after = ContextState({name: dict(rows) for name, rows in start.tables.items()})
    for event in events:
        after.apply(changes(after, event))
    return after


def lookups(events: Sequence[Event]) -> Lookups:
    """Which rows of the growing tables `changes` may ask for while it takes in these events."""
    return reducers.lookups(events)


def small_tables() -> tuple[str, ...]:
    """The tables that stay small, which the projection loads whole."""
    return tuple(name for name in TABLES if name not in LOOKED_UP)
