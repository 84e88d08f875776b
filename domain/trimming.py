"""The trim: one atomic transaction that decides what of the history stays, stands as a summary, or goes.

`begin` takes the units as they are, each round executes one strategy of the ladder on a copy, `validate` checks the
outcome, and a failed check rolls that round back and tries the next. Nothing is cut that was not accounted for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from domain.anchors import Protected
from domain.counting import Counter
from domain.events import TextPart
from domain.rendering.neutral import Neutral, text_of
from domain.snapshots import Layout
from domain.summaries import SummaryLine, summary_line
from domain.text import shorten
from domain.windows import History, Unit
from domain.wording import WORDINGS

SUMMARY_SHARE, SUMMARY_MOST = 0.15, 600
"""The share of the window that the summary may take, and its most tokens."""

TIGHTER = 0.75
"""What a failed round leaves of its target."""

MAX_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The outcome for the history: `window` stays whole, `summary` stands for the units that its lines name, `dropped`
    units went. `shortened` maps a unit to the tokens cut out of its middle."""

    window: tuple[Unit, ...]
    summary: tuple[SummaryLine, ...]
    dropped: tuple[Unit, ...]
    layout: Layout
    strategy: str = "none"
    shortened: dict[int, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.window) + sum(line.tokens for line in self.summary)


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt that was rolled back, and why."""

    strategy: str
    failed: str


@dataclass(frozen=True, slots=True)
class Trimmed:
    arrangement: Arrangement
    rolled_back: tuple[Round, ...]


def trim(
    history: History,
    protected: Protected,
    parent: Layout | None,
    room: int,
    low_water: float,
    count: Counter,
    locale: str,
    failed_check: Callable[[Arrangement], str | None],
) -> Trimmed | None:
    """The first arrangement of the ladder that passes every check; None when none does.

    `room` is what the window and its summary may take; `failed_check` renders an arrangement and names the check it
    fails, if any. With a parent layout the trim goes down to the low-water mark, so that the next prompts share a
    prefix; without one the window is the longest suffix that fits.
    """
    begun = _begin(history, protected, parent)
    rolled_back: list[Round] = []
    for attempt in _ladder(begun, room, low_water, count, locale):
        failed = failed_check(attempt)
        if failed is None:
            return Trimmed(attempt, tuple(rolled_back))
        rolled_back.append(Round(attempt.strategy, failed))
    return None


@dataclass(frozen=True, slots=True)
class _Begun:
    """The units as the trim finds them: `units` are those that it may cut, newest last."""

    units: tuple[Unit, ...]
    gone: tuple[Unit, ...]
    lines: tuple[SummaryLine, ...]
    cut: int
    trims: int
    complete: bool
    carried: bool
    newest: int


def _begin(history: History, protected: Protected, parent: Layout | None) -> _Begun:
    free = [unit for unit in history.recent if unit.seq not in protected.seqs and not unit.orphan]
    cut = parent.cut if parent else 0
    first = history.recent[0].seq if history.recent else 0
    # A unit before the cut whose answer came after it is news: it comes back until the next trim.
    fresh = {unit.seq for unit in free if unit.last >= cut}
    lines = tuple(
        line
        for line in (parent.summary if parent else ())
        if line.unit not in protected.seqs and line.unit not in fresh
    )
    return _Begun(
        units=tuple(unit for unit in free if unit.seq in fresh),
        gone=tuple(unit for unit in free if unit.seq not in fresh),
        lines=lines,
        cut=cut,
        trims=parent.trims if parent else 0,
        complete=cut >= first or not history.before.units,
        carried=parent is not None,
        newest=history.recent[-1].seq if history.recent else 0,
    )


def _ladder(begun: _Begun, room: int, low_water: float, count: Counter, locale: str) -> Iterator[Arrangement]:
    """Ever stronger cuts: none, the summary at its full size, none of it, a tighter target, and at last no window."""
    spent = sum(unit.tokens for unit in begun.units) + sum(line.tokens for line in begun.lines)
    if begun.complete and spent <= room:
        dropped = _unlisted(begun.gone, begun.lines)
        yield Arrangement(begun.units, begun.lines, dropped, Layout(begun.cut, begun.lines, begun.trims))
    target = int(room * low_water) if begun.carried else room
    for strategy, share in (("summary", 1.0), ("drop", 1.0), ("drop", TIGHTER), ("drop", 0.0))[: MAX_ROUNDS - 1]:
        yield _cut(begun, max(0, int(target * share)), strategy, count, locale)


def _cut(begun: _Begun, target: int, strategy: str, count: Counter, locale: str) -> Arrangement:
    reserve = min(int(target * SUMMARY_SHARE), SUMMARY_MOST) if strategy == "summary" else 0
    window = _suffix(begun.units, target - reserve)
    shortened: dict[int, int] = {}
    if not window and begun.units and begun.units[-1].seq == begun.newest:
        # The agent's next step stands on the newest unit: rather a part of it than nothing.
        smaller = _shorten(begun.units[-1], target - reserve, count, locale)
        if smaller is not None:
            window = (smaller,)
            shortened[smaller.seq] = begun.units[-1].tokens - smaller.tokens
    gone = begun.units[: len(begun.units) - len(window)]
    lines = _summarise(begun.lines, gone, reserve, locale, count) if reserve else ()
    cut = next((unit.seq for unit in window if unit.seq >= begun.cut), begun.newest + 1)
    return Arrangement(
        window=window,
        summary=lines,
        dropped=_unlisted((*begun.gone, *gone), lines),
        layout=Layout(cut, lines, begun.trims + 1),
        strategy=strategy,
        shortened=shortened,
    )


def _unlisted(gone: Sequence[Unit], lines: Sequence[SummaryLine]) -> tuple[Unit, ...]:
    """Of the units that went, those that no line of the summary stands for."""
    listed = {line.unit for line in lines}
    return tuple(unit for unit in gone if unit.seq not in listed)


def _suffix(units: Sequence[Unit], room: int) -> tuple[Unit, ...]:
    """The longest suffix that fits."""
    first = len(units)
    while first and units[first - 1].tokens <= room:
        first -= 1
        room -= units[first].tokens
    return tuple(units[first:])


def _summarise(
    carried: Sequence[SummaryLine], gone: Sequence[Unit], room: int, locale: str, count: Counter
) -> tuple[SummaryLine, ...]:
    """Lines for what went, newest first as long as they fit; lines that were carried keep their text."""
    room -= _heading(count, locale)
    chosen: list[SummaryLine] = []
    for line in _lines(carried, gone, locale, count):
        if not line.text:
            continue
        room -= line.tokens
        if room < 0:
            break
        chosen.append(line)
    return tuple(reversed(chosen))


def _lines(carried: Sequence[SummaryLine], gone: Sequence[Unit], locale: str, count: Counter) -> Iterator[SummaryLine]:
    for unit in reversed(gone):
        yield summary_line(unit, locale, count.text)
    yield from reversed(carried)


def _heading(count: Counter, locale: str) -> int:
    words = WORDINGS[locale]
    part = TextPart(type="text", text=words.summary + "\n" + words.earlier.format(units=10_000))
    return count.neutral([Neutral("user", "summary", (part,))])


def _shorten(unit: Unit, room: int, count: Counter, locale: str) -> Unit | None:
    """The unit with the middle of its texts cut, the longest first, until it fits; calls and ids stay whole."""
    words = WORDINGS[locale]
    messages = list(unit.messages)
    excess = unit.tokens - room
    sizes = [(sum(count.text(text_of(part)) for part in one.parts), at) for at, one in enumerate(messages)]
    for size, at in sorted(sizes, reverse=True):
        if excess <= 0:
            break
        limit = max(size - excess - 8, 40)
        if limit >= size:
            continue
        whole = "\n".join(map(text_of, messages[at].parts))
        text = shorten(whole, limit, count.text, words.left_out_marker)
        messages[at] = replace(messages[at], parts=(TextPart(type="text", text=text),))
        excess -= size - count.text(text)
    tokens = count.neutral(messages)
    return replace(unit, messages=tuple(messages), tokens=tokens) if tokens <= room else None
