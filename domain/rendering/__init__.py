"""Neutral messages to what a provider takes. `render` picks the format; each module knows one."""

from collections.abc import Sequence
from typing import Any

from domain.rendering import anthropic, openai, text
from domain.rendering.neutral import Neutral
from domain.requests import Format
from domain.rows import Tool

_RENDERERS = {"openai": openai, "anthropic": anthropic, "text": text}


def render(messages: Sequence[Neutral], tools: Sequence[Tool], target: Format) -> dict[str, Any]:
    """The payload: `{messages, tools?}`, `{system, messages, tools?}` or `{text}`, ready to be sent as JSON."""
    payload: dict[str, Any] = _RENDERERS[target].payload(messages, tools)
    return payload


def count(payload: dict[str, Any], target: Format, count_text: Any, messages: Sequence[Neutral] = ()) -> int:
    """The tokens of a rendered payload, all of it: texts, calls, schemas, images, and the overhead of the format.

    `messages` are those it was rendered from: they know the sizes of images, which no payload tells.
    """
    total: int = _RENDERERS[target].count(payload, count_text, _RENDERERS[target].image_costs(messages))
    return total
