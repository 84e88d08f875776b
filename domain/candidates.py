"""What a trim finds: the units that it may cut, what went before, and what the parent made of both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from domain.anchors import Protected
from domain.policies import masked
from domain.remaking import Maker, remade
from domain.shrinking import shorten_unit
from domain.snapshots import Layout
from domain.summaries import Extractor, SummaryLine
from domain.windows import History, Unit

KEPT_TRIMS = 64
"""Trims of which a layout remembers when they were."""

GIANT = 0.25
"""The share of its room from which a unit is made smaller when something must be cut."""

PLAIN = 0.25
"""The share of the room below which no unit is made smaller for its size alone."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The units as the trim finds them: `units` are those that it may cut, newest last; what the parent made smaller is
    smaller, with its tokens in `shortened`, and `whole` holds what to make smaller ones from. `removed` are those that
    a policy took out, `left` those of them that are to stand nowhere; above `giant` tokens a unit is made smaller."""

    units: tuple[Unit, ...]
    gone: tuple[Unit, ...]
    lines: tuple[SummaryLine, ...]
    whole: dict[int, Unit]
    before: Layout | None
    complete: bool
    deep: bool
    newest: Unit | None
    lending: bool
    protected: Protected
    extractor: Extractor
    maker: Maker
    removed: frozenset[int]
    left: tuple[Unit, ...] = ()
    giant: float = 0.0

    @property
    def cut(self) -> int:
        return self.before.cut if self.before else 0

    def charge(self, unit: Unit) -> float:
        """What a unit takes of the window's room: one that was made smaller all that it might have had, so that a
        larger room, which cuts less off, never holds fewer; with lending what it has."""
        cut_now = not self.lending and unit.room and unit.room == int(self.giant)
        return self.giant if cut_now else unit.tokens

    def smaller(self, seq: int, room: int) -> Unit | None:
        return shorten_unit(self.whole[seq], room, self.maker.reading, self.maker.count, self.maker.words)

    def layout(self, window: Sequence[Unit], lines: tuple[SummaryLine, ...], cut: int, *, trimmed: bool) -> Layout:
        """What the next prompt of the view carries on."""
        shown = (*self.protected.units, *window)
        before = self.before or Layout()
        seen = [self.newest.last] if trimmed and self.newest else []
        return Layout(
            cut=cut,
            summary=lines,
            trims=before.trims + trimmed,
            kept=tuple(sorted(unit.events[0] for unit in shown if unit.seq < cut)),
            shortened=tuple(sorted((unit.seq, unit.room) for unit in window if unit.room)),
            made=tuple(one for unit in window for one in unit.made),
            removed=tuple(sorted(seq for seq in self.removed if seq >= cut)),
            trimmed=(*before.trimmed, *seen)[-KEPT_TRIMS:],
        )


def must_cut(history: History, parent: Layout, room: int) -> bool:
    """Whether what the parent shows and what came since need more than `room` for certain, with nothing in it that is
    smaller than it was or may be made so before a trim."""
    if parent.made or parent.removed or parent.shortened:
        return False
    spent = [unit.tokens for unit in history.recent if not unit.orphan]
    return max(spent, default=0) < room * PLAIN and sum(spent) + sum(line.tokens for line in parent.summary) > room


def begin(history: History, protected: Protected, parent: Layout | None, lending: bool, maker: Maker) -> Begun:
    units = (*history.older, *history.recent)
    whole = [unit for unit in units if unit.seq not in protected.seqs and not unit.orphan]
    before = parent or Layout()
    # What the parent showed stays, and an answer that came since is news however old its call: until the next trim.
    shown, removed = set(before.kept), set(before.removed)
    fresh = {
        unit.seq
        for unit in whole
        if unit.last > before.seen
        or (unit.seq >= before.cut and unit.seq not in removed)
        or not shown.isdisjoint(unit.events)
    }
    lines = tuple(line for line in before.summary if line.unit not in protected.seqs | fresh)
    return Begun(
        units=tuple(_carried(unit, before, maker) for unit in whole if unit.seq in fresh),
        gone=tuple(unit for unit in whole if unit.seq not in fresh),
        lines=lines,
        whole={unit.seq: unit for unit in whole},
        before=parent,
        complete=before.cut >= history.since,
        deep=history.deep or not history.since,
        newest=history.recent[-1] if history.recent else None,
        lending=lending,
        protected=protected,
        extractor=Extractor(lines, whole, protected.units, maker.reading, maker.written, maker.mask),
        maker=maker,
        removed=frozenset(removed - fresh - protected.seqs),
    )


def without_giants(begun: Begun, room: int) -> Begun:
    """Units that are larger than their share of what the window may have are made smaller, so that one does not push
    out all that came before it; what becomes of the newest is for the window to say. Where newer ones fill the room,
    nothing older can stay and none is made smaller."""
    units, begun = list(begun.units), replace(begun, giant=room * GIANT)
    held: float = units[-1].tokens if units else 0
    for at in range(len(units) - 2, -1, -1):
        if held > room:
            break
        if units[at].tokens > begun.giant:
            units[at] = begun.smaller(units[at].seq, int(begun.giant)) or units[at]
        held += begun.charge(units[at])
    return replace(begun, units=tuple(units))


def _carried(unit: Unit, before: Layout, maker: Maker) -> Unit:
    """The unit as the parent showed it."""
    seqs = {message.seq for message in unit.messages}
    made = [masked(one, maker.mask) for one in before.made if one.shown and one.seq in seqs]
    unit = remade(unit, made, maker.count) if made else unit
    room = dict(before.shortened).get(unit.seq)
    return (room and shorten_unit(unit, room, maker.reading, maker.count, maker.words)) or unit
