"""Laying out: what of the budget the floor takes, what the slots get by rank, and what room is left to the history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from domain import rendering
from domain.anchors import Protected, core_rules, needs, overflow, protect
from domain.arranging import Frame, arrange, frame
from domain.budgets import Offers, SlotFill, fill_slots
from domain.context import Context
from domain.counting import Counter
from domain.freezing import Frozen, is_frozen
from domain.modes import Mode
from domain.rendering.neutral import Neutral
from domain.requests import CompileRequest, SlotName
from domain.rows import Instruction, Tool
from domain.slots import Facts, SlotItem, offered
from domain.snapshots import Layout
from domain.trimming import Arrangement
from domain.windows import NEWEST
from domain.wording import WORDINGS, Wording

TAIL_RESERVE = 40
"""Tokens kept for the frame of the tail message and the seams between counted pieces."""

CHEAP = 8
"""How many times the cost of the repeated core rules must be there for them to be repeated."""

SEAMS = 16
"""Tokens by which the sum of counted pieces may miss the count of the whole, either way."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a request means for this session, before any history is read. `limit` is in the counter's tokens."""

    budget: int
    limit: int
    mode: Mode
    model: str | None
    locale: str

    @property
    def words(self) -> Wording:
        return WORDINGS[self.locale]


@dataclass(frozen=True, slots=True)
class Desk:
    """What every step of one compile has before it."""

    context: Context
    request: CompileRequest
    count: Counter
    plan: Plan
    facts: Facts
    anchor: Instruction | None
    tools: tuple[Tool, ...]
    left_out: int


def floor_of(desk: Desk) -> dict[str, int]:
    """Tokens of each part that is reserved first, besides the protected units."""
    mode, words, count = desk.plan.mode, desk.plan.words, desk.count
    nothing = replace(mode, slots=())
    blocks = fill_slots(desk.facts, nothing, 0, 0, count.text, _offers(desk, None))
    bare, ruled = frame(desk.anchor, (), mode, words, 0), frame(desk.anchor, blocks, mode, words, 0)
    return {
        "format": count.base,
        "anchor_system": _system_tokens(bare, count),
        "constraints": _system_tokens(ruled, count) - _system_tokens(bare, count),
        "tools": count.tools(desk.tools),
        "few_shot": count.neutral(bare.few_shot),
    }


def _system_tokens(around: Frame, count: Counter) -> int:
    return count.neutral([around.system]) if around.system else 0


Laid = tuple[Protected, Sequence[SlotFill], Frame, int]
"""What is protected, what stands in the slots, all that stands around the history, and the room that is left to it."""


def everything(desk: Desk, floor: Mapping[str, int], frozen: Frozen | None, parent: Layout | None) -> Laid | None:
    """The plan for a budget that holds everything: nothing gives way where nothing has to. None when it does not."""
    plan, count, history = desk.plan, desk.count, desk.context.history
    units = (*history.older, *history.recent)
    needed = sum(unit.tokens for unit in units if not unit.orphan)
    if history.since or (parent and parent.cut) or sum(floor.values()) + needed > plan.limit + SEAMS:
        return None
    protected = protect(units, desk.context.session, {}, NEWEST, count, plan.words)
    if protected is None:
        return None
    fills = fill_slots(desk.facts, plan.mode, None, _header_tokens(desk), count.text, _offers(desk, frozen))
    around = _framed(desk, fills, _reinforced(desk))
    free = tuple(unit for unit in units if unit.seq not in protected.seqs and not unit.orphan)
    messages = arranged(desk, around, protected, Arrangement(free, (), (), Layout()))
    spent = count.payload(rendering.render(messages, desk.tools, count.format), messages)
    return (protected, fills, around, needed) if spent <= plan.limit else None


def laid_out(desk: Desk, floor: Mapping[str, int], frozen: Frozen | None, *, memory: bool = True) -> Laid:
    """The plan for a budget that is short. The counts of parts add up to that of the whole but for the seams: the exact
    count decides, on plans a little over and under the limit."""
    plan, count, history = desk.plan, desk.count, desk.context.history
    units = (*history.older, *history.recent)
    for seams in (SEAMS, 0, -SEAMS):
        protected = protect(units, desk.context.session, floor, plan.limit + seams, count, plan.words)
        if protected is None:
            continue
        left = plan.limit - sum(floor.values())
        spare = left - sum(unit.tokens for unit in protected.units)
        # The newest directive must not change the slots' share, unless it leaves hardly more than that to the window.
        share = plan.mode.window_share
        allowance = max(0, min(int(left * (1 - share)), int(spare * (1 - share / 2))) - TAIL_RESERVE)
        for allowed in (allowance, 0) if memory else (0,):
            fills = fill_slots(desk.facts, plan.mode, allowed, _header_tokens(desk), count.text, _offers(desk, frozen))
            around, room = _frame_that_fits(desk, fills, protected)
            if room >= 0:
                # Slots and window share what is short: what one leaves over must not make the other shrink.
                short = allowed < plan.mode.global_slot_budget and _wants_more(fills)
                return protected, fills, around, max(0, min(room, spare - allowed)) if short else room
    found = {**floor, **needs(units, desk.context.session, count, plan.words)}
    raise overflow({**found, "opening": max(0, plan.limit + 1 - sum(found.values()))}, plan.budget, count)


def _offers(desk: Desk, frozen: Frozen | None) -> Offers:
    """What each slot offers now, with what the run froze in the place of what it would offer anew."""

    def offers(slot: SlotName) -> list[SlotItem]:
        found = offered(slot, desk.facts)
        if frozen is None:
            return found
        kept = [item for item in frozen.items if item.slot == slot]
        return [*kept, *(item for item in found if not is_frozen(item, desk.plan.mode))]

    return offers


def _header_tokens(desk: Desk) -> int:
    words = desk.plan.words
    titles = [words.title(spec.slot) for spec in desk.plan.mode.slots]
    return max((desk.count.text(f"\n\n{title}\n- {words.none}\n") for title in titles), default=0)


def _wants_more(fills: Sequence[SlotFill]) -> bool:
    return any(one.reason == "global_budget" for fill in fills for one in fill.placed)


def _frame_that_fits(desk: Desk, fills: Sequence[SlotFill], protected: Protected) -> tuple[Frame, int]:
    """The frame with the slots, with the repeated core rules where they are cheap, and the room that is left.

    What the rules would cost is not given to the window just below the point where they come in, so that the window
    never has less of a larger budget.
    """
    plan = desk.plan
    bare = _framed(desk, fills, 0)
    room = plan.limit - _fixed_tokens(desk, bare, protected)
    if not _reinforced(desk) or not core_rules(desk.anchor, _reinforced(desk)):
        return bare, room
    repeated = _framed(desk, fills, _reinforced(desk))
    left = plan.limit - _fixed_tokens(desk, repeated, protected)
    least = 0 if desk.request.overrides.reinforce_rules else (room - left) * (CHEAP - 1)
    return (repeated, left) if left >= least else (bare, min(room, least))


def _framed(desk: Desk, fills: Sequence[SlotFill], reinforced: int) -> Frame:
    return frame(desk.anchor, fills, desk.plan.mode, desk.plan.words, reinforced)


def _reinforced(desk: Desk) -> int:
    """How many core rules are to be repeated, where they fit."""
    overrides = desk.request.overrides
    return 0 if overrides.reinforce_rules is False else overrides.reinforce_limit


def _fixed_tokens(desk: Desk, around: Frame, protected: Protected) -> int:
    """What the prompt needs before any of the history that may be cut."""
    messages = arranged(desk, around, protected, Arrangement((), (), (), Layout()))
    return desk.count.payload(rendering.render(messages, desk.tools, desk.count.format), messages)


def arranged(desk: Desk, around: Frame, protected: Protected, attempt: Arrangement) -> tuple[Neutral, ...]:
    """The messages in order; the summary says how many units before the cut are neither shown nor summarised."""
    history, cut = desk.context.history, attempt.layout.cut
    shown = sum(unit.seq < cut for unit in (*attempt.window, *protected.units)) + len(attempt.summary)
    omitted = history.before.units + sum(unit.seq < cut for unit in history.recent) - shown
    omitted += len(attempt.layout.removed)
    return arrange(around, protected, attempt, omitted, desk.plan.words)
