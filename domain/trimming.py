"""The trim: one atomic transaction that decides what of the history stays, stands as a summary, or goes.

`begin` takes the units as they are, each round executes one strategy of the ladder on a copy, `validate` checks the
outcome, and a failed check rolls that round back and tries the next. Nothing is cut that was not accounted for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from domain.anchors import Protected
from domain.condensing import condense
from domain.counting import Counter
from domain.events import TextPart
from domain.extracts import Reading, reference_id
from domain.rendering.neutral import Neutral, text_of
from domain.snapshots import Layout
from domain.summaries import Extractor, SummaryLine
from domain.text import shorten
from domain.windows import History, Shallow, Unit
from domain.wording import WORDINGS, Wording

SUMMARY_SHARES = ((600, 0.85), (8_000, 0.4), (None, 0.1))
"""How much of the window the summary may take: of its first thousand tokens most, since whole turns would not fit there
anyway, of further ones less, of many hardly any."""

SMALLEST_SUMMARY = 48
"""Tokens below which there is no summary: hardly more than its heading would fit."""

NEWEST_LEAST, NEWEST_SHARE = 0.4, 0.85
"""The least and the most of the window that the newest unit has when it does not fit beside a full summary."""

GIANT = 0.25
"""The share of the window from which a unit is made smaller when something must be cut."""

FILLINGS = 2
"""How often the window and the summary hand each other what they do not need."""

WHOLE = 0.6
"""The share of the newest unit that must be worth its room for the unit to stay whole."""

SHORTEST_TEXT = 16
"""Tokens that a text in a shortened unit keeps at the least."""

TIGHTER = 0.75
"""What a failed round leaves of its target."""

MAX_ROUNDS = 5


Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The outcome for the history: `window` stays, `summary` stands for the units that its lines name, `dropped` units
    went."""

    window: tuple[Unit, ...]
    summary: tuple[SummaryLine, ...]
    dropped: tuple[Unit, ...]
    layout: Layout
    strategy: str = "none"

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.window) + sum(line.tokens for line in self.summary)


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt that was rolled back, and why."""

    strategy: str
    failed: str


@dataclass(frozen=True, slots=True)
class Trimmed(Generic[Built]):
    """The arrangement that passed every check, what it was built into, and the rounds that did not pass."""

    arrangement: Arrangement
    built: Built
    rolled_back: tuple[Round, ...]


def trim(
    history: History,
    protected: Protected,
    parent: Layout | None,
    room: int,
    low_water: float,
    lending: bool,
    reading: Reading,
    count: Counter,
    locale: str,
    build: Callable[[Arrangement], Built],
    failed_check: Callable[[Arrangement, Built], str | None],
) -> Trimmed[Built] | None:
    """The first arrangement of the ladder that passes every check; None when none does.

    `room` is what the window and its summary may take; `build` renders an arrangement, `failed_check` names the check
    that it fails, if any. With a parent layout the trim goes down to the low-water mark, so that the next prompts share
    a prefix; without one the window is the longest suffix that fits.
    """
    begun = _begin(history, protected, parent, lending, reading, count, locale)
    rolled_back: list[Round] = []
    for attempt in _ladder(begun, room, low_water, count, locale):
        built = build(attempt)
        failed = failed_check(attempt, built)
        if failed is None:
            return Trimmed(attempt, built, tuple(rolled_back))
        rolled_back.append(Round(attempt.strategy, failed))
    return None


@dataclass(frozen=True, slots=True)
class _Begun:
    """The units as the trim finds them: `units` are those that it may cut, newest last; what the parent made smaller is
    smaller, with its tokens in `shortened`, and `whole` holds what to make smaller ones from."""

    units: tuple[Unit, ...]
    gone: tuple[Unit, ...]
    lines: tuple[SummaryLine, ...]
    whole: dict[int, Unit]
    shortened: dict[int, int]
    before: Layout | None
    complete: bool
    deep: bool
    newest: int
    lending: bool
    protected: Protected
    extractor: Extractor

    @property
    def cut(self) -> int:
        return self.before.cut if self.before else 0

    def layout(self, window: Sequence[Unit], lines: tuple[SummaryLine, ...], cut: int, *, trimmed: bool) -> Layout:
        """What the next prompt of the view carries on."""
        shown = (*self.protected.units, *window)
        smaller = {unit.seq: unit.room for unit in window if unit.shortened}
        return Layout(
            cut=cut,
            summary=lines,
            trims=(self.before.trims if self.before else 0) + trimmed,
            kept=tuple(sorted(unit.events[0] for unit in shown if unit.seq < cut)),
            shortened=tuple(sorted(smaller.items())),
        )


def _begin(
    history: History,
    protected: Protected,
    parent: Layout | None,
    lending: bool,
    reading: Reading,
    count: Counter,
    locale: str,
) -> _Begun:
    units = (*history.older, *history.recent)
    whole = [unit for unit in units if unit.seq not in protected.seqs and not unit.orphan]
    before = parent or Layout()
    # What the parent showed stays, and an answer that came since is news however old its call: until the next trim.
    shown = set(before.kept)
    fresh = {
        unit.seq
        for unit in whole
        if unit.seq >= before.cut or unit.last > before.seen or not shown.isdisjoint(unit.events)
    }
    lines = tuple(line for line in before.summary if line.unit not in protected.seqs | fresh)
    limits = dict(before.shortened)
    free = [(unit.seq in limits and _shorten(unit, limits[unit.seq], reading, count, locale)) or unit for unit in whole]
    return _Begun(
        units=tuple(unit for unit in free if unit.seq in fresh),
        gone=tuple(unit for unit in whole if unit.seq not in fresh),
        lines=lines,
        whole={unit.seq: unit for unit in whole},
        shortened=limits,
        before=parent,
        complete=before.cut >= history.since,
        deep=history.deep or not history.since,
        newest=history.recent[-1].seq if history.recent else 0,
        lending=lending,
        protected=protected,
        extractor=Extractor(lines, whole, protected.units, reading),
    )


def _ladder(begun: _Begun, room: int, low_water: float, count: Counter, locale: str) -> Iterator[Arrangement]:
    """Ever stronger cuts: none, the summary at its full size, none of it, a tighter target, and at last no window."""
    spent = sum(unit.tokens for unit in begun.units) + sum(line.tokens for line in begun.lines)
    if begun.complete and spent <= room:
        dropped = _unlisted(begun.gone, begun.lines)
        layout = begun.layout(begun.units, begun.lines, begun.cut, trimmed=False)
        yield Arrangement(begun.units, begun.lines, dropped, layout)
    if not begun.deep:
        raise Shallow
    target = int(room * low_water) if begun.before else room
    for strategy, share in (("summary", 1.0), ("drop", 1.0), ("drop", TIGHTER), ("drop", 0.0))[: MAX_ROUNDS - 1]:
        yield _cut(begun, max(0, int(target * share)), strategy, count, locale)


def _cut(begun: _Begun, target: int, strategy: str, count: Counter, locale: str) -> Arrangement:
    """The window down to `target` tokens, the summary of what goes included. What the summary leaves over, the window
    gets back; what the window cannot use, the summary."""
    begun = _without_giants(begun, target, count, locale)
    reserve = _summary_room(begun, target)
    if strategy == "drop":
        target, reserve = target - reserve, 0
    window, lines = _filled(begun, target, reserve, count, locale)
    for _ in range(FILLINGS if begun.lending else 0):
        spare = target - sum(unit.tokens for unit in window) - _summary_tokens(lines, count, locale)
        following = begun.units[-len(window) - 1] if len(window) < len(begun.units) else None
        if (
            not reserve
            or following is None
            or (window and window[-1].shortened)
            or (lines and following.tokens > spare)
        ):
            break
        reserve = _summary_tokens(lines, count, locale)
        window, lines = _filled(begun, target, reserve, count, locale)
    gone = begun.units[: len(begun.units) - len(window)]
    cut = next((unit.seq for unit in window if unit.seq >= begun.cut), begun.newest + 1)
    return Arrangement(
        window=window,
        summary=lines,
        dropped=_unlisted((*begun.gone, *gone), lines),
        layout=begun.layout(window, lines, cut, trimmed=True),
        strategy=strategy,
    )


def _without_giants(begun: _Begun, target: int, count: Counter, locale: str) -> _Begun:
    """Units that are larger than their share are made smaller, so that one does not push out all that came before it;
    the newest is left to `_window`."""
    most = int(target * GIANT)
    units = [
        (unit.tokens > most and _shorten(begun.whole[unit.seq], most, begun.extractor.reading, count, locale)) or unit
        for unit in begun.units[:-1]
    ]
    return replace(begun, units=(*units, *begun.units[-1:]))


def _filled(
    begun: _Begun, target: int, reserve: int, count: Counter, locale: str
) -> tuple[tuple[Unit, ...], tuple[SummaryLine, ...]]:
    window = _window(begun, target - reserve, count, locale)
    # Without a window the summary has all the room.
    lines = _summary(begun, window, reserve if window or not reserve else target, count, locale)
    return window, lines


def _window(begun: _Begun, room: int, count: Counter, locale: str) -> tuple[Unit, ...]:
    """The longest suffix that fits; of a newest unit that does not, a part: the agent's next step stands on it."""
    window = _suffix(begun.units, room)
    if window or not begun.units:
        return window
    newest = begun.whole[begun.units[-1].seq]
    smaller = _shorten(newest, room, begun.extractor.reading, count, locale)
    return (smaller,) if smaller else ()


def _summary(begun: _Begun, window: Sequence[Unit], room: int, count: Counter, locale: str) -> tuple[SummaryLine, ...]:
    gone = (*begun.gone, *begun.units[: len(begun.units) - len(window)])
    return begun.extractor.lines(gone, window, room - _heading(count, locale), count.text)


def _summary_tokens(lines: Sequence[SummaryLine], count: Counter, locale: str) -> int:
    return _heading(count, locale) + sum(line.tokens for line in lines) if lines else 0


def _share(target: int) -> int:
    """What the summary may take of a target; what it leaves to the window only ever grows with the target."""
    if target < SMALLEST_SUMMARY:
        return 0
    taken, below = 0.0, 0
    for upto, share in SUMMARY_SHARES:
        top = target if upto is None else min(target, upto)
        taken += max(0, top - below) * share
        below = max(below, top)
    return min(int(taken), target - SMALLEST_SUMMARY)


def _summary_room(begun: _Begun, target: int) -> int:
    """What the summary may take: its share, but for what the newest unit is worth beside all that went."""
    most = _share(target)
    if not begun.lending or not begun.units or begun.units[-1].tokens <= target - most:
        return most
    newest = begun.units[-1]
    share = begun.extractor.fair_share((*begun.gone, *begun.units[:-1]), newest, target)
    wanted = newest.tokens if share > WHOLE else int(newest.tokens * share)
    wanted = max(wanted, min(newest.tokens, int(target * NEWEST_LEAST)))
    return max(0, min(most, target - min(wanted, int(target * NEWEST_SHARE))))


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


def _heading(count: Counter, locale: str) -> int:
    words = WORDINGS[locale]
    rows = (words.summary, words.earlier.format(units=10_000), words.expandable)
    part = TextPart(type="text", text="\n".join(rows))
    return count.neutral([Neutral("user", "summary", (part,))])


def _shorten(unit: Unit, room: int, reading: Reading, count: Counter, locale: str) -> Unit | None:
    """The unit with its texts made smaller until it fits, the longest first; calls and ids stay whole, and so does a
    message with reasoning, whose signature holds for the whole of it."""
    words = WORDINGS[locale]
    texts = ["" if one.reasoning else "\n".join(map(text_of, one.parts)) for one in unit.messages]
    sizes = [count.text(text) for text in texts]
    for slack in (0, 8 * len(sizes)):
        level = _level(sizes, room - (unit.tokens - sum(sizes)) - slack)
        if level < SHORTEST_TEXT:
            return None
        messages = []
        for message, text, size in zip(unit.messages, texts, sizes, strict=True):
            if size > level:
                made = _smaller(message, text, level, reading, count, words)
                if not made:
                    return None
                message = replace(message, parts=(TextPart(type="text", text=made),))
            messages.append(message)
        tokens = count.neutral(messages)
        if tokens <= room:
            cut = unit.shortened + unit.tokens - tokens
            return replace(unit, messages=tuple(messages), tokens=tokens, shortened=cut, room=room)
    return None


def _smaller(message: Neutral, text: str, limit: int, reading: Reading, count: Counter, words: Wording) -> str:
    """A text in `limit` tokens, with a mark that says how much is missing and under which reference it stands."""

    def marker(tokens: int) -> str:
        return words.left_out_of(tokens, reference_id(message))

    if message.role != "tool":
        return shorten(text, limit, count.text, marker)
    return condense(text, limit, count.text, marker, reading.fields.get(message.tool or "", ()))


def _level(sizes: Sequence[int], room: int) -> int:
    """The size to which the larger ones are cut so that all together take `room`."""
    left = room
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)
