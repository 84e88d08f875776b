"""Ways from a history and a budget to a prompt: promptctx, the suffix of whole messages, and what they have in common.

A method is begun once for a session and a budget, and then asked at one turn after the other.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.trajectory.scoring import WireMessage
from benchmarks.trajectory.sessions import FORMAT, Session, Turn
from domain.compiling import compile_prompt, prepare
from domain.context import Context
from domain.events import TextPart
from domain.modes import LOW_WATER
from domain.rendering.neutral import text_of as part_text
from domain.rendering.openai import count_message
from domain.requests import parse_request
from domain.rows import Message
from domain.snapshots import COMPILER, Layout, Prompt
from domain.state import ContextState
from domain.windows import MemoryHistory, read_history

QUERY = 2_000
"""Characters of the newest directive that a compile looks for by default."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A prompt's messages and how long it took; `where` tells what became of the unit at a seq, if the method says."""

    messages: Sequence[WireMessage]
    ms: float
    where: Callable[[int], str] | None = None


class Run(Protocol):
    """A method at work on one session under one budget."""

    def compile(self, turn: Turn) -> Compiled:
        """The prompt for a turn. Any exception is a failed turn."""
        ...

    def end(self) -> None:
        """No turn will follow."""
        ...


class Method(Protocol):
    """`carries`: what it did at one turn changes what it does at the next, so that none may be left out.

    `low_water` is the share of the room that is left full when it cuts; 1 for a method that always fills it.
    """

    name: str
    version: str
    carries: bool
    low_water: float

    def begin(self, session: Session, budget: int) -> Run: ...

    def close(self) -> None: ...


# --- promptctx --------------------------------------------------------------------------------------------------------


class Promptctx:
    """The pure compile, in the session's own mode, with the layout carried from turn to turn as a view does it."""

    name = "promptctx"
    carries = True

    def __init__(self, name: str = name, low_water: float | None = None) -> None:
        self.name = name
        self.version = f"compiler {COMPILER}"
        self.low_water = LOW_WATER if low_water is None else low_water
        self._asked = low_water

    def begin(self, session: Session, budget: int) -> Run:
        return _View(session, budget, self._asked)

    def close(self) -> None:
        pass


class _View:
    def __init__(self, session: Session, budget: int, low_water: float | None) -> None:
        overrides = {} if low_water is None else {"low_water": low_water}
        self._request = parse_request({"format": FORMAT, "budget": budget, "overrides": overrides})
        self._count = session.count
        self._layout: Layout | None = None

    def compile(self, turn: Turn) -> Compiled:
        state, count = turn.state, self._count
        reader = MemoryHistory(state, count)
        begun = time.perf_counter()
        plan = prepare(state, self._request, count)
        history = read_history(reader, state, count, plan.limit, locale=plan.locale, model=plan.model)
        context = Context(
            state, history, ContextState(), ContextState(), as_of=state.progress.recorded_at, query=_query(state)
        )
        prompt = compile_prompt(context, self._request, self._layout, count, plan)
        ms = (time.perf_counter() - begun) * 1e3
        self._layout = Layout.load(prompt.layout.dump())
        return Compiled(prompt.payload["messages"], ms, lambda seq: _where(prompt, seq))

    def end(self) -> None:
        self._layout = None


def _query(state: ContextState) -> str:
    business = state.one("business")
    message: Message | None = state.tables["messages"].get(business.event_id) if business else None
    return "".join(part_text(part) for part in message.parts if isinstance(part, TextPart))[:QUERY] if message else ""


def _where(prompt: Prompt, seq: int) -> str:
    for entry in prompt.report["units"]:
        if entry["from_seq"] <= seq <= entry["to_seq"]:
            cut = f", {entry['shortened']} tokens cut from its middle" if entry.get("shortened") else ""
            return f"{entry['disposition']} ({entry['reason']}){cut}"
    return "not accounted for"


# --- last N -----------------------------------------------------------------------------------------------------------


class LastN:
    """The longest suffix of whole units that fits beside the system prompt and the newest directive."""

    name = "last-n"
    version = "1"
    carries = False
    low_water = 1.0

    def begin(self, session: Session, budget: int) -> Run:
        return _Suffix(session, budget)

    def close(self) -> None:
        pass


class _Suffix:
    def __init__(self, session: Session, budget: int) -> None:
        self._session = session
        self._budget = budget

    def compile(self, turn: Turn) -> Compiled:
        begun = time.perf_counter()
        messages, starts = turn.messages, turn.starts
        sizes = [count_message(message, self._session.count.text) for message in messages]
        room = self._budget - turn.base - sum(sizes[: starts[0]]) if starts else 0
        pieces = [range(start, end) for start, end in zip(starts, [*starts[1:], len(messages)], strict=True)]
        kept: list[range] = []
        for piece in pieces:
            if turn.instruction is not None and turn.instruction in piece:
                kept.append(piece)
                room -= sum(sizes[at] for at in piece)
        for piece in reversed(pieces):
            if piece in kept:
                continue
            room -= sum(sizes[at] for at in piece)
            if room < 0:
                break
            kept.append(piece)
        opening = messages[: starts[0]] if starts else messages
        chosen = [messages[at] for piece in sorted(kept, key=lambda piece: piece.start) for at in piece]
        return Compiled([*opening, *chosen], (time.perf_counter() - begun) * 1e3)

    def end(self) -> None:
        pass
