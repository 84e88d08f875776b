"""OpenAI's items, as its Responses API and its Agents SDK write them, as chat messages and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from promptctx._messages import plain
from promptctx.importers._spoken import spoken

Json = dict[str, Any]


def as_messages(items: Any) -> list[Json]:
    """Items as chat messages: calls join the assistant's message that they follow."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return [dict(message) for message in spoken(plain(list(items)), "user")]


def as_items(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Chat messages as items."""
    return [item for message in messages for item in _items(message)]


def as_tools(tools: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Tools of the chat as tools of the Responses API."""
    return [{"type": "function", "strict": False, **tool["function"]} for tool in tools]


def _items(message: Mapping[str, Any]) -> list[Json]:
    if message["role"] == "tool":
        output = _text(message["content"])
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}]
    found: list[Json] = []
    if message.get("content"):
        found.append({"role": message["role"], "content": _content(message)})
    for call in message.get("tool_calls") or ():
        told = call["function"]
        named = {"call_id": call["id"], "name": told["name"], "arguments": told["arguments"]}
        found.append({"type": "function_call", **named})
    return found


def _content(message: Mapping[str, Any]) -> str | list[Json]:
    content = message["content"]
    if isinstance(content, str):
        return content
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    return [_part(part, kind) for part in content]


def _part(part: Mapping[str, Any], kind: str) -> Json:
    if part.get("type") == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
    return {"type": kind, "text": part.get("text", "")}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
