"""Statistics before tuning: how large everything is, where room was short, and which settings follow from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from domain.distributions import Tally, add, distribution, quantile
from domain.modes import SLOTS
from domain.prompt_facts import PromptFacts

Json = dict[str, Any]

ENOUGH = 20
"""Observations from which on a setting is recommended."""

LASTS = 8
"""Prompts that a trim should last for, before the next one is due."""

MOST_TOOLS = 200
"""Tools that are told apart; names are the caller's, and there may be any number of them."""


@dataclass(slots=True)
class _Slot:
    items: Tally = field(default_factory=dict)
    wanted: Tally = field(default_factory=dict)
    used: Tally = field(default_factory=dict)
    budgets: Tally = field(default_factory=dict)
    over: int = 0


@dataclass(slots=True)
class Seen:
    """All that was seen so far, as tallies. `shares` are output tokens in thousandths of the window, `wanted_of_spare`
    and `growth` the slots' wish and the step from prompt to prompt, in thousandths of what there was for them."""

    roles: dict[str, Tally] = field(default_factory=dict)
    tools: dict[str | None, Tally] = field(default_factory=dict)
    outputs: Tally = field(default_factory=dict)
    shares: Tally = field(default_factory=dict)
    prompts: Tally = field(default_factory=dict)
    fill: Tally = field(default_factory=dict)
    zones: dict[str, Tally] = field(default_factory=dict)
    over: dict[str, int] = field(default_factory=dict)
    slots: dict[str, _Slot] = field(default_factory=dict)
    wanted: Tally = field(default_factory=dict)
    wanted_of_spare: Tally = field(default_factory=dict)
    growth: Tally = field(default_factory=dict)
    trimmed: int = 0
    pairs: int = 0
    paired_tokens: int = 0
    reused_tokens: float = 0.0

    def message(self, role: str, tool: str | None, tokens: int) -> None:
        add(self.roles.setdefault(role, {}), tokens)
        if role == "tool":
            known = tool in self.tools or len(self.tools) < MOST_TOOLS
            add(self.tools.setdefault(tool if known else None, {}), tokens)

    def output(self, tokens: int, window: int) -> None:
        """What a model's answer really took, as the provider told it."""
        add(self.outputs, tokens)
        add(self.shares, math.ceil(1000 * tokens / window))

    def prompt(self, facts: PromptFacts) -> None:
        add(self.prompts, facts.tokens)
        add(self.fill, math.ceil(1000 * facts.tokens / max(1, facts.budget)))
        self.trimmed += facts.trimmed
        for zone, tokens in facts.zones.items():
            add(self.zones.setdefault(zone, {}), tokens)
        for zone in facts.over:
            self.over[zone] = self.over.get(zone, 0) + 1
        for slot, filled in facts.slots.items():
            seen = self.slots.setdefault(slot, _Slot())
            for tokens in filled.items:
                add(seen.items, tokens)
            for tally, size in ((seen.wanted, filled.wanted), (seen.used, filled.used), (seen.budgets, filled.budget)):
                add(tally, size)
            seen.over += filled.wanted > filled.budget
        whole = sum(filled.wanted for filled in facts.slots.values())
        add(self.wanted, whole)
        add(self.wanted_of_spare, math.ceil(1000 * min(1.0, whole / max(1, facts.spare))))

    def pair(self, before: PromptFacts, after: PromptFacts, reused: float) -> None:
        """Two prompts of a view, one the parent of the other, and the share of the latter that is the same prefix."""
        self.pairs += 1
        self.paired_tokens += after.tokens
        self.reused_tokens += reused * after.tokens
        if not after.trimmed and after.tokens > before.tokens:
            add(self.growth, math.ceil(1000 * min(1.0, (after.tokens - before.tokens) / max(1, after.room))))


def summary(seen: Seen) -> Json:
    """All distributions, and the settings that follow from them."""
    tools = [{"tool": name, **distribution(tally)} for name, tally in seen.tools.items()]
    zones = {zone: distribution(tally) for zone, tally in sorted(seen.zones.items())}
    whole = sum(told["tokens"] for told in zones.values())
    count = sum(seen.prompts.values())
    return {
        "messages": sum(sum(tally.values()) for tally in seen.roles.values()),
        "roles": {role: distribution(seen.roles.get(role, {})) for role in ("user", "assistant", "tool")},
        "tools": sorted(tools, key=lambda one: (-one["tokens"], one["tool"] or "")),
        "slots": {slot: _of_slot(seen.slots[slot]) for slot in SLOTS if slot in seen.slots},
        "prompts": {
            **distribution(seen.prompts),
            "fill": round(_mean(seen.fill) / 1000, 4),
            "trimmed": round(seen.trimmed / count, 4) if count else 0,
            "pairs": seen.pairs,
            "prefix_reuse": round(seen.reused_tokens / seen.paired_tokens, 4) if seen.paired_tokens else None,
        },
        "zones": {
            zone: {**told, "share": round(told["tokens"] / whole, 4) if whole else 0, "over": seen.over.get(zone, 0)}
            for zone, told in zones.items()
        },
        "outputs": distribution(seen.outputs),
        "recommended": recommended(seen),
    }


def _of_slot(seen: _Slot) -> Json:
    return {
        "budget": max(seen.budgets),
        "items": distribution(seen.items),
        "wanted": distribution(seen.wanted),
        "used": distribution(seen.used),
        "over": seen.over,
    }


def recommended(seen: Seen) -> Json:
    """The settings that would have fitted what was seen; None where too little was."""
    results = seen.roles.get("tool", {})
    wishes = {slot: {size: times for size, times in one.wanted.items() if size} for slot, one in seen.slots.items()}
    return {
        "reserve_ratio": _if_enough(seen.shares, lambda: _within(0.15, quantile(seen.shares, 0.99) / 1000, 0.9)),
        "slots": {
            slot: _up(quantile(wishes[slot], 0.95), 50)
            for slot in SLOTS
            if sum(wishes.get(slot, {}).values()) >= ENOUGH
        },
        "global_slot_budget": _if_enough(seen.wanted, lambda: _up(quantile(seen.wanted, 0.95), 100)),
        "window_share": _if_enough(
            seen.wanted_of_spare, lambda: _twentieth(1 - quantile(seen.wanted_of_spare, 0.95) / 1000)
        ),
        "low_water": _if_enough(seen.growth, lambda: _twentieth(1 - LASTS * _mean(seen.growth) / 1000)),
        "long_result": _if_enough(results, lambda: _up(quantile(results, 0.95), 50)),
    }


def _if_enough(tally: Tally, setting: Callable[[], float]) -> float | None:
    return setting() if sum(tally.values()) >= ENOUGH else None


def _mean(tally: Tally) -> float:
    return sum(size * times for size, times in tally.items()) / max(1, sum(tally.values()))


def _within(least: float, value: float, most: float) -> float:
    """Rounded up to hundredths: a reserve is better too large than too small."""
    return min(most, max(least, math.ceil(round(value * 100, 6)) / 100))


def _twentieth(value: float) -> float:
    return min(0.95, max(0.5, math.floor(round(value * 20, 6)) / 20))


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
