"""The past as the fake server keeps it: which events count, what a prompt was made from, what a rollback would do."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from promptctx import errors
from promptctx._fake import Json, digest_of, message, render
from promptctx.prompt import readable

ROLLBACK = "context.rolled_back"
WINDOW = {"disposition": "included", "reason": "window", "zone": "window"}
OPENING = 80


# --- which events count -----------------------------------------------------------------------------------------------


def in_force(events: Sequence[Json]) -> list[Json]:
    """The events of a session that count: rollbacks resolved, rollbacks of rollbacks too."""
    backs = {min(int(one["payload"]["to_seq"]), one["seq"] - 1) for one in events if one["kind"] == ROLLBACK}
    stood: dict[int, list[Json]] = {}
    found: list[Json] = []
    for event in events:
        if event["seq"] - 1 in backs:
            stood[event["seq"] - 1] = list(found)
        if event["kind"] == ROLLBACK:
            told = event["payload"]
            then = stood[min(int(told["to_seq"]), event["seq"] - 1)]
            found = list(then) if told.get("loosen") else _tightened(found, then)
        found.append(event)
    return found


def _tightened(now: Sequence[Json], then: list[Json]) -> list[Json]:
    """The history gone back to, with the newer instructions and the stricter rules of the one that is left."""
    inside = {event["seq"] for event in then}
    kept = [event for event in now if event["seq"] not in inside and event["kind"] == "instruction.set"]
    old = _rules(then)
    for name, rule in _rules(now).items():
        if name not in old or _strictness(rule) > _strictness(old[name]):
            then = [event for event in then if _rule_of(event) != name or event["seq"] <= rule["seq"]]
            kept += [rule] if rule["seq"] not in inside else []
    return sorted([*then, *kept], key=lambda event: int(event["seq"]))


def _rules(events: Iterable[Json]) -> dict[str, Json]:
    """The constraint in force under each id, as the event that set it."""
    found: dict[str, Json] = {}
    for event in events:
        if name := _rule_of(event):
            found.pop(name, None)
            if event["kind"] == "constraint.set":
                found[name] = event
    return found


def _rule_of(event: Json) -> str | None:
    return str(event["payload"]["id"]) if event["kind"].startswith("constraint.") else None


def _strictness(rule: Json) -> tuple[bool, int]:
    return rule["payload"].get("level", "block") == "block", rule["seq"]


# --- prompts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """A prompt with the log that it was made from."""

    prompt: Mapping[str, Any]
    events: Sequence[Json]
    """Of its session, up to its head."""

    @cached_property
    def force(self) -> list[Json]:
        return in_force(self.events)

    @cached_property
    def seen(self) -> dict[str, Json]:
        return {event["event_id"]: event for event in self.events}

    @cached_property
    def shown(self) -> dict[str, Json]:
        """The events that it shows, each with its message."""
        return {event["event_id"]: made for event in self.force if (made := message(event))}

    def named(self) -> Json:
        told = {key: self.prompt[key] for key in ("version", "tokens", "budget", "mode")}
        heads = {name: head["seq"] for name, head in self.prompt["inputs"].items()}
        return {"prompt": self.prompt["id"], **told, "heads": heads}


def report(events: Sequence[Json], tokens: int, budget: int | None) -> Json:
    """The account of a prompt that holds all of these events: every unit is included."""
    told = units(events)
    window = sum(one["tokens"] for one in told)
    zones = {"anchor_system": max(0, tokens - window), "window": min(tokens, window)}
    return {
        "zones": {zone: size for zone, size in zones.items() if size}, "budget": budget, "tokens": tokens,
        "slots": {}, "units": told, "warnings": [],
    }  # fmt: skip


def units(events: Iterable[Json]) -> list[Json]:
    """The messages but the instruction, an answer together with its call."""
    found: list[Json] = []
    calls: dict[str, Json] = {}
    for event in events:
        made = message(event)
        if made is None or made["role"] == "system":
            continue
        tokens = len(json.dumps(made)) // 4
        if unit := calls.get(made.get("tool_call_id", "")):
            unit |= {"to_seq": event["seq"], "tokens": unit["tokens"] + tokens}
            unit["events"].append(event["event_id"])
            continue
        place = {"from_seq": event["seq"], "to_seq": event["seq"], "units": 1, "events": [event["event_id"]]}
        found.append({**place, "role": made["role"], "tokens": tokens, **WINDOW})
        calls |= {call["id"]: found[-1] for call in made.get("tool_calls", ()) if call["id"]}
    return found


def verdict(side: Side) -> Json:
    """A prompt made again from the log and compared."""
    prompt = side.prompt
    again = digest_of(render(side.shown.values(), prompt["format"]))
    same = again == prompt["content_hash"]
    return {
        "prompt": prompt["id"], "session": prompt["session"], "version": prompt["version"],
        "verdict": "identical" if same else "different", "identical": same, "content_hash": prompt["content_hash"],
        "replayed_hash": again, "first_difference": None, "cause": None, "because": None, "changes": [],
        "changed_since": [],
    }  # fmt: skip


# --- rollback ---------------------------------------------------------------------------------------------------------


def plan(
    session: str, events: Sequence[Json], versions: Sequence[int], to_seq: int, to_version: int | None, loosen: bool
) -> Json:
    """What a rollback would hide, keep and bring back, without doing it."""
    head = len(events)
    if not 0 <= to_seq <= head:
        raise errors.InvalidRequest(f"to_seq: the session is at seq {head}.", path="to_seq", head=head)
    back = {"seq": head + 1, "kind": ROLLBACK, "payload": {"to_seq": to_seq, "loosen": loosen}}
    now, then = ({event["seq"]: event for event in in_force(one)} for one in (events, [*events, back]))
    return {
        "session": session, "head": head, "to_seq": to_seq, "to_version": to_version,
        "hides": [_opening(event) for seq, event in now.items() if seq not in then],
        "stays": [_opening(event) for seq, event in then.items() if to_seq < seq <= head],
        "returns": [seq for seq in then if seq not in now and seq <= head],
        "versions_after": sorted(one for one in versions if to_version and one > to_version),
        "takes_back": [], "conflicts": [],
    }  # fmt: skip


def _opening(event: Json) -> Json:
    told = event["payload"]
    made = message(event)
    text = readable(made) if made else next((str(told[key]) for key in ("text", "name", "id") if told.get(key)), "")
    return {"seq": event["seq"], "event_id": event["event_id"], "kind": event["kind"], "text": text[:OPENING]}
