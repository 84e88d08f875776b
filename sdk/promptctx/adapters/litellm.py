"""LiteLLM: completions that fit, and a callback that records those made elsewhere.

    from promptctx import Client
    from promptctx.adapters.litellm import Logger, completion

    reply = completion(Client().session("s-1"), budget=8000, model="gpt-4o", messages=messages)

    litellm.callbacks = [Logger(Client().session("s-2"))]        # records, cuts nothing

Streams are passed on and recorded by the next turn, when the answer is in the list.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import litellm
from litellm.integrations.custom_logger import CustomLogger

from promptctx.adapters._mirror import Mirror
from promptctx.session import Session

_mirrors: "WeakKeyDictionary[Session, Mirror]" = WeakKeyDictionary()


def completion(
    session: Session, *, messages: Sequence[Mapping[str, Any]], model: str, budget: int | None = None, **request: Any
) -> Any:
    """`litellm.completion` with the compiled prompt in the place of `messages`; the answer is recorded."""
    mirror = _mirrors.setdefault(session, Mirror(session, "litellm", {}))
    mirror.how = {"model": model} if budget is None else {"model": model, "budget": budget}
    prompt = mirror.prompt(messages, request.pop("tools", None) or ())
    given = {"tools": prompt.tools} if prompt.tools else {}
    reply = litellm.completion(model=model, messages=prompt.messages, **given, **request)
    if not request.get("stream"):
        mirror.heard(reply, prompt)
    return reply


class Logger(CustomLogger):
    """Follows the messages of one conversation."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._mirror = Mirror(session, "litellm", {})

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._mirror.tell(kwargs.get("messages") or (), (kwargs.get("optional_params") or {}).get("tools") or ())
        if not kwargs.get("stream") and getattr(response_obj, "choices", None):
            self._mirror.heard(response_obj)
