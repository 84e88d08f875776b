"""A session's log in other words: as the chat messages of OpenAI, and as lines of events.

    for line in event_lines("s-1", session.events()): file.write(line)
    chat_messages(session.events())     # {"model": …, "messages": […], "tools": […]}: the whole history, untrimmed

`promptctx.importers` reads both.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from promptctx.values import EventRecord

Json = dict[str, Any]

ENVELOPE = ("event_id", "kind", "payload", "occurred_at", "actor", "run_id", "causation_id", "correlation_id")


def event_lines(session: str, events: Iterable[EventRecord]) -> Iterator[str]:
    """Each event as one line of JSON, as the API takes it and with its session; what was erased is left out."""
    for event in events:
        if event.redacted:
            continue
        made = {name: getattr(event, name) for name in ENVELOPE}
        version = {} if event.schema_version == 1 else {"schema_version": event.schema_version}
        told = {"session": session, **{key: value for key, value in made.items() if value is not None}, **version}
        yield json.dumps(told, separators=(",", ":")) + "\n"


def chat_messages(events: Iterable[EventRecord]) -> Json:
    """The history as a request of OpenAI's chat completions. Slots, rules and summaries are not part of a history."""
    made: Json = {"messages": []}
    tools: dict[str, Json] = {}
    replies: dict[str, Json] = {}
    for event in events:
        told = event.payload if isinstance(event.payload, Mapping) and not event.redacted else {}
        if event.kind == "session.started" and told.get("model"):
            made["model"] = told["model"]
        elif event.kind == "tool.registered" and told.get("name"):
            tools[told["name"]] = _tool(told)
        elif event.kind == "tool.removed":
            tools.pop(told.get("name", ""), None)
        elif event.kind == "tool.called" and told:
            _join(made["messages"], replies, event, told)
        elif (message := _message(event.kind, told)) is not None:
            made["messages"].append(message)
            replies[event.event_id] = message
    return {**made, **({"tools": list(tools.values())} if tools else {})}


def _message(kind: str, told: Mapping[str, Any]) -> Json | None:
    if not told:
        return None
    if kind in ("instruction.set", "custom.import.instruction"):
        return {"role": "system", "content": _instruction(told)}
    if kind == "user.input":
        name = {"name": told["name"]} if told.get("name") else {}
        return {"role": "user", "content": _content(told.get("content")), **name}
    if kind == "assistant.output":
        calls = [_call(call, call.get("id")) for call in told.get("tool_calls") or ()]
        return {
            "role": "assistant",
            "content": _content(told.get("content")),
            **({"tool_calls": calls} if calls else {}),
        }
    if kind == "tool.result":
        return {"role": "tool", "tool_call_id": told.get("call_id", ""), "content": _content(told.get("content"))}
    return None


def _join(messages: list[Json], replies: Mapping[str, Json], event: EventRecord, told: Mapping[str, Any]) -> None:
    """A call of its own belongs to the reply that caused it, else it is one."""
    reply: Json | None = replies.get(event.causation_id or "")
    if reply is None:
        made: Json = {"role": "assistant", "content": ""}
        reply = made
        messages.append(reply)
    reply.setdefault("tool_calls", []).append(_call(told, told.get("call_id")))


def _call(call: Mapping[str, Any], identity: Any) -> Json:
    arguments = call.get("arguments")
    spelt = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": identity or "", "type": "function", "function": {"name": call.get("name") or "", "arguments": spelt}}


def _tool(told: Mapping[str, Any]) -> Json:
    about = {"description": told["description"]} if told.get("description") else {}
    return {"type": "function", "function": {"name": told["name"], **about, "parameters": told.get("parameters") or {}}}


def _content(content: Any) -> Any:
    """One text is a string, more than that are parts."""
    if not isinstance(content, list):
        return content or ""
    parts = [_part(part) for part in content]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(part: Mapping[str, Any]) -> Json:
    if part.get("type") == "image":
        url = part.get("url") or f"data:{part.get('media_type') or 'image/png'};base64,{part.get('data', '')}"
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if part.get("type") == "text":
        return {"type": "text", "text": part.get("text") or ""}
    return {"type": "text", "text": json.dumps(part.get("data", part), ensure_ascii=False)}


def _instruction(told: Mapping[str, Any]) -> str:
    rules = [rule.get("text", "") if isinstance(rule, Mapping) else str(rule) for rule in told.get("rules") or ()]
    parts = [told.get("role"), "\n".join(f"- {rule}" for rule in rules), told.get("output_format"), told.get("text")]
    return "\n\n".join(str(part) for part in parts if part)
