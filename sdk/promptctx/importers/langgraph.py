"""LangGraph thread states and lists of LangChain messages (human, ai, system, tool)."""

from collections.abc import Iterator
from pathlib import Path

from promptctx.importers._messages import Dialect, conversation_events, first_words, opening, uses_tools
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "langgraph"
ROLES = {
    "human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function",
    "HumanMessage": "user", "AIMessage": "assistant", "SystemMessage": "system", "ToolMessage": "tool",
    "FunctionMessage": "function", "AIMessageChunk": "assistant", "HumanMessageChunk": "user",
}  # fmt: skip
# Ids and provider metadata; additional_kwargs says again what is mapped, and is unpacked below.
DIALECT = Dialect("langgraph", frozenset({"type", "id", "response_metadata", "usage_metadata", "example"}))


def _plain(message: Json) -> dict[str, Json]:
    """A message as it was dumped, or as LangChain serialises it ({"lc", "id": […, "HumanMessage"], "kwargs"})."""
    fields = record(message)
    if "lc" in fields and isinstance(fields.get("kwargs"), dict):
        kind = (items(fields.get("id")) or [None])[-1]
        return {"type": kind, **fields["kwargs"]}
    return fields


def _messages(document: Json) -> list[Json]:
    fields = record(document)
    values = record(fields.get("values")) or record(fields.get("channel_values")) or fields
    found = values.get("messages") if isinstance(document, dict) else document
    return items(found)


def matches(sample: Sample) -> bool:
    if sample.kind != "document":
        return False
    messages = _messages(sample.document)
    first = _plain(messages[0]) if messages else {}
    return str(first.get("type")) in ROLES and "role" not in first and "content" in first


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    messages = [_as_chat(_plain(message)) for message in _messages(sample.document)]
    values = record(document.get("values"))
    about = record(document.get("metadata"))
    said = first_words(messages)

    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from conversation_events(log, messages, None, DIALECT)
        state = {key: value for key, value in values.items() if key != "messages"}
        rest = {key: value for key, value in document.items() if key not in ("values", "messages")}
        if state or rest:
            yield log.event("state", "custom.langgraph.state", {"values": state, **rest})

    yield imported(
        make, session=_identity(sample.path, document, messages), source=SOURCE, path=sample.path,
        title=title_of(text(values.get("title")) or said), locale=locale_of(said),
        model=about.get("model_name") or about.get("model"), mode="react" if uses_tools(messages) else "chat",
        known=sample.oddities,
    )  # fmt: skip


def _identity(path: Path, document: dict[str, Json], messages: list[Json]) -> str:
    settings = record(record(document.get("config")).get("configurable"))
    named = [document.get("thread_id"), settings.get("thread_id")]
    named += [record(document.get(key)).get("thread_id") for key in ("metadata", "checkpoint")]
    if thread := next((name for name in named if text(name)), None):
        return session_id(SOURCE, thread)
    return session_id(SOURCE, stem_of(path), short_hash(opening(messages)))


def _as_chat(message: dict[str, Json]) -> Json:
    """The message with the role and the fields of a chat message; what is left of additional_kwargs stays beside."""
    kind, more = message.get("type"), record(message.get("additional_kwargs"))
    made = {**message, "role": ROLES.get(str(kind), kind)}
    if more:
        taken = ("reasoning_content", "tool_calls", "function_call")
        made |= {key: more[key] for key in taken if key in more and not made.get(key)}
        made["additional_kwargs"] = {key: value for key, value in more.items() if key not in taken}
    about = record(message.get("response_metadata"))
    if made["role"] == "assistant":
        made["model"] = about.get("model_name") or about.get("model")
        made["usage"] = message.get("usage_metadata") or about.get("token_usage") or about.get("usage")
        made["tool_calls"] = [_typed(call) for call in items(made.get("tool_calls"))]
    return made


def _typed(call: Json) -> Json:
    # LangChain stores the raw call of the provider beside its own; both shapes are read further on.
    return {key: value for key, value in call.items() if key != "type"} if isinstance(call, dict) else call
