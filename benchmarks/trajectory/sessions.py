"""Agent logs as turns: what stood in the log before each assistant message with tool calls.

A log is folded one event at a time; a turn is looked at while the state stands just before it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.trajectory.scoring import WireMessage, text_of
from domain import rendering
from domain.anchors import instruction_text, system_anchor
from domain.conversation import arguments_text
from domain.counting import Counter
from domain.events import Event, TextPart, read_payload
from domain.rendering.neutral import Neutral
from domain.requests import Format
from domain.rows import Message
from domain.state import ContextState, changes
from domain.windows import Unit, UnitBuilder
from domain.wording import WORDINGS
from promptctx.importers import Skipped, scan

SHORTEST_SESSION = 2_000
"""Tokens of a session that is looked at, at the least."""

EPOCH = 1_700_000_000_000_000
"""When the log recorded the first event, in microseconds; one second per event."""

FORMAT: Format = "openai"


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant message with tool calls, and the whole history before it in the shape that every method gets.

    `messages` begin with the system message if there is one; `starts` are the places where units begin, `instruction`
    is the place of the newest directive and `instructed` the seq of its unit; `base` are the tokens spent before any
    message. `state` is the log folded so far: it changes when the next turn is asked for.
    """

    seq: int
    state: ContextState
    calls: tuple[str, ...]
    units: tuple[Unit, ...]
    messages: tuple[WireMessage, ...]
    starts: tuple[int, ...]
    instruction: int | None
    instructed: int | None
    base: int
    tokens: int

    @property
    def system(self) -> str | None:
        first = self.messages[0] if self.messages else None
        return text_of(first) if first and first["role"] == "system" else None

    @property
    def instruction_text(self) -> str | None:
        return None if self.instruction is None else text_of(self.messages[self.instruction])


@dataclass(slots=True)
class Session:
    """One log. `fixed` is what stands before its history (system prompt, tools), `floor` that and the longest user
    message; `sizes` are the tokens of all there is before each turn; `path` is the file it was read from."""

    id: str
    source: str
    events: list[Event]
    count: Counter
    locale: str
    path: Path
    tokens: int = 0
    fixed: int = 0
    floor: int = 0
    sizes: list[int] = field(default_factory=list)

    def turns(self) -> Iterator[Turn]:
        """The turns in order, each with the state before it."""
        found = self._calls()
        state = ContextState()
        for event in self.events:
            if event.seq in found:
                yield self.turn(event.seq, state, found[event.seq])
            state.apply(changes(state, event))

    def _calls(self) -> dict[int, tuple[str, ...]]:
        """The arguments of all calls of each assistant message that makes some, by its place in the log."""
        state = self.folded()
        rows: list[Message] = state.rows("messages")
        return {
            row.seq: tuple(arguments_text(call.arguments) for call in row.calls)
            for row in rows
            if row.role == "assistant" and row.calls and row.seq == row.unit
        }

    def folded(self) -> ContextState:
        state = ContextState()
        for event in self.events:
            state.apply(changes(state, event))
        return state

    def turn(self, seq: int, state: ContextState, calls: tuple[str, ...] = ()) -> Turn:
        """What stands before the event at `seq` when the state has been folded so far."""
        builder = UnitBuilder(state, self.count, self.locale, None)
        units = tuple(unit for unit in builder.units(state.rows("messages")) if not unit.orphan)
        system = system_message(state, self.locale)
        business = state.one("business")
        rendered: list[WireMessage] = _rendered([system]) if system else []
        starts, instruction, instructed = [], None, None
        for unit in units:
            starts.append(len(rendered))
            for message in unit.messages:
                if business and business.event_id in message.sources:
                    instruction, instructed = len(rendered), unit.seq
                rendered += _rendered([message])
        base = self.count.base + self.count.tools(_tools(state))
        fixed = base + (self.count.neutral([system]) if system else 0)
        tokens = fixed + sum(unit.tokens for unit in units)
        return Turn(seq, state, calls, units, tuple(rendered), tuple(starts), instruction, instructed, base, tokens)


def _rendered(messages: Sequence[Neutral]) -> list[WireMessage]:
    made: list[WireMessage] = rendering.render(messages, (), FORMAT)["messages"]
    return made


def _tools(state: ContextState) -> tuple[Any, ...]:
    return tuple(row for _, row in sorted(state.tables["tools"].items()))


def system_message(state: ContextState, locale: str) -> Neutral | None:
    """The session's own system prompt, as every method gets it."""
    anchor = system_anchor(state, ())
    text = instruction_text(anchor, WORDINGS[locale]) if anchor else ""
    return Neutral("system", "anchor_system", (TextPart(type="text", text=text),)) if text else None


def fixed_tokens(state: ContextState, locale: str, count: Counter) -> int:
    """Tokens of what stands before the history: the format's own, the system prompt, the tools."""
    system = system_message(state, locale)
    return count.base + count.tools(_tools(state)) + (count.neutral([system]) if system else 0)


# --- reading ----------------------------------------------------------------------------------------------------------


def load(
    corpus: Path, count_text: Callable[[str], int], encoding: str, sources: Sequence[str] = (), named: str = ""
) -> Iterator[Session]:
    """The sessions under a folder that are long enough and call tools, with their sizes known; `named` is part of
    their ids."""
    for session in opened(corpus, count_text, encoding, sources):
        if named not in session.id:
            continue
        _measure(session)
        if session.tokens >= SHORTEST_SESSION and session.sizes:
            yield session


def opened(
    corpus: Path, count_text: Callable[[str], int], encoding: str, sources: Sequence[str] = ()
) -> Iterator[Session]:
    """All sessions under a folder, not measured yet. A source is a folder of the corpus; logs that lie in no folder of
    it are told apart by their format."""
    for found in scan(corpus):
        if isinstance(found, Skipped):
            continue
        inside = found.path.relative_to(corpus).parts
        source = inside[0] if len(inside) > 1 else found.source
        if sources and not {source, found.source} & set(sources):
            continue
        wires = list(found.events)
        locale = next((wire["payload"].get("locale") for wire in wires if wire["kind"] == "session.started"), None)
        events = [_event(seq, wire) for seq, wire in enumerate(wires, start=1)]
        counter = Counter(count_text, encoding, FORMAT)
        yield Session(found.session_id, source, events, counter, locale or "zh", found.path)


def _measure(session: Session) -> None:
    state, count = session.folded(), session.count
    rows: list[Message] = state.rows("messages")
    fixed = fixed_tokens(state, session.locale, count)
    units = UnitBuilder(state, count, session.locale, None).units(rows)
    session.tokens = fixed + sum(unit.tokens for unit in units if not unit.orphan)
    session.fixed = fixed
    session.floor = fixed + max((count.message(row) for row in rows if row.role == "user"), default=0)
    session.sizes = [turn.tokens for turn in session.turns()]


def _event(seq: int, wire: dict[str, Any]) -> Event:
    occurred = wire.get("occurred_at")
    return Event(
        event_id=wire["event_id"],
        seq=seq,
        kind=wire["kind"],
        payload=read_payload(wire["kind"], wire.get("schema_version", 1), wire["payload"]),
        recorded_at=EPOCH + seq * 1_000_000,
        occurred_at=int(datetime.fromisoformat(occurred).timestamp() * 1e6) if occurred else None,
        actor=wire.get("actor"),
        run_id=wire.get("run_id"),
        causation_id=wire.get("causation_id"),
        correlation_id=wire.get("correlation_id"),
    )
