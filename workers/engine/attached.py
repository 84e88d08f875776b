"""Attached documents in recall: each is an index of its own, of the parts that it was cut into when it came.

What is recalled of one is what its reference expands to: where the log tells of another text than the session has under
that id now, as after a rollback, nothing of it is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from domain.events import Chunk, DocumentAttached
from domain.recall import index as indexing
from domain.recall.index import DOCUMENT, Source
from domain.recall.passages import passages
from domain.rows import Document
from domain.sources import SourceItem
from workers.engine.contexts import Loaded, Pins
from workers.engine.deps import Deps
from workers.engine.meanings import Vectors
from workers.engine.shelves import Shelf
from workers.store import Unit, documents, log
from workers.store.streams import StreamRow

IMPORTANCE = 0.5
LARGEST = 4 * 1024 * 1024
"""Bytes of the documents of a session that are looked through, those that came last before those that came first."""

TAG = "document"
"""What a slot can ask for to be shown nothing but passages of documents."""


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a document: what all items made of it have in common, and its passages."""

    item: SourceItem
    parts: list[str]


class Attached:
    """The documents of one session that a request may see, inside one read unit."""

    def __init__(self, deps: Deps, unit: Unit, pins: Pins, loaded: Loaded, own: StreamRow) -> None:
        self._deps, self._unit, self._tenant, self._own = deps, unit, pins.tenant, own
        rows = [row for row in loaded.context.session.rows("documents") if row.recorded_at <= pins.as_of]
        held = documents.hashes(unit, pins.tenant, own.number) if rows else {}
        self._rows: dict[str, Document] = {}
        self._left_out: list[str] = []
        room = LARGEST
        for row in reversed(rows):
            if held.get(row.id) != row.hash:
                continue
            if row.size > room:
                self._left_out.append(row.id)
                continue
            room -= row.size
            self._rows[row.event_id] = row

    @property
    def left_out(self) -> str | None:
        """What is too long to be looked through, if anything is."""
        if not self._left_out:
            return None
        names = ", ".join(map(repr, self._left_out[:5])) + ("" if len(self._left_out) <= 5 else " …")
        return f"without {names}: of a session's documents the newest {LARGEST} bytes are looked through"

    def shelves(self) -> Iterator[Shelf]:
        """One for each document, the oldest first."""
        for row in reversed(self._rows.values()):
            found = self._deps.shelves.of_document(self._tenant, self._own.number, row.event_id)
            yield found or self._made(row)

    def _made(self, row: Document) -> Shelf:
        text = documents.read(self._unit, self._tenant, bytes.fromhex(row.hash), 0, None)
        sources = list(_sources(row, self._chunks(row), text))
        shelf = Shelf(self._own.number, 0, indexing.extended(indexing.EMPTY, sources), Vectors(), row.event_id)
        if self._deps.meanings is not None:
            parts = [part for one in sources for part in passages(one.text)]
            self._deps.meanings.want(shelf.vectors, 0, parts)
        self._deps.shelves.put_document(self._tenant, shelf)
        return shelf

    def _chunks(self, row: Document) -> Iterable[Chunk]:
        stored = log.at(self._unit, self._tenant, self._own.number, [row.seq])
        payload = log.fact(stored[0]).payload if stored else None
        return payload.chunks if isinstance(payload, DocumentAttached) else ()

    def read(self, shelf: Shelf, start: int) -> Found:
        """The part of a document that begins at a character: where the next one begins it ends."""
        row, starts = self._rows[shelf.document], shelf.index.seqs
        place = int(starts.searchsorted(start)) + 1
        end = int(starts[place]) if place < len(starts) else None
        text = documents.read(self._unit, self._tenant, bytes.fromhex(row.hash), start, end)
        item = SourceItem(
            key=f"{row.event_id}/{start}", text="", importance=IMPORTANCE, tags=(TAG,), events=(row.event_id,),
            at=row.recorded_at, order=(row.seq, start), reference=row.id, title=row.title,
            part=(start, start + len(text)),
        )  # fmt: skip
        return Found(item, passages(text))


def _sources(row: Document, chunks: Iterable[Chunk], text: str) -> Iterator[Source]:
    """The parts as the index takes them: the title and the headings that a part stands under count as its words. An
    event that a client made up may tell of any parts: none is looked at that does not come after the one before."""
    at = 0
    for one in chunks:
        if not at <= one.start < one.end:
            continue
        at = one.end
        part = text[one.start : one.end]
        yield Source(one.start, DOCUMENT, row.title, part, row.recorded_at, under=one.heading)
