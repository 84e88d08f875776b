"""What the fake server tells of two prompts, and of an event in one: `diff` and `why`.

Nothing is trimmed there, so that a message is in a prompt, or came later, or was rolled back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from promptctx._fake import Json
from promptctx._fake_past import ROLLBACK, Side, in_force
from promptctx.prompt import readable

# --- diff -------------------------------------------------------------------------------------------------------------


def diff(before: Side, after: Side) -> Json:
    """What came and went between two prompts, message by message, each with its cause."""
    changes = list(_changes(before, after))
    return {
        "before": before.named(), "after": after.named(), "identical": not changes,
        "request": _differing(_flat(before.prompt["request"]), _flat(after.prompt["request"]), "field", None),
        "zones": _differing(before.prompt["report"]["zones"], after.prompt["report"]["zones"], "zone", 0),
        "changes": changes,
    }  # fmt: skip


def _changes(before: Side, after: Side) -> Iterator[Json]:
    old, new = list(before.shown), list(after.shown)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for event_id in old[i1:i2]:
            yield {**_change("removed", before, event_id), "cause": _why_removed(before, after, event_id)}
        for event_id in new[j1:j2]:
            yield {**_change("added", after, event_id), "cause": _why_added(before, after, event_id)}


def _change(what: str, side: Side, event_id: str) -> Json:
    made = side.shown[event_id]
    op = "+" if what == "added" else "-"
    lines = [{"op": op, "text": line, "events": [event_id]} for line in readable(made).split("\n")]
    return {"change": what, "segment": f"message:{event_id}", "zone": _zone(made), "role": made["role"], "lines": lines}


def _why_added(before: Side, after: Side, event_id: str) -> Json:
    back = _rolled_back(before, after) if event_id in before.seen else None
    return _caused(back or after.seen[event_id])


def _why_removed(before: Side, after: Side, event_id: str) -> Json:
    if event_id in after.seen and (back := _rolled_back(before, after)):
        return _caused(back)
    cause = _caused(before.seen[event_id])
    end = after.prompt["inputs"]["session"]["seq"]
    return {**cause, "text": f"{cause['text']} came after seq {end}, where the other prompt ends"}


def _rolled_back(before: Side, after: Side) -> Json | None:
    """The newest rollback between two prompts."""
    found = [one for one in after.events if one["kind"] == ROLLBACK and one["event_id"] not in before.seen]
    return found[-1] if found else None


def _caused(event: Json) -> Json:
    return {"by": "event", "event": named(event), "text": f"{event['kind']} at seq {event['seq']}"}


def named(event: Json, stream: str = "session") -> Json:
    return {"event_id": event["event_id"], "seq": event["seq"], "stream": stream, "kind": event["kind"]}


def _differing(old: Mapping[str, Any], new: Mapping[str, Any], name: str, missing: Any) -> list[Json]:
    pairs = [(key, old.get(key, missing), new.get(key, missing)) for key in dict.fromkeys((*old, *new))]
    return [{name: key, "before": left, "after": right} for key, left, right in pairs if left != right]


def _flat(value: Mapping[str, Any], path: str = "") -> Json:
    found: Json = {}
    for key, item in value.items():
        found |= _flat(item, f"{path}{key}.") if isinstance(item, Mapping) else {f"{path}{key}": item}
    return {key: item for key, item in found.items() if key != "as_of"}


def _zone(made: Json) -> str:
    return "anchor_system" if made["role"] == "system" else "window"


# --- why --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    disposition: str
    reason: str
    sentence: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    where: Sequence[Json] = ()
    by: Json | None = None


def why(side: Side, event: Json, stream: str) -> Json:
    """Where an event went in a prompt."""
    prompt, found = side.prompt, _verdict(side, event, stream)
    return {
        "prompt": prompt["id"], "session": prompt["session"], "version": prompt["version"],
        "event": {**named(event, stream), "recorded_at": event["recorded_at"]},
        "disposition": found.disposition, "reason": found.reason, "sentence": found.sentence,
        "numbers": dict(found.numbers), "where": list(found.where), "kept_by": {}, "by": found.by,
    }  # fmt: skip


def _verdict(side: Side, event: Json, stream: str) -> Verdict:
    end, event_id = side.prompt["inputs"][stream]["seq"], event["event_id"]
    if event["seq"] > end:
        return Verdict("later", "seq", f"it came after this prompt, which ends at seq {end}")
    if made := side.shown.get(event_id) if stream == "session" else None:
        lines = [1, readable(made).count("\n") + 1]
        where = [{"segment": f"message:{event_id}", "zone": _zone(made), "lines": lines}]
        for unit in side.prompt["report"]["units"]:
            if event_id in unit["events"]:
                sentence = "it is in the prompt, in the zone window (window)"
                return Verdict("included", "window", sentence, {"tokens": unit["tokens"]}, where)
        return Verdict("included", "shown", f"it is in the prompt, in {_zone(made)}", where=where)
    if stream == "session" and event not in side.force:
        back = _hidden_by(side, event)
        return Verdict("hidden", "rolled_back", f"a rollback hides it: event {back}", by={"event_id": back})
    sentence = f"{event['kind']} makes no message, and prompts of the fake server hold messages alone"
    return Verdict("unseen", "kind", sentence)


def _hidden_by(side: Side, event: Json) -> str:
    """The rollback since which an event does not count."""
    backs = [one for one in side.events if one["kind"] == ROLLBACK and one["seq"] > event["seq"]]
    return str(next(one["event_id"] for one in reversed(backs) if event in in_force(side.events[: one["seq"] - 1])))
