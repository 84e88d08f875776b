"""A prompt in segments: what stands together in one message or under one heading, each line with its events."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from domain.canonical import canonical_json
from domain.rendering.neutral import Neutral, arguments_of, texts_of
from domain.rows import Tool
from domain.text import well_formed
from domain.wording import WORDINGS

SECTIONED = ("anchor_system", "slots")
"""Zones whose messages hold sections of their own."""

SLOT_OF_TITLE: Mapping[str, str] = {title: slot for words in WORDINGS.values() for slot, title in words.titles.items()}


class Line(NamedTuple):
    """A line of a prompt and the events that made it."""

    text: str
    events: tuple[str, ...] = ()


class Segment(NamedTuple):
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


Held = tuple[str, str, tuple[Line, ...]]
"""(key, zone, lines) of a segment in a message."""

Known = dict[int, tuple[Neutral, Sequence[Held]]]
"""Messages by their identity, with what they hold."""


def segments(messages: Sequence[Neutral], tools: Sequence[Tool], known: Known | None = None) -> tuple[Segment, ...]:
    """All of a prompt, in its order. With the same `known` a message that two prompts share is looked into once."""
    seen: dict[str, int] = {}
    found: list[Segment] = []
    known = {} if known is None else known
    for place, message in enumerate(messages):
        held = known.get(id(message))
        if held is None:
            held = known[id(message)] = message, list(_of_message(message, place))
        for key, zone, lines in held[1]:
            seen[key] = again = seen.get(key, 0) + 1
            name = f"{key}#{again}" if again > 1 else key
            found.append(Segment(name, zone, message.role, lines, place))
    return (*found, *map(_of_tool, tools))


def _of_tool(tool: Tool) -> Segment:
    schema = canonical_json(tool.parameters).decode()
    rows = [f"{tool.name} - {tool.description}", *([schema] if schema != "{}" else [])]
    lines = tuple(Line(well_formed(row), (tool.event_id,)) for text in rows for row in text.split("\n"))
    return Segment(f"tool:{tool.name}", "tools", "tool", lines)


def _of_message(message: Neutral, place: int) -> Iterator[Held]:
    lines = _lines(message)
    if message.zone in SECTIONED and (message.lines or message.zone == "anchor_system"):
        yield from _sections(message, lines)
    elif message.zone in ("summary", "reinforcement", "few_shot"):
        yield message.zone, message.zone, lines
    else:
        name = message.sources[0] if message.sources else f"at-{place}"
        yield f"message:{name}", message.zone, lines


def _lines(message: Neutral) -> tuple[Line, ...]:
    texts = [line for text in texts_of(message.parts) for line in text.split("\n")]
    if message.lines and len(message.lines) == len(texts):
        return tuple(map(Line, texts, message.lines))
    for call in message.calls:
        texts += well_formed(f"→ {call.name}({arguments_of(call)})").split("\n")
    sources = message.sources
    return tuple([Line(text, sources) for text in texts])


def _sections(message: Neutral, lines: Sequence[Line]) -> Iterator[Held]:
    """The instruction, and each slot under its heading. Only a line without events can be a heading: what others said
    has events, and so nothing that they said can open a section here either."""
    key, zone, held = "instruction", "anchor_system", list[Line]()
    if message.zone == "slots":
        key, zone = "reference", "slots"
    for line in lines:
        if not line.events and (slot := SLOT_OF_TITLE.get(line.text)):
            if any(one.text for one in held):
                yield key, zone, _trimmed(held)
            key, zone, held = f"slot:{slot}", "slots", []
        held.append(line)
    yield key, zone, _trimmed(held)


def _trimmed(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Without the blank line that parts it from the next one."""
    kept = list(lines)
    while kept and not kept[-1].text and not kept[-1].events:
        kept.pop()
    return tuple(kept)
