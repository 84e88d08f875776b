"""A message of a prompt before it takes the shape of a provider, and what all formats have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from domain.canonical import canonical_json
from domain.conversation import arguments_text
from domain.events import ImagePart, Part, Reasoning, TextPart
from domain.rows import Call, Message
from domain.text import well_formed

NeutralRole = Literal["system", "user", "assistant", "tool"]

EMPTY = "(empty)"
"""Stands in a message that would have no text at all, which providers refuse."""

SEALING = ("openai", "azure", "google", "gemini")
"""Providers whose reasoning is sealed for themselves: no format here carries it."""


@dataclass(frozen=True, slots=True)
class Neutral:
    """One message in its role. `sources` are the events that made it, `lines` those of each line of its text."""

    role: NeutralRole
    zone: str
    parts: tuple[Part, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    status: str | None = None
    reasoning: tuple[Reasoning, ...] = ()
    sources: tuple[str, ...] = ()
    unit: int | None = None
    seq: int | None = None
    tool: str | None = None
    masked: bool = False
    lines: tuple[tuple[str, ...], ...] = field(default=())


def from_message(message: Message, zone: str) -> Neutral:
    """The message in its own role, unchanged."""
    return Neutral(
        role=message.role,
        zone=zone,
        parts=message.parts,
        calls=message.calls,
        answers=message.answers,
        status=message.status,
        reasoning=message.reasoning,
        sources=(message.event_id, *message.also),
        unit=message.unit,
        seq=message.seq,
        tool=message.name if message.role == "tool" else None,
    )


def may_reason(message: Message, session_model: str | None, model: str | None) -> bool:
    """Whether reasoning of this message may go to `model`: a signature holds for the model that made it alone, which is
    the session's where the message names none, and what another provider sealed is nothing to those who read blocks."""
    made_by = message.model or session_model
    own = message.provider not in SEALING
    return own and (model is None or made_by is None or made_by == model)


def text_of(part: Part) -> str:
    """The text that stands for a part where only text may stand."""
    if isinstance(part, TextPart):
        return well_formed(part.text)
    if isinstance(part, ImagePart):
        size = f" {part.width}x{part.height}" if part.width and part.height else ""
        return f"[image {part.media_type}{size}]"
    return well_formed(canonical_json(part.data).decode())


def texts_of(parts: Sequence[Part]) -> list[str]:
    """The texts of the parts, empty ones left out, as providers refuse them."""
    return [found for found in map(text_of, parts) if found]


def arguments_of(call: Call) -> str:
    return well_formed(arguments_text(call.arguments))


def is_empty(message: Neutral) -> bool:
    """Whether an assistant message has neither text nor calls: it is left out rather than sent empty, and its reasoning
    with it, which no provider takes on its own."""
    return message.role == "assistant" and not message.calls and not any(map(text_of, message.parts))


def json_tokens(value: Any, count_text: Any) -> int:
    """Tokens of a JSON value as its canonical text."""
    total: int = count_text(canonical_json(value).decode())
    return total
