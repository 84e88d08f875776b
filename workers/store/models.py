"""The read-models: the rows of a folded stream, by generation. A refold builds the next one beside the live one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import canonical_json, parse_json, sha256_hex
from domain.events import read_payload
from domain.rows import TABLES, Lookups, Message, dump_row, load_row
from domain.state import FOLD, ContextState, small_tables
from workers.store import subject_keys
from workers.store.database import Bulk, DialectName, Prepared, Unit, insert, joined
from workers.store.log import pack_id, unpack_id
from workers.store.sealing import MARK
from workers.store.tables import checkpoints, events, message_tokens, messages, rows

LONG_KEY = 120
"""Bytes of a key that an index holds as they are; a longer one stands in the body, its hash in the index."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a stream is projected, in which generation, and by which version of the fold."""

    generation: int = 0
    seq: int = 0
    fold: int = FOLD


Dirty = tuple[str, str]
"""(table, key) of a row that changed."""


# Checkpoints ----------------------------------------------------------------------------------------------------------


def _checkpoint(dialect: DialectName) -> Any:
    mine = (checkpoints.c.tenant == bindparam("of_tenant"), checkpoints.c.stream == bindparam("of_stream"))
    return sa.select(checkpoints.c.generation, checkpoints.c.seq, checkpoints.c.fold).where(*mine)


_CHECKPOINT = Prepared(_checkpoint)
_HOLD_CHECKPOINT = Prepared(lambda dialect: _checkpoint(dialect).with_for_update(read=True))


def checkpoint(unit: Unit, tenant: str, stream: int, *, hold: bool = False) -> Checkpoint:
    """How far the stream is projected; `hold` keeps it from moving until the unit ends."""
    statement = _HOLD_CHECKPOINT if hold else _CHECKPOINT
    found = unit.run(statement, {"of_tenant": tenant, "of_stream": stream}).fetchone()
    return Checkpoint(*found) if found else Checkpoint()


_FIRST = Prepared(
    lambda dialect: (
        insert(checkpoints, dialect)
        .values(
            tenant=bindparam("of_tenant"),
            stream=bindparam("of_stream"),
            generation=0,
            seq=bindparam("to"),
            building=0,
            fold=FOLD,
        )
        .on_conflict_do_nothing()
    )
)
_MOVE = Prepared(
    lambda dialect: (
        sa.update(checkpoints)
        .where(
            checkpoints.c.tenant == bindparam("of_tenant"),
            checkpoints.c.stream == bindparam("of_stream"),
            checkpoints.c.generation == bindparam("in_generation"),
            checkpoints.c.seq == bindparam("from_seq"),
        )
        .values(seq=bindparam("to"))
    )
)


def advance(unit: Unit, tenant: str, stream: int, before: Checkpoint, seq: int) -> bool:
    """Move the checkpoint from where it was read; false if somebody else moved it."""
    params = {
        "of_tenant": tenant, "of_stream": stream, "in_generation": before.generation, "from_seq": before.seq, "to": seq,
    }  # fmt: skip
    statement = _MOVE if before.seq or before.generation else _FIRST
    if unit.run(statement, params).rowcount == 1:
        return True
    return statement is _FIRST and bool(unit.run(_MOVE, params).rowcount == 1)


def begin(unit: Unit, tenant: str, stream: int) -> None:
    """Make the checkpoint's row, at the beginning, unless there is one."""
    unit.run(_FIRST, {"of_tenant": tenant, "of_stream": stream, "to": 0})


def build(unit: Unit, tenant: str, stream: int, live: Checkpoint) -> int:
    """The number of a new generation to build. What was being built until now can no longer become the live one.

    Its rows go, too: the history may have changed again since.
    """
    drop_generation(unit, tenant, stream, other_than=live.generation)
    begin(unit, tenant, stream)
    # Numbers are never used twice, so that two builders cannot write into one generation.
    latest = sa.case((checkpoints.c.building > checkpoints.c.generation, checkpoints.c.building))
    following = sa.func.coalesce(latest, checkpoints.c.generation) + 1
    mine = (checkpoints.c.tenant == tenant, checkpoints.c.stream == stream)
    unit.execute(sa.update(checkpoints).where(*mine).values(building=following))
    return int(unit.execute(sa.select(checkpoints.c.building).where(*mine)).scalar_one())


def is_building(unit: Unit, tenant: str, stream: int, generation: int) -> bool:
    """Whether this generation is still the one that is being built."""
    mine = (checkpoints.c.tenant == tenant, checkpoints.c.stream == stream)
    found = unit.execute(sa.select(checkpoints.c.building).where(*mine).with_for_update()).scalar()
    return bool(found == generation)


def flip(unit: Unit, tenant: str, stream: int, before: Checkpoint, generation: int, seq: int) -> bool:
    """Make the built generation the live one; false if another was begun since, or the live one moved."""
    moved = (
        sa.update(checkpoints)
        .where(
            checkpoints.c.tenant == tenant,
            checkpoints.c.stream == stream,
            checkpoints.c.generation == before.generation,
            checkpoints.c.seq == before.seq,
            checkpoints.c.building == generation,
        )
        .values(generation=generation, seq=seq, fold=FOLD)
    )
    return bool(unit.execute(moved).rowcount == 1)


def drop_generation(unit: Unit, tenant: str, stream: int, *, other_than: int) -> None:
    """Delete the rows of all generations but this one."""
    for table in (rows, messages, message_tokens):
        unit.execute(
            sa.delete(table).where(table.c.tenant == tenant, table.c.stream == stream, table.c.generation != other_than)
        )


# Rows -----------------------------------------------------------------------------------------------------------------


@cache
def _small() -> tuple[str, ...]:
    return tuple(sorted(small_tables()))


_LOAD_SMALL = Prepared(
    lambda dialect: sa.select(rows.c.name, rows.c.key, rows.c.body).where(
        rows.c.tenant == bindparam("of_tenant"),
        rows.c.stream == bindparam("of_stream"),
        rows.c.generation == bindparam("of_generation"),
        # `call_ids` grows with the history: two ranges of the key leave it out.
        sa.or_(rows.c.name < "call_ids", rows.c.name > "call_ids"),
    )
)


def load(unit: Unit, tenant: str, stream: int, generation: int, wanted: Lookups | None = None) -> ContextState:
    """The small tables whole, and of the growing ones the rows that are wanted."""
    key = {"of_tenant": tenant, "of_stream": stream, "of_generation": generation}
    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    for name, packed, body in unit.run(_LOAD_SMALL, key).fetchall():
        _put(tables[name], name, packed, body)
    if wanted is not None:
        look_up(unit, tenant, stream, generation, tables, wanted)
    return ContextState(tables)


def named(unit: Unit, tenant: str, stream: int, generation: int, name: str) -> dict[str, Any]:
    """One small table alone."""
    query = sa.select(rows.c.key, rows.c.body).where(*_of(rows, tenant, stream, generation), rows.c.name == name)
    table: dict[str, Any] = {}
    for packed, body in unit.execute(query):
        _put(table, name, packed, body)
    return table


def look_up(
    unit: Unit, tenant: str, stream: int, generation: int, tables: dict[str, dict[str, Any]], wanted: Lookups
) -> None:
    """Add the wanted rows of the growing tables that `tables` does not hold yet."""
    missing = sorted(wanted.call_ids - tables["call_ids"].keys())
    for at in range(0, len(missing), 500):
        keys = [pack_key(key) for key in missing[at : at + 500]]
        query = sa.select(rows.c.key, rows.c.body).where(*_of(rows, tenant, stream, generation))
        for packed, body in unit.execute(query.where(rows.c.name == "call_ids", rows.c.key.in_(keys))):
            _put(tables["call_ids"], "call_ids", packed, body)
    for name in sorted(wanted.messages - tables["messages"].keys()):
        if (packed := _packed(name)) is not None:
            key = {"of_tenant": tenant, "of_stream": stream, "of_generation": generation, "id": packed}
            for row in unit.run(_ONE_MESSAGE, key).fetchall():
                tables["messages"][name] = read_message(readable(unit, tenant, row))


def load_all(unit: Unit, tenant: str, stream: int, generation: int) -> ContextState:
    """Every row of the stream: for checks against the log."""
    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    query = sa.select(rows.c.name, rows.c.key, rows.c.body).where(*_of(rows, tenant, stream, generation))
    for name, packed, body in unit.execute(query):
        _put(tables[name], name, packed, body)
    for row in unit.execute(select_messages(tenant, stream, generation)):
        message = read_message(readable(unit, tenant, row))
        tables["messages"][message.event_id] = message
    return ContextState(tables)


def _of(table: sa.Table, tenant: str, stream: int, generation: int) -> tuple[Any, ...]:
    return table.c.tenant == tenant, table.c.stream == stream, table.c.generation == generation


def pack_key(key: str) -> bytes:
    packed = key.encode("utf-8", "surrogatepass")
    # No UTF-8 begins with this byte, so that the two forms cannot meet.
    return packed if len(packed) <= LONG_KEY else b"\xff" + bytes.fromhex(sha256_hex(packed))


def _put(table: dict[str, Any], name: str, packed: bytes, body: bytes) -> None:
    data = parse_json(body)
    if packed[:1] == b"\xff":
        key, data = data
    else:
        key = packed.decode("utf-8", "surrogatepass")
    table[key] = load_row(name, data)


def _body(table: str, key: str, packed: bytes, row: Any) -> bytes:
    data = dump_row(table, row)
    return canonical_json([key, data] if packed[:1] == b"\xff" else data)


def _packed(event_id: str) -> bytes | None:
    try:
        return pack_id(event_id)
    except ValueError:
        return None


# Messages -------------------------------------------------------------------------------------------------------------

WITH_EVENTS = messages.join(
    events,
    sa.and_(events.c.tenant == messages.c.tenant, events.c.stream == messages.c.stream, events.c.seq == messages.c.seq),
)
MESSAGE = (
    messages.c.event_id, messages.c.seq, messages.c.unit, messages.c.body, events.c.kind, events.c.schema_version,
    events.c.payload,
)  # fmt: skip
"""The columns that `read_message` takes, of `WITH_EVENTS`."""

_APART = frozenset({"event_id", "seq", "unit"})


def select_messages(tenant: str, stream: int, generation: int) -> Any:
    return (
        sa.select(*MESSAGE)
        .select_from(WITH_EVENTS)
        .where(*_of(messages, tenant, stream, generation))
        .order_by(messages.c.seq)
    )


def readable(unit: Unit, tenant: str, found: Sequence[Any]) -> Sequence[Any]:
    """The columns of `MESSAGE`, and more behind them, with the payload unsealed."""
    sealed = found[len(MESSAGE) - 1]
    if sealed is None or sealed[:1] != MARK:
        return found
    return (*found[: len(MESSAGE) - 1], subject_keys.payload(unit, tenant, sealed), *found[len(MESSAGE) :])


def read_message(found: Sequence[Any]) -> Message:
    event_id, seq, unit, body, kind, version, payload = found
    said = read_payload(kind, version, parse_json(payload)) if payload is not None else None
    row = {
        **parse_json(body), "event_id": unpack_id(event_id), "seq": seq, "unit": unit,
        "parts": getattr(said, "content", ()), "reasoning": getattr(said, "reasoning", ()),
    }  # fmt: skip
    message: Message = load_row("messages", row)
    return message


OF_MESSAGES = "messages.tenant = :of_tenant AND messages.stream = :of_stream AND messages.generation = :of_generation"
MESSAGE_SQL = (
    "messages.event_id, messages.seq, messages.unit, messages.body, events.kind, events.schema_version, events.payload"
)
EVENT_OF_MESSAGE = "events.tenant = :of_tenant AND events.stream = :of_stream AND events.seq = messages.seq"


def _one_message(dialect: DialectName) -> sa.ClauseElement:
    chosen = f"(SELECT * FROM messages WHERE {OF_MESSAGES} AND messages.event_id = :id) AS messages"
    return sa.text(f"SELECT {MESSAGE_SQL} FROM {joined(dialect, chosen, 'events', 'events', EVENT_OF_MESSAGE)}")


_ONE_MESSAGE = Prepared(_one_message)


def _message_body(message: Message) -> bytes:
    """Without what the message says: that is read from its event, and is gone when it is erased there."""
    data = dump_row("messages", replace(message, parts=(), reasoning=()))
    return canonical_json({name: value for name, value in data.items() if name not in _APART})


# Writing --------------------------------------------------------------------------------------------------------------


_OF = ("tenant", "stream", "generation")
_UPSERT_ROW = Bulk(rows, _OF, ("name", "key", "body"), keys=(*_OF, "name", "key"), replaced=("body",))
_UPSERT_MESSAGE = Bulk(
    messages, _OF, ("seq", "event_id", "unit", "body"), keys=(*_OF, "seq"), replaced=("event_id", "unit", "body")
)
_DELETE_ROW = Prepared(
    lambda dialect: sa.delete(rows).where(
        rows.c.tenant == bindparam("tenant"),
        rows.c.stream == bindparam("stream"),
        rows.c.generation == bindparam("generation"),
        rows.c.name == bindparam("name"),
        rows.c.key == bindparam("key"),
    )
)


def save(unit: Unit, tenant: str, stream: int, generation: int, state: ContextState, dirty: Iterable[Dirty]) -> None:
    """Write the rows that changed, as they are now in `state`; a row that is no longer there is deleted."""
    base = {"tenant": tenant, "stream": stream, "generation": generation}
    kept: list[tuple[str, bytes, bytes]] = []
    gone: list[dict[str, Any]] = []
    said: list[tuple[int, bytes, int, bytes]] = []
    for table, key in sorted(dirty):
        row: Any = state.tables[table].get(key)
        if table == "messages":
            said.append((row.seq, pack_id(key), row.unit, _message_body(row)))
            continue
        packed = pack_key(key)
        if row is None:
            gone.append({**base, "name": table, "key": packed})
        else:
            kept.append((table, packed, _body(table, key, packed, row)))
    unit.many(_DELETE_ROW, gone)
    _UPSERT_MESSAGE.run(unit, tuple(base.values()), sorted(said))
    _UPSERT_ROW.run(unit, tuple(base.values()), kept)


def forget_counts(unit: Unit, tenant: str, stream: int, generation: int, from_seq: int) -> None:
    """A message changed: running totals from it on no longer hold."""
    unit.execute(
        sa.delete(message_tokens).where(
            *_of(message_tokens, tenant, stream, generation), message_tokens.c.seq >= from_seq
        )
    )
