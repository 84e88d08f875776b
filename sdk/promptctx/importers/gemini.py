"""Chats of the Gemini command line: one JSON document per session, with thoughts, tool calls and their results."""

from collections.abc import Iterator

from promptctx.importers._content import call_of, text_of
from promptctx.importers._messages import Dialect, left_over, output_event, result_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers.adk import result_text
from promptctx.importers.openai_chat import stem_of

SOURCE = "gemini"
DIALECT = Dialect("gemini")
MAPPED = frozenset({"id", "timestamp", "type", "content", "displayContent", "model", "tokens", "thoughts", "toolCalls"})
STATUSES = {"error": "error", "cancelled": "rejected"}


def matches(sample: Sample) -> bool:
    fields = record(sample.document) if sample.kind == "document" else {}
    message = record((items(fields.get("messages")) or [None])[0])
    return "projectHash" in fields or ("sessionId" in fields and message.get("type") in ("user", "gemini"))


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    messages = [record(message) for message in items(document.get("messages"))]
    if not messages:
        yield Skipped(sample.path, "no messages in it", SOURCE)
        return
    said = next((text_of(one.get("content")) for one in messages if one.get("type") == "user"), "")

    def make(log: Recorder) -> Iterator[WireEvent]:
        for index, message in enumerate(messages):
            yield from _message(log, index, message)
        rest = {key: value for key, value in document.items() if key != "messages"}
        yield log.event("session", "custom.gemini.session", rest)

    name = text(document.get("sessionId")) or f"{stem_of(sample.path)}-{short_hash(messages[:2])}"
    yield imported(
        make, session=session_id(SOURCE, name), source=SOURCE, path=sample.path, title=title_of(said),
        locale=locale_of(said), mode="react", at=document.get("startTime"), known=sample.oddities,
        model=next((one["model"] for one in messages if text(one.get("model"))), None),
    )  # fmt: skip


def _message(log: Recorder, index: int, message: dict[str, Json]) -> Iterator[WireEvent]:
    at, kind = message.get("timestamp"), message.get("type")
    if kind == "user":
        event = user_event(log, index, message, at, True)
    elif kind == "gemini":
        event = _reply(log, index, message, at)
    else:
        yield log.event(index, f"custom.gemini.{kind_name(kind or 'message')}", message, at=at)
        return
    yield event
    for place, call in enumerate(map(record, items(message.get("toolCalls")))):
        if call.get("result") or str(call.get("status")) in STATUSES:
            yield _answer(log, f"{index}.{place}", call, at)
    if rest := left_over({**message, "content": None}, MAPPED):
        yield log.event(f"{index}.extra", "custom.gemini.message_extra", rest, at=at, cause=event["event_id"])


def _reply(log: Recorder, index: int, message: dict[str, Json], at: Json) -> WireEvent:
    tokens = record(message.get("tokens"))
    thoughts = [
        ": ".join(said for key in ("subject", "description") if (said := text(one.get(key))))
        for one in map(record, items(message.get("thoughts")))
    ]
    content = message.get("content")
    shown = content if isinstance(content, str) else text_of(content)
    return output_event(
        log, index, shown, [call_of(call) for call in items(message.get("toolCalls"))],
        [{"text": said} for said in thoughts], at=at, model=message.get("model"), provider="google",
        usage={**tokens, "input_token_details": {"cache_read": tokens.get("cached")}},
    )  # fmt: skip


def _answer(log: Recorder, position: str, call: dict[str, Json], at: Json) -> WireEvent:
    """What the model was sent of a call's outcome; what the screen showed of it is the same once more."""
    said = [record(record(part).get("functionResponse")) for part in items(call.get("result"))]
    texts = [result_text(answer.get("response"), "output") for answer in said if answer]
    shown = {"content": "\n".join(texts) if texts else result_text(call.get("result")), "name": call.get("name")}
    status = STATUSES.get(str(call.get("status")))
    return result_event(log, position, shown, call.get("timestamp", at), status, call.get("id") or "")
