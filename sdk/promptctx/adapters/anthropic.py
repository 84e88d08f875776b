"""Anthropic: the client of the `anthropic` package, with prompts that fit.

    from anthropic import Anthropic
    from promptctx import Client
    from promptctx.adapters.anthropic import keep

    anthropic = keep(Anthropic(), Client().session("s-1"), budget=8000)
    anthropic.messages.create(model="claude-sonnet-4-5", max_tokens=1024, system="…", messages=messages)    # as before

What is sent is the compiled prompt; what comes back is recorded. Streams are passed on and recorded by the next turn,
when the answer is in the list.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from promptctx._messages import plain
from promptctx.adapters._mirror import Compile, Mirror
from promptctx.session import Session

Json = dict[str, Any]


def keep(client: Any, session: Session, **how: Unpack[Compile]) -> "Kept":
    """The client, but that `messages.create` sends what fits. `how` is as for `Session.compile`; one client serves one
    session."""
    return Kept(client, Mirror(session, "anthropic", how, "anthropic"))


class Kept:
    """The client in all but one call."""

    def __init__(self, client: Any, mirror: Mirror) -> None:
        self._client = client
        self.messages = _Messages(client.messages, mirror)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Messages:
    def __init__(self, messages: Any, mirror: Mirror) -> None:
        self._messages, self._mirror = messages, mirror

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)

    def create(self, *, messages: Sequence[Mapping[str, Any]], system: Any = None, **request: Any) -> Any:
        """Sends the compiled prompt in the place of `system` and `messages`."""
        tools = request.pop("tools", None) or ()
        prompt = self._mirror.prompt(as_messages(messages, system), tools)
        given = {name: prompt.payload[name] for name in ("system", "tools") if prompt.payload.get(name)}
        reply = self._messages.create(messages=prompt.messages, **given, **request)
        if not request.get("stream"):
            self._mirror.heard(reply, prompt)
        return reply


def as_messages(messages: Sequence[Mapping[str, Any]], system: Any = None) -> list[Json]:
    """Anthropic's messages as chat messages: results of tools become messages of their own."""
    first: list[Json] = [{"role": "system", "content": plain(system)}] if system else []
    return [*first, *(one for message in map(plain, messages) for one in _split(message))]


def _split(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [message]
    blocks = list(content or ())
    if message.get("role") == "assistant":
        return [_assistant(blocks)]
    results: list[Json] = [_result(block) for block in blocks if block.get("type") == "tool_result"]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    return [*results, *([{"role": "user", "content": rest}] if rest else [])]


def _assistant(blocks: Sequence[Json]) -> Json:
    thought = [block for block in blocks if block.get("type") in ("thinking", "redacted_thinking")]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    said = [block for block in blocks if block not in thought and block not in calls]
    found: Json = {"role": "assistant", "content": said}
    if thought:
        found["thinking_blocks"] = thought
    return found | {"tool_calls": calls} if calls else found


def _result(block: Json) -> Json:
    failed = {"is_error": True} if block.get("is_error") else {}
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content"), **failed}
