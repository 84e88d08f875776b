"""Event logs of the OpenHands SDK: actions that share a model's reply are its calls, observations answer them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from promptctx.importers._content import call_of, content_of, reasoning_of, text_of
from promptctx.importers._messages import Dialect, message_events, output_event, result_event, schema_events
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "openhands"
DIALECT = Dialect("openhands", frozenset({"id", "responses_reasoning_item", "cache_enabled", "vision_enabled",
                                          "function_calling_enabled", "force_string_serializer"}))  # fmt: skip
ANSWERS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")


def matches(sample: Sample) -> bool:
    first = record(sample.head[0]) if sample.kind == "lines" and sample.head else {}
    return "source" in first and str(first.get("kind")).endswith(("Event", "Observation", "Condensation"))


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    first, said, talks = sample.head[0], "", False
    for _, value in sample.records(sample.oddities):
        event = record(value)
        said = said or (
            text_of(record(event.get("llm_message")).get("content")) if event.get("source") == "user" else ""
        )
        talks = talks or event.get("kind") in ("MessageEvent", "ActionEvent")
    if not talks:
        yield Skipped(sample.path, "no message in it yet", SOURCE)
        return

    def make(log: Recorder) -> Iterator[WireEvent]:
        telling = Telling(log)
        for number, value in sample.records():
            yield from telling.event(number, record(value))

    yield imported(
        make, session=session_id(SOURCE, stem_of(sample.path), short_hash(first)), source=SOURCE, path=sample.path,
        title=title_of(said), locale=locale_of(said), mode="react", known=sample.oddities,
    )  # fmt: skip


@dataclass(slots=True)
class Telling:
    log: Recorder
    replies: dict[str, str] = field(default_factory=dict)
    """the model's reply -> event id of its output, which further actions of it join"""

    def event(self, number: int, event: dict[str, Json]) -> Iterator[WireEvent]:
        kind, at = event.get("kind"), event.get("timestamp")
        if kind == "SystemPromptEvent":
            yield self.log.instruction(number, text_of([event.get("system_prompt")]), at)
            yield from schema_events(self.log, event.get("tools"), DIALECT)
        elif kind == "MessageEvent":
            yield from message_events(self.log, number, event.get("llm_message"), DIALECT, at=at)
        elif kind == "ActionEvent":
            yield self._action(number, event, at)
        elif kind in ANSWERS:
            yield self._answer(number, event, at)
        else:
            kept = {key: value for key, value in event.items() if key not in ("timestamp", "kind")}
            yield self.log.event(number, f"custom.openhands.{kind_name(kind or 'event')}", kept, at=at)

    def _action(self, number: int, event: dict[str, Json], at: Json) -> WireEvent:
        call = call_of({**record(event.get("tool_call")), "id": event.get("tool_call_id")})
        call["name"] = call["name"] or text(event.get("tool_name")) or ""
        reply = text(event.get("llm_response_id"))
        if reply in self.replies:
            self.log.called(call["id"])
            payload = {"call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
            cause = self.replies[str(reply)]
            return self.log.event(number, "tool.called", payload, actor="agent", at=at, cause=cause)
        said: Any = content_of(items(event.get("thought")))
        made = output_event(self.log, number, said, [call], reasoning_of(event), at=at)
        if reply:
            self.replies[reply] = made["event_id"]
        return made

    def _answer(self, number: int, event: dict[str, Json], at: Json) -> WireEvent:
        seen = record(event.get("observation"))
        status = None
        if event["kind"] == "UserRejectObservation":
            status = "rejected"
        elif event["kind"] == "AgentErrorEvent" or seen.get("is_error") is True:
            status = "timeout" if seen.get("timeout") is True else "error"
        content = seen.get("content", event.get("error", event.get("rejection_reason")))
        shown = {"content": content, "name": event.get("tool_name")}
        return result_event(self.log, number, shown, at, status, event.get("tool_call_id"))
