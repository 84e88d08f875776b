"""A session kept in step with a list of messages that somebody else owns, as most frameworks hand over the whole
history at every turn.

What the list has more than last time is appended. Where it was changed, the session is rolled back to the last message
that both have, and goes on from there: the log keeps what was said and taken back.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from promptctx import _calls, _messages
from promptctx._http import Steps
from promptctx._track import Draft, Track, new_id
from promptctx.importers._calls import spelt
from promptctx.importers._messages import Dialect, message_events, schema_events
from promptctx.importers._record import Recorder
from promptctx.prompt import AsyncPrompt, Format, Prompt
from promptctx.session import AsyncSession, Session, _rollback
from promptctx.values import Receipt

MOST = 500
"""Events of one request."""

SYSTEM = ("system", "developer")

Message = Mapping[str, Any]


class Compile(TypedDict, total=False):
    """How prompts are compiled; see `Session.compile`."""

    budget: int
    window: int
    mode: str
    model: str
    query: str
    locale: str
    overrides: Mapping[str, Any]


class Told:
    """What of a list of messages the session has: a key for each message, and the seq that it ends with."""

    def __init__(self, track: Track, source: str) -> None:
        self._track, self._dialect = track, Dialect(source)
        self._keys: list[str] = []
        self._seqs: list[int] = []
        self._begin: int | None = None
        self._generation = 0
        self._known: set[str] = set()

    def tell(self, messages: Sequence[Message], tools: Sequence[Any]) -> Steps[None]:
        """Append what is new; roll back first what is no longer there."""
        plain = [_messages.plain(message) for message in messages]
        log = Recorder(f"{self._track.id}#{self._generation}" if self._generation else self._track.id, Counter())
        system = [made for made in self._system(log, plain, tools) if made["event_id"] not in self._known]
        said = [message for message in plain if message.get("role") not in SYSTEM]
        keys = [_key(message) for message in said]
        if system:
            yield from self._track.append(system)
            self._known.update(made["event_id"] for made in system)
        if self._begin is None:
            self._begin = self._track.seq or (yield from _calls.head(self._track.id).ask())
        same = _common(keys, self._keys)
        if same < len(self._keys):
            yield from self._take_back(same)
            log = Recorder(f"{self._track.id}#{self._generation}", Counter())
        yield from self._append(log, said, keys, same)

    def heard(self, reply: Any, prompt: str | None) -> Steps[None]:
        """Append a model's answer, linked to its prompt, which the list will hold from the next turn on."""
        payload = _messages.reply(reply)
        linked = {"snapshot_id": prompt} if prompt else {}
        made: Draft = {"kind": "assistant.output", "payload": {**payload, **linked}, "event_id": new_id()}
        (receipt,) = yield from self._track.append([{**made, "actor": "agent"}])
        self._keys.append(_spelled(made["kind"], payload))
        self._seqs.append(receipt.seq)

    def _system(self, log: Recorder, messages: Sequence[Message], tools: Sequence[Any]) -> list[Draft]:
        """The first system message and the tools. A later one is kept beside: no adapter may loosen a rule."""
        first = [message for message in messages if message.get("role") in SYSTEM][:1]
        told = [made for message in first for made in message_events(log, "system", dict(message), self._dialect)]
        return told + list(schema_events(log, _messages.plain(list(tools)), self._dialect))

    def _take_back(self, same: int) -> Steps[None]:
        to_seq = self._seqs[same - 1] if same else self._begin or 0
        yield from _rollback(self._track, to_seq, None, {"reason": "the list of messages was changed"}, {})
        self._keys, self._seqs = self._keys[:same], self._seqs[:same]
        self._generation += 1

    def _append(self, log: Recorder, said: Sequence[Message], keys: Sequence[str], same: int) -> Steps[None]:
        drafts: list[Draft] = []
        ends: list[int] = []
        for index in range(same, len(said)):
            drafts += message_events(log, index, dict(said[index]), self._dialect)
            ends.append(len(drafts))
        receipts: list[Receipt] = []
        for start in range(0, len(drafts), MOST):
            receipts += yield from self._track.append(drafts[start : start + MOST])
        self._seqs += [receipts[end - 1].seq for end in ends]
        self._keys += keys[same:]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many are the same from the start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _key(message: Message) -> str:
    made = next(iter(message_events(Recorder("", Counter()), 0, dict(message), Dialect("key"))))
    return _spelled(made["kind"], made["payload"])


def _spelled(kind: str, payload: Mapping[str, Any]) -> str:
    """What of a message stays the same on its way through a framework: not its usage, nor the model's name."""
    calls = [[call["id"], call["name"], spelt(call["arguments"])] for call in payload.get("tool_calls") or ()]
    return json.dumps([kind, _text(payload.get("content")), calls, payload.get("call_id")], sort_keys=True, default=str)


def _text(content: Any) -> Any:
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(part["text"] for part in content)
    return content or ""


def given(how: Compile) -> dict[str, Any]:
    return {name: value for name, value in how.items() if value is not None}


class Mirror:
    """A session that follows a list of messages, in the shape of OpenAI's chat; other shapes are brought into it."""

    def __init__(self, session: Session, source: str, how: Compile, format: Format = "openai") -> None:
        self.session = session
        self.how, self._format = how, format
        self._told = Told(session._track, source)

    def tell(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> None:
        """Bring the session up to the list."""
        self.session._sender.run(self._told.tell(messages, tools))

    def prompt(self, messages: Sequence[Message], tools: Sequence[Any] = (), timeout: float = 30.0) -> Prompt:
        """The prompt to send in the place of the list."""
        self.tell(messages, tools)
        return self.session.compile(format=self._format, **given(self.how)).result(timeout)

    def heard(self, reply: Any, prompt: Prompt | None = None) -> None:
        """Record a model's answer before the framework puts it into the list."""
        self.session._sender.run(self._told.heard(reply, prompt.id if prompt else None))


class AsyncMirror:
    """A session that follows a list of messages, in the shape of OpenAI's chat; other shapes are brought into it."""

    def __init__(self, session: AsyncSession, source: str, how: Compile, format: Format = "openai") -> None:
        self.session = session
        self.how, self._format = how, format
        self._told = Told(session._track, source)

    async def tell(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> None:
        """Bring the session up to the list."""
        await self.session._sender.run(self._told.tell(messages, tools))

    async def prompt(
        self, messages: Sequence[Message], tools: Sequence[Any] = (), timeout: float = 30.0
    ) -> AsyncPrompt:
        """The prompt to send in the place of the list."""
        await self.tell(messages, tools)
        job = await self.session.compile(format=self._format, **given(self.how))
        return await job.result(timeout)

    async def heard(self, reply: Any, prompt: AsyncPrompt | None = None) -> None:
        """Record a model's answer before the framework puts it into the list."""
        await self.session._sender.run(self._told.heard(reply, prompt.id if prompt else None))
