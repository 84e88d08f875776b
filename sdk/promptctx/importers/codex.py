"""Codex rollouts: response items as the model's own, beside them events of the program, one per line.

As with Claude Code, each event depends only on the lines up to its own: the first item of a reply makes the
`assistant.output`, further calls of it join as `tool.called`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from promptctx.importers._content import Content, content_of, text_of
from promptctx.importers._messages import result_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers._replies import Replies
from promptctx.importers.openai_chat import stem_of

SOURCE = "codex"
CALLS = {"function_call": "arguments", "custom_tool_call": "input", "tool_search_call": "arguments"}
RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
NOT_TYPED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>", "<skill>")


def matches(sample: Sample) -> bool:
    types = {str(record(value).get("type")) for value in sample.head} if sample.kind == "lines" else set()
    return bool(types & {"session_meta", "response_item", "turn_context"})


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    about: dict[str, Json] = {}
    said, model, talks = "", None, False
    for _, value in sample.records(sample.oddities):
        line, item = record(value), record(record(value).get("payload"))
        about = about or (item if line.get("type") == "session_meta" else {})
        # What comes after the first reply must not change how the session began.
        model = model or (None if talks else text(item.get("model")))
        if line.get("type") == "response_item" and not talks:
            words = text_of(_content(item.get("content"))) if item.get("role") == "user" else ""
            said = said or ("" if words.startswith(NOT_TYPED) else words)
            talks = item.get("role") not in ("user", "developer", "system")
    if not (talks or said):
        yield Skipped(sample.path, "no message in it yet", SOURCE)
        return

    def make(log: Recorder) -> Iterator[WireEvent]:
        rollout = Rollout(log)
        for number, value in sample.records():
            yield from rollout.line(number, value)
        if rollout.thoughts:
            log.oddities["thoughts at the end, left until their reply is there"] += len(rollout.thoughts)

    name = about.get("id") or f"{stem_of(sample.path)}-{short_hash(sample.head[0])}"
    parent = text(about.get("parent_thread_id"))
    yield imported(
        make, session=session_id(SOURCE, name), source=SOURCE, path=sample.path, title=title_of(said),
        locale=locale_of(said), model=model, mode="react", parent=parent and session_id(SOURCE, parent),
        known=sample.oddities,
    )  # fmt: skip


@dataclass(slots=True)
class Rollout(Replies):
    def line(self, number: int, value: Json) -> Iterator[WireEvent]:
        line = record(value)
        item, at = record(line.get("payload")), line.get("timestamp")
        kind = str(item.get("type"))
        if line.get("type") == "session_meta" and (told := text(record(item.get("base_instructions")).get("text"))):
            yield self.log.instruction(f"{number}.instructions", told, at)
        if line.get("type") != "response_item":
            name = kind if line.get("type") == "event_msg" else line.get("type") or "line"
            yield self.log.event(number, f"custom.codex.{kind_name(name)}", value, at=at)
        elif kind == "message":
            if self.thoughts and item.get("role") != "assistant":
                yield self.output(f"{number}.thoughts", "", [], at)  # nothing more will come of them
            yield self._message(number, item, at)
        elif kind == "reasoning":
            self.reply = None
            self.thoughts.append(_thought(item))
        elif kind in CALLS:
            yield self._call(number, item, item.get(CALLS[kind]), at)
        elif kind in RESULTS:
            self.reply = None
            shown = {"content": _content(item.get("output", item.get("tools")))}
            yield result_event(self.log, number, shown, at, call_id=item.get("call_id"))
        else:
            yield self.log.event(number, f"custom.codex.{kind_name(kind)}", item, at=at)

    def _message(self, number: int, item: dict[str, Json], at: Json) -> WireEvent:
        role, content = item.get("role"), _content(item.get("content"))
        if role == "assistant":
            return self.output(number, content, [], at)
        self.reply = None
        if role in ("developer", "system"):
            return self.log.instruction(number, text_of(content), at)
        return user_event(self.log, number, {"content": content}, at, not text_of(content).startswith(NOT_TYPED))

    def _call(self, number: int, item: dict[str, Json], arguments: Json, at: Json) -> WireEvent:
        identity = item.get("call_id")
        call = {
            "id": "" if identity is None else str(identity),
            "name": text(item.get("name")) or str(item.get("type")).removesuffix("_call"),
            "arguments": "{}" if arguments is None else arguments,
        }
        return self.call(number, call, at)


def _thought(item: dict[str, Json]) -> dict[str, Any]:
    """The summary is for people; what the model gets back is the encrypted text, which nobody may touch."""
    said = "\n".join(str(record(part).get("text")) for part in items(item.get("summary")))
    sealed = text(item.get("encrypted_content"))
    return {"text": said, **({"signature": sealed} if sealed else {})}


def _content(value: Json) -> Content:
    """Content of an item; an empty image beside a text says nothing."""
    if isinstance(value, dict):
        value = value.get("content", [value] if "type" in value else value)
    if isinstance(value, list):
        value = [part for part in value if record(part).get("type") != "input_image" or record(part).get("image_url")]
    return content_of(value)
