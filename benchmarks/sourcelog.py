"""What a source log says, read a second time: the instruction, the rules, the newest directive, the tools, the units.

Fed with the events as they were sent, in the order of the log. Knows nothing of how prompts are compiled.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.tally import canonical, well_formed

Json = Any
Piece = tuple[str, ...]
"""A part of a prompt that came from the log: who said it, and the text. Calls: ("call", name, arguments)."""

EMPTY = "(empty)"
"""What stands in a user message or an answer that has no text, as providers refuse those."""

DEEPEST = 64
"""Levels of JSON beyond which arguments are sent as their text."""


@dataclass(slots=True)
class Said:
    """One message of the log. `calls` are (raw id, name, arguments); `answers` says that it answers a call."""

    role: str
    parts: list[Json]
    calls: list[tuple[str, str, Json]] = field(default_factory=list)
    reference: bool = False


@dataclass(slots=True)
class LogUnit:
    """What is kept or trimmed together: a message, or a reply with its calls and all their answers."""

    seq: int
    events: set[str]
    said: list[Said]
    answered: int = 0
    orphan: bool = False

    @property
    def calls(self) -> int:
        return sum(len(one.calls) for one in self.said)

    def pieces(self, target: str) -> Iterator[Piece]:
        """What a prompt that shows this unit must hold of it."""
        for one in self.said:
            yield from message_pieces(one, target)


@dataclass(slots=True)
class Rule:
    id: str
    level: str
    text: str
    seq: int


@dataclass(slots=True)
class _Waiting:
    raw_id: str
    name: str
    unit: LogUnit
    index: int


class SourceLog:
    """A log up to a point. `parent` is the log of the session that this one is a sub-agent of."""

    def __init__(self, parent: "SourceLog | None" = None) -> None:
        self.parent = parent
        self.locale, self.model = "zh", None
        self.instruction: Json = None
        self.rules: dict[str, Rule] = {}
        self.tools: dict[str, Json] = {}
        self.directive: list[Json] | None = None
        self.directive_id: str | None = None
        self.directive_seq = 0
        self.units: dict[int, LogUnit] = {}
        self._replies: dict[str, LogUnit] = {}
        self._waiting: list[_Waiting] = []

    def add(self, seq: int, event: Json) -> None:
        rule = getattr(self, "_" + event["kind"].replace(".", "_"), None)
        if rule is not None:
            rule(seq, event, event["payload"])

    def block_rules(self) -> list[Rule]:
        """The rules that every prompt must hold: the session's own, and those of the sessions above it."""
        own = [rule for rule in self.rules.values() if rule.level == "block"]
        above = self.parent.block_rules() if self.parent else []
        inherited = sorted((rule for rule in above if rule.id not in self.rules), key=lambda rule: (rule.seq, rule.id))
        return [*inherited, *sorted(own, key=lambda rule: rule.seq)]

    def instruction_text(self) -> str:
        told = self.instruction or {}
        rules = "\n".join(f"- {rule['text']}" for rule in told.get("rules", ()))
        texts = (told.get("text", ""), told.get("role", ""), rules, told.get("output_format", ""))
        return well_formed("\n\n".join(text for text in texts if text))

    def directive_pieces(self, target: str) -> list[Piece]:
        return list(message_pieces(Said("user", self.directive or []), target))

    def image_sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height of the images in the log, by their URL or data."""
        parts = (part for unit in self.units.values() for one in unit.said for part in one.parts)
        return {
            part.get("url") or part.get("data") or "": (part["width"], part["height"])
            for part in parts
            if part["type"] == "image" and part.get("width") and part.get("height")
        }

    # --- one rule per kind -------------------------------------------------------------------------------------------

    def _session_started(self, seq: int, event: Json, told: Json) -> None:
        self.locale = told.get("locale") or self.locale
        self.model = told.get("model") or self.model

    def _instruction_set(self, seq: int, event: Json, told: Json) -> None:
        self.instruction = told

    def _constraint_set(self, seq: int, event: Json, told: Json) -> None:
        self.rules[told["id"]] = Rule(told["id"], told.get("level", "block"), told["text"], seq)

    def _constraint_removed(self, seq: int, event: Json, told: Json) -> None:
        self.rules.pop(told["id"], None)

    def _tool_registered(self, seq: int, event: Json, told: Json) -> None:
        self.tools[told["name"]] = told

    def _tool_removed(self, seq: int, event: Json, told: Json) -> None:
        self.tools.pop(told["name"], None)

    def _user_input(self, seq: int, event: Json, told: Json) -> None:
        parts = parts_of(told.get("content"))
        cause = self._replies.get(event.get("causation_id") or "")
        if cause is not None and cause.calls:
            cause.events.add(event["event_id"])
            cause.said.append(Said("user", parts))
        else:
            self._begin(seq, event, Said("user", parts))
        if told.get("directive", True) and parts:
            self.directive, self.directive_id, self.directive_seq = parts, event["event_id"], seq

    def _assistant_output(self, seq: int, event: Json, told: Json) -> None:
        calls = [(call.get("id", ""), call["name"], call.get("arguments", "{}")) for call in told.get("tool_calls", ())]
        unit = self._begin(seq, event, Said("assistant", parts_of(told.get("content")), calls))
        self._replies[event["event_id"]] = unit
        self._waiting += [_Waiting(raw, name, unit, at) for at, (raw, name, _) in enumerate(calls)]

    def _tool_called(self, seq: int, event: Json, told: Json) -> None:
        call = (told.get("call_id", ""), told["name"], told.get("arguments", "{}"))
        unit = self._replies.get(event.get("causation_id") or "")
        if unit is None:
            unit = self._replies[event["event_id"]] = self._begin(seq, event, Said("assistant", [], [call]))
        else:
            unit.events.add(event["event_id"])
            unit.said[0].calls.append(call)
        self._waiting.append(_Waiting(call[0], call[1], unit, len(unit.said[0].calls) - 1))

    def _tool_result(self, seq: int, event: Json, told: Json) -> None:
        answer = Said("tool", parts_of(told.get("content")))
        call = self._answered(told.get("call_id", ""), told.get("name"))
        if call is None:
            self._begin(seq, event, answer).orphan = True
            return
        self._waiting.remove(call)
        call.unit.events.add(event["event_id"])
        call.unit.said.append(answer)
        call.unit.answered += 1

    def _reference_expanded(self, seq: int, event: Json, told: Json) -> None:
        if parts := parts_of(told.get("content")):
            self._begin(seq, event, Said("user", parts, reference=True))

    def _begin(self, seq: int, event: Json, said: Said) -> LogUnit:
        self.units[seq] = LogUnit(seq, {event["event_id"]}, [said])
        return self.units[seq]

    def _answered(self, raw_id: str, name: str | None) -> _Waiting | None:
        """The newest unit that waits for this id, in it the first call; without an id, by the tool's name."""
        calls = [call for call in self._waiting if call.raw_id == raw_id]
        if not calls and not raw_id:
            calls = [call for call in self._waiting if name in (None, call.name)]
        newest = max((call.unit.seq for call in calls), default=0)
        return min((call for call in calls if call.unit.seq == newest), key=lambda call: call.index, default=None)


def parts_of(content: Json) -> list[Json]:
    if not content:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def message_pieces(said: Said, target: str) -> Iterator[Piece]:
    """A message of the log as a format shows it. `anthropic` refuses blank text, so it is left out there."""
    shown = [piece for part in said.parts if (piece := _part(part)) and (target == "openai" or piece[1].strip())]
    if said.role == "user":
        yield from shown or [("user", EMPTY)]
        return
    texts = [piece[1] for part in said.parts if (piece := _part(part, images=False))]
    if said.role == "tool":
        yield "answer", "\n".join(texts) or EMPTY
        return
    if target == "anthropic":
        yield from (("assistant", *piece[1:]) if piece[0] == "user" else piece for piece in shown)
    elif texts:
        yield "assistant", "\n".join(texts)
    for _, name, arguments in said.calls:
        yield "call", name, call_text(arguments, target)


def call_text(arguments: Json, target: str) -> str:
    """The arguments of a call: their text, or for `anthropic` the object in it; what is none is carried whole."""
    text = well_formed(arguments if isinstance(arguments, str) else canonical(arguments))
    if target == "openai":
        return text
    try:
        found = json.loads(text)
        shown = canonical(_well_formed(found if isinstance(found, dict) else {"arguments": found}))
    except (ValueError, RecursionError):
        return canonical({"arguments": text})
    return shown if _depth(found) <= DEEPEST else canonical({"arguments": text})


def _well_formed(value: Json) -> Json:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(key): _well_formed(item) for key, item in value.items()}
    return [_well_formed(item) for item in value] if isinstance(value, list) else value


def _depth(value: Json) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0) if isinstance(value, dict | list) else 0


def _part(part: Json, images: bool = True) -> Piece | None:
    if part["type"] == "text":
        return ("user", well_formed(part["text"])) if part["text"] else None
    if part["type"] == "image":
        if images:
            return "image", part.get("url") or part.get("data") or ""
        size = f" {part['width']}x{part['height']}" if part.get("width") and part.get("height") else ""
        return "user", f"[image {part.get('media_type', 'image/png')}{size}]"
    return "user", well_formed(canonical(part["data"]))
