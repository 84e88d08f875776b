"""Documents: texts by hash, in compressed blocks that a slice can be read from; which session has which."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from domain.canonical import canonical_json
from workers.store.database import Bulk, Unit, insert
from workers.store.tables import document_blocks, documents, uploads

BLOCK = 65_536
"""Characters of a block; each but the last has as many."""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    document_id: str
    hash: bytes
    size: int
    chunks: int
    seq: int
    about: Mapping[str, Any]


def get(unit: Unit, tenant: str, stream: int, document_id: str) -> DocumentRow | None:
    query = sa.select(documents.c.hash, documents.c.size, documents.c.chunks, documents.c.seq, documents.c.about).where(
        documents.c.tenant == tenant, documents.c.stream == stream, documents.c.document_id == document_id
    )
    found = unit.execute(query).first()
    if found is None:
        return None
    name, size, count, seq, about = found
    return DocumentRow(document_id, name, size, count, seq, json.loads(about))


def hashes(unit: Unit, tenant: str, stream: int) -> dict[str, str]:
    """What the session has now: the hash of each document by its id."""
    query = sa.select(documents.c.document_id, documents.c.hash).where(
        documents.c.tenant == tenant, documents.c.stream == stream
    )
    return {name: hashed.hex() for name, hashed in unit.execute(query)}


def put(unit: Unit, tenant: str, stream: int, row: DocumentRow) -> None:
    """The session's document of this id is this one from now on."""
    values = {
        "hash": row.hash,
        "size": row.size,
        "chunks": row.chunks,
        "seq": row.seq,
        "about": canonical_json(row.about),
    }
    statement = insert(documents, unit.dialect).values(
        tenant=tenant, stream=stream, document_id=row.document_id, **values
    )
    keys = ["tenant", "stream", "document_id"]
    unit.execute(statement.on_conflict_do_update(index_elements=keys, set_=values))


def copy(unit: Unit, tenant: str, source: int, stream: int, upto: int) -> None:
    """What a session had up to a seq, another one has, too. Texts are kept by hash and need no copy."""
    held = sa.select(documents.c.document_id).where(
        documents.c.tenant == tenant, documents.c.stream == source, documents.c.seq <= upto
    )
    for name in unit.execute(held).scalars().all():
        row = get(unit, tenant, source, name)
        if row is not None:
            put(unit, tenant, stream, row)


_INSERT_BLOCK = Bulk(document_blocks, ("tenant", "hash"), ("start", "body"), keep=True)


def packed_block(text: str) -> bytes:
    return zlib.compress(text.encode(), 6)


def put_blocks(unit: Unit, tenant: str, name: bytes, first: int, blocks: Sequence[bytes]) -> None:
    """Store packed blocks; `first` is the number of the first one. What is there already stays."""
    rows = [((first + place) * BLOCK, body) for place, body in enumerate(blocks)]
    _INSERT_BLOCK.run(unit, (tenant, name), rows)


def read(unit: Unit, tenant: str, name: bytes, start: int, end: int | None) -> str:
    """The characters from `start` to before `end`."""
    first = start - start % BLOCK
    query = sa.select(document_blocks.c.body).where(
        document_blocks.c.tenant == tenant, document_blocks.c.hash == name, document_blocks.c.start >= first
    )
    if end is not None:
        query = query.where(document_blocks.c.start < end)
    found = unit.execute(query.order_by(document_blocks.c.start)).scalars()
    text = "".join(zlib.decompress(body).decode() for body in found)
    return text[start - first : None if end is None else max(0, end - first)]


def drop(unit: Unit, tenant: str, stream: int, seq: int | None = None) -> None:
    """Forget the documents of a session, or the one that its event at `seq` told of, and texts that no other has."""
    mine = [documents.c.tenant == tenant, documents.c.stream == stream]
    if seq is not None:
        mine.append(documents.c.seq == seq)
    hashes = set(unit.execute(sa.select(documents.c.hash).where(*mine)).scalars())
    unit.execute(sa.delete(documents).where(*mine))
    _drop_blocks(unit, tenant, hashes)


def _drop_blocks(unit: Unit, tenant: str, hashes: set[bytes]) -> None:
    for name in sorted(hashes):
        held = sa.select(documents.c.hash).where(documents.c.tenant == tenant, documents.c.hash == name)
        if unit.execute(held.limit(1)).first() is None:
            unit.execute(
                sa.delete(document_blocks).where(document_blocks.c.tenant == tenant, document_blocks.c.hash == name)
            )


# Uploads under way ----------------------------------------------------------------------------------------------------


def begin_upload(unit: Unit, tenant: str, name: bytes) -> None:
    """Note that blocks of this text are coming: what becomes of it is known only when the log tells of it."""
    statement = insert(uploads, unit.dialect).values(tenant=tenant, hash=name, started_at=unit.now())
    unit.execute(statement.on_conflict_do_update(index_elements=["tenant", "hash"], set_={"started_at": unit.now()}))


def end_upload(unit: Unit, tenant: str, name: bytes) -> None:
    unit.execute(sa.delete(uploads).where(uploads.c.tenant == tenant, uploads.c.hash == name))


def sweep_uploads(unit: Unit, tenant: str, before: int) -> int:
    """Delete the blocks of uploads that began before a time and were never finished; how many uploads those were."""
    query = sa.select(uploads.c.hash).where(uploads.c.tenant == tenant, uploads.c.started_at < before)
    left = set(unit.execute(query).scalars())
    _drop_blocks(unit, tenant, left)
    unit.execute(sa.delete(uploads).where(uploads.c.tenant == tenant, uploads.c.hash.in_(sorted(left))))
    return len(left)
