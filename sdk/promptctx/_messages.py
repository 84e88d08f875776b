"""What callers and providers hand over, brought into the shape of the event vocabulary: content, calls, replies."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from promptctx import errors

Part: TypeAlias = Mapping[str, Any]
Content: TypeAlias = str | Sequence[Part] | None
"""Text, or parts: ours, or those of the OpenAI and Anthropic formats."""


def plain(value: Any) -> Any:
    """A provider's object as dicts and lists: what it dumps, else its attributes."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    dump = getattr(value, "model_dump", None) or getattr(value, "to_dict", None)
    if callable(dump):
        return plain(dump())
    attributes: Mapping[str, Any] = getattr(value, "__dict__", {})
    return {key: plain(item) for key, item in attributes.items() if not key.startswith("_")}


def listed(value: Any, name: str) -> list[Any]:
    """A list given to a verb. Raises InvalidEvent naming the argument: a text would be taken letter by letter."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise errors.InvalidEvent(f"{name}: must be a list, not {_kind(value)}.", path=f"payload.{name}")
    return list(value)


def named(value: Any, name: str) -> dict[str, Any]:
    """Names with values given to a verb. Raises InvalidEvent naming the argument."""
    if not isinstance(value, Mapping):
        raise errors.InvalidEvent(f"{name}: must be a dict, not {_kind(value)}.", path=f"payload.{name}")
    return dict(value)


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


# --- content ---------------------------------------------------------------------------------------------------------


def content(value: Content) -> str | list[dict[str, Any]]:
    """Content as an event carries it; parts that are neither text nor image are kept as data."""
    if value is None or isinstance(value, str):
        return value or ""
    return [_part(plain(item)) for item in _parts(value)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        told = "one object" if isinstance(value, Mapping) else _kind(value)
        raise errors.InvalidEvent(f"Content is text or a list of parts, not {told}.", path="payload.content")
    return list(value)


def result_content(value: Any) -> str | list[dict[str, Any]]:
    """What a tool gave: text and parts as they are, any other value as its JSON text."""
    if value is None or isinstance(value, str):
        return value or ""
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(item, Mapping) and "type" in item for item in value)
    ):
        return content(value)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise errors.InvalidEvent(f"payload.content: not JSON: {error}.", path="payload.content") from None


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and not part.get("citations"):
        return {"type": "text", "text": part.get("text") or ""}
    if kind == "image_url":
        return _image_url(part)
    if kind == "image" and isinstance(part.get("source"), dict):
        return _image_source(part)
    if kind in ("image", "data") and ("data" in part or "url" in part):
        return dict(part)
    return {"type": "data", "data": part}


def _image_url(part: dict[str, Any]) -> dict[str, Any]:
    image = part.get("image_url")
    url, detail = (image.get("url"), image.get("detail")) if isinstance(image, dict) else (image, None)
    if not isinstance(url, str):
        return {"type": "data", "data": part}
    shown = {"detail": detail} if detail in ("low", "high", "auto") else {}
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return {"type": "image", "data": data, "media_type": head.removeprefix("data:"), **shown}
    return {"type": "image", "url": url, **shown}


def _image_source(part: dict[str, Any]) -> dict[str, Any]:
    source = part["source"]
    if source.get("type") == "url":
        return {"type": "image", "url": source.get("url")}
    if source.get("type") == "base64":
        return {"type": "image", "data": source.get("data"), "media_type": source.get("media_type") or "image/png"}
    return {"type": "data", "data": part}


# --- tool calls ------------------------------------------------------------------------------------------------------


def tool_call(value: Any) -> dict[str, Any]:
    """A tool call from ours, OpenAI's (function or custom) or Anthropic's shape, object or dict."""
    call = plain(value)
    if not isinstance(call, dict):
        raise errors.InvalidEvent("A tool call is an object with a name.", path="payload.tool_calls")
    inner = call.get("function") or call.get("custom") or call
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str):
        raise errors.InvalidEvent("A tool call needs a name.", path="payload.tool_calls.name")
    arguments = next((inner[key] for key in ("arguments", "input") if inner.get(key) is not None), "{}")
    return {"id": call.get("id") or "", "name": name, "arguments": arguments}


# --- replies ---------------------------------------------------------------------------------------------------------


def reply(value: Any) -> dict[str, Any]:
    """The payload of an `assistant.output` from a model's reply, OpenAI chat completion or Anthropic message."""
    data = plain(value)
    if isinstance(data, dict):
        if isinstance(data.get("choices"), list) and data["choices"]:
            return _openai(data)
        if data.get("role") == "assistant" and isinstance(data.get("content"), list):
            return _anthropic(data)
    raise errors.InvalidRequest(
        "record() takes an OpenAI chat completion or an Anthropic message, object or dict; "
        "for anything else use assistant(content, tool_calls=…)."
    )


def _filled(payload: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if value not in (None, "", [], {})}


def _openai(data: dict[str, Any]) -> dict[str, Any]:
    message = data["choices"][0].get("message") or {}
    calls = list(message.get("tool_calls") or ())
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    thought = message.get("reasoning_content") or message.get("reasoning")
    usage = data.get("usage") or {}
    return _filled(
        {
            "content": content(message.get("content") or message.get("refusal")),
            "tool_calls": [tool_call(call) for call in calls],
            "reasoning": [{"text": thought}] if isinstance(thought, str) and thought else [],
            "model": data.get("model"),
            "provider": "openai",
            "usage": _filled(
                {
                    "input_tokens": usage.get("prompt_tokens"),
                    "output_tokens": usage.get("completion_tokens"),
                    "cached_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
                }
            ),
        }
    )


def _anthropic(data: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    reasoning: list[dict[str, Any]] = []
    for block in data["content"]:
        kind = block.get("type")
        if kind == "tool_use":
            calls.append(tool_call(block))
        elif kind == "thinking":
            reasoning.append(_filled({"text": block.get("thinking"), "signature": block.get("signature")}))
        elif kind == "redacted_thinking":
            reasoning.append({"data": block.get("data")})
        else:
            parts.append(_part({key: item for key, item in block.items() if item is not None}))
    return _filled(
        {
            "content": parts,
            "tool_calls": calls,
            "reasoning": reasoning,
            "model": data.get("model"),
            "provider": "anthropic",
            "usage": _anthropic_usage(data.get("usage") or {}),
        }
    )


def _anthropic_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Anthropic counts cached input apart; ours is the whole input and, of it, what came from the cache."""
    read = usage.get("cache_read_input_tokens") or 0
    whole = (usage.get("input_tokens") or 0) + read + (usage.get("cache_creation_input_tokens") or 0)
    return _filled({"input_tokens": whole, "output_tokens": usage.get("output_tokens"), "cached_tokens": read})
