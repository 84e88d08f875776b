"""What a prompt and its report tell about sizes: how much there was room for, what was wanted, what was short."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from domain.canonical import canonical_json

Json = dict[str, Any]

ROOM_WAS_SHORT = frozenset({"slot_budget", "global_budget"})


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """`wanted` is what the items that passed the slot's filter have, shown or not; rules that must not be cut apart."""

    budget: int
    used: int
    wanted: int
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What one report says. `limit`, `spare` (what the floor left) and `room` (the history's) are in counted tokens;
    `over` names the zones that wanted more than they got."""

    tokens: int
    budget: int
    limit: int
    spare: int
    room: int
    zones: Mapping[str, int]
    over: frozenset[str]
    slots: Mapping[str, SlotFacts]
    trimmed: bool


def facts_of(report: Mapping[str, Any]) -> PromptFacts:
    """The facts of a report; of an older one what it has of them."""
    zones: Json = report.get("zones") or {}
    counting: Json = report.get("counting") or {}
    limit = math.floor(report["budget"] / counting.get("factor", 1))
    counted = counting.get("tokens", report["tokens"])
    reserved = sum((report.get("floor") or {}).values()) + zones.get("pinned", 0) + zones.get("anchor_business", 0)
    trim: Json = report.get("trim") or {}
    return PromptFacts(
        tokens=report["tokens"],
        budget=report["budget"],
        limit=limit,
        spare=max(0, limit - reserved),
        room=max(0, limit - counted + zones.get("window", 0) + zones.get("summary", 0)),
        zones=zones,
        over=frozenset(_over(report)),
        slots={slot: _slot(filled) for slot, filled in (report.get("slots") or {}).items()},
        trimmed=bool(trim.get("cut")) and not trim.get("carried"),
    )


def _slot(filled: Json) -> SlotFacts:
    passed = [item for item in filled["items"] if item["reason"] == "fits" or item["reason"] in ROOM_WAS_SHORT]
    return SlotFacts(
        budget=filled["budget"],
        used=filled["used"],
        wanted=sum(item["tokens"] for item in passed),
        items=tuple(item["tokens"] for item in filled["items"]),
    )


def _over(report: Mapping[str, Any]) -> Iterable[str]:
    """Slots over the share that all of them have together, a window that does not hold all units, and whatever was
    shortened to fit."""
    for filled in (report.get("slots") or {}).values():
        if any(item["reason"] == "global_budget" for item in filled["items"]):
            yield "slots"
    for entry in report.get("units") or ():
        if entry["disposition"] != "included" and entry["reason"] != "orphan":
            yield "window"
        if entry.get("shortened"):
            yield str(entry["zone"])


def reuse(before: str, after: str) -> float:
    """The share of `after` that begins as `before` does."""
    same, most = 0, min(len(before), len(after))
    while same < most:
        middle = (same + most + 1) // 2
        if before[same:middle] == after[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same / len(after) if after else 0.0


def cached_text(payload: Mapping[str, Any]) -> str:
    """The payload in the order in which a provider's cache reads it: tools, system, messages."""
    told = [payload.get(name) for name in ("tools", "system", "messages", "text")]
    return "".join(canonical_json(part).decode() for part in told if part)
