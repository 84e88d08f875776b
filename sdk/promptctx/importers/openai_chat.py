"""Plain chat messages: a list of them, {"messages": […]}, lines of messages, lines or lists of {"messages": […]}."""

import re
from collections.abc import Iterator
from pathlib import Path

from promptctx.importers._messages import (
    Dialect,
    conversation_events,
    first_words,
    message_events,
    opening,
    uses_tools,
)  # fmt: skip
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of

SOURCE = "openai"
DIALECT = Dialect("openai")
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
TAKEN = ("messages", "tools", "functions", "model")


def is_message(value: Json) -> bool:
    fields = record(value)
    return fields.get("role") in ROLES and bool(fields.keys() & {"content", "tool_calls", "function_call"})


def is_conversation(value: Json) -> bool:
    """A list that begins with chat messages."""
    messages = items(value)
    return bool(messages) and is_message(messages[0])


def matches(sample: Sample) -> bool:
    if sample.kind == "lines":
        return is_conversation(sample.head) or _is_request(sample.head[0] if sample.head else None)
    document = sample.document
    return is_conversation(document) or _is_request(document) or (bool(items(document)) and _is_request(document[0]))


def _is_request(value: Json) -> bool:
    return is_conversation(record(value).get("messages"))


def stem_of(path: Path) -> str:
    """The file's name without what only says how it was cut or wrapped."""
    return re.sub(r"(\.subset|\.traj|\.jsonl?|\.ndjson|\.chat)+$", "", path.name, flags=re.IGNORECASE)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    if sample.kind == "lines" and is_conversation(sample.head):
        yield _lines_session(sample)
    elif sample.kind == "lines":
        for number, value in sample.records(sample.oddities):
            yield _session(sample, record(value), number)
    elif is_conversation(sample.document):
        yield _session(sample, {"messages": sample.document}, None)
    elif isinstance(sample.document, list):
        for index, value in enumerate(sample.document):
            yield _session(sample, record(value), index)
    else:
        yield _session(sample, record(sample.document), None)


def _session(sample: Sample, request: dict[str, Json], number: int | None) -> ImportedSession | Skipped:
    messages = items(request.get("messages"))
    if not messages:
        return Skipped(sample.path, f"no messages in record {number}", SOURCE)
    tools = request.get("tools") or request.get("functions")
    said = first_words(messages)

    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from conversation_events(log, messages, tools, DIALECT)
        if rest := {key: value for key, value in request.items() if key not in TAKEN}:
            yield log.event("request", "custom.openai.request", rest)

    ordinal = [] if number is None else [number]
    return imported(
        make, session=session_id(SOURCE, stem_of(sample.path), *ordinal, short_hash(opening(messages))),
        source=SOURCE, path=sample.path, title=title_of(said), locale=locale_of(said), model=request.get("model"),
        mode="react" if tools or uses_tools(messages) else "chat", known=sample.oddities,
    )  # fmt: skip


def _lines_session(sample: Sample) -> ImportedSession:
    """One session of a message per line: read once for what the session is called, then again for its events.

    What it is called depends on the lines up to the first reply, which stay the same while the log grows. Whoever
    writes line by line is taken for an agent, whether or not a tool was used so far.
    """
    start: list[Json] = []
    for _, message in sample.records(sample.oddities):
        if not start or record(start[-1]).get("role") != "assistant":
            start.append(message)
    said = first_words(start)

    def make(log: Recorder) -> Iterator[WireEvent]:
        for number, message in sample.records():
            yield from message_events(log, number, message, DIALECT)

    return imported(
        make, session=session_id(SOURCE, stem_of(sample.path), short_hash(opening(start))), source=SOURCE,
        path=sample.path, title=title_of(said), locale=locale_of(said), model=record(start[-1]).get("model"),
        mode="react", known=sample.oddities,
    )  # fmt: skip
