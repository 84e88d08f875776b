"""Stored token counts, and the history of a session as a compile reads it: by units, from the newest back.

Running totals stand beside each message, so that what lies before the window costs one row to account for, however
long it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.counting import Counter
from domain.rows import Message
from domain.state import FOLD, ContextState
from domain.windows import NEWEST, MemoryHistory, Totals
from workers.store import log, models
from workers.store.database import Bulk, DialectName, Prepared, Unit, joined
from workers.store.log import pack_id
from workers.store.models import EVENT_OF_MESSAGE, MESSAGE, MESSAGE_SQL, OF_MESSAGES, Checkpoint, read_message
from workers.store.tables import message_tokens, messages

CACHED = 8192
CACHED_BYTES = 8192
_WIDTH = len(MESSAGE)


class LearningCounter(Counter):
    """A counter that is told of stored counts as it goes."""

    def learn(self, counts: Mapping[str, int]) -> None:
        self._known.update(counts)


# A row decodes to the same message for ever, so decoding it again is waste.
_decoded = lru_cache(CACHED)(lambda *row: read_message(row))


def _message(row: Sequence[Any]) -> Message:
    known = row[:_WIDTH]
    size = len(row[3]) + len(row[_WIDTH - 1] or b"")
    found: Message = _decoded(*known) if size <= CACHED_BYTES else read_message(known)
    return found


_OF = (
    messages.c.tenant == bindparam("of_tenant"),
    messages.c.stream == bindparam("of_stream"),
    messages.c.generation == bindparam("of_generation"),
)


def _read(dialect: DialectName, chosen: str) -> sa.ClauseElement:
    """The chosen rows of `messages` with their events and their stored counts."""
    counted = (
        "tokens.tenant = :of_tenant AND tokens.stream = :of_stream AND tokens.generation = :of_generation "
        "AND tokens.counting = :of_counting AND tokens.seq = messages.seq"
    )
    source = joined(dialect, f"({chosen}) AS messages", "events", "events", EVENT_OF_MESSAGE)
    source = joined(dialect, source, "message_tokens", "tokens", counted, outer=True)
    return sa.text(f"SELECT {MESSAGE_SQL}, tokens.tokens FROM {source}")


def _of_units(dialect: DialectName, units: str) -> str:
    """The messages of these units."""
    source = joined(
        dialect, f"({units}) AS units", "messages", "messages", f"{OF_MESSAGES} AND messages.unit = units.unit"
    )
    return f"SELECT messages.* FROM {source}"


def _newest(dialect: DialectName) -> sa.ClauseElement:
    units = f"SELECT DISTINCT unit FROM messages WHERE {OF_MESSAGES} AND unit < :before ORDER BY unit DESC LIMIT :most"
    return _read(dialect, _of_units(dialect, units))


_NEWEST = Prepared(_newest)
_UNIT_OF = Prepared(lambda dialect: sa.select(messages.c.unit).where(*_OF, messages.c.event_id == bindparam("id")))
_OF_UNIT = Prepared(lambda dialect: _read(dialect, f"SELECT * FROM messages WHERE {OF_MESSAGES} AND unit = :unit"))

_TOTALS = Prepared(
    lambda dialect: (
        sa.select(
            message_tokens.c.seq,
            message_tokens.c.total_tokens,
            message_tokens.c.total_messages,
            message_tokens.c.total_units,
        )
        .where(
            message_tokens.c.tenant == bindparam("of_tenant"),
            message_tokens.c.stream == bindparam("of_stream"),
            message_tokens.c.generation == bindparam("of_generation"),
            message_tokens.c.counting == bindparam("of_counting"),
            message_tokens.c.seq < bindparam("before"),
        )
        .order_by(message_tokens.c.seq.desc())
        .limit(1)
    )
)
# By seq, for that range is short: `+ 0` keeps the planner from the index by unit, which would be the whole history.
_LATER = Prepared(
    lambda dialect: _read(
        dialect, f"SELECT * FROM messages WHERE {OF_MESSAGES} AND seq > :after AND unit + 0 < :before ORDER BY seq"
    )
)


class SqlHistory:
    """The domain's history reader over the tables, inside one read unit."""

    def __init__(self, unit: Unit, tenant: str, stream: int, generation: int, count: LearningCounter) -> None:
        self._unit, self._tenant = unit, tenant
        self._count = count
        self._key = {
            "of_tenant": tenant, "of_stream": stream, "of_generation": generation, "of_counting": count.key,
        }  # fmt: skip

    def newest(self, before_unit: int, limit: int) -> Sequence[Message]:
        return self._read(self._unit.run(_NEWEST, {**self._key, "before": before_unit, "most": limit}).fetchall())

    def units(self, event_ids: Collection[str]) -> Sequence[Message]:
        found = {self._unit_of(name) for name in event_ids} - {None}
        rows = [row for unit in sorted(filter(None, found)) for row in self._of_unit(unit)]
        return self._read(rows)

    def _unit_of(self, event_id: str) -> int | None:
        found = self._unit.run(_UNIT_OF, {**self._key, "id": pack_id(event_id)}).fetchone()
        return int(found[0]) if found else None

    def _of_unit(self, unit: int) -> Sequence[Any]:
        rows: Sequence[Any] = self._unit.run(_OF_UNIT, {**self._key, "unit": unit}).fetchall()
        return rows

    def totals(self, before_unit: int) -> Totals:
        """The running totals of what came before that unit began, and the answers that came late to older units."""
        found = self._unit.run(_TOTALS, {**self._key, "before": before_unit}).fetchone()
        seq, tokens, number, units = found or (0, 0, 0, 0)
        late = self._read(self._unit.run(_LATER, {**self._key, "before": before_unit, "after": seq}).fetchall())
        return Totals(
            units + sum(message.unit == message.seq for message in late),
            number + len(late),
            tokens + sum(map(self._count.message, late)),
        )

    def _read(self, found: Sequence[Any]) -> list[Message]:
        found = [models.readable(self._unit, self._tenant, row) for row in found]
        read = [_message(row) for row in found]
        self._count.learn(
            {message.event_id: row[-1] for message, row in zip(read, found, strict=True) if row[-1] is not None}
        )
        return read


_STORED = Prepared(
    lambda dialect: sa.select(message_tokens.c.seq, message_tokens.c.tokens).where(
        message_tokens.c.tenant == bindparam("of_tenant"),
        message_tokens.c.stream == bindparam("of_stream"),
        message_tokens.c.generation == bindparam("of_generation"),
        message_tokens.c.counting == bindparam("of_counting"),
        message_tokens.c.seq <= bindparam("upto"),
    )
)


class FoldedHistory(MemoryHistory):
    """The reader over a state that was folded from the log. What lies before the window is counted by what the tables
    know of it, wherever they must say the same; what a prompt shows is counted anew."""

    def __init__(self, unit: Unit, tenant: str, stream: int, state: ContextState, count: LearningCounter) -> None:
        super().__init__(state, count)
        self._unit, self._tenant, self._stream = unit, tenant, stream
        self._head, self._learning = state.head, count

    def totals(self, before_unit: int) -> Totals:
        if self.messages and before_unit > self.messages[0].unit:
            self._learning.learn(self._stored())
        return super().totals(before_unit)

    def _stored(self) -> dict[str, int]:
        """The stored counts by event id. After a rollback or an erasure the tables may tell of other messages, and a
        message that a call joined later is another one now."""
        checkpoint = models.checkpoint(self._unit, self._tenant, self._stream)
        of_stream = (self._unit, self._tenant, self._stream)
        if checkpoint.fold != FOLD or log.refolds(*of_stream):
            return {}
        joined = log.causes(*of_stream, "tool.called", after=self._head)
        key = {"of_tenant": self._tenant, "of_stream": self._stream, "of_generation": checkpoint.generation}
        found = self._unit.run(_STORED, {**key, "of_counting": self._learning.key, "upto": self._head}).fetchall()
        stored: dict[int, int] = dict(map(tuple, found))
        return {
            message.event_id: stored[message.seq]
            for message in self.messages
            if message.seq in stored and message.event_id not in joined
        }


# Counting ahead -------------------------------------------------------------------------------------------------------

AHEAD = 500
"""Messages that are counted in one go."""

LEFT = 32
"""Messages that may stay uncounted: fewer than this are not worth a transaction of their own."""

_INSERT = Bulk(
    message_tokens,
    ("tenant", "stream", "generation", "counting"),
    ("seq", "tokens", "total_tokens", "total_messages", "total_units"),
    keep=True,
)
_UNCOUNTED = Prepared(
    lambda dialect: _read(
        dialect, f"SELECT * FROM messages WHERE {OF_MESSAGES} AND seq > :after ORDER BY seq LIMIT {AHEAD}"
    )
)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Counts to be stored, made at a checkpoint: (seq, tokens, then the totals of tokens, messages and units)."""

    counting: str
    rows: list[tuple[int, int, int, int, int]]


def count_ahead(unit: Unit, tenant: str, stream: int, checkpoint: Checkpoint, count: LearningCounter) -> Ahead | None:
    """The next counts to be written with `store`; None when few messages wait."""
    key = {"of_tenant": tenant, "of_stream": stream, "of_generation": checkpoint.generation}
    found = unit.run(_TOTALS, {**key, "of_counting": count.key, "before": NEWEST}).fetchone()
    seq, tokens, number, units = found or (0, 0, 0, 0)
    waiting = unit.run(_UNCOUNTED, {**key, "of_counting": count.key, "after": seq}).fetchall()
    if len(waiting) < LEFT:
        return None
    rows = []
    for message in (_message(models.readable(unit, tenant, row)) for row in waiting):
        spent = count.message(message)
        tokens, number, units = tokens + spent, number + 1, units + (message.unit == message.seq)
        rows.append((message.seq, spent, tokens, number, units))
    return Ahead(count.key, rows)


def store(unit: Unit, tenant: str, stream: int, checkpoint: Checkpoint, ahead: Ahead) -> bool:
    """Write what was counted at `checkpoint`; false if messages may have changed since."""
    if models.checkpoint(unit, tenant, stream, hold=True) != checkpoint:
        return False
    _INSERT.run(unit, (tenant, stream, checkpoint.generation, ahead.counting), ahead.rows)
    return True
