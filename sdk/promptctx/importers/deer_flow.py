"""Replays of deer-flow (older release): server-sent deltas of several agents, folded into messages."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from promptctx.importers._messages import output_event, result_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "deer-flow-replay"


def matches(sample: Sample) -> bool:
    return sample.kind == "stream" and any("thread_id" in record(record(event).get("data")) for event in sample.head)


@dataclass(slots=True)
class Message:
    """A message while its deltas come in."""

    id: Json
    agent: str | None
    content: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    by_index: dict[Json, dict[str, Any]] = field(default_factory=dict)

    def add(self, data: dict[str, Json]) -> None:
        if isinstance(data.get("content"), str):
            self.content.append(data["content"])
        whole = {record(call).get("name"): call for call in items(data.get("tool_calls"))}
        for chunk in map(record, items(data.get("tool_call_chunks"))):
            index = chunk.get("index")
            if chunk.get("name") or index not in self.by_index:
                call = {"id": chunk.get("id") or "", "name": chunk.get("name") or "", "arguments": ""}
                self.calls.append(call)
                self.by_index[index] = call
            self.by_index[index]["arguments"] += str(chunk.get("args") or "")
        if whole and not items(data.get("tool_call_chunks")):
            for call in map(record, whole.values()):
                made = {"id": call.get("id") or "", "name": call.get("name") or "", "arguments": call.get("args")}
                self.calls.append(made)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    said, thread = "", None
    for _, value in sample.records(sample.oddities):
        data = record(record(value).get("data"))
        thread = thread or text(data.get("thread_id"))
        if not said and data.get("role") == "user":
            said = str(data.get("content") or "")

    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from Folding(log).events(sample)

    yield imported(
        make, session=session_id(SOURCE, stem_of(sample.path).removesuffix(".txt"), thread), source=SOURCE,
        path=sample.path, title=title_of(said), locale=locale_of(said), mode="react", known=sample.oddities,
    )  # fmt: skip


@dataclass(slots=True)
class Folding:
    log: Recorder
    current: Message | None = None
    agent: str | None = None

    def events(self, sample: Sample) -> Iterator[WireEvent]:
        number = 0
        for number, value in sample.records():
            name, data = record(value).get("event"), record(record(value).get("data"))
            if self.current is not None and data.get("id") != self.current.id:
                yield from self._closed(f"{number}.before")
            if name == "tool_call_result":
                yield from self._speaker(number, data)
                yield result_event(self.log, number, data, None)
            elif name in ("message_chunk", "tool_calls", "tool_call_chunks") and data:
                yield from self._chunk(number, data)
            else:
                yield self.log.event(number, f"custom.deer_flow.{kind_name(name)}", record(value).get("data"))
        yield from self._closed(f"{number}.after")

    def _chunk(self, number: int, data: dict[str, Json]) -> Iterator[WireEvent]:
        if data.get("role") == "user":
            yield user_event(self.log, number, data, None, True)
            return
        if self.current is None:
            yield from self._speaker(number, data)
            self.current = Message(data.get("id"), text(data.get("agent")))
        # A message ends where another begins: deltas may still come after the one that tells why it finished.
        self.current.add(data)

    def _closed(self, position: object) -> Iterator[WireEvent]:
        if self.current is not None:
            done, self.current = self.current, None
            yield output_event(self.log, position, "".join(done.content), done.calls, [])

    def _speaker(self, number: int, data: dict[str, Json]) -> Iterator[WireEvent]:
        """Several agents speak in one thread; who does is told when it changes."""
        if (agent := text(data.get("agent"))) and agent != self.agent:
            self.agent = agent
            yield self.log.event(f"{number}.agent", "custom.deer_flow.agent", {"agent": agent})
