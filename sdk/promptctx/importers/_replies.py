"""Replies of logs that tell them in pieces: the first piece makes the `assistant.output`, further calls join it."""

from dataclasses import dataclass, field
from typing import Any

from promptctx.importers._content import Content
from promptctx.importers._messages import output_event
from promptctx.importers._model import Json, WireEvent
from promptctx.importers._record import Recorder


@dataclass(slots=True)
class Replies:
    """What of a reply is told so far: `reply` is the event id of its output, `thoughts` wait for one."""

    log: Recorder
    reply: str | None = None
    thoughts: list[dict[str, Any]] = field(default_factory=list)

    def output(self, number: object, content: Content, calls: list[dict[str, Any]], at: Json) -> WireEvent:
        """An output with the thoughts that waited for it."""
        thoughts, self.thoughts = self.thoughts, []
        event = output_event(self.log, number, content, calls, thoughts, at=at)
        self.reply = event["event_id"]
        return event

    def call(self, number: int, call: dict[str, Any], at: Json) -> WireEvent:
        """A call that joins the reply, or begins one."""
        if self.reply is None or self.thoughts:
            return self.output(number, "", [call], at)
        self.log.called(call["id"])
        payload = {"call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        return self.log.event(number, "tool.called", payload, actor="agent", at=at, cause=self.reply)
