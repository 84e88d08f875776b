"""The window: units of history, and how much of it a compile looks at.

A unit is the smallest thing that may be kept or cut: one message, or an assistant message with tool calls and all its
answers, paired by id. What a compile reads is bounded by the budget, never by the length of the history.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.counting import Counter
from domain.policies import Made
from domain.rendering.neutral import Neutral
from domain.rows import Message
from domain.showing import Showing
from domain.state import ContextState

DEPTH = 3
"""How many budgets of tokens beyond the window a trim looks back; what is older is accounted for as a range."""

MOST_UNITS = 512
"""Units beyond the window that a trim looks at, at the most."""

MOST_WAITING = 32
"""Calls without an answer that a trim looks at however old they are, the newest of them."""

PAGE = 64
NEWEST = 2**62


@dataclass(frozen=True, slots=True)
class Unit:
    """`seq` is that of its first message, `last` of its newest. `tokens` counts all it would add to the payload,
    `given` what of it is the log's own, without synthetic answers; `shortened` tokens were cut out of its middle
    to fit into `room`; `made` tells what strategies made of its messages."""

    seq: int
    last: int
    messages: tuple[Neutral, ...]
    tokens: int
    given: int
    events: tuple[str, ...]
    role: str
    orphan: bool = False
    open: bool = False
    shortened: int = 0
    room: int = 0
    made: tuple[Made, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    units: int = 0
    messages: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """What a compile looks at: `recent` units, without a gap from the seq `since` to the head; `older` ones that may
    still be wanted; and the totals of all units before `recent`, the older ones included. Only a `deep` history goes
    far enough back for a trim."""

    recent: tuple[Unit, ...]
    older: tuple[Unit, ...]
    before: Totals
    since: int
    deep: bool = True


class Shallow(Exception):
    """The history must be cut, and what was read of it does not go far enough back: read it deep and compile again."""


class HistoryReader(Protocol):
    """Read access to the messages of one session, at one head."""

    def newest(self, before_unit: int, limit: int) -> Sequence[Message]:
        """All messages of the newest `limit` units whose seq is below `before_unit`."""
        ...

    def units(self, event_ids: Collection[str]) -> Sequence[Message]:
        """All messages of the units that contain these messages."""
        ...

    def totals(self, before_unit: int) -> Totals:
        """Counts over all messages of units whose seq is below `before_unit`."""
        ...


class MemoryHistory:
    """The reader over a folded state."""

    def __init__(self, state: ContextState, count: Counter) -> None:
        self.messages: list[Message] = state.rows("messages")
        self._unit_of = {message.event_id: message.unit for message in self.messages}
        self._units = sorted({message.unit for message in self.messages})
        self._by_unit: dict[int, list[Message]] = {}
        for message in self.messages:
            self._by_unit.setdefault(message.unit, []).append(message)
        self._count = count

    def newest(self, before_unit: int, limit: int) -> Sequence[Message]:
        end = bisect_left(self._units, before_unit)
        chosen = self._units[max(0, end - limit) : end]
        return [message for seq in chosen for message in self._by_unit[seq]]

    def units(self, event_ids: Collection[str]) -> Sequence[Message]:
        chosen = sorted({self._unit_of[name] for name in event_ids if name in self._unit_of})
        return [message for seq in chosen for message in self._by_unit[seq]]

    def totals(self, before_unit: int) -> Totals:
        older = [message for message in self.messages if message.unit < before_unit]
        units = len({message.unit for message in older})
        return Totals(units, len(older), sum(map(self._count.message, older)))


def read_history(
    reader: HistoryReader,
    state: ContextState,
    count: Counter,
    budget: int,
    *,
    locale: str = "zh",
    model: str | None = None,
    cut: int = 0,
    kept: Collection[str] = (),
    seen: int = 0,
    deep: bool = True,
) -> History:
    """Pulls units from the newest back: a shallow history to the parent's `cut`; a deep one, and one that exceeds
    `budget` tokens before, until what a trim may look at is there too. `kept` names older ones that the parent
    showed, `seen` is the head that it saw."""
    builder = UnitBuilder(state, count, locale, model)
    recent: list[Unit] = []
    spent, looked, beyond, since = 0, 0, 0, 0
    for unit in _pulled(reader, builder):
        deep = deep or spent > budget
        if not deep and unit.seq < cut:
            since = cut
            break
        beyond += spent > budget
        if beyond > MOST_UNITS or looked > budget * (1 + DEPTH):
            since = recent[-1].seq
            break
        recent.append(unit)
        spent += 0 if unit.orphan else unit.tokens
        # One giant must not hide all that came before it.
        looked += min(unit.tokens, budget // 4)
    recent.reverse()
    first = recent[0].seq if recent else NEWEST
    wanted = wanted_events(state, cut, seen) | set(kept)
    older = builder.units(reader.units(wanted)) if wanted else []
    return History(
        recent=tuple(recent),
        older=tuple(unit for unit in older if unit.seq < first),
        before=reader.totals(first),
        since=since,
        deep=deep,
    )


def earliest(history: History, cut: int, limit: int) -> int:
    """The seq before which no unit can stand in a window of `limit` tokens that goes on from `cut`; 0 for none."""
    spent, first = 0, history.since
    for unit in reversed(history.recent):
        if unit.seq < cut:
            return cut
        if spent > limit:
            return first
        first = unit.seq
        spent += 0 if unit.orphan else unit.tokens
    return history.since


def _pulled(reader: HistoryReader, builder: "UnitBuilder") -> Iterator[Unit]:
    before = NEWEST
    while page := reader.newest(before, PAGE):
        units = builder.units(page)
        yield from reversed(units)
        before = units[0].seq


def wanted_events(state: ContextState, cut: int, seen: int) -> set[str]:
    """Events whose units are wanted however old they are: pins, the business anchor, calls that still wait for an
    answer, and answers to calls before the `cut` that came after the head that was `seen`."""
    wanted = set(state.tables["pins"])
    if anchor := state.one("business"):
        wanted.add(anchor.event_id)
    waiting = [call.event_id for call in state.rows("open_calls") if not call.dead]
    wanted |= set(waiting[-MOST_WAITING:])
    return wanted | {event_id for event_id, unit, seq in state.progress.answers if unit < cut and seq > seen}


class UnitBuilder:
    """Groups messages into units: the assistant message, its answers in the order of its calls, then the rest."""

    def __init__(self, state: ContextState, count: Counter, locale: str, model: str | None) -> None:
        self._count = count
        self._showing = Showing(state, count, locale, model)

    def units(self, messages: Iterable[Message]) -> list[Unit]:
        """The units of these messages, oldest first."""
        groups: dict[int, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.unit, []).append(message)
        return [self._unit(seq, groups[seq]) for seq in sorted(groups)]

    def _unit(self, seq: int, messages: list[Message]) -> Unit:
        if len(messages) > 1:
            messages.sort(key=lambda message: message.seq)
        elif not messages[0].calls:
            return self._single(messages[0])
        showing, waiting = self._showing, self._showing.open_calls
        calls = {call.id for message in messages for call in message.calls}
        answers = {message.answers: message for message in messages if message.answers in calls}
        ordered: list[tuple[Neutral, int]] = []
        for message in messages:
            if message.answers not in calls:
                ordered.append(showing.message(message))
            for call in message.calls:
                answer = answers.get(call.id)
                ordered.append(showing.message(answer) if answer else showing.missing_answer(call.id, message))
        return Unit(
            seq=seq,
            last=messages[-1].seq,
            messages=tuple([message for message, _ in ordered]),
            tokens=sum([tokens for _, tokens in ordered]),
            given=sum(map(self._count.message, messages)),
            events=tuple([name for message in messages for name in (message.event_id, *message.also)]),
            role=messages[0].role,
            orphan=all(message.role == "tool" for message in messages),
            open=any(name in waiting and not waiting[name].dead for name in calls - set(answers)),
        )

    def _single(self, message: Message) -> Unit:
        shown, tokens = self._showing.message(message)
        return Unit(
            seq=message.unit,
            last=message.seq,
            messages=(shown,),
            tokens=tokens,
            given=self._count.message(message),
            events=(message.event_id, *message.also) if message.also else (message.event_id,),
            role=message.role,
            orphan=message.role == "tool",
        )
