"""What a compile reads: each stream at the seq it is pinned to, and the part of the history that the budget reaches.

The read-models answer as long as they stand at that seq. Once they are past it, the log is folded instead.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from domain.compiling import prepare
from domain.context import Context
from domain.events import TextPart
from domain.laying import Plan
from domain.modes import ModeSpec
from domain.policies import Made
from domain.requests import CompileRequest
from domain.rows import Message
from domain.snapshots import Layout
from domain.sources import SourceResult
from domain.state import FOLD, ContextState
from domain.windows import HistoryReader, Totals, read_history
from workers.engine.deps import Deps
from workers.engine.folds import fold_at
from workers.engine.project import catch_up
from workers.engine.states import StateKey
from workers.store import Unit, counts, log, models, streams
from workers.store.counts import FoldedHistory, LearningCounter, SqlHistory
from workers.store.models import Checkpoint
from workers.store.streams import StreamRow

Json = dict[str, Any]

LONGEST_QUERY = 2000
"""Characters of the newest directive that stand in for a query, and of a query that messages are looked through for."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What a compile counts with. `exact` is false when the encoding stands in for one that is not public, `known` when
    it does so for whatever the model may have."""

    encoding: str
    factor: float
    exact: bool
    known: bool = True


@dataclass(frozen=True, slots=True)
class Pins:
    """A request and all that it is pinned to. `tokenizer` and `modes` are those of a recorded compile, if it is one."""

    tenant: str
    request: CompileRequest
    heads: Json
    as_of: int
    tokenizer: Tokenizer | None = None
    modes: Mapping[str, ModeSpec] | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back the history is read: to where the `parent` cut it, or `deep` enough to cut anew."""

    parent: Layout | None
    deep: bool = True


@dataclass(frozen=True, slots=True)
class Loaded:
    """`spec` is the mode as data, before overrides. `read_at` is where each stream's head was when it was read: what is
    erased later has been read all the same. `messages` are those that were read, by event id."""

    context: Context
    plan: Plan
    count: LearningCounter
    tokenizer: Tokenizer
    spec: Json
    read_at: Mapping[int, int]
    messages: Mapping[str, Message]

    def as_recorded(self, made: tuple[Made, ...]) -> "Loaded":
        """The same with what strategies gave then, and none to ask now."""
        return replace(self, context=replace(self.context, strategies={}, made=made))

    def with_made(self, made: tuple[Made, ...]) -> "Loaded":
        return replace(self, context=replace(self.context, made=made))

    def with_sources(self, found: tuple[SourceResult, ...]) -> "Loaded":
        return replace(self, context=replace(self.context, sources=found))


@dataclass(frozen=True, slots=True)
class _State:
    """A stream's state; `checkpoint` is where its tables stand if they stand at that state, else None."""

    number: int
    state: ContextState
    checkpoint: Checkpoint | None = None


def load(deps: Deps, pins: Pins, reach: Reach, *, from_log: bool = False) -> Loaded:
    """`from_log` folds every stream from its first event, as a replay does."""
    if not from_log:
        _catch_up(deps, pins)
    while True:
        with deps.database.read(pins.tenant) as unit:
            reading = _Reading(deps, unit, pins, from_log)
            session = reading.state(pins.heads["session"])
            tokenizer = pins.tokenizer or _tokenizer(deps, pins.request, session.state)
            count = _counter(deps, pins.request, tokenizer)
            checkpoint = session.checkpoint
            ahead = counts.count_ahead(unit, pins.tenant, session.number, checkpoint, count) if checkpoint else None
            if checkpoint is None or ahead is None:
                return _loaded(reading, session, count, tokenizer, reach)
        with deps.database.write(pins.tenant) as unit:
            counts.store(unit, pins.tenant, session.number, checkpoint, ahead)


def states(deps: Deps, pins: Pins) -> list[ContextState]:
    """The states alone: session, subject, tenant, then the parents."""
    _catch_up(deps, pins)
    with deps.database.read(pins.tenant) as unit:
        reading = _Reading(deps, unit, pins, from_log=False)
        return [reading.state(head).state for head in _heads(pins)]


def erased_since(unit: Unit, tenant: str, loaded: Loaded) -> bool:
    """Whether anything was erased from these streams after they were read."""
    return any(
        log.erases(unit, tenant, number, after=head)
        for number, head in loaded.read_at.items()
        if streams.head(unit, tenant, number) != head
    )


def _catch_up(deps: Deps, pins: Pins) -> None:
    with deps.database.read(pins.tenant) as unit:
        rows = _rows(unit, pins)
    for head in _heads(pins):
        if head["seq"]:
            catch_up(deps, pins.tenant, rows[head["stream"]].number, head["seq"])


def _heads(pins: Pins) -> list[Json]:
    heads = pins.heads
    return [heads["session"], heads["subject"], heads["tenant"], *heads["parents"]]


def _rows(unit: Unit, pins: Pins) -> dict[str, StreamRow]:
    found = (streams.get(unit, pins.tenant, head["stream"]) for head in _heads(pins))
    return {row.stream_id: row for row in found if row is not None}


class _Reading:
    """One read unit over the streams of one request."""

    def __init__(self, deps: Deps, unit: Unit, pins: Pins, from_log: bool) -> None:
        self.deps, self.unit, self.pins = deps, unit, pins
        self.rows = _rows(unit, pins)
        self._from_log = from_log

    def state(self, head: Json) -> _State:
        if not head["seq"]:
            return _State(0, ContextState())
        row, seq, tenant = self.rows[head["stream"]], head["seq"], self.pins.tenant
        checkpoint = models.checkpoint(self.unit, tenant, row.number)
        # An erasure that is not projected yet: its text is still in the tables, no longer in the log.
        stale = row.head != seq and log.erases(self.unit, tenant, row.number, after=seq)
        if self._from_log or checkpoint.seq != seq or checkpoint.fold != FOLD or stale:
            return _State(row.number, fold_at(self.deps, self.unit, tenant, row.number, seq))
        return _State(row.number, self._held(row.number, checkpoint), checkpoint)

    def _held(self, number: int, checkpoint: Checkpoint) -> ContextState:
        """The small tables as they stand in the read-models."""
        key = StateKey(self.pins.tenant, number, checkpoint.generation, checkpoint.seq)
        state = self.deps.states.get(key)
        if state is None:
            state = models.load(self.unit, self.pins.tenant, number, checkpoint.generation)
            self.deps.states.put(key, state)
        return state


def _tokenizer(deps: Deps, request: CompileRequest, session: ContextState) -> Tokenizer:
    info = session.one("session")
    choice = deps.tokens.choice(request.model or (info and info.model) or deps.default_model)
    return Tokenizer(choice.name, choice.safety_factor, choice.exact, choice.known)


def _counter(deps: Deps, request: CompileRequest, tokenizer: Tokenizer) -> LearningCounter:
    count = deps.tokens.counter(tokenizer.encoding)
    return LearningCounter(count, tokenizer.encoding, request.format, tokenizer.factor)


def _loaded(reading: _Reading, session: _State, count: LearningCounter, tokenizer: Tokenizer, reach: Reach) -> Loaded:
    pins = reading.pins
    plan = prepare(session.state, pins.request, count, pins.modes or reading.deps.modes)
    held: HistoryReader = FoldedHistory(reading.unit, pins.tenant, session.number, session.state, count)
    if session.checkpoint is not None:
        held = SqlHistory(reading.unit, pins.tenant, session.number, session.checkpoint.generation, count)
    reader = _Remembering(held)
    parent = reach.parent or Layout()
    history = read_history(
        reader, session.state, count, plan.limit, locale=plan.locale, model=plan.model, cut=parent.cut,
        kept=parent.kept, seen=parent.seen, deep=reach.deep,
    )  # fmt: skip
    subject, tenant, *parents = [reading.state(head).state for head in _heads(pins)[1:]]
    context = Context(
        session=session.state,
        history=history,
        subject=subject,
        tenant=tenant,
        parents=tuple(parents),
        as_of=pins.as_of,
        query=_query(pins.request, session.state, reader),
        strategies=reading.deps.strategies.registered(),
    )
    read_at = {row.number: row.head for row in reading.rows.values()}
    spec = (pins.modes or reading.deps.modes)[plan.mode.name].model_dump(exclude_defaults=True)
    return Loaded(context, plan, count, tokenizer, spec, read_at, reader.messages)


class _Remembering:
    """A history reader that keeps what passed through it."""

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self.messages: dict[str, Message] = {}

    def newest(self, before_unit: int, limit: int) -> Sequence[Message]:
        return self._kept(self._reader.newest(before_unit, limit))

    def units(self, event_ids: Collection[str]) -> Sequence[Message]:
        return self._kept(self._reader.units(event_ids))

    def totals(self, before_unit: int) -> Totals:
        return self._reader.totals(before_unit)

    def _kept(self, found: Sequence[Message]) -> Sequence[Message]:
        self.messages.update((message.event_id, message) for message in found)
        return found


def _query(request: CompileRequest, session: ContextState, reader: HistoryReader) -> str:
    """What is looked for in memory: the request's query, else what the user asked for last."""
    if request.query is not None:
        return request.query
    anchor = session.one("business")
    if anchor is None:
        return ""
    found = [message for message in reader.units([anchor.event_id]) if message.event_id == anchor.event_id]
    texts = [part.text for message in found for part in message.parts if isinstance(part, TextPart)]
    return "\n".join(texts)[:LONGEST_QUERY]
