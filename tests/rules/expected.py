"""What the history of a log looks like to a model when all of it fits: a second, plain reading of the log."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers import EMPTY, Seen, plain

from domain.events import Event, ImagePart, TextPart

NO_RESULT = {
    "zh": ("（没有结果：调用已中断）", "（等待结果：调用尚未返回）"),
    "en": ("(no result: the call was interrupted)", "(pending: the call has not returned yet)"),
}


@dataclass
class Asked:
    raw_id: str
    name: str
    arguments: Any
    run: str | None
    place: int
    answer: Any = None
    dead: bool = False


@dataclass
class Turn:
    """A message with its calls, and what joined it later."""

    event: Event
    role: str
    calls: list[Asked] = field(default_factory=list)
    joined: list["Turn"] = field(default_factory=list)


def turns(events: Sequence[Event]) -> list[Turn]:
    """The turns of a log. An answer goes to the newest turn that waits for its id, in it to the first such call."""
    found: list[Turn] = []
    by_event: dict[str, Turn] = {}
    runs: dict[str, int] = {}
    for event in events:
        told: Any = event.payload
        cause = by_event.get(event.causation_id or "")
        match event.kind:
            case "user.input":
                turn = Turn(event, "user")
                if cause and cause.calls:
                    cause.joined.append(turn)
                else:
                    found.append(turn)
            case "assistant.output":
                turn = Turn(event, "assistant")
                for call in told.tool_calls:
                    turn.calls.append(Asked(call.id, call.name, call.arguments, event.run_id, event.seq))
                found.append(turn)
                by_event[event.event_id] = turn
            case "tool.called":
                made = Asked(told.call_id, told.name, told.arguments, event.run_id, event.seq)
                if cause:
                    cause.calls.append(made)
                else:
                    found.append(turn := Turn(event, "assistant", [made]))
                    by_event[event.event_id] = turn
            case "tool.result":
                if asked := _asked(found, told):
                    asked.answer = told
            case "reference.expanded" if told.content:
                found.append(Turn(event, "reference"))
            case "run.started":
                runs = {told.run_id: event.seq}
                _end(found, lambda one, run=told.run_id: one.run != run)
            case "run.ended":
                began = runs.pop(told.run_id, None)
                _end(found, lambda one, run=told.run_id, at=began: one.run == run or (
                    one.run is None and at is not None and one.place > at
                ))  # fmt: skip
    return found


def _end(found: Sequence[Turn], over: Any) -> None:
    for turn in found:
        for one in turn.calls:
            one.dead = one.dead or (one.answer is None and over(one))


def _asked(found: Sequence[Turn], told: Any) -> Asked | None:
    waiting = [(turn, one) for turn in found for one in turn.calls if one.answer is None]
    fits = [(turn, one) for turn, one in waiting if one.raw_id == told.call_id]
    if not told.call_id:
        named = [(turn, one) for turn, one in fits or waiting if told.name in (None, one.name)]
        fits = named or fits
    if not fits:
        return None
    newest = max(turn.event.seq for turn, _ in fits)
    return next(one for turn, one in fits if turn.event.seq == newest)


def history(events: Sequence[Event], target: str, locale: str = "zh") -> list[Seen]:
    """The history as a model sees it in a format, calls numbered by their place."""
    made: list[Seen] = []
    number = 0
    for turn in turns(events):
        made += _texts(turn, target)
        answers = []
        for one in turn.calls:
            made.append(Seen("assistant", "call", _arguments(one.arguments, target), str(number), one.name))
            text = NO_RESULT[locale][not one.dead] if one.answer is None else _joined(one.answer.content) or EMPTY
            answers.append(Seen("tool", "answer", text, str(number)))
            number += 1
        made += answers
        for late in turn.joined:
            made += _texts(late, target)
    return made


def _texts(turn: Turn, target: str) -> list[Seen]:
    told: Any = turn.event.payload
    parts = getattr(told, "content", ())
    if turn.role == "assistant":
        thinking = [
            Seen("assistant", "thinking", one.text, one.signature)
            for one in getattr(told, "reasoning", ())
            if target == "anthropic" and one.signature
        ]
        if target == "anthropic":
            texts = [Seen("assistant", "text", text) for text in map(_text, parts) if text.strip()]
        else:
            texts = [Seen("assistant", "text", _joined(parts))] if _joined(parts) else []
        return thinking + texts if texts or turn.calls else []
    if target != "text":
        # The anthropic API refuses texts of nothing but white space.
        kept = str.strip if target == "anthropic" else str
        shown = [part for part in parts if isinstance(part, ImagePart) or kept(_text(part))]
        return [_part(part) for part in shown] or [Seen("user", "text", EMPTY)]
    return [Seen("user", "text", _joined(parts) or EMPTY)]


def _part(part: Any) -> Seen:
    return Seen("user", "image") if isinstance(part, ImagePart) else Seen("user", "text", _text(part))


def _text(part: Any) -> str:
    if isinstance(part, TextPart):
        return plain(part.text)
    if isinstance(part, ImagePart):
        size = f" {part.width}x{part.height}" if part.width and part.height else ""
        return f"[image {part.media_type}{size}]"
    return _canonical(part.data)


def _joined(parts: Sequence[Any]) -> str:
    return "\n".join(text for text in map(_text, parts) if text)


def _arguments(arguments: Any, target: str) -> str:
    text = arguments if isinstance(arguments, str) else _canonical(arguments)
    if target != "anthropic":
        return plain(text)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return plain(_dump(value if isinstance(value, dict) else {"arguments": value}))


def _canonical(value: Any) -> str:
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", _dump(value))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
