"""Shares of the window: the input budget, and which slot items fit into theirs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from domain.lines import Page
from domain.modes import SLOTS, STABLE, Mode, SlotSpec
from domain.requests import CompileRequest, Place, SlotName
from domain.rows import SessionInfo
from domain.slots import Facts, SlotItem, refusal
from domain.text import head_within

RESERVE = 0.3
RESERVE_BY_TASK = {"code": 0.4, "chat": 0.3, "classify": 0.2}
DEFAULT_WINDOW = 128_000
LONGEST_ITEM = 0.25
"""The share of its slot's budget that one item may take; a longer one is cut, so that none blocks the rest."""


def input_budget(session: SessionInfo, request: CompileRequest, model_window: int | None) -> int:
    """Tokens the prompt may have: the request's own budget, or floor(window * (1 - reserve ratio))."""
    if request.budget is not None:
        return request.budget
    window = request.window or session.context_window or model_window or DEFAULT_WINDOW
    ratio = request.overrides.reserve_ratio
    if ratio is None:
        ratio = session.reserve_ratio
    if ratio is None:
        ratio = RESERVE_BY_TASK.get(session.task_type or "", RESERVE)
    return math.floor(window * (1 - ratio))


@dataclass(frozen=True, slots=True)
class Placed:
    """A slot item and what became of it; `reason` is None when it is shown. `charge` is what it takes of its slot's
    budget: for an item that was cut the whole share that one may have, so that a larger budget, which cuts less off,
    never has room for fewer."""

    item: SlotItem
    tokens: int
    charge: float
    reason: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class SlotFill:
    """The outcome for one slot. `shown` is in the order of reading; `placeholder` marks a required empty slot."""

    slot: SlotName
    budget: int
    placed: tuple[Placed, ...]
    placeholder: bool = False

    @property
    def shown(self) -> list[SlotItem]:
        return sorted((one.item for one in self.placed if one.reason is None), key=lambda item: item.order)

    @property
    def used(self) -> int:
        return sum(one.tokens for one in self.placed if one.reason is None and not one.item.protected)

    @property
    def left(self) -> float:
        return self.budget - sum(one.charge for one in self.placed if one.reason is None)


def item_tokens(item: SlotItem, count: Callable[[str], int]) -> int:
    return count(f"- {item.lead}{item.text}\n")


Offers = Callable[[SlotName], Sequence[SlotItem]]
"""What a slot offers, in rank order."""


def fill_slots(
    facts: Facts, mode: Mode, allowance: int | None, headers: int, count: Callable[[str], int], offers: Offers
) -> list[SlotFill]:
    """Fills the slots of a mode by rank within their budgets, lends what is left over, and keeps all of them together
    within the global budget and `allowance` tokens, if any; `headers` is what opening a slot costs. `block` constraints
    lie outside of it all."""
    fills = [_fill(spec, offers(spec.slot), facts, count) for spec in _with_constraints(mode)]
    if mode.lending:
        fills = _lend(fills)
    fills = _Part(mode, None, headers).within(fills, mode.global_slot_budget)
    return fills if allowance is None else _within(fills, mode, allowance, headers)


def _with_constraints(mode: Mode) -> Sequence[SlotSpec]:
    # `block` constraints are in every prompt, whatever the mode lists.
    if any(spec.slot == "constraints" for spec in mode.slots):
        return mode.slots
    return (SlotSpec(slot="constraints", token_budget=0), *mode.slots)


def _fill(spec: SlotSpec, offers: Sequence[SlotItem], facts: Facts, count: Callable[[str], int]) -> SlotFill:
    placed: list[Placed] = []
    taken: dict[str, int] = {}
    longest = spec.token_budget * LONGEST_ITEM
    spent, full = 0.0, False
    page = Page(count)
    for offer in offers:
        item, cut = _no_longer_than(offer, int(longest), count)
        reason = refusal(item, spec, facts, taken.get(item.ranked, 0))
        tokens = page.grown(item) if (item.heading or item.lead) and not reason else item_tokens(item, count)
        charge = 0.0 if item.protected else max(longest, tokens) if cut else tokens
        if reason is None:
            taken[item.ranked] = taken.get(item.ranked, 0) + 1
            full = full or (not item.protected and (not item.text or spent + charge > spec.token_budget))
            reason = "slot_budget" if full and not item.protected else None
            spent += 0 if reason else charge
        placed.append(Placed(item, tokens, charge, reason, cut))
    empty = not any(one.reason is None for one in placed)
    return SlotFill(spec.slot, spec.token_budget, tuple(placed), placeholder=spec.required and empty)


def _no_longer_than(item: SlotItem, limit: int, count: Callable[[str], int]) -> tuple[SlotItem, bool]:
    # A rule without its end may say the opposite: it is shown whole or not at all.
    if item.slot == "constraints" or item_tokens(item, count) <= limit:
        return item, False
    for room in range(limit - 2, 0, -1):
        head = head_within(item.text, room, count).rstrip()
        shorter = replace(item, text=f"{head}…" if head else "")
        if item_tokens(shorter, count) <= limit:
            return shorter, True
    return replace(item, text=""), True


def _lend(fills: list[SlotFill]) -> list[SlotFill]:
    """What slots leave over goes to those that want more, in the order of their priority."""
    spare = sum(fill.left for fill in fills)
    lent = {fill.slot: fill for fill in fills}
    for slot in SLOTS:
        fill = lent.get(slot)
        if fill is None or not any(one.reason == "slot_budget" for one in fill.placed):
            continue
        room: float = spare
        placed: list[Placed] = []
        blocked = False
        for one in fill.placed:
            if one.reason == "slot_budget":
                blocked = blocked or one.charge > room or not one.item.text
                if not blocked:
                    room -= one.charge
                    one = replace(one, reason=None)
            placed.append(one)
        lent[slot] = replace(fill, placed=tuple(placed), placeholder=fill.placeholder and blocked and not fill.used)
        spare = room
    return [lent[fill.slot] for fill in fills]


def _within(fills: Sequence[SlotFill], mode: Mode, room: int, headers: int) -> list[SlotFill]:
    """The fills within `room` tokens. Prefix and tail lose items apart: what stands at the tail changes every turn, and
    must not push in and out of the prefix what a provider's cache should find there again."""
    volatile = [spec for spec in mode.slots if spec.slot not in STABLE]
    behind = [spec for spec in volatile if mode.place(spec.slot, volatile=True) == "tail"]
    wanted = sum(spec.token_budget + headers for spec in behind)
    rules = [fill for fill in fills if fill.slot == "constraints"]
    prefix, tail = _Part(mode, "prefix", headers), _Part(mode, "tail", headers)
    # `warn` rules are the last to go.
    ahead = max(room - min(room // 2, wanted), min(room, prefix.cost(rules)))
    rest = room - min(ahead, prefix.cost(fills))
    return tail.within(prefix.within(fills, ahead), rest)


@dataclass(frozen=True, slots=True)
class _Part:
    """Those items of the slots that stand in one place, or all of them."""

    mode: Mode
    place: Place | None
    headers: int

    def within(self, fills: Sequence[SlotFill], room: int) -> list[SlotFill]:
        kept = list(fills)
        while self.cost(kept) > room and (fewer := self._without_last(kept)):
            kept = fewer
        if self.cost(kept) > room:
            kept = [replace(fill, placeholder=fill.placeholder and not self._opens(fill)) for fill in kept]
        return kept

    def cost(self, fills: Sequence[SlotFill]) -> int:
        # A section opened by `block` constraints alone is part of the floor, not of the slots.
        used = [sum(fill.placed[at].tokens for at in self._shown(fill)) for fill in fills]
        opened = sum(bool(spent) or self._opens(fill) for fill, spent in zip(fills, used, strict=True))
        return sum(used) + self.headers * opened

    def _opens(self, fill: SlotFill) -> bool:
        return fill.placeholder and self.place in (None, self.mode.placeholder_place(fill.slot))

    def _shown(self, fill: SlotFill) -> list[int]:
        return [
            at
            for at, one in enumerate(fill.placed)
            if one.reason is None
            and not one.item.protected
            and self.place in (None, self.mode.place(fill.slot, volatile=one.item.volatile))
        ]

    def _without_last(self, fills: Sequence[SlotFill]) -> list[SlotFill] | None:
        """The fills without the last item of the lowest-priority slot that has one; None when nothing is left."""
        for slot in reversed(SLOTS):
            for at, fill in enumerate(fills):
                shown = self._shown(fill) if fill.slot == slot else []
                if shown:
                    placed = list(fill.placed)
                    placed[shown[-1]] = replace(placed[shown[-1]], reason="global_budget")
                    return [*fills[:at], replace(fill, placed=tuple(placed)), *fills[at + 1 :]]
        return None
