"""LiteLLM's completion with prompts that fit, and its callback."""

from collections.abc import Callable

import litellm
from conftest import BUDGET, FIRST, long_talk
from model_server import ModelServer

from promptctx import Session
from promptctx.adapters.litellm import Logger, completion


def test_a_completion_sends_what_fits(session: Session, model: ModelServer, fits: Callable[..., None]) -> None:
    messages = [*long_talk(20), {"role": "user", "content": "And now?"}]
    reply = completion(
        session, budget=BUDGET, model="openai/gpt-4o", messages=messages, api_base=model.url, api_key="none"
    )
    assert reply.choices[0].message.content
    fits(model.asked[-1], "And now?", FIRST)


def test_a_callback_records_a_completion_made_elsewhere(session: Session, model: ModelServer) -> None:
    logger = Logger(session)
    messages = [{"role": "user", "content": "Hello"}]
    reply = litellm.completion(model="openai/gpt-4o", messages=messages, api_base=model.url, api_key="none")
    logger.log_success_event({"messages": messages}, reply, None, None)
    assert [one.kind for one in session.events()][-2:] == ["user.input", "assistant.output"]
