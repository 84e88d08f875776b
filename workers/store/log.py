"""The events: written once, read in order. The only change the database allows is erasing a payload with its salt."""

import os
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import parse_json
from domain.digests import SALT_BYTES, next_digest, payload_hash
from domain.events import Event, read_payload
from domain.history import HEADER_KINDS, Header
from workers.store.database import Prepared, Unit, insert
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

    @property
    def event_id(self) -> str:
        return unpack_id(self.key)


_FIELDS = (
    "seq", "event_id", "kind", "schema_version", "recorded_at", "occurred_at", "actor", "run_id", "causation_id",
    "correlation_id", "origin", "payload", "salt", "payload_hash", "digest",
)  # fmt: skip
_COLUMNS = tuple(events.c[name] for name in _FIELDS)

_KNOWN = (events.c.event_id, events.c.seq, events.c.kind, events.c.schema_version, events.c.payload)

_JOINED = streams.join(events, sa.and_(events.c.tenant == streams.c.tenant, events.c.stream == streams.c.number))
_KNOWN_ONE = Prepared(
    lambda dialect: (
        sa.select(streams.c.stream_id, *_KNOWN)
        .select_from(_JOINED)
        .where(
            streams.c.tenant == bindparam("of_tenant"),
            events.c.tenant == bindparam("of_tenant"),
            streams.c.stream_id.in_([bindparam("home"), bindparam("audit"), bindparam("subject"), bindparam("shared")]),
            events.c.event_id == bindparam("key"),
        )
    )
)
AT_ONCE = 100
"""Ids that one statement looks up; of fewer, the last is repeated."""

_KNOWN_MANY = Prepared(
    lambda dialect: sa.select(*_KNOWN).where(
        events.c.tenant == bindparam("of_tenant"),
        events.c.stream == bindparam("of_stream"),
        events.c.event_id.in_([bindparam(f"key{place}") for place in range(AT_ONCE)]),
    )
)


def known(unit: Unit, tenant: str, names: Sequence[str], keys: Sequence[bytes]) -> dict[bytes, Known]:
    """What these streams hold under these ids. A single look-up in four streams takes the fast way."""
    if len(keys) == 1 and len(names) == 4:
        home, audit, subject, shared = names
        params = {
            "of_tenant": tenant, "home": home, "audit": audit, "subject": subject, "shared": shared, "key": keys[0],
        }  # fmt: skip
        found = unit.run(_KNOWN_ONE, params).fetchall()
        return {row[1]: Known(row[0], *row[2:]) for row in found}
    held: dict[bytes, Known] = {}
    query = sa.select(streams.c.stream_id, streams.c.number).where(
        streams.c.tenant == tenant, streams.c.stream_id.in_(names), streams.c.head > 0
    )
    for name, number in unit.execute(query).all():
        for at in range(0, len(keys), AT_ONCE):
            for row in unit.run(_KNOWN_MANY, _look_up(tenant, number, keys[at : at + AT_ONCE])).fetchall():
                held[row[0]] = Known(name, *row[1:])
    return held


def _look_up(tenant: str, number: int, keys: Sequence[bytes]) -> dict[str, Any]:
    params: dict[str, Any] = {f"key{place}": key for place, key in enumerate(keys)}
    params |= {f"key{place}": keys[-1] for place in range(len(keys), AT_ONCE)}
    return {**params, "of_tenant": tenant, "of_stream": number}


_INSERT = Prepared(
    lambda dialect: insert(events, dialect).values({name: bindparam(name) for name in ("tenant", "stream", *_FIELDS)})
)


def write(unit: Unit, row: StreamRow, new: Sequence[NewEvent], recorded_at: int) -> bytes:
    """Insert the events after the head of `row`, chained; the new head digest. The caller moves the head."""
    digest, params = row.digest, []
    salts = os.urandom(SALT_BYTES * len(new))
    for place, event in enumerate(new):
        seq, salt = row.head + place + 1, salts[place * SALT_BYTES : (place + 1) * SALT_BYTES]
        hashed = payload_hash(salt, event.payload)
        digest = next_digest(digest, envelope(row.tenant, row.stream_id, seq, recorded_at, event), hashed)
        params.append(
            {
                "tenant": row.tenant,
                "stream": row.number,
                "seq": seq,
                "event_id": event.key,
                "kind": event.kind,
                "schema_version": event.schema_version,
                "recorded_at": recorded_at,
                "occurred_at": event.occurred_at,
                "actor": event.actor,
                "run_id": event.run_id,
                "causation_id": event.causation_id,
                "correlation_id": event.correlation_id,
                "origin": event.origin,
                "payload": event.payload,
                "salt": salt,
                "payload_hash": hashed,
                "digest": digest,
            }
        )
    unit.many(_INSERT, params)
    return digest


def envelope(
    tenant: str, stream_id: str, seq: int, recorded_at: int, event: NewEvent | StoredEvent
) -> dict[str, str | int]:
    """What the digest covers besides the payload. Fields that are empty are left out."""
    fields: dict[str, str | int] = {
        "tenant": tenant,
        "stream_id": stream_id,
        "seq": seq,
        "event_id": event.key.hex(),
        "kind": event.kind,
        "schema_version": event.schema_version,
        "recorded_at": recorded_at,
    }
    if event.occurred_at is not None:
        fields["occurred_at"] = event.occurred_at
    if event.actor is not None:
        fields["actor"] = event.actor
    if event.run_id is not None:
        fields["run_id"] = event.run_id
    if event.causation_id is not None:
        fields["causation_id"] = event.causation_id
    if event.correlation_id is not None:
        fields["correlation_id"] = event.correlation_id
    if event.origin is not None:
        fields["origin"] = event.origin
    return fields


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
    return [StoredEvent(*found) for found in unit.run(_AFTER, params).fetchall()]


def at(unit: Unit, tenant: str, stream: int, seqs: Collection[int]) -> list[StoredEvent]:
    query = sa.select(*_COLUMNS).where(
        events.c.tenant == tenant, events.c.stream == stream, events.c.seq.in_(sorted(seqs))
    )
    return [StoredEvent(*found) for found in unit.execute(query.order_by(events.c.seq))]


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
    payloads = {found.seq: fact(StoredEvent(*found)).payload for found in unit.execute(full)}
    light = sa.select(events.c.seq, events.c.event_id, events.c.kind).where(*mine).order_by(events.c.seq)
    for seq, key, kind in unit.execute(light):
        yield Header(seq, unpack_id(key), kind, payloads.get(seq))


def holds_any(unit: Unit, tenant: str, stream: int, kinds: Collection[str], upto: int, after: int = 0) -> bool:
    """Whether there is an event of these kinds after one seq, up to another."""
    query = sa.select(events.c.seq).where(
        events.c.tenant == tenant,
        events.c.stream == stream,
        events.c.seq > after,
        events.c.seq <= upto,
        events.c.kind.in_(sorted(kinds)),
    )
    return unit.execute(query.limit(1)).first() is not None


def erase(unit: Unit, tenant: str, stream_id: str, key: bytes) -> None:
    """Erase one payload and its salt; the hash stays, so the chain still verifies."""
    number = sa.select(streams.c.number).where(streams.c.tenant == tenant, streams.c.stream_id == stream_id)
    unit.execute(
        sa.update(events)
        .where(events.c.tenant == tenant, events.c.stream == number.scalar_subquery(), events.c.event_id == key)
        .values(payload=None, salt=None)
    )


def broken_link(row: StreamRow, found: Sequence[StoredEvent], seq: int, digest: bytes) -> str | None:
    """What is wrong with these events as a continuation of (seq, digest); None when all is well."""
    for event in found:
        if event.seq != seq + 1:
            return f"seq {seq + 1} is missing"
        if event.payload is not None and payload_hash(event.salt or b"", event.payload) != event.payload_hash:
            return f"the payload of seq {event.seq} was changed"
        fields = envelope(row.tenant, row.stream_id, event.seq, event.recorded_at, event)
        digest = next_digest(digest, fields, event.payload_hash)
        if digest != event.digest:
            return f"the digest of seq {event.seq} does not follow from what stands before it"
        seq = event.seq
    return None
