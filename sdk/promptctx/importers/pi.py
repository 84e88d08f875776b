"""pi sessions: a header, then messages, compactions and changes of model, one per line."""

from collections.abc import Iterator

from promptctx.importers._content import call_of, content_of, text_of, thinking_of
from promptctx.importers._messages import Dialect, left_over, message_events, output_event, result_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "pi"
DIALECT = Dialect("pi", frozenset({"timestamp", "responseId"}))
MAPPED = frozenset({"role", "content", "model", "provider", "api", "usage", "timestamp", "responseId", "toolCallId"})
USUAL_ENDS = ("stop", "toolUse")


def matches(sample: Sample) -> bool:
    first = record(sample.head[0]) if sample.kind == "lines" and sample.head else {}
    return first.get("type") == "session" and "cwd" in first


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    header, said, model, replied, talks = record(sample.head[0]), "", None, False, False
    for _, value in sample.records(sample.oddities):
        line = record(value)
        message = record(line.get("message"))
        talks = talks or line.get("type") == "message"
        if not replied:
            model = model or text(line.get("modelId")) or text(message.get("model"))
            said = said or (text_of(message.get("content")) if message.get("role") == "user" else "")
        replied = replied or message.get("role") == "assistant"
    if not talks:
        yield Skipped(sample.path, "no message in it yet", SOURCE)
        return

    def make(log: Recorder) -> Iterator[WireEvent]:
        for number, value in sample.records():
            yield from _line(log, number, value)

    name = header.get("id") or f"{stem_of(sample.path)}-{short_hash(header)}"
    yield imported(
        make,
        session=session_id(SOURCE, name),
        source=SOURCE,
        path=sample.path,
        title=title_of(said),
        locale=locale_of(said),
        model=model,
        mode="react",
        known=sample.oddities,
    )


def _line(log: Recorder, number: int, value: Json) -> Iterator[WireEvent]:
    line = record(value)
    message, at = record(line.get("message")), line.get("timestamp")
    if line.get("type") != "message":
        yield log.event(number, f"custom.pi.{kind_name(line.get('type') or 'line')}", value, at=at)
        return
    if message.get("role") == "assistant":
        event = _reply(log, number, message, at)
    elif message.get("role") == "toolResult":
        status = "error" if message.get("isError") is True else None
        shown = {"content": message.get("content"), "name": message.get("toolName")}
        event = result_event(log, number, shown, at, status, message.get("toolCallId"))
    else:
        yield from message_events(log, number, message, DIALECT, at=at)
        return
    yield event
    rest = left_over({**message, "content": None}, MAPPED | {"toolName", "isError"})
    if rest.get("stopReason") in USUAL_ENDS:
        del rest["stopReason"]
    if rest:
        yield log.event(f"{number}.extra", "custom.pi.message_extra", rest, at=at, cause=event["event_id"])


def _reply(log: Recorder, number: int, message: dict[str, Json], at: Json) -> WireEvent:
    blocks = items(message.get("content"))
    thoughts = [
        thinking_of({**block, "signature": block.get("thinkingSignature")})
        for block in map(record, blocks)
        if block.get("type") == "thinking"
    ]
    return output_event(
        log,
        number,
        content_of([block for block in blocks if record(block).get("type") not in ("thinking", "toolCall")]),
        [call_of(block) for block in blocks if record(block).get("type") == "toolCall"],
        thoughts,
        at=at,
        model=message.get("model"),
        provider=message.get("provider"),
        usage=_usage(record(message.get("usage"))),
    )


def _usage(usage: dict[str, Json]) -> Json:
    """pi counts what was read from and written to a cache apart from the rest of the input, as Anthropic does."""
    return {
        "input_tokens": usage.get("input"),
        "output_tokens": usage.get("output"),
        "cache_read_input_tokens": usage.get("cacheRead"),
        "cache_creation_input_tokens": usage.get("cacheWrite"),
    }
