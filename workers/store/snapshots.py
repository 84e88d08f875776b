"""Snapshots: compiled prompts, immutable but for erasure. Their long texts are rows of their own, once per session."""

import json
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import canonical_json, content_hash, parse_json
from workers.store import log, packing
from workers.store.columns import by_column, by_row
from workers.store.database import Bulk, Prepared, Unit, insert
from workers.store.kept import Kept
from workers.store.log import pack_id
from workers.store.streams import StreamRow
from workers.store.tables import snapshots, texts

Json = dict[str, Any]
Seqs = Mapping[str, int]
"""The places of events in their session, by id."""


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


def by_version(unit: Unit, tenant: str, stream: int, version: int) -> SnapshotRow | None:
    query = sa.select(*_LISTED).where(
        snapshots.c.tenant == tenant, snapshots.c.stream == stream, snapshots.c.version == version
    )
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


def rising(
    unit: Unit, tenant: str, stream: int | None, first: int, last: int | None, limit: int, after: tuple[int, int] | None
) -> list[SnapshotRow]:
    """By session and version, oldest first: those of one session or of all, after the (stream, version) given."""
    query = sa.select(*_LISTED).where(snapshots.c.tenant == tenant, snapshots.c.version >= first)
    if stream is not None:
        query = query.where(snapshots.c.stream == stream)
    if last is not None:
        query = query.where(snapshots.c.version <= last)
    if after is not None:
        place = (snapshots.c.stream, snapshots.c.version)
        query = query.where(sa.tuple_(*place) > sa.tuple_(*map(sa.literal, after)))
    return [_row(found) for found in unit.execute(query.order_by(snapshots.c.stream, snapshots.c.version).limit(limit))]


_BEFORE = Prepared(
    lambda dialect: (
        sa.select(*_LISTED)
        .where(
            snapshots.c.tenant == bindparam("of_tenant"),
            snapshots.c.stream == bindparam("of_stream"),
            snapshots.c.version < bindparam("below"),
        )
        .order_by(snapshots.c.version.desc())
        .limit(1)
    )
)


def before(unit: Unit, tenant: str, stream: int, version: int) -> SnapshotRow | None:
    """The session's snapshot before this version."""
    found = unit.run(_BEFORE, {"of_tenant": tenant, "of_stream": stream, "below": version}).fetchone()
    return _row(found) if found else None


_LAYOUT = Prepared(
    lambda dialect: sa.select(snapshots.c.layout).where(
        snapshots.c.tenant == bindparam("of_tenant"), snapshots.c.id == bindparam("of_id")
    )
)


def layout(unit: Unit, tenant: str, stream: int, snapshot_id: str) -> Any:
    """The layout as JSON; None once it was erased."""
    return carried(unit, tenant, stream, snapshot_id)[0]


def carried(unit: Unit, tenant: str, stream: int, snapshot_id: str) -> tuple[Any, Seqs]:
    """The layout, and the seqs of the events that it names, as far as they are known without looking them up."""
    found = unit.run(_LAYOUT, {"of_tenant": tenant, "of_id": snapshot_id}).fetchone()
    if not found or not found[0]:
        return None, {}
    packed = found[0]
    if (known := _packed_last.get((tenant, stream, packed))) is not None:
        return known
    texts = stored_texts(unit, tenant, stream, packing.reference_hashes(packed))
    opened = packing.opened(packed, texts)
    named = said(unit, tenant, stream, opened)
    return json.loads(opened.filled(texts, named)), {event_id: seq for seq, (event_id, _) in named.items()}


def body(unit: Unit, row: SnapshotRow) -> Json | None:
    """Everything else that was stored; None once it was erased, or if the key to what it shows is gone."""
    query = sa.select(snapshots.c.body).where(snapshots.c.tenant == row.tenant, snapshots.c.id == row.id)
    packed = unit.execute(query).scalar_one()
    if packed is None:
        return None
    key = (row.tenant, row.stream, packed)
    text = _opened_last.get(key)
    if text is None:
        try:
            text = _filled(unit, row.tenant, row.stream, packed)
        except packing.Unreadable:
            return None
        _opened_last.put(key, text, len(text) + len(packed))
    return _told(json.loads(text))


def _kept(body: Json) -> Json:
    """The body as it is stored: the units of its report by column. Raises ValueError when they are no rows."""
    units = body["report"]["units"]
    if not isinstance(units, list) or not all(isinstance(one, dict) for one in units):
        raise ValueError("report.units")
    return {**body, "report": {**body["report"], "units": by_column(units)}}


def _told(found: Json) -> Json:
    """The body that was stored. Those of earlier releases have the units by row."""
    units = found["report"]["units"]
    if isinstance(units, dict):
        found["report"]["units"] = by_row(units)
    return found


def bodies(unit: Unit, tenant: str, ids: Collection[str]) -> dict[str, bytes | None]:
    """The packed bodies by id, None where one was erased."""
    query = sa.select(snapshots.c.id, snapshots.c.body).where(snapshots.c.tenant == tenant, snapshots.c.id.in_(ids))
    return {found.id: found.body for found in unit.execute(query)}


def _value(unit: Unit, tenant: str, stream: int, packed: bytes) -> Any:
    # Parsed anew for each caller, who may do with it what he likes.
    return json.loads(_filled(unit, tenant, stream, packed))


def _filled(unit: Unit, tenant: str, stream: int, packed: bytes) -> str:
    texts = stored_texts(unit, tenant, stream, packing.reference_hashes(packed))
    found = packing.opened(packed, texts)
    return found.filled(texts, said(unit, tenant, stream, found))


def said(unit: Unit, tenant: str, stream: int, found: packing.Packed) -> dict[int, tuple[str, Sequence[str | None]]]:
    """What the log holds of all that a packed value names."""
    return log.said(unit, tenant, stream, found.seqs(), found.quoted())


def stored_texts(unit: Unit, tenant: str, stream: int, wanted: Collection[bytes]) -> dict[bytes, str]:
    if not wanted:
        return {}
    query = sa.select(texts.c.hash, texts.c.body).where(
        texts.c.tenant == tenant, texts.c.stream == stream, texts.c.hash.in_(list(wanted))
    )
    return {key: packing.unsqueeze(packed).decode("utf-8", "surrogatepass") for key, packed in unit.execute(query)}


def unreadable(unit: Unit, tenant: str, stream: int) -> list[str]:
    """Snapshots whose body cannot be opened, or holds another payload than the one that was hashed."""
    query = sa.select(*_LISTED, snapshots.c.body).where(
        snapshots.c.tenant == tenant, snapshots.c.stream == stream, snapshots.c.body.is_not(None)
    )
    return [found.id for found in unit.execute(query.order_by(snapshots.c.version)) if not _is_whole(unit, found)]


def _is_whole(unit: Unit, found: Any) -> bool:
    try:
        body = _value(unit, found.tenant, found.stream, found.body)
        return bool(content_hash(body["payload"]) == found.content_hash)
    except (KeyError, IndexError, ValueError, TypeError, zlib.error, struct.error):
        return False


def showing(unit: Unit, home: StreamRow, events: Collection[str]) -> list[str]:
    """Snapshots of a session that show one of these events, by its place there or by its id."""
    if not events:
        return []
    seqs = {seq for seq, _, _ in log.payloads(unit, home.tenant, home.number, events)}
    query = sa.select(snapshots.c.id, snapshots.c.layout, snapshots.c.body).where(
        snapshots.c.tenant == home.tenant, snapshots.c.stream == home.number, snapshots.c.body.is_not(None)
    )
    found = ((row.id, _Shown.of(unit, home.tenant, home.number, row)) for row in unit.execute(query))
    return [name for name, shown in found if any(shown.shows("", seq) for seq in seqs) or shown.names(events)]


# Writing --------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    "tenant", "id", "stream", "version", "parent", "view", "key", "about", "content_hash", "created_at", "layout",
    "body",
)  # fmt: skip
_INSERT = Prepared(lambda dialect: insert(snapshots, dialect).values({name: bindparam(name) for name in _COLUMNS}))
_INSERT_TEXT = Bulk(texts, ("tenant", "stream"), ("hash", "body"), keep=True)


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot ready to be stored: packed outside of the transaction."""

    layout: bytes
    body: bytes
    texts: Mapping[bytes, str]


# The layouts packed last, for the next prompt of a view need not unpack the one before; and the bodies opened last, as
# text. Both by their bytes, which are read from the store first, so that what was erased is not found here.
_packed_last = Kept[tuple[str, int, bytes], tuple[Any, Seqs]](64)
_opened_last = Kept[tuple[str, int, bytes], str](64, 24 * 1024 * 1024)


def packed(home: tuple[str, int], layout_json: Any, body_json: Json, log: Mapping[str, packing.Said]) -> Packed:
    """`home` is the tenant and the stream, `log` has events of the session by id: those that the prompt shows, and
    those that the layouts before it named."""
    packed_body, found = packing.pack(_kept(body_json), log)
    # Of the layout no text is looked up but the one that it repeats, for the next compile of the view waits for it.
    named = {one: log[one] for one in packing.strings(layout_json) if one in log}
    places = {one: packing.Said(said.seq) for one, said in named.items()}
    packed_layout, more = packing.pack(layout_json, places, packing.repeated(layout_json, list(found.values())))
    _packed_last.put((*home, packed_layout), (layout_json, {one: said.seq for one, said in places.items()}))
    return Packed(packed_layout, packed_body, {**found, **more})


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
    new = [
        (name, packing.squeeze(text.encode("utf-8", "surrogatepass")))
        for name, text in content.texts.items()
        if name not in known
    ]
    _INSERT_TEXT.run(unit, (row.tenant, row.stream), new)


def _known(unit: Unit, tenant: str, stream: int, wanted: Collection[bytes]) -> set[bytes]:
    if not wanted:
        return set()
    query = sa.select(texts.c.hash).where(
        texts.c.tenant == tenant, texts.c.stream == stream, texts.c.hash.in_(list(wanted))
    )
    return set(unit.execute(query).scalars())


def strip(unit: Unit, row: SnapshotRow, body_json: Json) -> tuple[int, set[bytes]]:
    """Put a smaller body in the place of the stored one. The bytes freed, and the texts that it no longer needs."""
    mine = (snapshots.c.tenant == row.tenant, snapshots.c.id == row.id)
    before = unit.execute(sa.select(snapshots.c.body).where(*mine)).scalar_one()
    named = said(unit, row.tenant, row.stream, packing.opened(before))
    after, found = packing.pack(_kept(body_json), {event_id: packing.Said(seq) for seq, (event_id, _) in named.items()})
    unit.execute(sa.update(snapshots).where(*mine).values(body=after))
    known = _known(unit, row.tenant, row.stream, found.keys())
    missing = ((name, text) for name, text in found.items() if name not in known)
    new = [(name, packing.squeeze(text.encode("utf-8", "surrogatepass"))) for name, text in missing]
    _INSERT_TEXT.run(unit, (row.tenant, row.stream), new)
    return len(before) - len(after), set(packing.reference_hashes(before)) - found.keys()


def drop_texts(unit: Unit, tenant: str, stream: int, candidates: set[bytes]) -> None:
    """Of these texts, those that no snapshot of the session needs go."""
    if candidates:
        _drop_texts(unit, tenant, stream, candidates)


# Erasing --------------------------------------------------------------------------------------------------------------


def erase_with(unit: Unit, tenant: str, session: int, event_id: str, seq: int | None, now: int) -> list[str]:
    """Erase the snapshots that show what an event said, and the texts that no other one shows; their ids.

    `seq` is the event's place in the session, if it is one of the session's own. What a subject, a tenant or a parent
    session says may stand in the prompts of any session.
    """
    place = "instr(body, :key)" if unit.dialect == "sqlite" else "position(:key IN body)"
    named = sa.text(f"{place} > 0").bindparams(key=pack_id(event_id))
    query = sa.select(snapshots.c.id, snapshots.c.stream, snapshots.c.body, snapshots.c.layout).where(
        snapshots.c.tenant == tenant,
        snapshots.c.body.is_not(None),
        named if seq is None else sa.or_(named, snapshots.c.stream == session),
    )
    found = unit.execute(query).all()
    erased = [
        row
        for row in found
        if _Shown.of(unit, tenant, row.stream, row).shows(event_id, seq if row.stream == session else None)
    ]
    for row in erased:
        gone = {"layout": None, "body": None, "redacted_at": now}
        unit.execute(sa.update(snapshots).where(snapshots.c.tenant == tenant, snapshots.c.id == row.id).values(gone))
    for stream in {row.stream for row in erased}:
        mine = [row for row in erased if row.stream == stream]
        _drop_texts(unit, tenant, stream, {name for row in mine for name in _all_hashes(row)})
    return [row.id for row in erased]


def _all_hashes(row: Any) -> list[bytes]:
    return [*packing.reference_hashes(row.body), *packing.reference_hashes(row.layout)]


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a snapshot shows: what was rendered or carried on, not what it only accounts for as left out."""

    carried: packing.Packed | None
    found: packing.Packed

    @classmethod
    def of(cls, unit: Unit, tenant: str, stream: int, row: Any) -> "_Shown":
        key = packing.dictionary_hash(row.layout)
        try:
            texts = stored_texts(unit, tenant, stream, [key]) if key else None
            return cls(packing.opened(row.layout, texts), packing.opened(row.body))
        except packing.Unreadable:
            return cls(None, packing.opened(row.body))

    def shows(self, event_id: str, seq: int | None) -> bool:
        # What cannot be read any more may have shown anything.
        if self.carried is None or seq in self.carried.seqs() or event_id in self.carried.ids:
            return True
        shown = self.found.part("provenance")
        return seq in shown.seqs() or any(self.found.ids[place] == event_id for place in shown.places())

    def names(self, events: Collection[str]) -> bool:
        """Whether it shows one of these, wherever that stands, by its id."""
        return any(self.shows(event_id, None) for event_id in set(events) & set(self.found.ids))


def _drop_texts(unit: Unit, tenant: str, stream: int, candidates: set[bytes]) -> None:
    query = sa.select(snapshots.c.body, snapshots.c.layout).where(
        snapshots.c.tenant == tenant, snapshots.c.stream == stream, snapshots.c.body.is_not(None)
    )
    for kept in unit.execute(query):
        candidates -= set(_all_hashes(kept))
    unit.execute(
        sa.delete(texts).where(texts.c.tenant == tenant, texts.c.stream == stream, texts.c.hash.in_(sorted(candidates)))
    )


def erase_all(unit: Unit, tenant: str, stream: int, now: int) -> list[str]:
    """Erase every snapshot of a session, and the texts of all; their ids."""
    mine = (snapshots.c.tenant == tenant, snapshots.c.stream == stream, snapshots.c.body.is_not(None))
    found = list(unit.execute(sa.select(snapshots.c.id).where(*mine)).scalars())
    unit.execute(sa.update(snapshots).where(*mine).values(layout=None, body=None, redacted_at=now))
    unit.execute(sa.delete(texts).where(texts.c.tenant == tenant, texts.c.stream == stream))
    return found


def erase_these(unit: Unit, tenant: str, stream: int, ids: Collection[str], now: int) -> None:
    """Erase these snapshots of a session, and the texts that no other one shows."""
    mine = (snapshots.c.tenant == tenant, snapshots.c.stream == stream, snapshots.c.id.in_(list(ids)))
    rows = unit.execute(sa.select(snapshots.c.layout, snapshots.c.body).where(*mine)).all()
    unit.execute(sa.update(snapshots).where(*mine).values(layout=None, body=None, redacted_at=now))
    _drop_texts(unit, tenant, stream, {name for row in rows for name in _all_hashes(row)})
