"""Sessions of the Copilot command line: a typed event per line; what a sub-agent says names the call it answers."""

from collections.abc import Iterator

from promptctx.importers._content import call_of, text_of
from promptctx.importers._messages import Dialect, output_event, result_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "copilot"
DIALECT = Dialect("copilot")
TYPES = {"session.start", "assistant.turn_start", "user.message"}
CALLED = {"arguments", "toolName"}
"""What the start of a call's execution repeats of the call."""


def matches(sample: Sample) -> bool:
    types = {str(record(value).get("type")) for value in sample.head} if sample.kind == "lines" else set()
    return bool(types & TYPES)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    name, model, said, replied = "", None, "", False
    agents: dict[str, None] = {}
    for _, value in sample.records(sample.oddities):
        kind, data = record(value).get("type"), _data(value)
        name = name or (text(data.get("sessionId")) or "" if kind == "session.start" else "")
        said = said or (text_of(data.get("content")) if kind == "user.message" else "")
        # What comes after the first reply must not change how the session began.
        chosen = text(data.get("model")) or text(data.get("selectedModel")) or text(data.get("newModel"))
        model = model if replied else chosen or model
        replied = replied or kind == "assistant.message"
        agents |= {within: None} if (within := text(data.get("parentToolCallId"))) else {}
    if not (said or replied):
        yield Skipped(sample.path, "no message in it yet", SOURCE)
        return
    whole = session_id(SOURCE, name or f"{stem_of(sample.path)}-{short_hash(sample.head[0])}")
    for agent in (None, *agents):
        yield imported(
            Told(sample, agent), session=whole if agent is None else session_id(whole, agent), source=SOURCE,
            path=sample.path, title=title_of(said if agent is None else f"sub-agent of {whole}"),
            locale=locale_of(said), model=model if agent is None else None, mode="react",
            parent=None if agent is None else whole, known=sample.oddities,
        )  # fmt: skip


def _data(value: Json) -> dict[str, Json]:
    return record(record(value).get("data"))


class Told:
    """The events of the session itself, or of one of its sub-agents."""

    def __init__(self, sample: Sample, agent: str | None) -> None:
        self.sample, self.agent = sample, agent

    def __call__(self, log: Recorder) -> Iterator[WireEvent]:
        for number, value in self.sample.records():
            if text(_data(value).get("parentToolCallId")) == self.agent:
                yield _line(log, number, record(value))


def _line(log: Recorder, number: int, line: dict[str, Json]) -> WireEvent:
    kind, data, at = line.get("type"), record(line.get("data")), line.get("timestamp")
    if kind == "system.message":
        return log.instruction(number, text_of(data.get("content")), at)
    if kind == "user.message":
        return user_event(log, number, {"content": data.get("content")}, at, True)
    if kind == "assistant.message":
        return _reply(log, number, data, at)
    if kind == "tool.execution_complete":
        result = record(data.get("result"))
        failed = record(data.get("error")).get("message") or data.get("error")
        shown = {"content": result.get("content", failed), "name": data.get("toolName")}
        status = "error" if data.get("success") is False else None
        return result_event(log, number, shown, at, status, data.get("toolCallId"))
    kept = {key: value for key, value in line.items() if key != "timestamp"}
    if kind == "tool.execution_start":
        kept["data"] = {key: value for key, value in data.items() if key not in CALLED}
    return log.event(number, f"custom.copilot.{kind_name(kind or 'line')}", kept, at=at)


def _reply(log: Recorder, number: int, data: dict[str, Json], at: Json) -> WireEvent:
    calls = [{**record(one), "id": record(one).get("toolCallId")} for one in items(data.get("toolRequests"))]
    said, sealed = text(data.get("reasoningText")), text(data.get("reasoningOpaque"))
    thoughts = [{"text": said or "", **({"signature": sealed} if sealed else {})}] if said or sealed else []
    return output_event(
        log, number, text_of(data.get("content")), [call_of(call) for call in calls], thoughts, at=at,
        model=data.get("model"), usage={"output_tokens": data.get("outputTokens")},
    )  # fmt: skip
