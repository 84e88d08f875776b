"""What providers refuse: calls without an answer right behind, answers without a call, ids twice, roles out of order,
messages without text. Read from the payload alone; each fault is one sentence."""

import json
from collections.abc import Iterator
from typing import Any

Json = Any


def faults(payload: Json, target: str) -> Iterator[str]:
    try:
        json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    except (UnicodeEncodeError, ValueError) as error:
        yield f"cannot be sent as JSON: {error}"
    yield from _openai(payload["messages"]) if target == "openai" else _anthropic(payload)


def _openai(messages: Json) -> Iterator[str]:
    seen: set[str] = set()
    waiting: list[str] = []
    if not any(message["role"] == "user" for message in messages):
        yield "no user message"
    for place, message in enumerate(messages):
        role = message["role"]
        if role not in ("system", "user", "assistant", "tool") or (role == "system" and place):
            yield f"a message of role {role} at place {place}"
        if role == "tool":
            yield from _answered(message["tool_call_id"], waiting)
        else:
            yield from (f"call {name} without an answer right behind" for name in waiting)
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            yield from _new_ids(waiting, seen)
        yield from _openai_content(message)
    yield from (f"call {name} without an answer" for name in waiting)


def _openai_content(message: Json) -> Iterator[str]:
    content, role = message["content"], message["role"]
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            yield f"a {role} message with nothing in it"
    elif isinstance(content, str):
        if not content:
            yield f"a {role} message with empty text"
    elif not content:
        yield f"a {role} message without parts"
    else:
        yield from (f"an empty part in a {role} message" for part in content if part.get("text") == "")
    for call in message.get("tool_calls", ()):
        if not isinstance(call["function"]["arguments"], str):
            yield f"arguments of {call['id']} are no text"


def _anthropic(payload: Json) -> Iterator[str]:
    messages, before = payload["messages"], "assistant"
    seen: set[str] = set()
    waiting: list[str] = []
    if "system" in payload and not payload["system"].strip():
        yield "an empty system text"
    for place, message in enumerate(messages):
        role, blocks = message["role"], message["content"]
        if role not in ("user", "assistant") or role == before:
            yield f"{role} after {before} at place {place}"
        before = role
        if not blocks:
            yield f"a {role} message without blocks"
        yield from _results(blocks, waiting)
        yield from (f"call {name} without an answer right behind" for name in waiting)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        yield from _new_ids(waiting, seen)
        yield from _anthropic_blocks(role, blocks)
    yield from (f"call {name} without an answer" for name in waiting)
    if not messages:
        yield "no messages"


def _results(blocks: Json, waiting: list[str]) -> Iterator[str]:
    others = False
    for block in blocks:
        if block["type"] == "tool_result":
            if others:
                yield f"the answer to {block['tool_use_id']} stands behind other blocks"
            yield from _answered(block["tool_use_id"], waiting)
        else:
            others = True


def _anthropic_blocks(role: str, blocks: Json) -> Iterator[str]:
    for block in blocks:
        kind = block["type"]
        if kind == "text" and not block["text"].strip():
            yield f"a blank text block in a {role} message"
        if kind == "tool_result" and not block["content"]:
            yield f"an empty answer to {block['tool_use_id']}"
        if kind == "tool_use" and not isinstance(block["input"], dict):
            yield f"the input of {block['id']} is no object"
        if (kind == "tool_result") != (role == "user") and kind in ("tool_result", "tool_use", "thinking"):
            yield f"a {kind} block in a {role} message"
    if blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        yield "a message that ends with reasoning"


def _answered(name: str, waiting: list[str]) -> Iterator[str]:
    if name in waiting:
        waiting.remove(name)
    else:
        yield f"answer {name!r} without a call right before it"


def _new_ids(names: list[str], seen: set[str]) -> Iterator[str]:
    for name in names:
        if not name or name in seen:
            yield f"call id {name!r} twice or empty"
        seen.add(name)
