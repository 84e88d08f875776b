"""Spans of OpenTelemetry, as OTLP writes them in JSON: calls to models as the GenAI conventions, OpenLLMetry and
OpenInference describe them.

Spans come in pieces and more than once. A message is known by what it says and by how often that was said before in the
same prompt, so whatever repeats it adds nothing, in this file or in a later one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from promptctx.importers._calls import key_of, spelt
from promptctx.importers._content import call_of, text_of
from promptctx.importers._messages import Dialect, first_words, message_events, schema_events
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers._spoken import Message, parsed, spoken

SOURCE = "otel"
DIALECT = Dialect("otel", frozenset({"joins", "finish_reason"}))
CHATS = frozenset({"chat", "text_completion", "generate_content", "completion", "LLM"})
KINDS = ("gen_ai.operation.name", "llm.request.type", "openinference.span.kind")
CONVERSATIONS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
)
USERS = ("user.id", "enduser.id", "langfuse.user.id")
INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "llm.input_messages", "input.value")
OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages", "output.value")

Span = dict[str, Any]
_NUMBER = re.compile(r"\d{1,4}")


def matches(sample: Sample) -> bool:
    return sample.kind == "document" and "resourceSpans" in record(sample.document)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    """One session for each agent of each conversation: calls with one instruction are one agent's."""
    found: dict[tuple[str, str], list[Span]] = {}
    for span in sorted(spans(sample.document), key=lambda one: (str(one["start"]), str(one["id"]))):
        if span["prompt"] or span["reply"]:
            found.setdefault((span["conversation"], _instruction(span)), []).append(span)
    if not found:
        yield Skipped(sample.path, "spans without a call to a model that tells its messages", SOURCE)
    for (conversation, instruction), calls in found.items():
        said = first_words([message for call in calls for message in call["prompt"]])
        own = [short_hash(instruction)] if instruction else []
        yield imported(
            _maker(calls), session=session_id(SOURCE, conversation, *own), source=SOURCE,
            path=sample.path, title=title_of(said), locale=locale_of(said), model=calls[0]["model"], mode="react",
            subject=calls[0]["user"], known=sample.oddities,
        )  # fmt: skip


def spans(document: Json) -> Iterator[Span]:
    """The calls to models, in no order. `prompt` and `reply` are chat messages."""
    for resource in map(record, items(record(document).get("resourceSpans"))):
        for scope in map(record, items(resource.get("scopeSpans"))):
            for one in map(record, items(scope.get("spans"))):
                about = {**_attributes(one), **_events(one)}
                if any(str(about.get(kind)) in CHATS for kind in KINDS):
                    yield _call(one, about)


def _call(span: Json, about: dict[str, Json]) -> Span:
    system = text_of(_unparted(parsed(about.get("gen_ai.system_instructions"))))
    prompt = _messages(about, INPUTS, "user")
    if system and not any(one["role"] == "system" for one in prompt):
        prompt = [{"role": "system", "content": system}, *prompt]
    usage = {
        "input_tokens": about.get("gen_ai.usage.input_tokens", about.get("llm.token_count.prompt")),
        "output_tokens": about.get("gen_ai.usage.output_tokens", about.get("llm.token_count.completion")),
    }
    models = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
    return {
        "id": span.get("spanId"), "start": _time(span.get("startTimeUnixNano")),
        "end": _time(span.get("endTimeUnixNano")),
        "conversation": _first(about, CONVERSATIONS) or str(span.get("traceId") or "unknown"),
        "user": _first(about, USERS) or None, "prompt": prompt,
        "reply": [one for one in _messages(about, OUTPUTS, "assistant") if one["role"] == "assistant"],
        "model": _first(about, models) or None, "tools": parsed(about.get("gen_ai.tool.definitions")), "usage": usage,
    }  # fmt: skip


def _maker(calls: list[Span]) -> Callable[[Recorder], Iterator[WireEvent]]:
    return lambda log: _told(log, calls)


def _told(log: Recorder, calls: Iterable[Span]) -> Iterator[WireEvent]:
    seen: set[str] = set()
    for call in calls:
        often: Counter[tuple[str, ...]] = Counter()
        made = list(schema_events(log, call["tools"], DIALECT))
        for message in map(_bare, [*call["prompt"], *call["reply"]]):
            key = key_of(message)
            often[key] += 1
            made += message_events(log, f"{short_hash(list(key))}#{often[key]}", message, DIALECT)
        about = {name: call[name] for name in ("id", "start", "end", "model", "usage") if call[name]}
        made.append(log.event(f"call:{call['id']}", "custom.otel.call", about))
        for event in made:
            if event["event_id"] not in seen:
                seen.add(event["event_id"])
                yield event


def _bare(message: Message) -> Message:
    """As it is told by every span alike: an answer comes once as a reply and again in the next prompt."""
    content = message.get("content")
    shown = text_of(content) if isinstance(content, list) and all(map(_is_text, content)) else content or ""
    made: Message = {"role": message["role"], "content": shown}
    if calls := [call_of(call) for call in items(message.get("tool_calls"))]:
        made["tool_calls"] = [{**call, "arguments": spelt(call["arguments"])} for call in calls]
    if message["role"] == "tool":
        made["tool_call_id"] = message.get("tool_call_id")
    return made


def _is_text(part: Json) -> bool:
    return record(part).get("type") == "text"


def _instruction(span: Span) -> str:
    return next((text_of(one.get("content")) for one in span["prompt"] if one["role"] == "system"), "")


# --- attributes -------------------------------------------------------------------------------------------------------


def _attributes(span: Json) -> dict[str, Json]:
    return {str(one.get("key")): _value(one.get("value")) for one in map(record, items(span.get("attributes")))}


def _events(span: Json) -> dict[str, Json]:
    """What older conventions tell as events of the span."""
    found: dict[str, Json] = {}
    prompt: list[Json] = []
    for event in map(record, items(span.get("events"))):
        name, about = str(event.get("name")), _attributes(event)
        if name in ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message"):
            prompt.append({"role": name.split(".")[1], **about, "tool_calls": parsed(about.get("tool_calls"))})
        elif name == "gen_ai.choice":
            found["gen_ai.output.messages"] = [{"role": "assistant", **record(parsed(about.get("message"))), **about}]
        elif name == "gen_ai.client.inference.operation.details":
            found |= about
    return {**found, **({"gen_ai.input.messages": prompt} if prompt else {})}


def _value(value: Json) -> Json:
    """OTLP writes whole numbers as texts, and lists and maps one step deeper."""
    fields = record(value)
    if "intValue" in fields:
        given = str(fields["intValue"])
        return int(given) if re.fullmatch(r"-?\d{1,18}", given) else None
    if "arrayValue" in fields:
        return [_value(one) for one in items(record(fields["arrayValue"]).get("values"))]
    if "kvlistValue" in fields:
        pairs = map(record, items(record(fields["kvlistValue"]).get("values")))
        return {str(one.get("key")): _value(one.get("value")) for one in pairs}
    return next((fields[kind] for kind in ("stringValue", "doubleValue", "boolValue") if kind in fields), None)


def _messages(about: dict[str, Json], names: Iterable[str], role: str) -> list[Message]:
    for name in names:
        found = about.get(name, _unflattened(about, f"{name}."))
        said = spoken(_unparted(_unwrapped(parsed(found))), role) if found else []
        if said:
            return [dict(message) for message in said]
    return []


def _unflattened(about: dict[str, Json], prefix: str) -> list[Json]:
    """`PREFIX.0.role`, `PREFIX.0.tool_calls.0.name` … as the lists and records that they spell."""
    root: dict[str, Any] = {}
    for name, value in about.items():
        if name.startswith(prefix):
            *steps, last = name.removeprefix(prefix).split(".")
            place = root
            for step in steps:
                place = place.setdefault(step, {}) if isinstance(place.setdefault(step, {}), dict) else {}
            place[last] = value
    return items(_listed(root))


def _listed(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    if value and all(_NUMBER.fullmatch(key) for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(inner) for key, inner in value.items()}


def _unwrapped(value: Json) -> Json:
    """OpenInference wraps each message, and each call."""
    if isinstance(value, list):
        return [_unwrapped(one) for one in value]
    fields = record(value)
    for name in ("message", "tool_call"):
        if fields.keys() == {name}:
            return _unwrapped(fields[name])
    if "tool_calls" in fields:
        return {**fields, "tool_calls": _unwrapped(fields["tool_calls"])}
    return value


def _unparted(value: Json) -> Json:
    """Parts of the GenAI conventions name their text `content`."""
    if isinstance(value, list):
        return [_unparted(one) for one in value]
    fields = record(value)
    if fields.get("type") == "text" and isinstance(fields.get("content"), str):
        return {"type": "text", "text": fields["content"]}
    return {**fields, "parts": _unparted(fields["parts"])} if isinstance(fields.get("parts"), list) else value


def _first(about: dict[str, Json], names: Iterable[str]) -> str:
    return next((str(about[name]) for name in names if about.get(name)), "")


def _time(nanoseconds: Json) -> float | None:
    given = str(nanoseconds)
    return int(given) / 1e9 if re.fullmatch(r"\d{1,19}", given) and int(given) else None
