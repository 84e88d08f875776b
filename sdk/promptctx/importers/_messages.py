"""One chat message of the OpenAI kind (and its many relatives) as events."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from promptctx.importers._content import (
    TEXT_PARTS,
    Content,
    call_of,
    content_of,
    is_empty,
    reasoning_of,
    schemas_of,
    text_of,
    usage_of,
)  # fmt: skip
from promptctx.importers._model import Json, WireEvent, items, record, text
from promptctx.importers._record import Recorder, kind_name

MAPPED = frozenset(
    {
        "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning",
        "thinking_blocks", "refusal", "model", "usage", "timestamp", "status", "is_error", "error",
    }
)  # fmt: skip
"""Fields of a message that become fields of an event."""

STATUSES = ("error", "rejected", "timeout")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one source writes messages down: the word in its `custom.*` kinds, and fields that say a thing twice."""

    word: str
    repeats: frozenset[str] = frozenset()


def message_events(
    log: Recorder, position: object, message: Json, dialect: Dialect, **known: Json
) -> Iterator[WireEvent]:
    """The events of one message. `known` may bring at, model, usage, directive and status from outside the message."""
    fields = record(message)
    role = fields.get("role")
    at = known.get("at", fields.get("timestamp"))
    if role in ("system", "developer"):
        event = log.instruction(position, text_of(fields.get("content")), at)
    elif role == "user":
        event = user_event(log, position, fields, at, known.get("directive", True))
    elif role == "assistant":
        event = assistant_event(log, position, fields, at, known)
    elif role in ("tool", "function"):
        event = result_event(log, position, fields, at, known.get("status"))
    else:
        log.oddities[f"messages of the role {role}" if text(role) else "messages without a role"] += 1
        yield log.event(position, f"custom.{dialect.word}.{kind_name(role or 'message')}", message, at=at)
        return
    yield event
    if rest := left_over(fields, MAPPED | dialect.repeats):
        yield log.event(
            f"{position}.extra", f"custom.{dialect.word}.message_extra", rest, at=at, cause=event["event_id"]
        )


def conversation_events(log: Recorder, messages: list[Json], tools: Json, dialect: Dialect) -> Iterator[WireEvent]:
    """All messages of a conversation; its tool schemas come behind the system prompt."""
    roles = [record(message).get("role") for message in messages]
    begin = next((index for index, role in enumerate(roles) if role not in ("system", "developer")), len(roles))
    for index, message in enumerate(messages):
        if index == begin:
            yield from schema_events(log, tools, dialect)
        yield from message_events(log, index, message, dialect)
    if begin == len(messages):
        yield from schema_events(log, tools, dialect)


def user_event(log: Recorder, position: object, fields: dict[str, Json], at: Json, directive: Json) -> WireEvent:
    content = content_of(fields.get("content"))
    payload: dict[str, Any] = {"content": content}
    if is_empty(content):
        log.oddities["empty user messages"] += 1
    if is_empty(content) or not directive:
        payload["directive"] = False
    if name := text(fields.get("name")):
        payload["name"] = name
    return log.event(position, "user.input", payload, actor="user", at=at)


def assistant_event(
    log: Recorder, position: object, fields: dict[str, Json], at: Json, known: dict[str, Json]
) -> WireEvent:
    calls = items(fields.get("tool_calls"))
    if not calls and fields.get("function_call"):
        calls = [{"function": fields["function_call"]}]
    return output_event(
        log,
        position,
        content_of(fields.get("content") or fields.get("refusal")),
        [call_of(call) for call in calls],
        reasoning_of(fields),
        at=at,
        model=known.get("model") or fields.get("model"),
        usage=known.get("usage") or fields.get("usage"),
    )


def output_event(
    log: Recorder, position: object, content: Content, calls: list[dict[str, Any]], reasoning: list[dict[str, Any]], *,
    at: Json = None, model: Json = None, provider: Json = None, usage: Json = None,
) -> WireEvent:  # fmt: skip
    """An `assistant.output`, its calls noted as open."""
    for call in calls:
        log.called(call["id"])
    given: dict[str, Any] = {"tool_calls": calls, "reasoning": reasoning, "model": text(model)}
    given |= {"provider": text(provider), "usage": usage_of(usage)}
    payload = {"content": content, **{key: value for key, value in given.items() if value}}
    return log.event(position, "assistant.output", payload, actor="agent", at=at)


def result_event(
    log: Recorder, position: object, fields: dict[str, Json], at: Json, status: Json = None, call_id: Json = None
) -> WireEvent:
    """A `tool.result`; an error or a refusal only if the log says so."""
    identity = fields.get("tool_call_id") if call_id is None else call_id
    payload: dict[str, Any] = {
        "call_id": "" if identity is None else str(identity),
        "content": content_of(fields.get("content")),
    }
    if status is None:
        failed = fields.get("is_error") is True or bool(fields.get("error"))
        status = "error" if failed else fields.get("status")
    if status in STATUSES:
        payload["status"] = status
    if name := text(fields.get("name")):
        payload["name"] = name
    log.answered(payload["call_id"])
    return log.event(position, "tool.result", payload, actor="tool", at=at)


def schema_events(log: Recorder, tools: Json, dialect: Dialect) -> Iterator[WireEvent]:
    known, rest = schemas_of(tools)
    for schema in known:
        yield log.event(f"tool:{schema['name']}", "tool.registered", schema)
    for index, tool in enumerate(rest):
        yield log.event(f"tool#{index}", f"custom.{dialect.word}.tool", {"tool": tool})


def left_over(fields: dict[str, Json], taken: frozenset[str]) -> dict[str, Json]:
    """What of a message has no field in our events; empty values say nothing."""
    rest = {key: value for key, value in fields.items() if key not in taken and value not in (None, "", [], {})}
    parts = [_part_left_over(part) for part in items(fields.get("content"))]
    return {**rest, **({"content": parts} if any(parts) else {})}


def _part_left_over(part: Json) -> dict[str, Json]:
    fields = record(part)
    if fields.get("type") not in TEXT_PARTS:
        return {}  # an image is mapped whole, any other part is kept whole
    return {
        key: value
        for key, value in fields.items()
        if key not in ("type", "text", "cache_control", "tool_use_id") and value not in (None, "", [], {})
    }


def uses_tools(messages: list[Json]) -> bool:
    return any(
        fields.get("role") in ("tool", "function") or fields.get("tool_calls") or fields.get("function_call")
        for fields in map(record, messages)
    )


def first_words(messages: list[Json]) -> str:
    """What the user said first: names a session and tells its language."""
    for fields in map(record, messages):
        if fields.get("role") in ("user", "usr", "human") and (said := text_of(fields.get("content"))).strip():
            return said
    return ""


def opening(messages: list[Json]) -> list[Json]:
    """The messages up to the first reply: what stays the same while a log grows, and differs between two runs."""
    taken: list[Json] = []
    for fields in map(record, messages):
        taken.append({key: fields.get(key) for key in ("role", "content", "tool_calls")})
        if fields.get("role") == "assistant":
            break
    return taken
