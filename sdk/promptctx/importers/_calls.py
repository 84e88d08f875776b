"""A conversation out of the calls made to a model: each brings its whole prompt, of which only what is new is told."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from promptctx.importers._content import call_of, text_of
from promptctx.importers._messages import Dialect, message_events, result_event, schema_events
from promptctx.importers._model import Json, WireEvent, items, record
from promptctx.importers._record import Recorder, canonical

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What was sent and what came back, as chat messages. `position` is its place in the log, of any kind."""

    position: str
    prompt: list[dict[str, Json]]
    reply: list[dict[str, Json]]
    tools: Json = None
    at: Json = None
    done: Json = None
    model: Json = None
    usage: Json = None

    @property
    def instruction(self) -> str:
        return next((text_of(one.get("content")) for one in self.prompt if one.get("role") == "system"), "")


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool's run beside the calls: told only where no prompt tells its result."""

    position: str
    name: str
    arguments: Json
    content: Json
    call_id: str = ""
    status: str | None = None
    at: Json = None


def by_instruction(steps: Iterable[ModelCall | ToolRun]) -> dict[str, list[ModelCall | ToolRun]]:
    """The steps of each agent: calls with one instruction are one conversation; a tool runs for whoever called it."""
    found: dict[str, list[ModelCall | ToolRun]] = {}
    waiting: list[tuple[Key, str]] = []
    for step in steps:
        if isinstance(step, ModelCall):
            found.setdefault(step.instruction, []).append(step)
            waiting += [
                (_wanted(call), step.instruction) for one in step.reply for call in items(one.get("tool_calls"))
            ]
            continue
        owner = next((pair for pair in waiting if _fits(step, pair[0])), None)
        if owner is not None:
            waiting.remove(owner)
            identity = owner[0][0]  # as the call names itself: a span may know it by another id
            found[owner[1]].append(ToolRun(step.position, step.name, step.arguments, step.content, identity,
                                           step.status, step.at))  # fmt: skip
    return found


def _wanted(call: Json) -> Key:
    made = call_of(call)
    return made["id"], made["name"], spelt(made["arguments"])


def _fits(run: ToolRun, wanted: Key) -> bool:
    if run.call_id and wanted[0]:
        return run.call_id == wanted[0]
    return wanted[1] in (run.name, "") and spelt(run.arguments) == wanted[2]


def spelt(arguments: Json) -> str:
    if isinstance(arguments, str):
        try:
            return canonical(json.loads(arguments or "{}"))
        except ValueError:
            return arguments
    return canonical({} if arguments is None else arguments)


@dataclass(slots=True)
class Told:
    """What of a conversation was told so far."""

    log: Recorder
    dialect: Dialect
    messages: Counter[Key] = field(default_factory=Counter)
    tools: set[str] = field(default_factory=set)

    def steps(self, steps: list[ModelCall | ToolRun]) -> Iterator[WireEvent]:
        prompts = (one for step in steps if isinstance(step, ModelCall) for one in step.prompt)
        answered = {key_of(one) for one in prompts if one.get("role") == "tool"}
        for step in steps:
            if isinstance(step, ModelCall):
                yield from self.call(step)
            elif _answer_key(step.call_id, step.name, step.content) not in answered:
                shown = {"content": step.content, "name": step.name}
                yield result_event(self.log, step.position, shown, step.at, step.status, step.call_id)

    def call(self, call: ModelCall) -> Iterator[WireEvent]:
        here: Counter[Key] = Counter()
        schemas = iter(list(self._schemas(call.tools)))
        for place, message in enumerate(call.prompt):
            if message.get("role") != "system":
                yield from schemas
            key = key_of(message)
            here[key] += 1
            if here[key] > self.messages[key]:
                self.messages[key] += 1
                yield from message_events(self.log, f"{call.position}.{place}", message, self.dialect, at=call.at)
        yield from schemas
        for place, message in enumerate(call.reply):
            self.messages[key_of(message)] += 1
            known: dict[str, Any] = {"at": call.done, "model": call.model, "usage": None if place else call.usage}
            yield from message_events(self.log, f"{call.position}.reply.{place}", message, self.dialect, **known)

    def _schemas(self, tools: Json) -> Iterator[WireEvent]:
        new = [tool for tool in items(tools) if canonical(tool) not in self.tools]
        self.tools |= {canonical(tool) for tool in new}
        return schema_events(self.log, new, self.dialect)


def key_of(message: dict[str, Json]) -> Key:
    """What makes two tellings of a message the same, however each was spelt."""
    role = str(message.get("role"))
    if role == "tool":
        identity = message.get("tool_call_id")
        return _answer_key(str(identity or ""), str(message.get("name") or ""), message.get("content"))
    calls = [part for call in items(message.get("tool_calls")) for part in _wanted(record(call))]
    return role, text_of(message.get("content")).strip(), *calls


def _answer_key(call_id: str, name: str, content: Json) -> Key:
    return ("tool", call_id) if call_id else ("tool", "", name or text_of(content))
