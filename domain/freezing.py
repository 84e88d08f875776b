"""Freezing: while a run lasts, the prefix of its prompts stays as it was, so that a provider's cache keeps hitting.

What the user or the plan changes inside the run appears in the next run's prefix. What must show at once breaks the
freeze: constraints, a new instruction, a removed tool, a redaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from domain.canonical import content_hash
from domain.modes import Mode
from domain.slots import Facts, SlotItem

FREEZABLE = frozenset({"planner", "task_memory", "tool_state", "profile", "recall"})


@dataclass(frozen=True, slots=True)
class Frozen:
    """The prefix items of one run, valid while `key` stays the same."""

    run: str
    key: str
    items: tuple[SlotItem, ...]

    def dump(self) -> dict[str, Any]:
        return {"run": self.run, "key": self.key, "items": [_dump(item) for item in self.items]}

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Frozen":
        return cls(data["run"], data["key"], tuple(map(_load, data["items"])))


def _dump(item: SlotItem) -> list[Any]:
    order, events, tags = list(item.order), list(item.events), list(item.tags)
    return [
        item.slot, item.key, item.text, order, events, tags, item.category, item.ranked, item.score, item.volatile,
        item.heading, item.lead, item.follows,
    ]  # fmt: skip


def _load(data: Sequence[Any]) -> SlotItem:
    slot, key, text, order, events, tags, category, ranked, score, volatile, *shown = data
    heading, lead, follows = shown or ("", "", "")
    return SlotItem(
        slot, key, text, tuple(order), tuple(events), tags=tuple(tags), category=category, ranked=ranked, score=score,
        volatile=volatile, heading=heading, lead=lead, follows=follows,
    )  # fmt: skip


def open_run(facts: Facts) -> str | None:
    runs = facts.session.rows("runs")
    return runs[-1].run_id if runs else None


def freeze_key(facts: Facts) -> str:
    """Changes when something happened that must show at once."""
    session = facts.session
    instruction = session.one("instruction")
    rules = [(row.id, row.event_id) for state in (session, *facts.parents) for row in state.rows("constraints")]
    return content_hash([instruction.event_id if instruction else None, rules, sorted(session.tables["tools"])])[:16]


def thawed(carried: Frozen | None, facts: Facts, mode: Mode) -> Frozen | None:
    """The frozen items that still hold for this prompt, or None."""
    if not mode.freeze or carried is None or carried.run != open_run(facts):
        return None
    return carried if carried.key == freeze_key(facts) else None


def freeze(shown: Iterable[SlotItem], facts: Facts, mode: Mode) -> Frozen | None:
    """What the next prompts of the open run keep of this one's prefix."""
    run = open_run(facts)
    if not mode.freeze or run is None:
        return None
    # A frozen item ages no more: it stays for as long as the run lasts.
    items = tuple(replace(item, at=None) for item in shown if is_frozen(item, mode))
    return Frozen(run, freeze_key(facts), items)


def is_frozen(item: SlotItem, mode: Mode) -> bool:
    """Whether an item belongs to what a run freezes: the prefix, but for constraints and the list of tools."""
    if item.slot not in FREEZABLE or item.ranked == "tool":
        return False
    return mode.place(item.slot, volatile=item.volatile) == "prefix"
