"""The report: where every unit and item went, by which rule, and that the sums close."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from domain.anchors import Protected
from domain.budgets import SlotFill
from domain.context import Context
from domain.counting import Counter
from domain.modes import Mode
from domain.policies import SUPERSEDED, Made
from domain.rendering.neutral import Neutral
from domain.rows import Tool
from domain.snapshots import Layout
from domain.summaries import SummaryLine
from domain.text import opening
from domain.trimming import Trimmed
from domain.validation import Built
from domain.windows import Unit

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished compile, as the accountant sees it."""

    context: Context
    protected: Protected
    fills: Sequence[SlotFill]
    trimmed: Trimmed[Built]
    built: Built
    layout: Layout
    floor: dict[str, int]
    tools: Sequence[Tool]
    examples_left_out: int = 0


def account(outcome: Outcome, mode: Mode, budget: int, count: Counter, parent: Layout | None) -> dict[str, Any]:
    """The report of a compile, in the counter's tokens but for `tokens` and `budget`, which are the model's."""
    units, tokens = _units(outcome), outcome.built.tokens
    items = [entry for fill in outcome.fills for entry in _items(fill)]
    arrangement = outcome.trimmed.arrangement
    return {
        "budget": budget,
        "tokens": count.scaled(tokens),
        "mode": mode.name,
        "counting": {"encoding": count.encoding, "factor": count.factor, "tokens": tokens},
        "zones": _zones(outcome, count, tokens),
        "floor": outcome.floor,
        "slots": {
            fill.slot: {"budget": fill.budget, "used": fill.used, "items": list(_items(fill))} for fill in outcome.fills
        },
        "units": units,
        "ledger": ledger(units, items, outcome.context.session.progress.units),
        "trim": {
            "strategy": arrangement.strategy,
            "cut": arrangement.layout.cut,
            "carried": parent is not None and arrangement.layout.trims == parent.trims,
            "gave_way": list(_gave_way(outcome)),
            "strategies": [_attempt(one) for one in outcome.layout.made],
            "rolled_back": [{"strategy": one.strategy, "failed": one.failed} for one in outcome.trimmed.rolled_back],
        },
        "rolled_back": _rolled_back(outcome, parent),
        "warnings": [*_warnings(outcome, mode), *_collapses(outcome, parent)],
    }


def _rolled_back(outcome: Outcome, parent: Layout | None) -> list[Entry]:
    """What rollbacks hid since the prompt before: the events between the seq gone back to and the rollback, but for the
    rules among them, which only tighten."""
    since = parent.seen if parent else 0
    rows = [row for row in outcome.context.session.rows("refolds") if not row.erased and row.seq > since]
    return [{"event": row.event_id, "from_seq": row.upto + 1, "to_seq": row.seq - 1} for row in rows]


def ledger(units: Sequence[Entry], items: Sequence[Entry], total_units: int) -> dict[str, Any]:
    """Units and tokens by disposition; `closes` tells that nothing is missing and nothing counted twice."""
    found: dict[str, Any] = {"in": {"units": total_units, "items": len(items)}}
    for disposition in ("included", "summarized", "referenced", "dropped"):
        here = [entry for entry in units if entry["disposition"] == disposition]
        chosen = [entry for entry in items if entry["disposition"] == disposition]
        found[disposition] = {
            "units": sum(entry["units"] for entry in here),
            "items": len(chosen),
            "tokens": sum(entry["tokens"] for entry in (*here, *chosen)),
        }
    names = ("included", "summarized", "referenced", "dropped")
    found["in"]["tokens"] = sum(entry["tokens"] for entry in (*units, *items))
    found["closes"] = (
        sum(found[name]["units"] for name in names) == total_units
        and sum(found[name]["items"] for name in names) == len(items)
        and sum(found[name]["tokens"] for name in names) == found["in"]["tokens"]
        and all(entry["tokens"] >= 0 and entry["units"] >= 0 for entry in units)
    )
    return found


def _gave_way(outcome: Outcome) -> Iterable[str]:
    """What had to go whole so that what must not be cut fits, in the order in which it gives way."""
    arrangement = outcome.trimmed.arrangement
    # What recall looked for in history and documents has its own account, and still stands there: no memory gave way.
    placed = (one for fill in outcome.fills for one in fill.placed)
    items = [one for one in placed if not one.item.protected and not (one.item.heading or one.item.lead)]
    if any(one.reason == "global_budget" for one in items) and not any(one.reason is None for one in items):
        yield "memory"
    forced = arrangement.strategy in ("drop", "emergency") or not arrangement.window
    if arrangement.dropped and not arrangement.summary and forced:
        yield "summary"
    if (arrangement.dropped or arrangement.summary) and not arrangement.window:
        yield "window"


def _attempt(made: Made) -> Entry:
    found: Entry = {"seq": made.seq, "strategy": made.strategy, "shown": made.shown}
    return found | {"error": made.error} if made.error else found


def _units(outcome: Outcome) -> list[Entry]:
    """One entry per unit that the compile looked at, and one for the range before them."""
    arrangement, protected = outcome.trimmed.arrangement, outcome.protected
    entries = [_protected(unit, protected) for unit in protected.units]
    entries += [_shown(unit) for unit in arrangement.window]
    entries += [_summarized(line) for line in arrangement.summary]
    reasons = arrangement.reasons
    entries += [_entry(one, "dropped", reasons.get(one.seq, "window"), "dropped") for one in arrangement.dropped]
    entries += [_entry(unit, "dropped", "orphan", "dropped") for unit in outcome.context.history.recent if unit.orphan]
    entries += _range_before(outcome, entries)
    return sorted(entries, key=lambda entry: (entry["from_seq"], entry["to_seq"]))


def _protected(unit: Unit, protected: Protected) -> Entry:
    if unit.seq == protected.anchor:
        return _entry(unit, "included", "protected", "anchor_business", shortened=protected.shortened)
    return _entry(unit, "included", "protected", "pinned" if unit.seq in protected.pinned else "window")


def _shown(unit: Unit) -> Entry:
    """A unit of the window; one of which a line is left under which the rest can be expanded is a reference."""
    names = [one.strategy for one in unit.made]
    reason = SUPERSEDED if SUPERSEDED in names else "policy" if names else "window"
    referenced = SUPERSEDED in names or "reference" in names
    found = _entry(unit, "referenced" if referenced else "included", reason, "window", shortened=unit.shortened)
    return found | {"strategies": names} if names else found


def _summarized(line: SummaryLine) -> Entry:
    return {
        "from_seq": line.unit, "to_seq": line.unit, "units": 1, "events": list(line.derived_from), "tokens": line.given,
        "after": line.tokens, "disposition": "summarized", "reason": "window", "zone": "summary",
    }  # fmt: skip


def _entry(unit: Unit, disposition: str, reason: str, zone: str, shortened: int = 0) -> Entry:
    found: Entry = {
        "from_seq": unit.seq, "to_seq": unit.seq, "units": 1, "events": list(unit.events), "role": unit.role,
        "tokens": unit.given, "disposition": disposition, "reason": reason, "zone": zone,
    }  # fmt: skip
    if shortened:
        found |= {"shortened": shortened, "after": unit.tokens}
    return found


def _range_before(outcome: Outcome, entries: Iterable[Entry]) -> list[Entry]:
    """The units older than any the compile looked at, as one range, less those that are shown or summarised."""
    context = outcome.context
    recent, before = context.history.recent, context.history.before
    first = recent[0].seq if recent else context.session.head + 1
    older = [entry for entry in entries if entry["to_seq"] < first]
    units = before.units - sum(entry["units"] for entry in older)
    tokens = before.tokens - sum(entry["tokens"] for entry in older)
    if not units:
        return []
    return [
        {
            "from_seq": 1, "to_seq": first - 1, "units": units, "tokens": tokens, "disposition": "dropped",
            "reason": "window", "zone": "dropped",
        }
    ]  # fmt: skip


def _items(fill: SlotFill) -> Iterable[Entry]:
    for one in fill.placed:
        found: Entry = {
            "key": one.item.key,
            "text": opening(one.item.text, 120),
            "events": list(one.item.events),
            "tokens": one.tokens,
            "disposition": "dropped" if one.reason else "included",
            "reason": one.reason or ("protected" if one.item.protected else "fits"),
        }
        if one.item.score is not None:
            found["score"] = one.item.score
        if one.item.reference:
            found["reference"] = one.item.reference
        if one.item.in_time:
            found["in_time"] = True
        if one.item.by_named:
            found["by_named"] = True
        if one.item.through:
            found["through"] = list(one.item.through)
        if one.cut:
            found["cut"] = True
        yield found


def _zones(outcome: Outcome, count: Counter, tokens: int) -> dict[str, int]:
    """Tokens of the payload by zone. The system message is split into its anchor and its slots."""
    by_zone: dict[str, list[Neutral]] = {}
    for message in outcome.built.messages:
        by_zone.setdefault(message.zone, []).append(message)
    zones = {zone: count.neutral(messages) for zone, messages in by_zone.items()}
    if "anchor_system" in zones:
        slots = max(0, zones["anchor_system"] - outcome.floor["anchor_system"])
        zones["slots"] = zones.get("slots", 0) + slots
        zones["anchor_system"] -= slots
    zones["tools"] = count.tools(outcome.tools)
    zones["format"] = tokens - sum(zones.values())
    return {zone: spent for zone, spent in zones.items() if spent}


def _warnings(outcome: Outcome, mode: Mode) -> Iterable[str]:
    if mode.asked != mode.name:
        yield f"unknown mode {mode.asked!r}: {mode.name} was used"
    if outcome.protected.shortened:
        yield f"the newest directive is over the budget: {outcome.protected.shortened} tokens of its middle were cut"
    if masked := [message.unit for message in outcome.built.messages if message.masked]:
        yield f"secrets were masked in the units at seq {', '.join(map(str, masked))}"
    for unit in outcome.trimmed.arrangement.window:
        if unit.room:
            yield f"the unit at seq {unit.seq} is over the window: {unit.shortened} tokens of its middle were cut"
    if gone := list(_gave_way(outcome)):
        yield f"emergency: no room for {', '.join(gone)} beside what must not be cut"
    if left := outcome.examples_left_out:
        yield f"{left} few-shot examples are not in the prompt: they need more than their share of the budget"
    failures = sorted({(one.strategy, one.error) for one in outcome.layout.made if one.error})
    for name, error in failures:
        yield f"strategy {name} made nothing: {error}"
    rules = [fill for fill in outcome.fills if fill.slot == "constraints"]
    if left := sum(one.reason is not None for fill in rules for one in fill.placed):
        yield f"{left} warn rules are not in the prompt: they need more than the slot constraints has"
    for result in outcome.context.sources:
        if result.error:
            yield f"source {result.source} gave nothing for {result.slot}: {result.error}"
        if result.note:
            yield f"source {result.source} found {result.slot} {result.note}"
    for _, notice in sorted(outcome.context.session.tables["notices"].items()):
        yield f"{notice.text} ({notice.count})"


def _collapses(outcome: Outcome, parent: Layout | None) -> Iterable[str]:
    """What changed against the previous prompt of the view without an event that explains it."""
    if parent is None:
        return
    session, since = outcome.context.session, parent.heads[0] if parent.heads else 0
    rows = (session.one("instruction"), session.one("business"))
    for name, before, after, row in zip(
        ("system", "business"), parent.anchors, outcome.layout.anchors, rows, strict=True
    ):
        if before is not None and before != after and (row is None or row.seq <= since):
            yield f"anchor collapse: the {name} anchor changed since the last prompt and no event explains it"
    if outcome.layout.trims > parent.trims and outcome.layout.cut == parent.cut and parent.cut:
        yield (
            f"the cut at seq {parent.cut} was made again without progress: the budget leaves little room behind what "
            "stands in every prompt; raise it, or shorten instructions, tools and rules"
        )
