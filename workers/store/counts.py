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
from domain.windows import NEWEST, Totals
from workers.store import models
from workers.store.database import Bulk, Prepared, Unit
from workers.store.log import pack_id
from workers.store.models import MESSAGE, WITH_EVENTS, Checkpoint, read_message
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
_COUNTED = WITH_EVENTS.outerjoin(
    message_tokens,
    sa.and_(
        message_tokens.c.tenant == messages.c.tenant,
        message_tokens.c.stream == messages.c.stream,
        message_tokens.c.generation == messages.c.generation,
        message_tokens.c.counting == bindparam("of_counting"),
        message_tokens.c.seq == messages.c.seq,
    ),
)
_FIELDS = (*MESSAGE, message_tokens.c.tokens)


def _units(chosen: Any) -> Any:
    return sa.select(*_FIELDS).select_from(_COUNTED).where(*_OF, messages.c.unit.in_(chosen))


_NEWEST_UNITS = (
    sa.select(messages.c.unit)
    .where(*_OF, messages.c.unit < bindparam("before"))
    .distinct()
    .order_by(messages.c.unit.desc())
    .limit(bindparam("most"))
)
_NEWEST = Prepared(lambda dialect: _units(_NEWEST_UNITS.subquery().select()))
_OF_EVENTS = _units(sa.select(messages.c.unit).where(*_OF, messages.c.event_id.in_(bindparam("ids", expanding=True))))

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
_LATER = Prepared(
    lambda dialect: (
        sa.select(*_FIELDS)
        .select_from(_COUNTED)
        # By seq, for that range is short: `+ 0` keeps the planner from the index by unit, the whole history.
        .where(*_OF, messages.c.unit + 0 < bindparam("before"), messages.c.seq > bindparam("after"))
        .order_by(messages.c.seq)
    )
)


class SqlHistory:
    """The domain's history reader over the tables, inside one read unit."""

    def __init__(self, unit: Unit, tenant: str, stream: int, generation: int, count: LearningCounter) -> None:
        self._unit = unit
        self._count = count
        self._key = {
            "of_tenant": tenant, "of_stream": stream, "of_generation": generation, "of_counting": count.key,
        }  # fmt: skip

    def newest(self, before_unit: int, limit: int) -> Sequence[Message]:
        return self._read(self._unit.run(_NEWEST, {**self._key, "before": before_unit, "most": limit}).fetchall())

    def units(self, event_ids: Collection[str]) -> Sequence[Message]:
        ids = [pack_id(name) for name in sorted(event_ids)]
        return self._read(self._unit.execute(_OF_EVENTS, {**self._key, "ids": ids}).fetchall())

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
        read = [_message(row) for row in found]
        self._count.learn(
            {message.event_id: row[-1] for message, row in zip(read, found, strict=True) if row[-1] is not None}
        )
        return read


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
    lambda dialect: (
        sa.select(*MESSAGE)
        .select_from(WITH_EVENTS)
        .where(*_OF, messages.c.seq > bindparam("after"))
        .order_by(messages.c.seq)
        .limit(AHEAD)
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
    waiting = unit.run(_UNCOUNTED, {**key, "after": seq}).fetchall()
    if len(waiting) < LEFT:
        return None
    rows = []
    for message in map(_message, waiting):
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
