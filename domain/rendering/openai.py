"""The `openai` format: chat completion messages and tools.

Counted as the provider documents it: each message costs 3 tokens and those of its role, texts, call ids, names and
arguments; each call and each further content part 3 more; a reply is primed with 3; a tool costs its JSON and 8.
An image costs what its tiles cost, and never its text.
"""

from collections.abc import Callable, Sequence
from typing import Any

from domain.events import ImagePart, Part, TextPart
from domain.rendering.images import NO_SIZES, Costs, by_tiles, images
from domain.rendering.neutral import EMPTY, Neutral, arguments_of, is_empty, json_tokens, text_of, texts_of
from domain.rows import Call, Tool
from domain.text import well_formed, well_formed_json

PER_MESSAGE = 3
PER_PART = 3
PER_CALL = 3
PER_TOOL = 8
PRIMING = 3
UNKNOWN = {detail: by_tiles(ImagePart(type="image", detail=detail)) for detail in ("low", "high", "auto")}


def payload(messages: Sequence[Neutral], tools: Sequence[Tool]) -> dict[str, Any]:
    made: dict[str, Any] = {"messages": [_message(one) for one in messages if not is_empty(one)]}
    if tools:
        made["tools"] = [_tool(tool) for tool in tools]
    return made


def _message(message: Neutral) -> dict[str, Any]:
    if message.role == "tool":
        text = "\n".join(texts_of(message.parts)) or EMPTY
        return {"role": "tool", "tool_call_id": well_formed(message.answers or ""), "content": text}
    if message.role == "assistant":
        made: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts_of(message.parts)) or None}
        if message.calls:
            made["tool_calls"] = [_call(call) for call in message.calls]
        return made
    return {"role": message.role, "content": _content(message.parts)}


def _call(call: Call) -> dict[str, Any]:
    function = {"name": well_formed(call.name), "arguments": arguments_of(call)}
    return {"id": well_formed(call.id), "type": "function", "function": function}


def _content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return text_of(parts[0]) or EMPTY
    made = [_part(part) for part in parts if isinstance(part, ImagePart) or text_of(part)]
    return made or EMPTY


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": _url(part), "detail": part.detail}}
    return {"type": "text", "text": text_of(part)}


def _url(image: ImagePart) -> str:
    return image.url or f"data:{image.media_type};base64,{image.data or ''}"


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": well_formed_json(function)}


def image_costs(messages: Sequence[Neutral]) -> Costs:
    """What the images of these messages cost whose size is known."""
    return {f"{image.detail} {_url(image)}": by_tiles(image) for image in images(messages) if image.width}


def count(made: dict[str, Any], count_text: Callable[[str], int], costs: Costs) -> int:
    total = PRIMING + sum(count_message(message, count_text, costs) for message in made["messages"])
    return total + sum(PER_TOOL + json_tokens(tool, count_text) for tool in made.get("tools", ()))


def count_message(message: dict[str, Any], count_text: Callable[[str], int], costs: Costs = NO_SIZES) -> int:
    total = PER_MESSAGE + count_text(message["role"])
    content = message["content"]
    if isinstance(content, str):
        total += count_text(content)
    elif content:
        total += sum(PER_PART + _count_part(part, count_text, costs) for part in content)
    if "tool_call_id" in message:
        total += count_text(message["tool_call_id"])
    for call in message.get("tool_calls", ()):
        function = call["function"]
        total += PER_CALL + sum(map(count_text, (call["id"], function["name"], function["arguments"])))
    return total


def _count_part(part: dict[str, Any], count_text: Callable[[str], int], costs: Costs) -> int:
    if part["type"] == "text":
        return count_text(part["text"])
    url, detail = part["image_url"]["url"], part["image_url"]["detail"]
    return costs.get(f"{detail} {url}", UNKNOWN[detail])
