"""Documents: long material that goes around the log's payload limit. The log gets one event with hash and offsets."""

import codecs
import hashlib
import uuid
from collections.abc import Iterable
from typing import Any

from domain.errors import InvalidRequest, PayloadTooLarge, UnknownDocument
from workers.engine import append
from workers.engine.chunking import chunks
from workers.engine.deps import Deps
from workers.engine.drafts import checked_name
from workers.engine.prompts import NAMESPACE
from workers.engine.reading import session_row
from workers.store import EVERY, documents, streams
from workers.store.documents import BLOCK, DocumentRow

Json = dict[str, Any]

LIMIT = 64 * 1024 * 1024
MEDIA_TYPES = ("text/plain", "text/markdown")
LONGEST_TITLE = 1000
ABANDONED = 24 * 3600.0
"""Seconds after which an upload is not finished any more."""

AT_ONCE = 16
"""Blocks written in one transaction."""


def put(
    deps: Deps, tenant: str, session: str, document_id: str, body: Iterable[bytes], title: str | None,
    source: str | None, media_type: str | None,
) -> Json:  # fmt: skip
    """Store the text, then tell the log. The same text under the same id again changes nothing."""
    checked_name(session, "session")
    checked_name(document_id, "document")
    kind = _media_type(media_type)
    text, size, name = _read(body)
    about = {"title": _short(title, "title"), "source": _short(source, "source"), "media_type": kind}
    before = _stored(deps, tenant, session, document_id)
    if before is not None and before.hash == name and before.about == about:
        return _shown(before)
    _write_blocks(deps, tenant, name, text)
    found = chunks(text, deps.tokens.counter("o200k_base"), markdown=kind == "text/markdown")
    payload = {
        "document_id": document_id, **about, "hash": name.hex(), "size": size, "first_line": _first_line(text),
        "chunks": [{"start": one.start, "end": one.end, "heading": one.heading} for one in found],
    }  # fmt: skip
    event = {"kind": "document.attached", "event_id": _event_id(tenant, session, payload, before), "payload": payload}
    receipt = append.append(deps, tenant, session, [event], trusted=True)["events"][0]
    row = DocumentRow(document_id, name, size, len(found), receipt["seq"], about)
    with deps.database.write(tenant) as unit:
        home = session_row(unit, tenant, session)
        documents.put(unit, tenant, home.number, row)
        documents.end_upload(unit, tenant, row.hash)
    return _shown(row)


def get(deps: Deps, tenant: str, session: str, document_id: str, start: int = 0, end: int | None = None) -> str:
    """A slice by characters. Raises UnknownDocument."""
    if start < 0 or (end is not None and end < start):
        raise InvalidRequest("from, to: character offsets, from 0 on and in order.", path="from")
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        row = documents.get(unit, tenant, home.number, checked_name(document_id, "document"))
        if row is None:
            raise UnknownDocument(f"No document {document_id!r} in this session.", document=document_id)
        return documents.read(unit, tenant, row.hash, start, end)


def sweep_uploads(deps: Deps, older_than: float = ABANDONED) -> int:
    """Delete what uploads left behind that nobody finished within so many seconds; how many those were."""
    with deps.database.read(EVERY) as unit:
        tenants = streams.tenants(unit)
    swept = 0
    for tenant in tenants:
        with deps.database.write(tenant) as unit:
            swept += documents.sweep_uploads(unit, tenant, unit.now() - int(older_than * 1_000_000))
    return swept


def _stored(deps: Deps, tenant: str, session: str, document_id: str) -> DocumentRow | None:
    with deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, f"session/{session}")
        return documents.get(unit, tenant, home.number, document_id) if home else None


def _shown(row: DocumentRow) -> Json:
    return {
        "document_id": row.document_id, "hash": row.hash.hex(), "size": row.size, "chunks": row.chunks, "seq": row.seq,
    }  # fmt: skip


def _media_type(given: str | None) -> str:
    kind = (given or "text/plain").split(";")[0].strip().lower()
    if kind not in MEDIA_TYPES:
        raise InvalidRequest(f"content-type: one of {', '.join(MEDIA_TYPES)}.", path="content-type")
    return kind


def _short(text: str | None, path: str) -> str:
    if text is not None and len(text) > LONGEST_TITLE:
        raise InvalidRequest(f"{path}: at most {LONGEST_TITLE} characters.", path=path)
    return text or ""


def _read(body: Iterable[bytes]) -> tuple[str, int, bytes]:
    """The text, its bytes and their hash. The limit holds while it comes in, not only afterwards."""
    decoder, digest = codecs.getincrementaldecoder("utf-8")(), hashlib.sha256()
    parts: list[str] = []
    size = 0
    try:
        for data in body:
            size += len(data)
            if size > LIMIT:
                raise PayloadTooLarge(f"A document has at most {LIMIT} bytes; split it.", limit=LIMIT)
            digest.update(data)
            parts.append(decoder.decode(data))
        parts.append(decoder.decode(b"", final=True))
    except UnicodeDecodeError:
        raise InvalidRequest("The document is not UTF-8 text.", path="body") from None
    return "".join(parts), size, digest.digest()


def _write_blocks(deps: Deps, tenant: str, name: bytes, text: str) -> None:
    """Blocks of an unfinished upload do no harm: they are found by hash, and only once the log tells of it."""
    starts = range(0, max(1, len(text)), BLOCK)
    with deps.database.write(tenant) as unit:
        documents.begin_upload(unit, tenant, name)
    for at in range(0, len(starts), AT_ONCE):
        packed = [documents.packed_block(text[start : start + BLOCK]) for start in starts[at : at + AT_ONCE]]
        with deps.database.write(tenant) as unit:
            documents.put_blocks(unit, tenant, name, at, packed)


def _event_id(tenant: str, session: str, payload: Json, before: DocumentRow | None) -> str:
    """The same for a retry; another one when an older text comes back after a newer."""
    after = before.hash.hex() + str(before.seq) if before else ""
    told = "/".join((tenant, session, payload["document_id"], payload["hash"], payload["title"], payload["source"]))
    return str(uuid.uuid5(NAMESPACE, f"{told}/{payload['media_type']}/{after}"))


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text[:10_000].splitlines() if line.strip()), "")
