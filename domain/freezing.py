"""Freezing: while a run lasts, the prefix of its prompts stays as it was, so that a provider's cache keeps hitting.

What the user or the plan changes inside the run appears in the next run's prefix. What must show at once breaks the
freeze: constraints, a new instruction, a removed tool, a redaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass
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
        rows = [
            [
                item.slot,
                item.key,
                item.text,
                list(item.order),
                list(item.events),
                item.category,
                item.ranked,
                item.score,
            ]
            for item in self.items
        ]
        return {"run": self.run, "key": self.key, "items": rows}

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Frozen":
        items = tuple(
            SlotItem(
                slot, key, text, tuple(order), tuple(events), category=category, ranked=ranked, score=score,
                volatile=slot != "profile",
            )
            for slot, key, text, order, events, category, ranked, score in data["items"]
        )  # fmt: skip
        return cls(data["run"], data["key"], items)


def _dump(item: SlotItem) -> list[Any]:
    order, events = list(item.order), list(item.events)
    return [item.slot, item.key, item.text, order, events, item.category, item.ranked, item.score]


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
    items = tuple(item for item in shown if is_frozen(item, mode))
    return Frozen(run, freeze_key(facts), items)


def is_frozen(item: SlotItem, mode: Mode) -> bool:
    """Whether an item belongs to what a run freezes: the prefix, but for constraints and the list of tools."""
    if item.slot not in FREEZABLE or item.ranked == "tool":
        return False
    return mode.place(item.slot, volatile=item.volatile) == "prefix"
