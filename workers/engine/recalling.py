"""Recall from the log: passages of older messages that answer the query, of this session and its subject's others, and
of the documents attached to it.

What was found is recorded with the snapshot like the answer of any source, so a replay needs no index.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

import numpy as np

from domain.modes import SlotSpec
from domain.recall.passages import passages, width
from domain.recall.ranking import Flags, Floats, best_first
from domain.recall.scoring import score
from domain.recall.smalltalk import tells_something
from domain.recall.times import asked_about
from domain.snapshots import Layout
from domain.sources import SourceItem, SourceResult
from domain.windows import NEWEST, earliest
from domain.wording import ahead_of_utc
from workers.engine.attached import Attached, Found
from workers.engine.contexts import LONGEST_QUERY, Loaded, Pins
from workers.engine.deps import Deps
from workers.engine.leading import Leading
from workers.engine.reading import subject_stream
from workers.engine.refining import Refining
from workers.engine.shelves import Shelf
from workers.engine.shelving import Shelving, Wanted
from workers.llm import ModelFailed
from workers.store import Unit, models, recall, streams
from workers.store.recall import Session, Spoken
from workers.store.streams import StreamRow

NAME = "log"
IMPORTANCE = 0.5
MOST_SESSIONS = 200
"""Sessions of a subject that are looked through, the newest of them."""

WIDTHS_PER_TOKEN, LEAD = 5, 3
"""What a token holds at most, and the tokens that a line takes beside its text: a little more is recorded than fits."""

LEAST = 8
MISSES = 1
"""Passages that are recorded though their score is below what the slot asks for: no later one has a better score."""

UNINDEXED = "in a part of what was said, for the rest is not indexed yet"

AHEAD = 32
"""Passages that are read at once."""

READ = 8_000_000
"""Widths of messages after which one prompt reads no further one, about a second: of some messages each is a
megabyte."""

UNREAD = f"without some of what was found, for the messages that it stands in are longer than {READ} characters in all"


def fetch(
    deps: Deps, pins: Pins, loaded: Loaded, parent: Layout | None, refining: Refining | None = None
) -> tuple[SourceResult, ...]:
    """What the log has for the slot `recall`; nothing where the mode has no such slot or nothing is asked. The window
    goes on from its `parent`: what may stand in it is not recalled. Without `refining` no model is asked."""
    spec = next((spec for spec in loaded.plan.mode.slots if spec.slot == "recall"), None)
    if spec is None or not loaded.context.query.strip():
        return ()
    window = earliest(loaded.context.history, parent.cut if parent else 0, loaded.plan.limit)
    if not window and not _shared(pins) and not loaded.context.session.tables["documents"]:
        return ()  # all there is stands in the prompt
    queries = refining.queries() if refining else ()
    with deps.database.read(pins.tenant) as unit:
        own = streams.get(unit, pins.tenant, pins.heads["session"]["stream"])
        if own is None:
            return ()
        attached = Attached(deps, unit, pins, loaded, own)
        search = _Search(deps, unit, pins, loaded, window, own, attached, queries, spec.hops)
        items, enough = search.items(spec, refining.candidates if refining else 0)
    ordered = refining.ordered(items) if refining else None
    items = (items if ordered is None else search.left(ordered))[:enough]
    note = "; ".join([*search.notes, *(refining.notes if refining else ())]) or None
    by = refining.model if refining and ordered else None
    found = SourceResult(NAME, "recall", tuple(items), note=note, queries=queries, ordered_by=by)
    shown = (found,) if items or note or queries else ()
    return (*shown, SourceResult(NAME, "recall", note=attached.left_out)) if attached.left_out else shown


def _shared(pins: Pins) -> bool:
    """Whether the session has a subject, whose other sessions may have something to tell."""
    name = pins.heads["session"]["stream"].partition("/")[2]
    return bool(pins.heads["subject"]["stream"] != subject_stream(name, None))


@dataclass(frozen=True, slots=True)
class _Place:
    """A passage that was found: the session and the seq of its message, or the document and where the part of it
    begins, and its number there."""

    shelf: Shelf
    seq: int
    number: int
    relevance: float
    in_time: bool
    by_named: bool

    @property
    def message(self) -> tuple[str, int, int]:
        return self.shelf.document, self.shelf.stream, self.seq

    @property
    def width(self) -> int:
        """That of its message, as its passages tell."""
        index = self.shelf.index
        message = int(index.seqs.searchsorted(self.seq))
        return int(index.widths[index.first_passage(message) : index.first_passage(message + 1)].sum())


class _Search:
    """One query over the sessions that the caller may see, inside one read unit."""

    def __init__(
        self, deps: Deps, unit: Unit, pins: Pins, loaded: Loaded, window: int, own: StreamRow, attached: Attached,
        queries: Sequence[str], hops: int,
    ) -> None:  # fmt: skip
        self._query = "\n".join((loaded.context.query[:LONGEST_QUERY], *queries))
        self._leading = Leading(loaded, self._query, hops)
        self._at: dict[str, tuple[int, int, int]] = {}
        self._deps, self._unit, self._pins, self._loaded = deps, unit, pins, loaded
        self._window, self._own, self._attached = window, own, attached
        self.notes: list[str] = []
        self._shelving = Shelving(deps, unit, pins.tenant)
        self._older = {unit.seq for unit in loaded.context.history.older}
        self._read: dict[tuple[str, int, int], Found | None] = {}
        self._room = READ

    def items(self, spec: SlotSpec, least: int) -> tuple[list[SourceItem], int]:
        """What answers the query, best first: as much as the slot may show, or `least` for a model to choose from; and
        how many the slot may show."""
        room = max(spec.token_budget, self._loaded.plan.mode.global_slot_budget)
        found: list[SourceItem] = []
        missed, enough = 0, None
        for item in self._found():
            if enough is None and (room <= 0 or missed >= MISSES or (spec.top_k and len(found) >= spec.top_k + LEAST)):
                enough = len(found)
            if enough is not None and len(found) >= least:
                break
            found.append(item)
            room -= width(item.text) // WIDTHS_PER_TOKEN + LEAD
            missed += (item.score or 0.0) < spec.min_score
        return found, len(found) if enough is None else enough

    def left(self, items: Sequence[SourceItem]) -> list[SourceItem]:
        """The items without those of messages that were erased while a model thought about them."""
        places = {one.events[0]: self._at[one.events[0]] for one in items if one.events[0] in self._at}
        with self._deps.database.read(self._pins.tenant) as unit:
            there = {said.event_id for _, said in recall.these(unit, self._pins.tenant, set(places.values()))}
        return [one for one in items if one.events[0] not in places or one.events[0] in there]

    def _found(self) -> Iterator[SourceItem]:
        places = self._places()
        while ahead := list(islice(places, AHEAD)):
            self._read_ahead(ahead)
            yield from (item for place in ahead if (item := self._item(place)) is not None)

    def _places(self) -> "Iterator[_Place]":
        """Where what answers the query stands, best first."""
        every = (*self._attached.shelves(), *self._shelving.shelves(list(self._sessions())))
        shelves = [shelf for shelf in every if shelf.index.messages]
        if not self._shelving.complete:
            self.notes.append(UNINDEXED)
        index = self._deps.shelves.joined(self._pins.tenant, shelves)
        firsts = list(accumulate((shelf.index.messages for shelf in shelves), initial=0))
        parts = list(accumulate((len(shelf.index.of_message) for shelf in shelves), initial=0))
        query = self._query
        in_time = asked_about(index, query, self._pins.as_of, self._shift()) if index.messages else None
        led = self._leading.led(self._unit, self._pins.tenant, shelves)
        for hit in best_first(index, query, self._likeness(shelves), in_time, self._shown(shelves), led):
            at = bisect_right(firsts, hit.message) - 1
            shelf, message = shelves[at], hit.message - firsts[at]
            number = hit.passage - parts[at] - shelf.index.first_passage(message)
            yield _Place(shelf, int(shelf.index.seqs[message]), number, hit.relevance, hit.in_time, hit.by_named)

    def _shown(self, shelves: Sequence[Shelf]) -> Flags:
        """The messages that stand in the window, as far as the index can tell."""
        found = [shelf.index.seqs >= self._shown_from(shelf) for shelf in shelves]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def _shift(self) -> int:
        """By how much the clocks of the session are ahead of UTC, in microseconds."""
        info = self._loaded.context.session.one("session")
        return ahead_of_utc(self._pins.as_of, info.time_zone if info else None)

    def _sessions(self) -> Iterator[Wanted]:
        """Oldest first, the session itself last."""
        tenant, own = self._pins.tenant, self._own
        subject = own.about.get("subject")
        others = recall.sessions_of(self._unit, tenant, subject, MOST_SESSIONS) if subject else []
        family = _family(own.name, own.about.get("forked_from"), others)
        for session in reversed(others):
            if session.name not in family:
                yield Wanted(session.number, session.generation, session.seq)
        checkpoint = models.checkpoint(self._unit, tenant, own.number)
        yield Wanted(own.number, checkpoint.generation, checkpoint.seq)

    def _likeness(self, shelves: Sequence[Shelf]) -> Floats | None:
        """How alike each passage is to the query in meaning; None where nothing can tell."""
        meanings, vector = self._deps.meanings, None
        try:
            vector = meanings.query(self._query) if meanings else None
        except ModelFailed as failed:
            self.notes.append(f"by words alone: {failed.reason}")
        if meanings is None or vector is None or not shelves:
            return None
        self._shelving.understood(shelves, meanings.model)
        cosines = [shelf.vectors.cosines(vector, len(shelf.index.of_message)) for shelf in shelves]
        return meanings.alike(np.concatenate(cosines))

    def _item(self, place: "_Place") -> SourceItem | None:
        """None for a message that must not be shown, that was erased meanwhile, or that tells nothing."""
        found = self._read.get(place.message)
        if found is None or place.number >= len(found.parts) or not tells_something(found.parts[place.number]):
            return None
        one, number = found.item, place.number
        return replace(
            one,
            key=f"{one.key}/{number}",
            text=found.parts[number],
            score=score(place.relevance, one.importance),
            follows=f"{one.key}/{number - 1}" if number else "",
            order=(*one.order, number),
            in_time=place.in_time,
            by_named=place.by_named,
            through=self._leading.through(one.events[0], found.parts[number]),
        )

    def _read_ahead(self, places: "Sequence[_Place]") -> None:
        """Reads the messages of these places, and their passages: one look into the store for all of them, and one for
        each part of a document."""
        wanted: dict[tuple[int, int, int], Shelf] = {}
        for place in places:
            if place.message in self._read:
                continue
            self._read[place.message] = None
            if self._room <= 0:
                self.notes += [UNREAD] if UNREAD not in self.notes else []
                continue
            # Of what stands in the window no passages are made.
            self._room -= 0 if place.seq >= self._shown_from(place.shelf) else place.width
            if place.shelf.document:
                self._read[place.message] = self._attached.read(place.shelf, place.seq)
            else:
                wanted[place.shelf.stream, place.shelf.generation, place.seq] = place.shelf
        shelves = {shelf.stream: shelf for shelf in wanted.values()}
        for stream, said in recall.these(self._unit, self._pins.tenant, wanted.keys()):
            if said.recorded_at <= self._pins.as_of and not self._shown_anyway(shelves[stream], said):
                self._at[said.event_id] = stream, shelves[stream].generation, said.seq
                self._read["", stream, said.seq] = Found(_message(shelves[stream], said), passages(said.text))

    def _shown_from(self, shelf: Shelf) -> int:
        """The seq from which messages of a shelf stand in the window, as far as the index can tell."""
        return self._window if shelf.stream == self._own.number and not shelf.document else NEWEST

    def _shown_anyway(self, shelf: Shelf, said: Spoken) -> bool:
        """Whether the message stands in the window, or after what the request is pinned to."""
        if shelf.stream != self._own.number:
            return False
        return not self._window or said.unit >= self._window or said.unit in self._older


def _message(shelf: Shelf, said: Spoken) -> SourceItem:
    """What all items that are made of one message have in common."""
    return SourceItem(
        key=said.event_id, text="", category="episodic", importance=IMPORTANCE, events=(said.event_id,), at=said.at,
        speaker=said.speaker or said.role, order=(shelf.stream, said.seq),
    )  # fmt: skip


def _family(name: str, parent: str | None, sessions: Sequence[Session]) -> set[str]:
    """The session and all it shares a past with by forking: they hold copies of each other."""
    found = {name, parent or name}
    while True:
        more = {
            relative
            for one in sessions
            if one.name in found or one.forked_from in found
            for relative in (one.name, one.forked_from)
            if relative
        } - found
        if not more:
            return found
        found |= more
