"""A compiled prompt, ready for a model, and the job that makes it."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from promptctx import _calls, _history, errors
from promptctx._http import AsyncSender, Sender
from promptctx._notebook import page
from promptctx._track import Track
from promptctx.values import JobState, Replay, build

logger = logging.getLogger("promptctx")

Format: TypeAlias = Literal["openai", "anthropic", "text"]
S = TypeVar("S", Sender, AsyncSender)


@dataclass(frozen=True, repr=False)
class PromptData:
    """What a prompt says, without asking the server."""

    id: str
    session: str
    version: int
    format: str = "openai"
    mode: str | None = None
    model: str | None = None
    parent: str | None = None
    budget: int | None = None
    tokens: int = 0
    content_hash: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    provenance: Any = None
    report: Mapping[str, Any] = field(default_factory=dict)
    created_at: str | None = None
    derived: bool = False

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {self.id} version {self.version} of {self.session!r}: {self.tokens} of {self.budget} tokens>"

    def _repr_html_(self) -> str:
        """The prompt in a notebook: its budget by zone, then message by message. All of it is text, never markup."""
        return as_html(self)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the payload; a `text` prompt is one user message."""
        if "messages" in self.payload:
            return list(self.payload["messages"])
        return [{"role": "user", "content": self.payload.get("text", "")}]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the model may call, in the payload's format."""
        return list(self.payload.get("tools") or ())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was not as asked, such as a mode that nobody knows."""
        return tuple(self.report.get("warnings") or ())

    @property
    def text(self) -> str:
        """The whole prompt for reading: the `text` format as it is, others likewise, each message under `@@ role`. A
        line of a message that begins so has a backslash before it, and opens none."""
        if "text" in self.payload:
            return str(self.payload["text"])
        return "\n\n".join(f"@@ {role}\n{escaped(said)}" for role, said in transcript(self))

    def _openai(self, model: str | None) -> dict[str, Any]:
        named = {"model": model or self.model} if model or self.model else {}
        return {**named, "messages": self.messages, **({"tools": self.tools} if self.tools else {})}

    def _anthropic(self, model: str | None, max_tokens: int) -> dict[str, Any]:
        named = {"model": model or self.model} if model or self.model else {}
        given = {key: self.payload[key] for key in ("system", "tools") if self.payload.get(key)}
        return {**named, "max_tokens": max_tokens, "messages": self.messages, **given}


def transcript(prompt: PromptData) -> list[tuple[str, str]]:
    """Role and readable text of each message; the `text` format is one."""
    if "text" in prompt.payload:
        return [("text", str(prompt.payload["text"]))]
    system = [("system", str(prompt.payload["system"]))] if prompt.payload.get("system") else []
    return system + [(str(message.get("role", "")), readable(message)) for message in prompt.messages]


_OPENS = re.compile("(^|[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029])(\\\\*)@@")


def escaped(text: str) -> str:
    """A message's text without a line that could open a message, by the rule of the `text` format."""
    return _OPENS.sub(r"\1\\\2@@", text)


def as_html(prompt: PromptData) -> str:
    zones = {str(zone): count for zone, count in (prompt.report.get("zones") or {}).items() if isinstance(count, int)}
    name = f"{prompt.id} · version {prompt.version} of {prompt.session}"
    return page(name, zones, prompt.tokens, prompt.report.get("budget") or prompt.budget, transcript(prompt))


def readable(message: Mapping[str, Any]) -> str:
    """A message of any format as text."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else [_shown_part(part) for part in content or ()]
    parts += [_shown_part(call) for call in message.get("tool_calls") or ()]
    return "\n".join(part for part in parts if part)


def _shown_part(part: Mapping[str, Any]) -> str:
    inner = part.get("function")
    if isinstance(inner, Mapping):
        return f"→ {inner.get('name')}({inner.get('arguments')}) #{part.get('id')}"
    match part.get("type"):
        case "text":
            return str(part.get("text", ""))
        case "tool_use":
            return f"→ {part.get('name')}({part.get('input')}) #{part.get('id')}"
        case "tool_result":
            content = part.get("content")
            said = content if isinstance(content, str) else "\n".join(_shown_part(one) for one in content or ())
            return f"← #{part.get('tool_use_id')}: {said}"
        case kind:
            return f"<{kind}>"


@dataclass(frozen=True, repr=False)
class Prompt(PromptData):
    """A compiled prompt. `openai()` and `anthropic()` are the keyword arguments of the provider's call."""

    _sender: Sender | None = field(default=None, compare=False, kw_only=True)

    def openai(self, *, model: str | None = None) -> dict[str, Any]:
        """For `chat.completions.create(**…)`. A prompt of another format is derived by the server first."""
        return self.derive("openai")._openai(model)

    def anthropic(self, *, model: str | None = None, max_tokens: int = 4096) -> dict[str, Any]:
        """For `messages.create(**…)`. A prompt of another format is derived by the server first."""
        return self.derive("anthropic")._anthropic(model, max_tokens)

    def derive(self, format: Format) -> "Prompt":
        """The same prompt in another format: counted anew, and refused when it is over the budget."""
        if format == self.format:
            return self
        sender = _there(self._sender)
        return build(Prompt, sender.send(_calls.prompt(self.id, format)), _sender=sender)

    def replay(self) -> Replay:
        """Compile again from the log and compare."""
        return _there(self._sender).send(_calls.replay(self.id))

    def what_if(self, changes: Mapping[str, Any], *, schema: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """The prompt as it would have been: `{"budget": 4000, "slots.recall.top_k": 5}`. Never a new version."""
        return _there(self._sender).send(_history.what_if(self.id, changes, schema))

    def diff(self, other: str) -> Mapping[str, Any]:
        """What changed from this prompt to another, each change with its cause."""
        return _there(self._sender).send(_history.diff(self.id, other, None, None))

    def blame(self, text: str | None = None) -> Mapping[str, Any]:
        """Each line with the events that made it; only those that hold a text, if one is given."""
        return _there(self._sender).send(_history.blame(self.id, text))

    def why(self, event: str | int, *, verify: bool = False) -> Mapping[str, Any]:
        """Where an event went, by which rule and numbers, and what would have kept it; `verify` tries that."""
        return _there(self._sender).send(_history.why(self.id, event, verify))

    def originals(self, line: int | None = None) -> Mapping[str, Any]:
        """Its summaries, line by line, down to the originals."""
        return _there(self._sender).send(_history.provenance(self.id, line))

    def bundle(self) -> bytes:
        """All that it was made from, with the versions before it, as one file for another server; secrets masked."""
        return _there(self._sender).send(_history.bundle_of_prompt(self.id))


@dataclass(frozen=True, repr=False)
class AsyncPrompt(PromptData):
    """A compiled prompt; its format is what was compiled, `await derive(format)` gives another."""

    _sender: AsyncSender | None = field(default=None, compare=False, kw_only=True)

    def openai(self, *, model: str | None = None) -> dict[str, Any]:
        """For `chat.completions.create(**…)`."""
        return self._as("openai")._openai(model)

    def anthropic(self, *, model: str | None = None, max_tokens: int = 4096) -> dict[str, Any]:
        """For `messages.create(**…)`."""
        return self._as("anthropic")._anthropic(model, max_tokens)

    def _as(self, format: Format) -> "AsyncPrompt":
        if format != self.format:
            raise errors.InvalidRequest(
                f"This prompt was compiled as {self.format}: compile with format={format!r}, "
                f"or `await prompt.derive({format!r})` first."
            )
        return self

    async def derive(self, format: Format) -> "AsyncPrompt":
        """The same prompt in another format: counted anew, and refused when it is over the budget."""
        if format == self.format:
            return self
        sender = _there(self._sender)
        return build(AsyncPrompt, await sender.send(_calls.prompt(self.id, format)), _sender=sender)

    async def replay(self) -> Replay:
        """Compile again from the log and compare."""
        return await _there(self._sender).send(_calls.replay(self.id))

    async def what_if(
        self, changes: Mapping[str, Any], *, schema: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """The prompt as it would have been: `{"budget": 4000, "slots.recall.top_k": 5}`. Never a new version."""
        return await _there(self._sender).send(_history.what_if(self.id, changes, schema))

    async def diff(self, other: str) -> Mapping[str, Any]:
        """What changed from this prompt to another, each change with its cause."""
        return await _there(self._sender).send(_history.diff(self.id, other, None, None))

    async def blame(self, text: str | None = None) -> Mapping[str, Any]:
        """Each line with the events that made it; only those that hold a text, if one is given."""
        return await _there(self._sender).send(_history.blame(self.id, text))

    async def why(self, event: str | int, *, verify: bool = False) -> Mapping[str, Any]:
        """Where an event went, by which rule and numbers, and what would have kept it; `verify` tries that."""
        return await _there(self._sender).send(_history.why(self.id, event, verify))

    async def originals(self, line: int | None = None) -> Mapping[str, Any]:
        """Its summaries, line by line, down to the originals."""
        return await _there(self._sender).send(_history.provenance(self.id, line))

    async def bundle(self) -> bytes:
        """All that it was made from, with the versions before it, as one file for another server; secrets masked."""
        return await _there(self._sender).send(_history.bundle_of_prompt(self.id))


def _there(sender: S | None) -> S:
    if sender is None:
        raise errors.InvalidRequest("This prompt was not fetched by a client, so it cannot ask the server.")
    return sender


class JobData:
    """A compile job as last seen."""

    def __init__(self, state: JobState, track: Track | None) -> None:
        self._state = state
        self._track = track

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.session!r}: {self.status}>"

    @property
    def id(self) -> str:
        """Empty when the prompt was there at once, so that no job was needed."""
        return self._state.id

    @property
    def session(self) -> str:
        """The session's id."""
        return self._state.session

    @property
    def status(self) -> str:
        """queued, running, done or failed, as last seen; `refresh()` asks again."""
        return self._state.status

    @property
    def prompt_id(self) -> str | None:
        """The prompt that came of it, once it is done."""
        return self._state.prompt

    @property
    def error(self) -> errors.PromptctxError | None:
        """What it failed with, if it did."""
        return _calls.job_error(self._state) if self._state.status == "failed" else None

    def _arrived(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._track:
            self._track.prompt_id = data["id"]
        self._state = JobState(self.id, data["session"], "done", data["id"], answer=data)
        warned: set[str] = self._track.warned if self._track else set()
        for warning in (data.get("report") or {}).get("warnings") or ():
            if warning not in warned:
                warned.add(warning)
                logger.warning("prompt %s of %s: %s", data.get("version"), data["session"], warning)
        return data


class Job(JobData):
    """A compile under way."""

    def __init__(self, sender: Sender, state: JobState, track: Track | None = None) -> None:
        super().__init__(state, track)
        self._sender = sender

    def refresh(self) -> "Job":
        """Ask the server how far it is."""
        if self._state.answer is None:
            self._state = self._sender.send(_calls.job(self.id))
        return self

    def result(self, timeout: float | None = 10.0) -> Prompt:
        """The prompt. Raises Timeout when it does not come in time, or the error that the compile ended with."""
        data = self._arrived(self._sender.run(_calls.finished(self._state, timeout)))
        return build(Prompt, data, _sender=self._sender)


class AsyncJob(JobData):
    """A compile under way."""

    def __init__(self, sender: AsyncSender, state: JobState, track: Track | None = None) -> None:
        super().__init__(state, track)
        self._sender = sender

    async def refresh(self) -> "AsyncJob":
        """Ask the server how far it is."""
        if self._state.answer is None:
            self._state = await self._sender.send(_calls.job(self.id))
        return self

    async def result(self, timeout: float | None = 10.0) -> AsyncPrompt:
        """The prompt. Raises Timeout when it does not come in time, or the error that the compile ended with."""
        data = self._arrived(await self._sender.run(_calls.finished(self._state, timeout)))
        return build(AsyncPrompt, data, _sender=self._sender)
