"""The trim: one atomic transaction that decides what of the history stays, stands as a summary, or goes.

`begin` takes the units as they are, each round executes one strategy of the ladder on a copy, `validate` checks the
outcome, and a failed check rolls that round back and tries the next. Nothing is cut that was not accounted for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from domain.anchors import Protected
from domain.candidates import GIANT, Begun, begin, without_giants
from domain.policies import ages
from domain.remaking import Fate, Maker, by_policy, newer_answers
from domain.rooms import heading, suffix, summary_share, summary_tokens
from domain.snapshots import Layout
from domain.summaries import SummaryLine
from domain.windows import History, Shallow, Unit

NEWEST_LEAST, NEWEST_SHARE = 0.4, 0.85
"""The least and the most of the window that the newest unit has when it does not fit beside a full summary."""

FILLINGS = 2
"""How often the window and the summary hand each other what they do not need."""

WHOLE = 0.6
"""The share of the newest unit that must be worth its room for the unit to stay whole."""

LADDER = (("summary", 1.0), ("drop", 1.0))
"""What is tried when not everything fits: strategies, and the share of the target that each has."""

EMERGENCY = (("drop", 0.75), ("emergency", 0.0))
"""The last rungs before an overflow, once memory gave way: a tighter target, then neither window nor summary. With the
attempt to cut nothing, five rounds at the most."""


Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The outcome for the history: `window` stays, `summary` stands for the units that its lines name, `dropped` units
    went, for want of room unless `reasons` says otherwise."""

    window: tuple[Unit, ...]
    summary: tuple[SummaryLine, ...]
    dropped: tuple[Unit, ...]
    layout: Layout
    strategy: str = "none"
    reasons: Mapping[int, str] = field(default_factory=dict)

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
    maker: Maker,
    build: Callable[[Arrangement], Built],
    failed_check: Callable[[Arrangement, Built], str | None],
    rolled_back: list[Round],
    rungs: Sequence[tuple[str, float]],
) -> Trimmed[Built] | None:
    """The first arrangement of the ladder that passes every check; None when none does.

    `room` is what the window and its summary may take; `build` renders an arrangement, `failed_check` names the check
    that it fails, if any; `rungs` are strategies with the share of the target that they have, and what fails goes to
    `rolled_back`. With a parent layout the trim goes down to the low-water mark, so that the next prompts share
    a prefix; without one the window is the longest suffix that fits.
    """
    begun = begin(history, protected, parent, lending, maker)
    before: Arrangement | None = None
    for attempt in _ladder(begun, room, low_water, rungs):
        if before and (attempt.window, attempt.summary) == (before.window, before.summary):
            continue  # what just failed is not rendered again under another name
        before, built = attempt, build(attempt)
        failed = failed_check(attempt, built)
        if failed is None:
            return Trimmed(attempt, built, tuple(rolled_back))
        rolled_back.append(Round(attempt.strategy, failed))
    return None


def _ladder(begun: Begun, room: int, low_water: float, rungs: Sequence[tuple[str, float]]) -> Iterator[Arrangement]:
    """Ever stronger cuts: first none, if there is room for all."""
    spent = sum(unit.tokens for unit in begun.units) + sum(line.tokens for line in begun.lines)
    if begun.complete and spent <= room and rungs is LADDER:
        dropped = _unlisted(begun.gone, begun.lines)
        layout = begun.layout(begun.units, begun.lines, begun.cut, trimmed=False)
        yield Arrangement(begun.units, begun.lines, dropped, layout)
    if not begun.deep:
        raise Shallow
    target = int(room * low_water) if begun.before else room
    for strategy, share in rungs:
        yield _cut(begun, max(0, int(target * share)), strategy)


def _cut(begun: Begun, target: int, strategy: str) -> Arrangement:
    """The window down to `target` tokens, the summary of what goes included. What the summary leaves over, the window
    gets back; what the window cannot use, the summary."""
    begun, reserve = _shared(begun, _by_policy(begun, target), target)
    if strategy == "drop":
        target, reserve = target - (reserve or summary_share(target)), 0
    window, lines = _filled(begun, target, reserve)
    for _ in range(FILLINGS if begun.lending else 0):
        spare = target - sum(unit.tokens for unit in window)
        spare -= summary_tokens(lines, begun.maker.count, begun.maker.words)
        following = begun.units[-len(window) - 1] if len(window) < len(begun.units) else None
        if not reserve or following is None or (window and window[-1].room) or (lines and following.tokens > spare):
            break
        reserve = summary_tokens(lines, begun.maker.count, begun.maker.words)
        window, lines = _filled(begun, target, reserve)
    gone = begun.units[: len(begun.units) - len(window)]
    after = begun.newest.seq + 1 if begun.newest else 1
    cut = next((unit.seq for unit in window if unit.seq >= begun.cut), after)
    return Arrangement(
        window=window,
        summary=lines,
        dropped=_unlisted((*begun.gone, *gone, *begun.left), lines),
        layout=begun.layout(window, lines, cut, trimmed=True),
        strategy=strategy,
        reasons={unit.seq: "policy" for unit in begun.left},
    )


def _by_policy(begun: Begun, target: int) -> Begun:
    """Answers that newer ones replaced become one line each, and what the mode's policy says is done to the rest, but
    for the newest unit, on which the next step stands."""
    maker, protected = begun.maker, begun.protected.units
    newer = newer_answers([*protected, *(begun.whole[unit.seq] for unit in begun.units)])
    if not newer and not maker.rules:
        return begun
    users = [unit.seq for unit in (*protected, *begun.whole.values()) if unit.role == "user"]
    age = ages(users, begun.before.trimmed if begun.before else ())
    limit = int(target * GIANT)

    def fate(unit: Unit) -> Fate:
        return by_policy(begun.whole[unit.seq], age(unit.last), limit, newer, maker)

    units, left, gone = list[Unit](), list[Unit](), list[Unit]()
    for unit in begun.units[:-1]:
        found = fate(unit)
        if found.leaves:
            (left if found.leaves == "drop" else gone).append(begun.whole[unit.seq])
        else:
            units.append(found.unit if found.unit.made and found.unit.tokens < unit.tokens else unit)
    for unit in begun.gone:
        (left if maker.rules and fate(unit).leaves == "drop" else gone).append(unit)
    return replace(
        begun,
        units=(*units, *begun.units[-1:]),
        gone=tuple(sorted(gone, key=lambda unit: unit.seq)),
        left=tuple(left),
        removed=begun.removed | {unit.seq for unit in (*left, *gone)},
        whole=begun.whole | {unit.seq: unit for unit in units if unit.made and not unit.room},
    )


def _shared(begun: Begun, ruled: Begun, target: int) -> tuple[Begun, int]:
    """The units, giants made smaller, and what of the target is the summary's: nothing where all units fit and none
    went before."""
    reserve = _summary_room(ruled, target)
    spare = target - sum(unit.tokens for unit in ruled.units)
    if ruled is not begun and spare >= 0:
        # What a policy made to fit is not pushed out by a summary of what went.
        reserve = min(spare, reserve)
    if not ruled.gone and not ruled.lines:
        smaller = without_giants(ruled, target)
        if sum(map(smaller.charge, smaller.units)) <= target:
            return smaller, 0
    return without_giants(ruled, target if ruled.lending else target - reserve), reserve


def _filled(begun: Begun, target: int, reserve: int) -> tuple[tuple[Unit, ...], tuple[SummaryLine, ...]]:
    window = _window(begun, target - reserve)
    # Without a window the summary has all the room.
    lines = _summary(begun, window, reserve if window or not reserve else target)
    return window, lines


def _window(begun: Begun, room: int) -> tuple[Unit, ...]:
    """The longest suffix that fits; of a newest unit that does not, a part: the agent's next step stands on it."""
    window = suffix(begun.units, room, begun.charge)
    if window or not begun.units:
        return window
    smaller = begun.smaller(begun.units[-1].seq, room)
    return (smaller,) if smaller else ()


def _summary(begun: Begun, window: Sequence[Unit], room: int) -> tuple[SummaryLine, ...]:
    gone = sorted((*begun.gone, *begun.units[: len(begun.units) - len(window)]), key=lambda unit: unit.seq)
    count = begun.maker.count
    return begun.extractor.lines(gone, window, room - heading(count, begun.maker.words), count.text)


def _summary_room(begun: Begun, target: int) -> int:
    """What the summary may take: its share, but for what the newest unit is worth beside all that went."""
    most = summary_share(target)
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
