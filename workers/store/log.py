"""The events: written once, read in order. The only change the database allows is erasing a payload with its salt."""

import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import parse_json
from domain.digests import SALT_BYTES, Chain, payload_hash
from domain.events import Event, read_payload
from domain.history import HEADER_KINDS, Header
from workers.store import passages, subject_keys
from workers.store.database import Bulk, DialectName, Prepared, Unit
from workers.store.sealing import MARK, seal
from workers.store.streams import StreamRow
from workers.store.tables import events, streams


def pack_id(event_id: str) -> bytes:
    """An event id as the log stores it. Raises ValueError unless it is a UUID."""
    try:
        packed = bytes.fromhex(event_id.replace("-", ""))
    except ValueError:
        packed = b""
    # The rarer spellings, with braces or as a URN, take their time.
    return packed if len(packed) == 16 else uuid.UUID(event_id).bytes


def unpack_id(stored: bytes) -> str:
    digits = stored.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@dataclass(slots=True)
class NewEvent:
    """An event ready to be numbered: the id packed, the payload as canonical bytes. Not to be changed, though not
    frozen: freezing costs as much as the hash."""

    key: bytes
    kind: str
    schema_version: int
    payload: bytes
    occurred_at: int | None = None
    actor: str | None = None
    run_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What the log already holds under an event id. A redacted event has no payload."""

    stream_id: str
    seq: int
    kind: str
    schema_version: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event with everything the log knows of it."""

    seq: int
    key: bytes
    kind: str
    schema_version: int
    recorded_at: int
    occurred_at: int | None
    actor: str | None
    run_id: str | None
    causation_id: str | None
    correlation_id: str | None
    origin: str | None
    payload: bytes | None
    salt: bytes | None
    payload_hash: bytes
    digest: bytes
    sealed: bytes | None = None
    """As it lies in the log, if it is sealed; without its key, payload and salt are None."""

    @property
    def event_id(self) -> str:
        return unpack_id(self.key)


_FIELDS = (
    "seq", "event_id", "kind", "schema_version", "recorded_at", "occurred_at", "actor", "run_id", "causation_id",
    "correlation_id", "origin", "payload", "salt", "payload_hash", "digest",
)  # fmt: skip
_PAYLOAD = _FIELDS.index("payload")
_COLUMNS = tuple(events.c[name] for name in _FIELDS)


def _stored(unit: Unit, tenant: str, found: Sequence[Any]) -> StoredEvent:
    """The one place where a whole row is read."""
    sealed = found[_PAYLOAD]
    if sealed is None or sealed[:1] != MARK:
        return StoredEvent(*found)
    salt, payload = subject_keys.opened(unit, tenant, sealed)
    row: list[Any] = [*found[:_PAYLOAD], payload, salt, *found[_PAYLOAD + 2 :], sealed]
    return StoredEvent(*row)


_KNOWN = (events.c.event_id, events.c.seq, events.c.kind, events.c.schema_version, events.c.payload)

_NAMES = ", ".join(f"events.{column.name}" for column in _KNOWN)


def _one(dialect: DialectName) -> sa.ClauseElement:
    held = f"SELECT {_NAMES} FROM events WHERE tenant = :of_tenant AND stream = streams.number AND event_id = :key"
    named = "streams.tenant = :of_tenant AND streams.stream_id IN (:home, :audit, :subject, :shared)"
    if dialect == "postgresql":
        # By stream, whatever the planner thinks: it would rather go through all of the tenant's events.
        return sa.text(
            f"SELECT stream_id, held.* FROM streams CROSS JOIN LATERAL ({held} OFFSET 0) AS held WHERE {named}"
        )
    return sa.text(
        f"SELECT streams.stream_id, {_NAMES} FROM streams CROSS JOIN events ON events.tenant = :of_tenant "
        f"AND events.stream = streams.number AND events.event_id = :key WHERE {named}"
    )


_KNOWN_ONE = Prepared(_one)

AT_ONCE = 100
"""Ids that one statement looks up; of fewer, the last is repeated."""

_NAMES_AT_ONCE = 6


def _by_each(mine: str, columns: str, column: str, kind: str) -> Mapping[DialectName, str]:
    """SQL for the events under many values of one column, in each of the streams `mine`. One index look-up for each,
    whatever the planner thinks of a table that it has no statistics of yet."""
    # By number and not by name, which the driver would have to look up for each.
    places = ", ".join(f"(?{place})" for place in range(1, AT_ONCE + 1))
    fits = f"events.tenant = mine.tenant AND events.stream = mine.stream AND events.{column} = wanted.one"
    return {
        "sqlite": f"WITH wanted(one) AS (VALUES {places}) SELECT mine.name, {columns} "
        f"FROM {mine.format(*_places('?{}'))} AS mine CROSS JOIN wanted CROSS JOIN events WHERE {fits}",
        "postgresql": f"WITH wanted AS (SELECT unnest(%b::{kind}[]) AS one) SELECT mine.name, found.* FROM "
        f"{mine.format(*_places('%s'))} AS mine CROSS JOIN wanted CROSS JOIN LATERAL "
        f"(SELECT {columns} FROM events WHERE {fits} OFFSET 0) AS found",
    }


def _places(mark: str) -> list[str]:
    return [mark.format(place) for place in range(AT_ONCE + 1, AT_ONCE + _NAMES_AT_ONCE + 2)]


_HELD = _by_each(
    "(SELECT tenant, number AS stream, stream_id AS name FROM streams WHERE head > 0 AND tenant = {} AND stream_id IN ("
    + ", ".join(["{}"] * _NAMES_AT_ONCE)
    + "))",
    _NAMES, "event_id", "bytea",
)  # fmt: skip
_IDS = _by_each(
    "(SELECT tenant, number AS stream, stream_id AS name FROM streams WHERE tenant = {} AND number = {})",
    "events.seq, events.event_id", "seq", "bigint",
)  # fmt: skip


def _each(unit: Unit, sql: Mapping[DialectName, str], wanted: Sequence[Any], *of: Any) -> Iterator[Any]:
    """The rows that such a statement finds for `wanted`, in pieces that it takes."""
    for at in range(0, len(wanted), AT_ONCE):
        some = list(wanted[at : at + AT_ONCE])
        if unit.dialect == "sqlite":
            params = (*some, *([some[-1]] * (AT_ONCE - len(some))), *of)
        else:
            params = (some, *of)
        yield from unit.driver.execute(sql[unit.dialect], params).fetchall()


def known(unit: Unit, tenant: str, names: Sequence[str], keys: Sequence[bytes]) -> dict[bytes, Known]:
    """What these streams hold under these ids. A single look-up in four streams takes the fast way."""
    if len(keys) == 1 and len(names) == 4:
        home, audit, subject, shared = names
        params = {
            "of_tenant": tenant, "home": home, "audit": audit, "subject": subject, "shared": shared, "key": keys[0],
        }  # fmt: skip
        found = unit.run(_KNOWN_ONE, params).fetchall()
        return {row[1]: _known(unit, tenant, row[0], row[2:]) for row in found}
    held: dict[bytes, Known] = {}
    for at in range(0, len(names), _NAMES_AT_ONCE):
        some = [*names[at : at + _NAMES_AT_ONCE], *([names[-1]] * _NAMES_AT_ONCE)][:_NAMES_AT_ONCE]
        for name, key, *found in _each(unit, _HELD, keys, tenant, *some):
            held[key] = _known(unit, tenant, name, found)
    return held


def _known(unit: Unit, tenant: str, name: str, found: Sequence[Any]) -> Known:
    seq, kind, version, payload = found
    return Known(name, seq, kind, version, subject_keys.payload(unit, tenant, payload))


_ALWAYS = ("seq", "event_id", "kind", "schema_version", "payload", "salt", "payload_hash", "digest")
_SOMETIMES = ("occurred_at", "actor", "run_id", "causation_id", "correlation_id", "origin")
_said_along = attrgetter(*_SOMETIMES)


@lru_cache
def _insert(names: tuple[str, ...]) -> Bulk:
    """Empty columns are left out: a driver takes as long for one as for a full one."""
    return Bulk(events, ("tenant", "stream", "recorded_at"), (*_ALWAYS, *names))


def write(unit: Unit, row: StreamRow, new: Sequence[NewEvent], recorded_at: int, owner: str | None = None) -> bytes:
    """Insert the events after the head of `row`, chained; the new head digest. The caller moves the head.

    The payloads are sealed for `owner`, a subject, if the store seals."""
    if not new:
        return row.digest
    chain, rows = Chain(row.tenant, row.stream_id, row.digest), []
    keep = _sealer(unit, row.tenant, owner)
    columns = zip(_SOMETIMES, zip(*map(_said_along, new), strict=True), strict=True)
    told = {name: column for name, column in columns if column.count(None) < len(new)}
    along = list(zip(*told.values(), strict=True)) or [()] * len(new)
    salts = os.urandom(SALT_BYTES * len(new))
    for place, event in enumerate(new):
        seq, salt = row.head + place + 1, salts[place * SALT_BYTES : (place + 1) * SALT_BYTES]
        hashed = payload_hash(salt, event.payload)
        digest = chain.follow(seq, recorded_at, event, hashed)
        kept = keep(event.payload, salt)
        rows.append((seq, event.key, event.kind, event.schema_version, *kept, hashed, digest, *along[place]))
    _insert(tuple(told)).run(unit, (row.tenant, row.number, recorded_at), rows)
    return chain.digest


_RESTORE = Bulk(events, ("tenant", "stream"), _FIELDS)


Kept = tuple[bytes | None, bytes | None]
"""The columns `payload` and `salt`."""


def _sealer(unit: Unit, tenant: str, owner: str | None) -> Callable[[bytes | None, bytes | None], Kept]:
    if owner is None or not unit.sealing.on:
        return lambda payload, salt: (payload, salt)
    name, key = subject_keys.of(unit, tenant, owner)
    return lambda payload, salt: (None, None) if payload is None else (seal(name, key, salt or b"", payload), None)


def restore(unit: Unit, row: StreamRow, found: Sequence[StoredEvent], owner: str | None = None) -> bytes:
    """Insert events that were written elsewhere behind the head of `row`: with their ids, times, salts and hashes, in
    the chain of this stream. The new head digest; the caller moves the head.

    What is sealed stays sealed with the key that it has: a copy is erased with the original."""
    chain, rows = Chain(row.tenant, row.stream_id, row.digest), []
    keep = _sealer(unit, row.tenant, owner)
    for seq, event in enumerate(found, row.head + 1):
        digest = chain.follow(seq, event.recorded_at, event, event.payload_hash)
        kept = keep(event.payload, event.salt) if event.sealed is None else (event.sealed, None)
        rows.append(
            (
                seq, event.key, event.kind, event.schema_version, event.recorded_at, event.occurred_at, event.actor,
                event.run_id, event.causation_id, event.correlation_id, event.origin, *kept,
                event.payload_hash, digest,
            )
        )  # fmt: skip
    _RESTORE.run(unit, (row.tenant, row.number), rows)
    return chain.digest


_AFTER = Prepared(
    lambda dialect: (
        sa.select(*_COLUMNS)
        .where(
            events.c.tenant == bindparam("of_tenant"),
            events.c.stream == bindparam("of_stream"),
            events.c.seq > bindparam("after"),
            events.c.seq <= bindparam("upto"),
        )
        .order_by(events.c.seq)
        .limit(bindparam("most"))
    )
)

NO_END = 2**62


def after(unit: Unit, tenant: str, stream: int, seq: int, limit: int, upto: int = NO_END) -> list[StoredEvent]:
    """The stored events after `seq`, in order."""
    params = {"of_tenant": tenant, "of_stream": stream, "after": seq, "upto": upto, "most": limit}
    return [_stored(unit, tenant, found) for found in unit.run(_AFTER, params).fetchall()]


def at(unit: Unit, tenant: str, stream: int, seqs: Collection[int]) -> list[StoredEvent]:
    query = sa.select(*_COLUMNS).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.seq.in_(sorted(seqs))
    )
    return [_stored(unit, tenant, found) for found in unit.execute(query.order_by(events.c.seq))]


def under(unit: Unit, tenant: str, stream: int, keys: Collection[bytes]) -> list[StoredEvent]:
    """The events under these ids."""
    query = sa.select(*_COLUMNS).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.event_id.in_(keys)
    )
    return [_stored(unit, tenant, found) for found in unit.execute(query.order_by(events.c.seq))]


def wherever(unit: Unit, tenant: str, ids: Collection[str]) -> list[tuple[str, StoredEvent]]:
    """The events under these ids in whatever streams of the tenant they stand, each with its stream."""
    keys = [pack_id(one) for one in ids if is_id(one)]
    found: dict[bytes, tuple[str, StoredEvent]] = {}
    for key in keys:
        for stream_id, number, _ in holders(unit, tenant, key)[:1]:
            for stored in under(unit, tenant, number, [key]):
                found[key] = stream_id, stored
    return [found[key] for key in keys if key in found]


def is_id(name: str) -> bool:
    try:
        return bool(pack_id(name))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Outline:
    """An event without what it says: `payload` is there for the kinds that were asked for, and `erased` tells when
    there is none any more."""

    seq: int
    key: bytes
    kind: str
    recorded_at: int
    payload: bytes | None
    erased: bool

    @property
    def event_id(self) -> str:
        return unpack_id(self.key)


def _outline(unit: Unit, tenant: str, found: Sequence[Any]) -> Outline:
    seq, key, kind, recorded_at, payload, erased = found
    return Outline(seq, key, kind, recorded_at, subject_keys.payload(unit, tenant, payload), bool(erased))


def named(
    unit: Unit, tenant: str, stream: int, keys: Sequence[bytes], after: int, upto: int, full: Collection[str] = ()
) -> Iterator[Outline]:
    """The events under these ids, wherever they stand, and all that stand after one seq up to another; with their
    payloads those of the kinds in `full`."""
    payload = sa.case((events.c.kind.in_(sorted(full)), events.c.payload))
    chosen = sa.select(
        events.c.seq, events.c.event_id, events.c.kind, events.c.recorded_at, payload, events.c.payload.is_(None)
    ).where(events.c.tenant == tenant, events.c.stream == stream)
    for start in range(0, len(keys), 500):
        for found in unit.execute(chosen.where(events.c.event_id.in_(keys[start : start + 500]))):
            yield _outline(unit, tenant, found)
    if after < upto:
        between = chosen.where(events.c.seq > after, events.c.seq <= upto)
        for found in unit.execute(between.order_by(events.c.seq)):
            yield _outline(unit, tenant, found)


def since(unit: Unit, tenant: str, stream: int, seq: int) -> list[StoredEvent]:
    """All events after `seq`, in order."""
    query = sa.select(*_COLUMNS).where(events.c.tenant == tenant, events.c.stream == stream, events.c.seq > seq)
    return [_stored(unit, tenant, found) for found in unit.execute(query.order_by(events.c.seq))]


def of_kind(unit: Unit, tenant: str, stream: int, kind: str) -> list[StoredEvent]:
    query = sa.select(*_COLUMNS).where(events.c.tenant == tenant, events.c.stream == stream, events.c.kind == kind)
    return [_stored(unit, tenant, found) for found in unit.execute(query.order_by(events.c.seq))]


def started(unit: Unit, tenant: str) -> dict[int, list[StoredEvent]]:
    """The `session.started` events of every stream of a tenant, in order. Goes through all of its events."""
    query = sa.select(events.c.stream, *_COLUMNS).where(events.c.tenant == tenant, events.c.kind == "session.started")
    found: dict[int, list[StoredEvent]] = {}
    for number, *row in unit.execute(query.order_by(events.c.stream, events.c.seq)):
        found.setdefault(number, []).append(_stored(unit, tenant, row))
    return found


def through(unit: Unit, tenant: str, stream: int, session: str, after: int) -> list[StoredEvent]:
    """The events after `after` that came into a stream through a session, in order."""
    mine = (events.c.tenant == tenant, events.c.stream == stream, events.c.seq > after)
    query = sa.select(*_COLUMNS).where(*mine, events.c.origin.is_not(None)).order_by(events.c.seq)
    found = (_stored(unit, tenant, one) for one in unit.execute(query))
    return [event for event in found if event.origin and event.origin.rpartition("@")[0] == session]


_MARKING = sa.text("events.kind IN ('output.flagged', 'snapshot.labelled')")


def marks(unit: Unit, tenant: str, stream: int | None) -> list[StoredEvent]:
    """The flags and labels of one audit stream, or of all, in the order in which they were set. They have an index."""
    query = sa.select(*_COLUMNS).where(events.c.tenant == tenant, _MARKING)
    if stream is not None:
        query = query.where(events.c.stream == stream)
    query = query.order_by(events.c.recorded_at, events.c.stream, events.c.seq)
    return [_stored(unit, tenant, found) for found in unit.execute(query)]


def holders(unit: Unit, tenant: str, key: bytes) -> list[tuple[str, int, int]]:
    """The streams that hold what an event of this id says, with its seq there: the one that it was written to, and the
    forks that copied it. One look-up in the index for each stream of the tenant."""
    query = (
        sa.select(streams.c.stream_id, streams.c.number, events.c.seq)
        .join(events, sa.and_(events.c.tenant == streams.c.tenant, events.c.stream == streams.c.number))
        .where(streams.c.tenant == tenant, events.c.event_id == key, events.c.payload.is_not(None))
    )
    return [(name, number, seq) for name, number, seq in unit.execute(query.order_by(streams.c.stream_id))]


def said(
    unit: Unit, tenant: str, stream: int, seqs: Collection[int], quoted: Collection[int]
) -> dict[int, tuple[str, Sequence[str | None]]]:
    """By seq the id of each event, and of the quoted ones the texts of their content parts."""
    found: dict[int, tuple[str, Sequence[str | None]]] = {}
    for _, seq, key in _each(unit, _IDS, sorted(set(seqs) - set(quoted)), tenant, stream):
        found[seq] = unpack_id(key), ()
    wanted = sorted(quoted)
    for start in range(0, len(wanted), 500):
        query = sa.select(events.c.seq, events.c.event_id, events.c.payload).where(
            events.c.tenant == tenant, events.c.stream == stream, events.c.seq.in_(wanted[start : start + 500])
        )
        for seq, key, stored in unit.execute(query):
            found[seq] = unpack_id(key), _part_texts(subject_keys.payload(unit, tenant, stored))
    return found


def _part_texts(payload: bytes | None) -> list[str | None]:
    data = parse_json(payload) if payload is not None else None
    parts = data.get("content", ()) if isinstance(data, dict) else ()
    return [part.get("text") for part in parts]


def fact(stored: StoredEvent) -> Event:
    """The stored event as the domain reads it."""
    payload = None
    if stored.payload is not None:
        payload = read_payload(stored.kind, stored.schema_version, parse_json(stored.payload))
    return Event(
        event_id=unpack_id(stored.key),
        seq=stored.seq,
        kind=stored.kind,
        payload=payload,
        recorded_at=stored.recorded_at,
        occurred_at=stored.occurred_at,
        actor=stored.actor,
        run_id=stored.run_id,
        causation_id=stored.causation_id,
        correlation_id=stored.correlation_id or stored.origin,
    )


def headers(unit: Unit, tenant: str, stream: int, upto: int) -> Iterator[Header]:
    """What `effective` needs of a stream: light, for the payloads of most kinds stay where they are."""
    mine = (events.c.tenant == tenant, events.c.stream == stream, events.c.seq <= upto)
    full = sa.select(*_COLUMNS).where(*mine, events.c.kind.in_(sorted(HEADER_KINDS)))
    payloads = {found.seq: fact(_stored(unit, tenant, found)).payload for found in unit.execute(full)}
    light = sa.select(events.c.seq, events.c.event_id, events.c.kind).where(*mine).order_by(events.c.seq)
    for seq, key, kind in unit.execute(light):
        yield Header(seq, unpack_id(key), kind, payloads.get(seq))


def of_kinds(unit: Unit, tenant: str, stream: int, kinds: Collection[str]) -> list[StoredEvent]:
    """The events of these kinds, in order."""
    query = sa.select(*_COLUMNS).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.kind.in_(sorted(kinds))
    )
    return [_stored(unit, tenant, found) for found in unit.execute(query.order_by(events.c.seq))]


def causes(unit: Unit, tenant: str, stream: int, kind: str, after: int) -> set[str]:
    """The causes that events of this kind after `after` name."""
    mine = (events.c.tenant == tenant, events.c.stream == stream, events.c.seq > after)
    query = sa.select(events.c.causation_id).where(*mine, events.c.kind == kind, events.c.causation_id.is_not(None))
    return set(unit.execute(query).scalars())


def payloads(unit: Unit, tenant: str, stream: int, ids: Collection[str]) -> list[tuple[int, bytes, bool]]:
    """Of these events the seq, the packed id, and whether the payload is gone."""
    found: list[tuple[int, bytes, bool]] = []
    keys = sorted(map(pack_id, ids))
    for at in range(0, len(keys), 500):
        query = sa.select(events.c.seq, events.c.event_id, events.c.payload.is_(None)).where(
            events.c.tenant == tenant, events.c.stream == stream, events.c.event_id.in_(keys[at : at + 500])
        )
        found += [(seq, key, bool(gone)) for seq, key, gone in unit.execute(query)]
    return found


def empty(unit: Unit, tenant: str, stream: int) -> list[tuple[int, bytes]]:
    """The seq and the packed id of every event whose payload is gone."""
    query = sa.select(events.c.seq, events.c.event_id).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.payload.is_(None)
    )
    return [(seq, key) for seq, key in unit.execute(query.order_by(events.c.seq))]


_REFOLDING = sa.text("events.kind IN ('context.rolled_back', 'event.redacted')")
"""As the index on them says it."""


def _any(*more: sa.ColumnElement[bool]) -> Prepared:
    def build(dialect: DialectName) -> sa.ClauseElement:
        mine = (events.c.tenant == bindparam("of_tenant"), events.c.stream == bindparam("of_stream"), _REFOLDING)
        between = (events.c.seq > bindparam("after"), events.c.seq <= bindparam("upto"))
        return sa.select(events.c.seq).where(*mine, *between, *more).limit(1)

    return Prepared(build)


_ANY_REFOLDS = _any()
_ANY_ERASES = _any(events.c.kind == "event.redacted")


def refolds(unit: Unit, tenant: str, stream: int, upto: int = NO_END, after: int = 0) -> bool:
    """Whether there is a rollback or an erasure after one seq, up to another."""
    params = {"of_tenant": tenant, "of_stream": stream, "after": after, "upto": upto}
    return unit.run(_ANY_REFOLDS, params).fetchone() is not None


def erases(unit: Unit, tenant: str, stream: int, after: int = 0) -> bool:
    """Whether there is an erasure after this seq."""
    params = {"of_tenant": tenant, "of_stream": stream, "after": after, "upto": NO_END}
    return unit.run(_ANY_ERASES, params).fetchone() is not None


def erase(unit: Unit, tenant: str, stream_id: str, key: bytes) -> None:
    """Erase one payload and its salt, and what recall keeps of it; the hash stays, so the chain still verifies."""
    number = sa.select(streams.c.number).where(streams.c.tenant == tenant, streams.c.stream_id == stream_id)
    erased = (
        sa.update(events)
        .where(events.c.tenant == tenant, events.c.stream == number.scalar_subquery(), events.c.event_id == key)
        .values(payload=None, salt=None)
        .returning(events.c.stream, events.c.seq)
    )
    for stream, seq in unit.execute(erased).all():
        passages.forget(unit, tenant, stream, seq - 1, seq)


def erase_between(unit: Unit, tenant: str, stream: int, after: int, upto: int) -> None:
    """Erase the payloads after one seq up to another, with their salts, and what recall keeps of them."""
    unit.execute(
        sa.update(events)
        .where(events.c.tenant == tenant, events.c.stream == stream, events.c.seq > after, events.c.seq <= upto)
        .values(payload=None, salt=None)
    )
    passages.forget(unit, tenant, stream, after, upto)


def ids(unit: Unit, tenant: str, stream: int, upto: int, after: int = 0) -> set[str]:
    """The ids of the events after one seq up to another."""
    query = sa.select(events.c.event_id).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.seq > after, events.c.seq <= upto
    )
    return set(map(unpack_id, unit.execute(query).scalars()))


def came_through(unit: Unit, tenant: str, stream: int, sessions: Collection[str]) -> list[StoredEvent]:
    """The events of a shared stream that came through one of these sessions, and still say something."""
    query = sa.select(*_COLUMNS).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.payload.is_not(None),
        events.c.origin.is_not(None), events.c.kind != "event.redacted",
    )  # fmt: skip
    found = (_stored(unit, tenant, row) for row in unit.execute(query.order_by(events.c.seq)))
    return [one for one in found if (one.origin or "").rpartition("@")[0] in sessions]


def broken_link(row: StreamRow, found: Sequence[StoredEvent], seq: int, digest: bytes) -> str | None:
    """What is wrong with these events as a continuation of (seq, digest); None when all is well."""
    chain = Chain(row.tenant, row.stream_id, digest)
    for event in found:
        if event.seq != seq + 1:
            return f"seq {seq + 1} is missing"
        if event.payload is not None and payload_hash(event.salt or b"", event.payload) != event.payload_hash:
            return f"the payload of seq {event.seq} was changed"
        if chain.follow(event.seq, event.recorded_at, event, event.payload_hash) != event.digest:
            return f"the digest of seq {event.seq} does not follow from what stands before it"
        seq = event.seq
    return None
