"""Logs built in memory and prompts compiled from them, as the engine does it but without a store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.compiling import compile_prompt, prepare
from domain.context import Context
from domain.counting import Counter
from domain.events import Event, TextPart, dump_payload, parse_payload
from domain.history import in_force
from domain.policies import Made, Shrink
from domain.requests import CompileRequest, parse_request
from domain.snapshots import Layout, Prompt
from domain.sources import SourceResult
from domain.state import ContextState, fold
from domain.windows import MemoryHistory, Shallow, read_history
from workers.tokens import Tokens

EPOCH = 1_800_000_000_000_000
"""Microseconds UTC at which every log here begins: 2027-01-15 08:00."""

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000

count_text = Tokens().counter("o200k_base")


class Log:
    """One stream, numbered as the log would do it: an event a second."""

    def __init__(self, name: str = "e", events: Iterable[Event] = ()) -> None:
        self.name = name
        self.events: list[Event] = list(events)

    def add(
        self,
        kind: str,
        *,
        as_id: str | None = None,
        cause: str | None = None,
        run: str | None = None,
        at: int | None = None,
        version: int = 1,
        **payload: Any,
    ) -> Event:
        """Appends an event. The named ones are of its envelope, all others of its payload."""
        seq = len(self.events) + 1
        event = Event(
            as_id or f"{self.name}{seq}",
            seq,
            kind,
            parse_payload(kind, version, payload),
            EPOCH + seq * SECOND if at is None else at,
            causation_id=cause,
            run_id=run,
        )
        self.events.append(event)
        return event

    def user(self, content: Any, **more: Any) -> Event:
        return self.add("user.input", content=content, **more)

    def assistant(self, content: Any = "", **more: Any) -> Event:
        return self.add("assistant.output", content=content, **more)

    def calls(self, *ids: str, content: Any = "", name: str = "look_up", **more: Any) -> Event:
        """An assistant message with one call for each id."""
        calls = [{"id": one, "name": name, "arguments": f'{{"of":"{one}"}}'} for one in ids]
        return self.add("assistant.output", content=content, tool_calls=calls, **more)

    def answer(self, call_id: str, content: Any = "fine", **more: Any) -> Event:
        return self.add("tool.result", call_id=call_id, content=content, **more)

    def block(self, name: str, text: str, level: str = "block") -> Event:
        return self.add("constraint.set", id=name, text=text, level=level)

    def redact(self, event: Event) -> None:
        """The payload is erased and the log says so, as the store does it."""
        at = event.seq - 1
        self.events[at] = Event(event.event_id, event.seq, event.kind, None, event.recorded_at)
        self.add("event.redacted", event_id=event.event_id)

    def __repr__(self) -> str:
        """The events as one would add them, so that a failing example can be read."""
        rows = [
            f"{one.seq} {one.kind} {dump_payload(one.payload) if one.payload else 'redacted'}"
            + (f" cause={one.causation_id}" if one.causation_id else "")
            for one in self.events
        ]
        return f"Log({self.name!r}, " + "; ".join(rows) + ")"

    @property
    def state(self) -> ContextState:
        return fold(in_force(self.events))

    def upto(self, seq: int) -> "Log":
        return Log(self.name, self.events[:seq])


@dataclass
class World:
    """A session with all that a compile of it draws on."""

    session: Log = field(default_factory=Log)
    subject: Log = field(default_factory=lambda: Log("s"))
    tenant: Log = field(default_factory=lambda: Log("t"))
    parents: Sequence[Log] = ()
    sources: tuple[SourceResult, ...] = ()
    strategies: Mapping[str, Shrink] = field(default_factory=dict)
    made: tuple[Made, ...] = ()

    @property
    def streams(self) -> list[Log]:
        return [self.session, self.subject, self.tenant, *self.parents]


def anchor_text(state: ContextState) -> str:
    """The text of the newest directive, which a request without a query of its own asks about."""
    anchor = state.one("business")
    message = state.tables["messages"].get(anchor.event_id) if anchor else None
    texts = [part.text for part in message.parts if isinstance(part, TextPart)] if message else []
    return "\n".join(texts)[:2000]


def counter(request: CompileRequest, factor: float = 1.0) -> Counter:
    return Counter(count_text, "o200k_base", request.format, factor)


def compiled(
    given: World | Log,
    *,
    parent: Layout | None = None,
    as_of: int | None = None,
    query: str | None = None,
    factor: float = 1.0,
    **asked: Any,
) -> Prompt:
    """The prompt of a request at the head of these logs."""
    world = given if isinstance(given, World) else World(given)
    states = [log.state for log in (world.session, world.subject, world.tenant, *world.parents)]
    given_by = (world.strategies, world.made)
    return compiled_from(states, parent, world.sources, as_of, query, factor, given_by=given_by, **asked)


def compiled_from(
    states: Sequence[ContextState],
    parent: Layout | None = None,
    sources: tuple[SourceResult, ...] = (),
    as_of: int | None = None,
    query: str | None = None,
    factor: float = 1.0,
    deep: bool = False,
    given_by: tuple[Mapping[str, Shrink], tuple[Made, ...]] = ({}, ()),
    **asked: Any,
) -> Prompt:
    """As `compiled`, from the states of session, subject, tenant and parent sessions."""
    session, subject, tenant, *parents = states
    request = parse_request({"budget": 100_000, **asked})
    count = counter(request, factor)
    plan = prepare(session, request, count)
    before = parent or Layout()

    def compile_with(deep: bool) -> Prompt:
        history = read_history(
            MemoryHistory(session, count),
            session,
            count,
            plan.limit,
            locale=plan.locale,
            model=plan.model,
            cut=before.cut,
            kept=before.kept,
            seen=before.seen,
            deep=deep,
        )
        at = max(state.progress.recorded_at for state in states) if as_of is None else as_of
        words = anchor_text(session) if query is None else query
        context = Context(session, history, subject, tenant, tuple(parents), sources, at, words, *given_by)
        return compile_prompt(context, request, parent, count, plan)

    try:
        return compile_with(deep=deep)
    except Shallow:
        return compile_with(deep=True)
