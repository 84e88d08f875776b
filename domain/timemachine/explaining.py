"""Why: where an event went in a prompt, the rule and the numbers that decided it, and what would have kept it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.modes import SLOTS
from domain.timemachine.sides import Fate, Side, Told

Json = dict[str, Any]

CONVERSATION = frozenset({"user.input", "assistant.output", "tool.called", "tool.result", "reference.expanded"})
UNSEEN = {
    "session.started": "it sets the session's defaults and is not shown",
    "run.started": "it opens a run: it freezes the prefix and is not shown",
    "run.ended": "it ends a run and is not shown",
    "session.forked": "it says where the session comes from and is not shown",
    "context.rolled_back": "it hides events and is not shown",
    "event.redacted": "it erases an event and is not shown",
    "message.unpinned": "it takes back a pin and is not shown",
    "message.pinned": "it keeps another message and is not shown itself",
    "constraint.removed": "it takes back a rule and is not shown",
    "tool.removed": "it takes back a tool and is not shown",
    "profile.unset": "it takes back a profile field and is not shown",
    "memory.retracted": "it takes back a memory and is not shown",
    "memory.decided": "it says what became of something told beside what was remembered, and is not shown",
}
BECAUSE = {
    "policy": "a rule of the trim policy made room with it",
    "superseded": "a newer answer to the same call stands in its place",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`disposition` is that of the report, or `later`, `hidden`, `redacted`, `superseded`, `unseen`. `kept_by` is what
    would have kept it: settings of a what-if, as far as the report tells them."""

    disposition: str
    reason: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    where: Sequence[Mapping[str, Any]] = ()
    kept_by: Mapping[str, Any] = field(default_factory=dict)
    by: Mapping[str, Any] | None = None

    def dump(self) -> Json:
        return {
            "disposition": self.disposition, "reason": self.reason, "sentence": self.sentence,
            "numbers": dict(self.numbers), "where": [dict(one) for one in self.where],
            "kept_by": dict(self.kept_by), "by": self.by,
        }  # fmt: skip


def why(told: Told, side: Side, newer: Sequence[Told] = ()) -> Verdict:
    """`newer` are events that may have taken the place of this one, in order."""
    if not side.has_seen(told):
        return Verdict("later", "seq", f"it came after this prompt, which ends at seq {side.heads.get(told.stream, 0)}")
    where = places(told.event_id, side)
    fates = side.fates(told)
    best = min(fates, key=_rank, default=None)
    if best is None or (best.disposition == "dropped" and where):
        return _shown(where) if where else _absent(told, side, newer)
    if best.disposition != "dropped":
        return _kept(best, where, side)
    return dropped(best, side)


def places(event_id: str, side: Side) -> list[Json]:
    """Where an event stands in a prompt: segment, zone, lines from and to."""
    found: dict[str, Json] = {}
    for segment, number in side.shown.get(event_id, ()):
        row = found.setdefault(segment.key, {"segment": segment.key, "zone": segment.zone, "lines": [number, number]})
        row["lines"][1] = number
    return list(found.values())


def _rank(fate: Fate) -> int:
    return ("included", "summarized", "referenced", "dropped").index(fate.disposition)


def _shown(where: Sequence[Json]) -> Verdict:
    zones = ", ".join(dict.fromkeys(str(one["zone"]) for one in where))
    return Verdict("included", "shown", f"it is in the prompt, in {zones}", where=where)


def _kept(fate: Fate, where: Sequence[Json], side: Side) -> Verdict:
    entry = fate.entry
    numbers: Json = {"tokens": fate.tokens}
    if "after" in entry:
        numbers["after"] = entry["after"]
    if fate.disposition == "included":
        place = f"the slot {fate.slot}" if fate.slot else f"the zone {entry.get('zone')}"
        sentence = f"it is in the prompt, in {place} ({fate.reason})"
        if entry.get("shortened"):
            numbers["shortened"] = entry["shortened"]
            sentence += f", made smaller by {entry['shortened']} tokens"
        return Verdict("included", fate.reason, sentence, numbers, where)
    after = entry.get("after", 0)
    verb = "summarized into" if fate.disposition == "summarized" else "referenced as"
    more, kept_by, hint = _unit(fate, side)
    because = BECAUSE.get(fate.reason, f"because of {fate.reason}")
    size = f"{after} tokens of {fate.tokens}" if after else "one text together with others"
    sentence = f"it was {verb} {size}, {because}; whole it {hint}"
    return Verdict(fate.disposition, fate.reason, sentence, {**numbers, **more}, where, kept_by)


def _absent(told: Told, side: Side, newer: Sequence[Told]) -> Verdict:
    if told.gone == "redacted":
        return Verdict("redacted", "redacted", "it was erased")
    if told.gone is not None:
        return Verdict("hidden", "rolled_back", f"a rollback hides it: event {told.gone}", by={"event_id": told.gone})
    if told.kind in UNSEEN:
        return Verdict("unseen", "kind", UNSEEN[told.kind])
    if told.kind.startswith("custom."):
        return Verdict("unseen", "kind", "events of kind custom.* are kept in the log and are in no slot")
    for later in newer:
        if side.has_seen(later):
            sentence = f"{later.kind} at seq {later.seq} took its place"
            return Verdict("superseded", "superseded", sentence, by=later.named())
    return Verdict("dropped", "not_offered", f"no slot of the mode {side.report['mode']} offered it")


# What would have kept it ----------------------------------------------------------------------------------------------


def dropped(fate: Fate, side: Side) -> Verdict:
    numbers, kept_by, hint = _unit(fate, side) if fate.slot is None else _item(fate, side)
    what = "it" if fate.slot is None else f"the item of the slot {fate.slot}"
    sentence = f"{what} was dropped by {fate.reason}" + (f": {hint}" if hint else "")
    return Verdict("dropped", fate.reason, sentence, numbers, kept_by=kept_by)


_Hint = tuple[Json, Json, str]


def _unit(fate: Fate, side: Side) -> _Hint:
    """A unit is kept when all newer ones fit, too: the window is a suffix of the history."""
    report, entry = side.report, fate.entry
    if fate.reason == "orphan":
        return {"tokens": fate.tokens}, {}, "an answer to no call of this session; nothing keeps it"
    left_out = [
        one
        for one in report["units"]
        if one["to_seq"] >= entry["from_seq"] and one["reason"] != "orphan" and one["disposition"] != "included"
    ]
    needs = sum(one["tokens"] - one.get("after", 0) for one in left_out)
    short = sum(one.get("shortened", 0) for one in report["units"])
    more = _scaled(needs + short, report)
    free = report["budget"] - report["tokens"]
    budget = report["budget"] + max(1, more - max(0, free))
    numbers = {"tokens": fate.tokens, "needs": more, "free": free, "budget": report["budget"], "units": len(left_out)}
    if "events" not in entry:
        numbers["range"] = [entry["from_seq"], entry["to_seq"]]
    told = f"{BECAUSE[fate.reason]}; " if fate.disposition == "dropped" and fate.reason in BECAUSE else ""
    return numbers, {"budget": budget}, f"{told}needs {budget - report['budget']} more tokens"


def _scaled(tokens: int, report: Mapping[str, Any]) -> int:
    factor = report["counting"]["factor"]
    return int(tokens * factor + 0.999)


def _item(fate: Fate, side: Side) -> _Hint:
    slot = str(fate.slot)
    filled, spec, entry = side.report["slots"][slot], side.slots.get(slot, {}), fate.entry
    numbers: Json = {"tokens": fate.tokens, "slot": slot}
    match fate.reason:
        case "slot_budget":
            ahead = list(_upto(filled["items"], entry, "slot_budget"))
            needs = max(1, filled["used"] + sum(one["tokens"] for one in ahead) - filled["budget"])
            wanted = max(filled["budget"] + needs, 4 * fate.tokens)
            numbers |= {"budget": filled["budget"], "used": filled["used"], "needs": wanted - filled["budget"]}
            kept = {f"overrides.slots.{slot}.token_budget": wanted}
            return numbers, kept, f"needs {wanted - filled['budget']} more tokens in the slot"
        case "min_score":
            least, score = spec.get("min_score"), entry.get("score")
            numbers |= {"score": score, "min_score": least}
            fits = int((score or 0.0) * 100) / 100
            return numbers, {f"overrides.slots.{slot}.min_score": fits}, f"scored {score}, needs min_score ≤ {fits}"
        case "top_k":
            rank = sum(1 for _ in _upto(filled["items"], entry, "top_k", "included")) or 1
            numbers |= {"top_k": spec.get("top_k"), "rank": rank}
            return numbers, {f"overrides.slots.{slot}.top_k": rank}, f"ranked {rank}, needs top_k ≥ {rank} or 0"
        case "max_age":
            numbers |= {"max_age_hours": spec.get("max_age_hours")}
            return numbers, {f"overrides.slots.{slot}.max_age_hours": 0}, "older than max_age_hours; 0 is no limit"
        case "category":
            numbers |= {"categories": list(spec.get("categories", ()))}
            return numbers, {f"overrides.slots.{slot}.categories": []}, "its category is not among those of the slot"
        case "global_budget":
            # The slot of the lowest priority loses first: those above it come back before this one does.
            before = SLOTS[: SLOTS.index(slot)]
            items = [one for name in before for one in side.report["slots"].get(name, {"items": ()})["items"]]
            items += _upto(filled["items"], entry, "global_budget")
            needs = _scaled(sum(one["tokens"] for one in items if one["reason"] == "global_budget"), side.report)
            numbers |= {"needs": needs, "budget": side.report["budget"]}
            # The slots get a share of what the floor leaves, a tenth by default.
            return (
                numbers,
                {"budget": side.report["budget"] + 10 * needs},
                f"the slots together need {needs} more tokens",
            )
        case reason:
            return numbers, {}, "" if reason != "superseded" else "a newer one of the same key stands in its place"


def _upto(items: Iterable[Mapping[str, Any]], entry: Mapping[str, Any], *fates: str) -> Iterable[Mapping[str, Any]]:
    """The items in rank order up to this one that met one of these fates."""
    for one in items:
        if one["reason"] in fates or one["disposition"] in fates:
            yield one
        if one is entry:
            return
