"""The `anthropic` format: system, messages that strictly alternate, tools.

Counted per content block, so that merging messages costs nothing: 4 tokens and those of its texts, ids, names and
input; the system text 4 more; a reply is primed with 3; a tool costs its JSON and 8. An image costs what its area
costs, and never its text.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from domain.canonical import depth, sha256_hex
from domain.events import ImagePart, Part, Reasoning
from domain.rendering.images import MOST, Costs, by_area, images
from domain.rendering.neutral import EMPTY, Neutral, arguments_of, is_empty, json_tokens, text_of, texts_of
from domain.rows import Call, Tool
from domain.text import well_formed, well_formed_json

PER_BLOCK = 4
PER_TOOL = 8
PRIMING = 3
DEEPEST = 64
"""Levels of JSON that arguments may have and still be sent as an object."""

_ID = re.compile("[A-Za-z0-9_-]{1,64}")

CONTINUED = "(the conversation goes on)"
"""Opens a conversation whose first kept message is the assistant's: the format wants the user to begin."""


def payload(messages: Sequence[Neutral], tools: Sequence[Tool]) -> dict[str, Any]:
    texts = (text for one in messages if one.role == "system" for text in texts_of(one.parts))
    system = "\n\n".join(text for text in texts if text.strip())
    merged: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system" or is_empty(message):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if not blocks:
            continue
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks
        else:
            merged.append({"role": role, "content": blocks})
    if not merged or merged[0]["role"] != "user":
        merged.insert(0, {"role": "user", "content": [{"type": "text", "text": CONTINUED}]})
    made: dict[str, Any] = {"messages": merged}
    if system:
        made["system"] = system
    if tools:
        made["tools"] = [_tool(tool) for tool in tools]
    return made


def _blocks(message: Neutral) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [_answer(message)]
    made = [_part(part) for part in message.parts if isinstance(part, ImagePart) or text_of(part).strip()]
    made += [_call(call) for call in message.calls]
    if message.role == "assistant" and made:
        return [*(block for part in message.reasoning for block in _thinking(part)), *made]
    return made or [{"type": "text", "text": EMPTY}] if message.role == "user" else made


def _answer(message: Neutral) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id(message.answers or "")}
    made["content"] = "\n".join(texts_of(message.parts)) or EMPTY
    if message.status not in (None, "ok"):
        made["is_error"] = True
    return made


def _thinking(part: Reasoning) -> list[dict[str, Any]]:
    if well_formed(text := f"{part.text}{part.signature}{part.data}") != text:
        return []  # a signed text that cannot be sent as it is must not be sent at all
    if part.signature:
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    if isinstance(part.data, str) and part.data:
        return [{"type": "redacted_thinking", "data": part.data}]
    return []


def _part(part: Part) -> dict[str, Any]:
    if not isinstance(part, ImagePart):
        return {"type": "text", "text": text_of(part)}
    if part.url:
        source: dict[str, Any] = {"type": "url", "url": part.url}
    else:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data or ""}
    return {"type": "image", "source": source}


def _call(call: Call) -> dict[str, Any]:
    name, given = well_formed(call.name), tool_input(arguments_of(call))
    return {"type": "tool_use", "id": wire_id(call.id), "name": name, "input": given}


def tool_input(arguments: str) -> dict[str, Any]:
    """Arguments as the object the format wants; what is no JSON object is carried whole under `arguments`."""
    try:
        found = json.loads(arguments, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        found = arguments
    if not isinstance(found, dict) or depth(found) > DEEPEST:
        found = {"arguments": arguments if depth(found) > DEEPEST else found}
    made: dict[str, Any] = well_formed_json(found)
    return made


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


def wire_id(call_id: str) -> str:
    """The id as the provider takes it: letters, digits, `_` and `-`, at most 64; any other is replaced by its hash."""
    return call_id if _ID.fullmatch(call_id) else f"call_{sha256_hex(well_formed(call_id).encode())[:24]}"


def _tool(tool: Tool) -> dict[str, Any]:
    schema = dict(tool.parameters) or {"type": "object", "properties": {}}
    made = {"name": tool.name, "description": tool.description, "input_schema": schema}
    return {name: well_formed_json(value) for name, value in made.items()}


def image_costs(messages: Sequence[Neutral]) -> Costs:
    """What the images of these messages cost whose size is known."""
    return {image.url or image.data or "": by_area(image) for image in images(messages) if image.width}


def count(made: dict[str, Any], count_text: Callable[[str], int], costs: Costs) -> int:
    total = PRIMING + (PER_BLOCK + count_text(made["system"]) if "system" in made else 0)
    total += sum(count_block(block, count_text, costs) for message in made["messages"] for block in message["content"])
    return total + sum(PER_TOOL + json_tokens(tool, count_text) for tool in made.get("tools", ()))


def count_block(block: dict[str, Any], count_text: Callable[[str], int], costs: Costs) -> int:
    match block["type"]:
        case "text":
            return PER_BLOCK + count_text(block["text"])
        case "tool_use":
            return (
                PER_BLOCK
                + count_text(block["id"])
                + count_text(block["name"])
                + json_tokens(block["input"], count_text)
            )
        case "tool_result":
            return PER_BLOCK + count_text(block["tool_use_id"]) + count_text(block["content"])
        case "thinking":
            return PER_BLOCK + count_text(block["thinking"]) + count_text(block["signature"])
        case "redacted_thinking":
            return PER_BLOCK + count_text(block["data"])
        case _:
            source = block["source"]
            return PER_BLOCK + costs.get(source.get("url") or source["data"], MOST)
