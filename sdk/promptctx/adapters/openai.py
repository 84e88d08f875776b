"""OpenAI: the client of the `openai` package, with prompts that fit.

    from openai import OpenAI
    from promptctx import Client
    from promptctx.adapters.openai import keep

    openai = keep(OpenAI(), Client().session("s-1"), budget=8000)
    openai.chat.completions.create(model="gpt-4o", messages=messages, tools=tools)    # as before
    openai.responses.create(model="gpt-4o", input=items, instructions="…")            # as before

What is sent is the compiled prompt; what comes back is recorded. Streams are passed on and recorded by the next turn,
when the answer is in the list.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from promptctx.adapters._mirror import Compile, Mirror
from promptctx.adapters._responses import as_items, as_messages, as_tools
from promptctx.session import Session


def keep(client: Any, session: Session, **how: Unpack[Compile]) -> "Kept":
    """The client, but that `chat.completions.create` and `responses.create` send what fits. `how` is as for
    `Session.compile`; one client serves one session."""
    return Kept(client, Mirror(session, "openai", how))


class Kept:
    """The client in all but two calls."""

    def __init__(self, client: Any, mirror: Mirror) -> None:
        self._client = client
        self.chat = _Chat(client, mirror)
        self.responses = _Responses(client.responses, mirror)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Chat:
    def __init__(self, client: Any, mirror: Mirror) -> None:
        self.completions = _Completions(client.chat.completions, mirror)


class _Completions:
    def __init__(self, completions: Any, mirror: Mirror) -> None:
        self._completions, self._mirror = completions, mirror

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)

    def create(self, *, messages: Sequence[Mapping[str, Any]], **request: Any) -> Any:
        """Sends the compiled prompt in the place of `messages`."""
        tools = request.pop("tools", None) or ()
        prompt = self._mirror.prompt(messages, tools)
        given = {"tools": prompt.tools} if prompt.tools else {}
        reply = self._completions.create(messages=prompt.messages, **given, **request)
        if not request.get("stream"):
            self._mirror.heard(reply, prompt)
        return reply


class _Responses:
    def __init__(self, responses: Any, mirror: Mirror) -> None:
        self._responses, self._mirror = responses, mirror

    def __getattr__(self, name: str) -> Any:
        return getattr(self._responses, name)

    def create(self, *, input: Any, instructions: str | None = None, **request: Any) -> Any:
        """Sends the compiled prompt in the place of `input` and `instructions`. Keep the list yourself: the provider's
        own memory (`previous_response_id`, `conversation`) would add what was cut."""
        for name in ("previous_response_id", "conversation"):
            if request.get(name) is not None:
                raise ValueError(f"{name}: pass the whole list as input instead, so that a prompt can be made to fit.")
        tools = request.pop("tools", None) or ()
        system = [{"role": "system", "content": instructions}] if instructions else []
        messages = [*system, *as_messages(input)]
        prompt = self._mirror.prompt(messages, tools)
        given = {"tools": as_tools(prompt.tools)} if prompt.tools else {}
        reply = self._responses.create(input=as_items(prompt.messages), **given, **request)
        if not request.get("stream"):
            self._mirror.tell([*messages, *as_messages(reply.output)], tools)
        return reply
