"""Stream rows: the head that orders a stream, its digest, and what lists and routing need."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import canonical_json
from domain.digests import GENESIS
from workers.store.database import DialectName, Prepared, Unit, insert
from workers.store.tables import streams


@dataclass(frozen=True, slots=True)
class StreamRow:
    """`number` stands for the stream inside the database; `updated_at` is the newest event's `recorded_at`."""

    tenant: str
    stream_id: str
    number: int
    head: int
    digest: bytes
    about: Mapping[str, Any]
    version: int
    created_at: int
    updated_at: int

    @property
    def name(self) -> str:
        return self.stream_id.split("/", 1)[1]


_COLUMNS = (
    streams.c.tenant, streams.c.stream_id, streams.c.number, streams.c.head, streams.c.head_digest, streams.c.about,
    streams.c.version, streams.c.created_at, streams.c.updated_at,
)  # fmt: skip


def _row(found: Any) -> StreamRow:
    about = json.loads(found[5]) if found[5] != b"{}" else {}
    return StreamRow(found[0], found[1], found[2], found[3], found[4], about, found[6], found[7], found[8])


def _get(dialect: DialectName) -> sa.ClauseElement:
    return sa.select(*_COLUMNS).where(
        streams.c.tenant == bindparam("tenant"), streams.c.stream_id == bindparam("stream_id")
    )


_GET = Prepared(_get)
_LOCK = Prepared(lambda dialect: _get(dialect).with_for_update())  # type: ignore[attr-defined]


def get(unit: Unit, tenant: str, stream_id: str) -> StreamRow | None:
    found = unit.run(_GET, {"tenant": tenant, "stream_id": stream_id}).fetchone()
    return _row(found) if found else None


_BY_NUMBER = Prepared(
    lambda dialect: sa.select(*_COLUMNS).where(
        streams.c.tenant == bindparam("tenant"), streams.c.number == bindparam("number")
    )
)


def by_number(unit: Unit, tenant: str, number: int) -> StreamRow | None:
    found = unit.run(_BY_NUMBER, {"tenant": tenant, "number": number}).fetchone()
    return _row(found) if found else None


_HEAD = Prepared(
    lambda dialect: sa.select(streams.c.head).where(
        streams.c.tenant == bindparam("tenant"), streams.c.number == bindparam("number")
    )
)


def head(unit: Unit, tenant: str, number: int) -> int:
    found = unit.run(_HEAD, {"tenant": tenant, "number": number}).fetchone()
    return int(found[0]) if found else 0


def _new(dialect: DialectName) -> sa.ClauseElement:
    given = ("tenant", "stream_id", "kind", "head_digest", "about", "created_at")
    values: dict[str, Any] = {name: bindparam(name) for name in given}
    values |= {"head": 0, "version": 0, "updated_at": bindparam("created_at")}
    if dialect == "sqlite":
        # The write lock is held: nobody else takes the same number.
        values["number"] = sa.select(sa.func.coalesce(sa.func.max(streams.c.number), 0) + 1).scalar_subquery()
    return insert(streams, dialect).values(values).on_conflict_do_nothing()  # type: ignore[no-any-return]


_NEW = Prepared(_new)


def lock(unit: Unit, tenant: str, stream_id: str, now: int) -> StreamRow:
    """The stream's row, made if there is none, held until the end of the unit."""
    key = {"tenant": tenant, "stream_id": stream_id}
    found = unit.run(_LOCK, key).fetchone()
    if found is None:
        kind = stream_id.split("/", 1)[0]
        unit.run(_NEW, {**key, "kind": kind, "head_digest": GENESIS, "about": b"{}", "created_at": now})
        found = unit.run(_LOCK, key).fetchone()
    return _row(found)


_MOVE = Prepared(
    lambda dialect: (
        sa.update(streams)
        .where(
            streams.c.tenant == bindparam("in_tenant"),
            streams.c.stream_id == bindparam("of_stream"),
            streams.c.head == bindparam("from_head"),
        )
        .values(
            head=bindparam("to_head"),
            head_digest=bindparam("digest"),
            about=bindparam("new_about"),
            subject=bindparam("of_subject"),
            updated_at=bindparam("at"),
        )
    )
)


def move(unit: Unit, row: StreamRow, head: int, digest: bytes, about: Mapping[str, Any], at: int) -> bool:
    """Set the head from the one that `row` has; false if it is no longer that."""
    return bool(moved(unit, row, head, digest, about, at).rowcount == 1)


def moved(unit: Unit, row: StreamRow, head: int, digest: bytes, about: Mapping[str, Any], at: int) -> Any:
    """The same, as a cursor that has moved one row or none: to be asked once the answer is there."""
    params = {
        "in_tenant": row.tenant, "of_stream": row.stream_id, "from_head": row.head, "to_head": head, "digest": digest,
        "new_about": canonical_json(about) if about else b"{}", "of_subject": about.get("subject"), "at": at,
    }  # fmt: skip
    return unit.run(_MOVE, params)


_COUNT_VERSION = Prepared(
    lambda dialect: (
        sa.update(streams)
        .where(streams.c.tenant == bindparam("in_tenant"), streams.c.stream_id == bindparam("of_stream"))
        .values(version=streams.c.version + 1)
        .returning(streams.c.version)
    )
)


def next_version(unit: Unit, row: StreamRow) -> int:
    """Count one snapshot more in this session."""
    found = unit.run(_COUNT_VERSION, {"in_tenant": row.tenant, "of_stream": row.stream_id}).fetchone()
    return int(found[0])


def raise_version(unit: Unit, row: StreamRow, version: int) -> None:
    """The session has had so many snapshots at least."""
    mine = (streams.c.tenant == row.tenant, streams.c.stream_id == row.stream_id, streams.c.version < version)
    unit.execute(sa.update(streams).where(*mine).values(version=version))


def listing(unit: Unit, tenant: str, kind: str, limit: int, below: int | None) -> list[StreamRow]:
    """Newest first; `below` is the number where the last page ended."""
    query = sa.select(*_COLUMNS).where(streams.c.tenant == tenant, streams.c.kind == kind)
    if below is not None:
        query = query.where(streams.c.number < below)
    return [_row(found) for found in unit.execute(query.order_by(streams.c.number.desc()).limit(limit))]


def every(unit: Unit, after: int, limit: int) -> list[StreamRow]:
    """All streams of all tenants by number, for checks of the whole store."""
    query = sa.select(*_COLUMNS).where(streams.c.number > after).order_by(streams.c.number).limit(limit)
    return [_row(found) for found in unit.execute(query)]


def total(unit: Unit, tenant: str | None = None) -> tuple[int, int]:
    """How many streams there are, and how many events in them."""
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(streams.c.head), 0))
    if tenant is not None:
        query = query.where(streams.c.tenant == tenant)
    count, events = unit.execute(query).one()
    return int(count), int(events)


def tenants(unit: Unit) -> list[str]:
    """Everyone who has a stream."""
    return list(unit.execute(sa.select(streams.c.tenant).distinct().order_by(streams.c.tenant)).scalars())
