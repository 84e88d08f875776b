"""The documents of a bundle: the texts that its events tell of, each as one line, found by hash and checked by it.

What would make a bundle too large, and what holds a secret, stays at home; a line says so.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from domain.errors import InvalidRequest
from domain.events import DocumentAttached
from domain.masking import Masker, masked_value
from workers.engine.deps import Deps
from workers.engine.drafts import checked_name
from workers.store import Unit, documents, log
from workers.store.documents import BLOCK, DocumentRow
from workers.store.log import StoredEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

LARGEST = 16 * 1024 * 1024
"""Bytes of all documents of one bundle."""


def lines(deps: Deps, rows: Iterable[tuple[StreamRow, int, Masker]]) -> Iterator[Json]:
    """The documents of these sessions, each up to a seq, the newest first."""
    left, seen = LARGEST, set[str]()
    for row, upto, mask in rows:
        for told in reversed(_attached(deps, row, upto)):
            if (name := told.hash) in seen or not name:
                continue
            seen.add(name)
            text = _text(deps, row.tenant, name)
            size = len(text.encode()) if text is not None else 0
            about = {"document_id": told.document_id, "hash": name}
            if text is None:
                yield {"left_out": {**about, "reason": "its text is not in the store"}}
            elif masked_value(text, mask) != text:
                yield {"left_out": {**about, "reason": "it holds a secret"}}
            elif size > left:
                yield {"left_out": {**about, "reason": f"all documents of a bundle have at most {LARGEST} bytes"}}
            else:
                left -= size
                yield {"document": {"hash": name, "text": text}}


def _attached(deps: Deps, row: StreamRow, upto: int) -> list[DocumentAttached]:
    with deps.database.read(row.tenant) as unit:
        found = log.of_kind(unit, row.tenant, row.number, DocumentAttached.kind)
    told = (log.fact(event).payload for event in found if event.seq <= upto)
    return [one for one in told if isinstance(one, DocumentAttached)]


def _text(deps: Deps, tenant: str, name: str) -> str | None:
    """The whole text; None of one that nobody uploaded, as an event of another server may name it."""
    try:
        key = bytes.fromhex(name)
    except ValueError:
        return None
    with deps.database.read(tenant) as unit:
        text = documents.read(unit, tenant, key, 0, None)
    return text if hashlib.sha256(text.encode()).digest() == key else None


def check(told: Json, number: int) -> None:
    """Raises InvalidRequest unless the text of a document's line is the one that was hashed."""
    try:
        same = hashlib.sha256(told["text"].encode()).hexdigest() == told["hash"]
    except UnicodeEncodeError:
        same = False
    if not same:
        raise InvalidRequest(f"line {number}: the document is not the one that was hashed.", path=f"line {number}")


def restore(unit: Unit, row: StreamRow, events: Iterable[StoredEvent], texts: Mapping[str, str]) -> int:
    """Give a session that was just imported the documents that its events tell of; how many came with the bundle."""
    found = 0
    for event in events:
        told = log.fact(event).payload if event.kind == DocumentAttached.kind else None
        if not isinstance(told, DocumentAttached) or (text := texts.get(told.hash)) is None:
            continue
        key, starts = bytes.fromhex(told.hash), range(0, max(1, len(text)), BLOCK)
        packed = [documents.packed_block(text[start : start + BLOCK]) for start in starts]
        documents.put_blocks(unit, row.tenant, key, 0, packed)
        about = {"title": told.title, "source": told.source, "media_type": told.media_type}
        name, size = checked_name(told.document_id, "document"), len(text.encode())
        documents.put(unit, row.tenant, row.number, DocumentRow(name, key, size, len(told.chunks), event.seq, about))
        found += 1
    return found
