"""A prompt in segments: what stands together in one message or under one heading, each line with its events."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from domain.canonical import canonical_json
from domain.rendering.neutral import Neutral, arguments_of, texts_of
from domain.rows import Tool
from domain.text import well_formed
from domain.wording import WORDINGS

SLOT_OF_TITLE: Mapping[str, str] = {title: slot for words in WORDINGS.values() for slot, title in words.titles.items()}


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """`key` names what it is, the same in every prompt of a session; `message` is its place in the prompt, and None for
    the tools, which stand beside the messages."""

    key: str
    zone: str
    role: str
    lines: tuple[Line, ...]
    message: int | None = None

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @property
    def slot(self) -> str | None:
        return self.key.partition(":")[2] if self.zone == "slots" else None


def segments(messages: Sequence[Neutral], tools: Sequence[Tool]) -> tuple[Segment, ...]:
    """All of a prompt, in its order."""
    seen: Counter[str] = Counter()
    found: list[Segment] = []
    for place, message in enumerate(messages):
        for one in _of_message(message, place):
            seen[one.key] += 1
            again = f"{one.key}#{seen[one.key]}" if seen[one.key] > 1 else one.key
            found.append(Segment(again, one.zone, one.role, one.lines, place))
    return (*found, *map(_of_tool, tools))


def _of_tool(tool: Tool) -> Segment:
    schema = canonical_json(tool.parameters).decode()
    rows = [f"{tool.name} - {tool.description}", *([schema] if schema != "{}" else [])]
    lines = tuple(Line(well_formed(row), (tool.event_id,)) for text in rows for row in text.split("\n"))
    return Segment(f"tool:{tool.name}", "tools", "tool", lines)


def _of_message(message: Neutral, place: int) -> Iterator[Segment]:
    lines = _lines(message)
    if message.zone == "anchor_system" or (message.zone == "slots" and message.lines):
        yield from _sections(message, lines)
    elif message.zone in ("summary", "reinforcement", "few_shot"):
        yield Segment(message.zone, message.zone, message.role, lines)
    else:
        name = message.sources[0] if message.sources else f"at-{place}"
        yield Segment(f"message:{name}", message.zone, message.role, lines)


def _lines(message: Neutral) -> tuple[Line, ...]:
    texts = [line for text in texts_of(message.parts) for line in text.split("\n")]
    if message.lines and len(message.lines) == len(texts):
        return tuple(map(Line, texts, message.lines))
    calls = [f"→ {call.name}({arguments_of(call)})" for call in message.calls]
    shown = [*texts, *(well_formed(row) for call in calls for row in call.split("\n"))]
    return tuple(Line(text, message.sources) for text in shown)


def _sections(message: Neutral, lines: Sequence[Line]) -> Iterator[Segment]:
    """The instruction, and each slot under its heading. Only a line without events can be a heading: what others said
    has events, and so nothing that they said can open a section here either."""
    key, zone, held = "instruction", "anchor_system", list[Line]()
    if message.zone == "slots":
        key, zone = "reference", "slots"
    for line in lines:
        if not line.events and (slot := SLOT_OF_TITLE.get(line.text)):
            if any(one.text for one in held):
                yield Segment(key, zone, message.role, _trimmed(held))
            key, zone, held = f"slot:{slot}", "slots", []
        held.append(line)
    yield Segment(key, zone, message.role, _trimmed(held))


def _trimmed(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Without the blank line that parts it from the next one."""
    kept = list(lines)
    while kept and not kept[-1].text and not kept[-1].events:
        kept.pop()
    return tuple(kept)
