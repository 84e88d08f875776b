"""Content of foreign messages in our words: parts, calls, reasoning, usage, tool schemas. Total: never raises."""

import json
from typing import Any

from promptctx.importers._model import Json, items, record, text

Content = str | list[dict[str, Any]]

TEXT_PARTS = ("text", "input_text", "output_text")


def content_of(value: Json) -> Content:
    """A string stays the string it is; parts become ours; anything else is kept as data."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [part_of(part) for part in value]
    return [{"type": "data", "data": value}]


def part_of(part: Json) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    fields = record(part)
    kind = fields.get("type")
    if kind in TEXT_PARTS and isinstance(fields.get("text"), str):
        return {"type": "text", "text": fields["text"]}
    image = image_of(fields) if kind in ("image_url", "image", "input_image") else None
    return image or {"type": "data", "data": part}


def image_of(fields: dict[str, Json]) -> dict[str, Any] | None:
    """An image part of the OpenAI, Anthropic or LangChain kind."""
    shown = record(fields.get("image_url") or fields.get("source"))
    url = shown.get("url") or fields.get("image_url") or fields.get("image") or fields.get("url")
    data = shown.get("data") or fields.get("data")
    detail = shown.get("detail") or fields.get("detail")
    given: dict[str, Any] = {"detail": detail} if detail in ("low", "high", "auto") else {}
    media = text(shown.get("media_type") or fields.get("mimeType") or fields.get("mime_type"))
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        head, _, data = url.partition(";base64,")
        media = head.removeprefix("data:")
    elif isinstance(url, str) and url:
        return {"type": "image", "url": url, **given}
    if not isinstance(data, str) or not data:
        return None
    return {"type": "image", "data": data, **({"media_type": media} if media else {}), **given}


def text_of(value: Json) -> str:
    """The text of a system prompt, whichever way it was written down."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    parts = [part.get("text") for part in map(record, items(value))]
    if parts and all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts)
    return json.dumps(value, ensure_ascii=False)


def is_empty(content: Content) -> bool:
    if isinstance(content, str):
        return not content.strip()
    return all(part["type"] == "text" and not part["text"].strip() for part in content)


def call_of(call: Json) -> dict[str, Any]:
    """A tool call of the OpenAI, Anthropic, LangChain or tau2 kind: id and arguments exactly as in the log."""
    fields = record(call)
    inner = record(fields.get("function") or fields.get("custom")) or fields
    name, identity = inner.get("name"), fields.get("id")
    given = (inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None)
    return {
        "id": "" if identity is None else str(identity),
        "name": name if isinstance(name, str) else "",
        "arguments": next(given, "{}") if fields else call,
    }


def reasoning_of(message: dict[str, Json]) -> list[dict[str, Any]]:
    """Thinking beside a reply: signed blocks if there are any, else the plain text."""
    blocks = [thinking_of(block) for block in items(message.get("thinking_blocks"))]
    if blocks:
        return blocks
    said = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(said, str):
        return [{"text": said}] if said else []
    return [] if said is None or said == [] or said == {} else [{"data": said}]


def thinking_of(block: Json) -> dict[str, Any]:
    """A `thinking` or `redacted_thinking` block; a shape nobody knows is kept whole as data."""
    fields = record(block)
    said, signature = fields.get("thinking"), fields.get("signature")
    if not isinstance(said, str):
        return {"data": fields.get("data") if fields.get("type") == "redacted_thinking" else block}
    return {"text": said, **({"signature": signature} if isinstance(signature, str) and signature else {})}


def usage_of(usage: Json) -> dict[str, int]:
    """Tokens of one reply: all input, of it what came from a cache, and output.

    Anthropic counts cached input apart from the rest; here it is part of the input, as everywhere else.
    """
    fields = record(usage)
    read = _count(fields, "cache_read_input_tokens")
    details = record(fields.get("prompt_tokens_details") or fields.get("input_token_details"))
    whole = _count(fields, "prompt_tokens", "input_tokens", "input")
    if whole is not None and (read is not None or "cache_creation_input_tokens" in fields):
        whole += (read or 0) + (_count(fields, "cache_creation_input_tokens") or 0)
    found = {
        "input_tokens": whole,
        "output_tokens": _count(fields, "completion_tokens", "output_tokens", "output"),
        "cached_tokens": read if read is not None else _count(details, "cached_tokens", "cache_read"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _count(fields: dict[str, Json], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def schemas_of(tools: Json) -> tuple[list[dict[str, Any]], list[Json]]:
    """Tool schemas as `tool.registered` takes them, and what of the list is no schema."""
    known: list[dict[str, Any]] = []
    rest: list[Json] = []
    for tool in items(tools):
        fields = record(tool)
        inner = record(fields.get("function")) or fields
        parameters = inner.get("parameters", inner.get("input_schema"))
        if not text(inner.get("name")) or not isinstance(parameters, dict | None):
            rest.append(tool)
            continue
        required = [name for name in items(record(parameters).get("required")) if isinstance(name, str)]
        schema: dict[str, Any] = {"name": inner["name"], "parameters": parameters or {}, "required": required}
        known.append({**schema, **({"description": said} if (said := text(inner.get("description"))) else {})})
    return known, rest
