"""Coding runs of mini-swe-agent and SWE-agent (`.traj`, with tool calls and with actions written as text)."""

from collections.abc import Iterator
from typing import Any

from promptctx.importers._messages import Dialect, first_words, message_events, opening, result_event, schema_events
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

MINI = "mini-swe-agent"
SWE = "swe-agent"
# extra holds the provider's raw reply and the tool's raw output: both stand in the message already.
MINI_DIALECT = Dialect("mini_swe", frozenset({"extra"}))
# action, thought and response are the message's text (or call) once more.
SWE_DIALECT = Dialect(
    "swe_agent", frozenset({"agent", "message_type", "is_demo", "action", "thought", "tool_call_ids", "response"})
)


def mini_matches(sample: Sample) -> bool:
    document = record(sample.document)
    return str(document.get("trajectory_format", "")).startswith(MINI) and isinstance(document.get("messages"), list)


def mini_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    messages = items(document["messages"])
    if not messages:
        yield Skipped(sample.path, "no messages in it", MINI)
        return
    info = record(document.get("info"))
    settings = record(record(info.get("config")).get("model"))

    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from schema_events(log, document.get("tools"), MINI_DIALECT)
        for index, message in enumerate(messages):
            yield from _mini_message(log, index, record(message))
        rest = {key: value for key, value in document.items() if key != "messages"}
        yield log.event("outcome", "custom.mini_swe.outcome", rest)

    yield imported(
        make, session=session_id(MINI, stem_of(sample.path)[:150], short_hash(opening(messages))), source=MINI,
        path=sample.path, title=str(document.get("instance_id") or stem_of(sample.path)), mode="react",
        locale=locale_of(first_words(messages)), model=settings.get("model_name"), known=sample.oddities,
    )  # fmt: skip


def _mini_message(log: Recorder, index: int, message: dict[str, Json]) -> Iterator[WireEvent]:
    extra = record(message.get("extra"))
    response = record(extra.get("response"))
    known: dict[str, Json] = {"at": extra.get("timestamp", response.get("created"))}
    if message.get("role") == "assistant":
        known |= {"model": response.get("model"), "usage": response.get("usage")}
    elif message.get("role") == "tool" and extra.get("exception_info"):
        known["status"] = "error"
    yield from message_events(log, index, message, MINI_DIALECT, **known)


def swe_matches(sample: Sample) -> bool:
    document = record(sample.document)
    return isinstance(document.get("history"), list) and isinstance(document.get("trajectory"), list)


def swe_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    history = items(document["history"])
    if not history:
        yield Skipped(sample.path, "an empty history", SWE)
        return

    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from _swe_history(log, history)
        rest = {key: value for key, value in document.items() if key not in ("history", "trajectory")}
        said = {str(record(message).get("content")).strip() for message in history}
        steps = [_step(record(step), said) for step in items(document["trajectory"])]
        yield log.event("steps", "custom.swe_agent.steps", {"steps": steps})
        yield log.event("outcome", "custom.swe_agent.outcome", rest)

    stem = stem_of(sample.path)
    yield imported(
        make, session=session_id(SWE, stem[:150].rstrip("_-"), short_hash(opening(history))), source=SWE,
        path=sample.path, title=title_of(stem), mode="react", locale=locale_of(first_words(history)),
        known=sample.oddities,
    )  # fmt: skip


def _swe_history(log: Recorder, history: list[Json]) -> Iterator[WireEvent]:
    """The history is the true list of messages. The task is what the user says before the first reply.

    Later user messages are observations in text, and demonstrations are examples: neither is a directive.
    """
    replied = False
    for index, message in enumerate(history):
        fields = record(message)
        demo = fields.get("is_demo") is True or fields.get("message_type") == "demonstration"
        ids = items(fields.get("tool_call_ids"))
        if fields.get("role") == "tool" and ids:
            yield from _observation(log, index, fields, ids)
        else:
            yield from message_events(log, index, message, SWE_DIALECT, directive=not (replied or demo))
        replied = replied or (fields.get("role") == "assistant" and not demo)


def _observation(log: Recorder, index: int, fields: dict[str, Json], ids: list[Json]) -> Iterator[WireEvent]:
    """One observation may answer several calls: the first has the text, the others are answered by it."""
    for place, call_id in enumerate(ids):
        shown = fields if place == 0 else {**fields, "content": ""}
        position = index if place == 0 else f"{index}.{place}"
        yield result_event(log, position, shown, fields.get("timestamp"), call_id=call_id)


def _step(step: dict[str, Json], said: set[str]) -> dict[str, Any]:
    """What the trajectory tells beyond the history: the state after each step, or the whole of an unheard step."""
    if str(step.get("response")).strip() in said or str(step.get("thought")).strip() in said:
        repeated = ("action", "observation", "response", "thought", "messages", "query")
        return {key: value for key, value in step.items() if key not in repeated}
    return {key: value for key, value in step.items() if key not in ("messages", "query")}
