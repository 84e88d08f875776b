"""Wire logs of Kimi Code: what is added to the model's context, one event per line, and what the program did beside.

Each event depends only on the lines up to its own: the first text or call of a step makes the `assistant.output`, with
the thoughts before it; further calls of the step join as `tool.called`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from promptctx.importers._content import call_of, content_of, text_of
from promptctx.importers._messages import Dialect, result_event, schema_events, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers._replies import Replies
from promptctx.importers.openai_chat import stem_of

SOURCE = "kimi"
DIALECT = Dialect("kimi")
TYPES = {"context.append_message", "context.append_loop_event", "config.update", "llm.request", "turn.prompt"}


def matches(sample: Sample) -> bool:
    types = {str(record(value).get("type")) for value in sample.head} if sample.kind == "lines" else set()
    return bool(types & TYPES)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    said, model, talks = "", None, False
    for _, value in sample.records(sample.oddities):
        line = record(value)
        message = record(line.get("message"))
        if not talks:
            # What comes after the first reply must not change how the session began.
            model = model or (text(line.get("model")) if line.get("type") == "llm.request" else None)
            said = said or (text_of(message.get("content")) if _asked(message) else "")
        talks = talks or _part(line) is not None
    if not (said or talks):
        yield Skipped(sample.path, "no message in it yet", SOURCE)
        return

    def make(log: Recorder) -> Iterator[WireEvent]:
        wire = Wire(log)
        for number, value in sample.records():
            yield from wire.line(number, record(value))
        if wire.thoughts:
            log.oddities["thoughts at the end, left until their reply is there"] += len(wire.thoughts)

    yield imported(
        make, session=session_id(SOURCE, stem_of(sample.path), short_hash(sample.head[:2])), source=SOURCE,
        path=sample.path, title=title_of(said), locale=locale_of(said), model=model, mode="react",
        known=sample.oddities,
    )  # fmt: skip


def _asked(message: dict[str, Json]) -> bool:
    """Whether somebody asked for it: a person, or the agent that this one works for."""
    origin = record(message.get("origin"))
    return message.get("role") == "user" and (origin.get("kind", "user") == "user" or origin.get("name") == "subagent")


def _part(line: dict[str, Json]) -> str | None:
    found = record(line.get("event")).get("type") if line.get("type") == "context.append_loop_event" else None
    return found if found in ("content.part", "tool.call") else None


@dataclass(slots=True)
class Wire(Replies):
    tools: set[str] = field(default_factory=set)

    def line(self, number: int, line: dict[str, Json]) -> Iterator[WireEvent]:
        kind, at = line.get("type"), line.get("time")
        if kind == "context.append_message":
            yield self._message(number, record(line.get("message")), at)
        elif kind == "context.append_loop_event":
            yield from self._step(number, record(line.get("event")), at)
        elif kind == "config.update" and text(line.get("systemPrompt")):
            yield self.log.instruction(number, line["systemPrompt"], at)
        elif kind == "llm.tools_snapshot" and items(line.get("tools")):
            new = [tool for tool in line["tools"] if str(record(tool).get("name")) not in self.tools]
            self.tools |= {str(record(tool).get("name")) for tool in new}
            yield from schema_events(self.log, new, DIALECT)
        else:
            # A prompt and what steers it are told by the message that they become.
            said = {"time", "input"} if kind in ("turn.prompt", "turn.steer") else {"time"}
            kept = {key: value for key, value in line.items() if key not in said}
            yield self.log.event(number, f"custom.kimi.{kind_name(kind or 'line')}", kept, at=at)

    def _message(self, number: int, message: dict[str, Json], at: Json) -> WireEvent:
        self.reply = None
        if message.get("role") == "user":
            return user_event(self.log, number, message, at, _asked(message))
        if message.get("role") == "assistant":
            calls = [call_of(call) for call in items(message.get("toolCalls"))]
            return self.output(number, content_of(message.get("content")), calls, at)
        return self.log.event(number, f"custom.kimi.{kind_name(message.get('role') or 'message')}", message, at=at)

    def _step(self, number: int, event: dict[str, Json], at: Json) -> Iterator[WireEvent]:
        kind, part = event.get("type"), record(event.get("part"))
        if kind == "content.part" and part.get("type") == "think":
            self.thoughts.append({"text": str(part.get("think") or "")})
        elif kind == "content.part":
            yield self.output(number, content_of([part]), [], at)
        elif kind == "tool.call":
            yield self.call(number, call_of({**event, "id": event.get("toolCallId")}), at)
        elif kind == "tool.result":
            result = record(event.get("result"))
            status = "error" if result.get("isError") is True else None
            yield result_event(self.log, number, {"content": result.get("output")}, at, status, event.get("toolCallId"))
        else:
            if kind in ("step.begin", "step.end"):
                if self.thoughts:
                    yield self.output(f"{number}.thoughts", "", [], at)  # nothing more will come of them
                self.reply = None
            yield self.log.event(number, f"custom.kimi.{kind_name(kind or 'event')}", event, at=at)
