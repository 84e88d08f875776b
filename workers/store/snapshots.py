"""Snapshots: compiled prompts, immutable but for erasure. Their long texts are rows of their own, once per session."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import canonical_json, parse_json
from workers.store import packing
from workers.store.database import Prepared, Unit, insert
from workers.store.log import pack_id
from workers.store.models import pack, unpack
from workers.store.tables import snapshots, texts

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """What lists show of a snapshot. `about` holds mode, format, model, tokens, budget and anchors."""

    tenant: str
    id: str
    stream: int
    version: int
    parent: str | None
    view: str
    about: Json
    content_hash: str
    created_at: int
    redacted_at: int | None


_LISTED = (
    snapshots.c.tenant, snapshots.c.id, snapshots.c.stream, snapshots.c.version, snapshots.c.parent, snapshots.c.view,
    snapshots.c.about, snapshots.c.content_hash, snapshots.c.created_at, snapshots.c.redacted_at,
)  # fmt: skip


def _row(found: Any) -> SnapshotRow:
    values = list(found[:10])
    values[6] = parse_json(values[6])
    return SnapshotRow(*values)


# Reading --------------------------------------------------------------------------------------------------------------


def get(unit: Unit, tenant: str, snapshot_id: str) -> SnapshotRow | None:
    query = sa.select(*_LISTED).where(snapshots.c.tenant == tenant, snapshots.c.id == snapshot_id)
    found = unit.execute(query).first()
    return _row(found) if found else None


_ID_BY_KEY = Prepared(
    lambda dialect: sa.select(snapshots.c.id).where(
        snapshots.c.tenant == bindparam("of_tenant"),
        snapshots.c.stream == bindparam("of_stream"),
        snapshots.c.key == bindparam("of_key"),
    )
)


def id_by_key(unit: Unit, tenant: str, stream: int, key: bytes) -> str | None:
    """The snapshot that answers all requests of this key."""
    found = unit.run(_ID_BY_KEY, {"of_tenant": tenant, "of_stream": stream, "of_key": key}).fetchone()
    return str(found[0]) if found else None


def listing(unit: Unit, tenant: str, stream: int, limit: int, below: int | None) -> list[SnapshotRow]:
    """Newest first; `below` is the version where the last page ended."""
    query = sa.select(*_LISTED).where(snapshots.c.tenant == tenant, snapshots.c.stream == stream)
    if below is not None:
        query = query.where(snapshots.c.version < below)
    return [_row(found) for found in unit.execute(query.order_by(snapshots.c.version.desc()).limit(limit))]


_LAYOUT = Prepared(
    lambda dialect: sa.select(snapshots.c.layout).where(
        snapshots.c.tenant == bindparam("of_tenant"), snapshots.c.id == bindparam("of_id")
    )
)


def layout(unit: Unit, tenant: str, snapshot_id: str) -> Any:
    """The layout as JSON; None once it was erased."""
    found = unit.run(_LAYOUT, {"of_tenant": tenant, "of_id": snapshot_id}).fetchone()
    return parse_json(unpack(found[0])) if found and found[0] else None


def body(unit: Unit, row: SnapshotRow) -> Json | None:
    """Everything else that was stored; None once it was erased."""
    query = sa.select(snapshots.c.body).where(snapshots.c.tenant == row.tenant, snapshots.c.id == row.id)
    packed = unit.execute(query).scalar_one()
    if packed is None:
        return None
    found: Json = packing.unpack(packed, _texts(unit, row.tenant, row.stream, packing.hashes(packed)))
    return found


def _texts(unit: Unit, tenant: str, stream: int, wanted: Collection[bytes]) -> dict[bytes, str]:
    query = sa.select(texts.c.hash, texts.c.body).where(
        texts.c.tenant == tenant, texts.c.stream == stream, texts.c.hash.in_(wanted)
    )
    return {key: unpack(packed).decode("utf-8", "surrogatepass") for key, packed in unit.execute(query)}


# Writing --------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    "tenant", "id", "stream", "version", "parent", "view", "key", "about", "content_hash", "created_at", "layout",
    "body",
)  # fmt: skip
_INSERT = Prepared(lambda dialect: insert(snapshots, dialect).values({name: bindparam(name) for name in _COLUMNS}))
_INSERT_TEXT = Prepared(
    lambda dialect: (
        insert(texts, dialect)
        .values({name: bindparam(name) for name in ("tenant", "stream", "hash", "body")})
        .on_conflict_do_nothing()
    )
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot ready to be stored: packed outside of the transaction."""

    layout: bytes
    body: bytes
    texts: Mapping[bytes, str]


def packed(layout_json: Any, body_json: Json) -> Packed:
    packed_body, found = packing.pack(body_json)
    return Packed(pack(canonical_json(layout_json)), packed_body, found)


def put(unit: Unit, row: SnapshotRow, key: bytes | None, content: Packed) -> None:
    unit.run(
        _INSERT,
        {
            "tenant": row.tenant,
            "id": row.id,
            "stream": row.stream,
            "version": row.version,
            "parent": row.parent,
            "view": row.view,
            "key": key,
            "about": canonical_json(row.about),
            "content_hash": row.content_hash,
            "created_at": row.created_at,
            "layout": content.layout,
            "body": content.body,
        },
    )
    known = _known(unit, row.tenant, row.stream, content.texts.keys())
    unit.many(
        _INSERT_TEXT,
        [
            {
                "tenant": row.tenant,
                "stream": row.stream,
                "hash": name,
                "body": pack(text.encode("utf-8", "surrogatepass")),
            }
            for name, text in content.texts.items()
            if name not in known
        ],
    )


def _known(unit: Unit, tenant: str, stream: int, wanted: Collection[bytes]) -> set[bytes]:
    query = sa.select(texts.c.hash).where(
        texts.c.tenant == tenant, texts.c.stream == stream, texts.c.hash.in_(list(wanted))
    )
    return set(unit.execute(query).scalars())


# Erasing --------------------------------------------------------------------------------------------------------------


def erase_with(unit: Unit, tenant: str, event_id: str, session: int | None, now: int) -> list[str]:
    """Erase the snapshots that show what an event said, and the texts that no other one shows; their ids.

    `session` is the only one that can have shown it; None looks at all of the tenant's.
    """
    place = "instr(body, :key)" if unit.dialect == "sqlite" else "position(:key IN body)"
    query = sa.select(snapshots.c.id, snapshots.c.stream, snapshots.c.body, snapshots.c.layout).where(
        snapshots.c.tenant == tenant, sa.text(f"{place} > 0")
    )
    if session is not None:
        query = query.where(snapshots.c.stream == session)
    found = unit.execute(query, {"key": pack_id(event_id)}).all()
    erased = [row for row in found if _shows(event_id, row.body, row.layout)]
    for row in erased:
        gone = {"layout": None, "body": None, "redacted_at": now}
        unit.execute(sa.update(snapshots).where(snapshots.c.tenant == tenant, snapshots.c.id == row.id).values(gone))
    for stream in {row.stream for row in erased}:
        _drop_texts(unit, tenant, stream, {name for row in erased for name in packing.hashes(row.body)})
    return [row.id for row in erased]


def _shows(event_id: str, packed_body: bytes, packed_layout: bytes) -> bool:
    """Whether the event is in what was rendered or carried on, not only in the account of what was left out."""
    if event_id.encode() in unpack(packed_layout):
        return True
    told = packing.unpack(packed_body, defaultdict(str))["provenance"]
    return any(event_id in group for segment in told for group in (segment["events"], *segment.get("lines", ())))


def _drop_texts(unit: Unit, tenant: str, stream: int, candidates: set[bytes]) -> None:
    query = sa.select(snapshots.c.body).where(
        snapshots.c.tenant == tenant, snapshots.c.stream == stream, snapshots.c.body.is_not(None)
    )
    for kept in unit.execute(query).scalars():
        candidates -= set(packing.hashes(kept))
    unit.execute(
        sa.delete(texts).where(texts.c.tenant == tenant, texts.c.stream == stream, texts.c.hash.in_(sorted(candidates)))
    )
