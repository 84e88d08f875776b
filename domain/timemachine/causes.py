"""What caused a change between two prompts: an event, a rule with its numbers, or another request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from domain.timemachine.explaining import dropped
from domain.timemachine.segments import Line, Segment
from domain.timemachine.sides import Chronicle, Side, Told

Json = dict[str, Any]

FEEDS: Sequence[tuple[str, str]] = (
    ("constraint.", "slot:constraints"), ("plan.", "slot:planner"), ("observation.", "slot:task_memory"),
    ("tool.", "slot:tool_state"), ("profile.", "slot:profile"), ("block.", "slot:profile"), ("memory.", "slot:recall"),
    ("document.", "slot:recall"), ("instruction.", "instruction"), ("instruction.", "few_shot"),
    ("instruction.", "reinforcement"),
)  # fmt: skip
HIDING = ("context.rolled_back", "event.redacted")


class Because:
    """Causes of the changes from one prompt to another. `chronicle` holds the events that both speak of, and those that
    came between them."""

    def __init__(self, before: Side, after: Side, chronicle: Chronicle) -> None:
        self._before, self._after, self._chronicle = before, after, chronicle

    def request(self) -> list[Json]:
        """What was asked or set differently."""
        found = []
        for name in ("compiler", "tokenizer", "schema"):
            old, new = getattr(self._before, name), getattr(self._after, name)
            if old != new:
                found.append({"field": name, "before": old, "after": new})
        left, right = dict(_flat(self._before.request)), dict(_flat(self._after.request))
        fields = sorted(left.keys() | right.keys() - {"as_of"})
        pairs = ((field, left.get(field), right.get(field)) for field in fields)
        return [*found, *({"field": name, "before": old, "after": new} for name, old, new in pairs if old != new)]

    def added(self, segment: Segment) -> Json:
        return self._cause(self._of_added(segment.lines, segment))

    def removed(self, segment: Segment) -> Json:
        return self._cause(self._of_removed(segment.lines, segment, None))

    def changed(self, old: Segment, new: Segment, rows: Sequence[Mapping[str, Any]]) -> Json:
        """The newest of what its lines say, for the segment as a whole; a unit that was made smaller says so."""
        for fate in (fate for told in self._told(new.lines) for fate in self._after.fates(told)):
            if fate.entry.get("shortened") and fate.slot is None:
                text = f"made smaller by {fate.entry['shortened']} tokens to fit the window"
                return self._cause({"by": "rule", "rule": "shortened", "text": text, "numbers": dict(fate.entry)})
        causes = [row["cause"] for row in rows if row["cause"]["by"] != "unknown"]
        by_event = [cause for cause in causes if cause["by"] == "event"]
        newest = max(by_event, key=lambda cause: cause["event"]["seq"], default=None)
        return self._cause(newest or (causes[0] if causes else self._unknown()))

    def moved(self, segment: Segment) -> Json:
        asked = self.request()
        if asked:
            return self._cause(_asked(asked))
        return self._cause({"by": "order", "text": f"the same content in another place of {segment.zone}"})

    def line_added(self, line: Line, segment: Segment) -> Json:
        return self._cause(self._of_added([line], segment))

    def line_removed(self, line: Line, old: Segment, new: Segment) -> Json:
        return self._cause(self._of_removed([line], old, new))

    # ------------------------------------------------------------------------------------------------------------------

    def _cause(self, cause: Json) -> Json:
        return {"cause": cause}

    def _told(self, lines: Iterable[Line]) -> list[Told]:
        ids = dict.fromkeys(event for line in lines for event in line.events)
        return [told for event in ids if (told := self._chronicle.get(event)) is not None]

    def _of_added(self, lines: Sequence[Line], segment: Segment) -> Json:
        told = self._told(lines)
        new = [one for one in told if not self._before.has_seen(one)]
        if segment.zone == "summary" and (summarized := self._summarized(told)):
            return summarized
        if new:
            return _event(max(new, key=lambda one: one.seq))
        for one in told:
            for fate in self._before.fates(one):
                if fate.disposition == "dropped":
                    verdict = dropped(fate, self._before)
                    text = f"before, {verdict.sentence}"
                    return self._with_request(
                        {"by": "rule", "rule": verdict.reason, "text": text, "numbers": dict(verdict.numbers)}
                    )
                if fate.disposition == "summarized":
                    return self._with_request(
                        {"by": "rule", "rule": "summarized", "text": "before, only a summary of it was shown"}
                    )
        return self._between(segment.key) or self._with_request(self._unknown())

    def _of_removed(self, lines: Sequence[Line], old: Segment, new: Segment | None) -> Json:
        told = self._told(lines)
        for one in told:
            if hidden := self._hidden(one):
                return hidden
        for one in told:
            for fate in self._after.fates(one):
                if fate.disposition == "dropped":
                    verdict = dropped(fate, self._after)
                    rule = {"by": "rule", "rule": verdict.reason, "text": verdict.sentence}
                    return self._with_request({**rule, "numbers": dict(verdict.numbers)})
                if fate.disposition in ("summarized", "referenced"):
                    text = f"{fate.disposition}: {fate.tokens} tokens became {fate.entry.get('after', 0)}"
                    return self._with_request(
                        {"by": "rule", "rule": fate.reason, "text": text, "numbers": {"tokens": fate.tokens}}
                    )
        if new is not None:
            newer = [one for one in self._told(new.lines) if not self._before.has_seen(one)]
            if newer:
                return _event(max(newer, key=lambda one: one.seq))
        if later := [one for one in told if not self._after.has_seen(one)]:
            return _beyond(later[0], self._after)
        return self._between(old.key) or self._with_request(self._unknown())

    def _hidden(self, one: Told) -> Json | None:
        """A rollback or an erasure between the two prompts took it away."""
        if one.gone is None or not self._after.has_seen(one):
            return None
        for other in reversed(self._chronicle.ordered):
            if other.kind in HIDING and self._after.has_seen(other) and not self._before.has_seen(other):
                return _event(other)
        return None

    def _summarized(self, told: Sequence[Told]) -> Json | None:
        for one in told:
            for fate in self._after.fates(one):
                if fate.disposition == "summarized":
                    text = f"stands for {fate.tokens} tokens that left the window"
                    return self._with_request(
                        {"by": "rule", "rule": fate.reason, "text": text, "numbers": dict(fate.entry)}
                    )
        return None

    def _between(self, key: str) -> Json | None:
        """The newest event between the two that feeds what changed."""
        kinds = [prefix for prefix, fed in FEEDS if key.partition("#")[0] == fed]
        hiding = [*kinds, *HIDING]
        for one in reversed(self._chronicle.ordered):
            if one.kind.startswith(tuple(hiding)) and self._after.has_seen(one) and not self._before.has_seen(one):
                return _event(one)
        return None

    def _with_request(self, cause: Json) -> Json:
        """A rule decides by what was asked: where that differs, it is the cause of the rule's other outcome."""
        asked = self.request()
        if not asked:
            return cause
        if cause["by"] == "unknown":
            return _asked(asked)
        return {**cause, "request": asked}

    def _unknown(self) -> Json:
        return {"by": "unknown", "text": "it follows from the other changes"}


def _event(told: Told) -> Json:
    return {"by": "event", "event": told.named(), "text": f"{told.kind} at seq {told.seq}"}


def _beyond(told: Told, side: Side) -> Json:
    """In a diff back in time, or with a fork: the event is newer than all that the other prompt saw."""
    end = side.heads.get(told.stream, 0)
    text = f"{told.kind} at seq {told.seq} came after seq {end}, where the other prompt ends"
    return {"by": "event", "event": told.named(), "text": text}


def _asked(asked: Sequence[Json]) -> Json:
    text = ", ".join(f"{one['field']} {one['before']} → {one['after']}" for one in asked)
    return {"by": "request", "text": text, "request": list(asked)}


def _flat(value: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, Any]]:
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if isinstance(item, Mapping):
            yield from _flat(item, here)
        else:
            yield here, item
