"""OpenAI's client with prompts that fit."""

import json
from collections.abc import Callable
from typing import Any

import openai
from conftest import BUDGET, FIRST, long_talk
from model_server import ModelServer, Said
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from promptctx import Session
from promptctx.adapters.openai import keep

Json = dict[str, Any]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Looks it up.", "parameters": PARAMETERS}}


def opened(model: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=model.url, api_key="none", max_retries=0)


def kinds(session: Session) -> list[str]:
    return [one.kind for one in session.events()]


def test_a_long_list_is_sent_as_what_fits_in_the_providers_own_types(
    session: Session, model: ModelServer, fits: Callable[..., None]
) -> None:
    kept = keep(opened(model), session, budget=BUDGET)
    last = {"role": "user", "content": "And now?"}
    messages = [{"role": "system", "content": "You plan trips."}, *long_talk(20), last]
    reply = kept.chat.completions.create(model="gpt-4o", messages=messages)
    assert reply.choices[0].message.content
    asked = model.asked[-1]
    fits(asked, "And now?", FIRST)
    assert asked["messages"][0]["content"].startswith("You plan trips.")
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(asked["messages"])


def test_the_answer_is_recorded_once_with_its_prompt_though_the_list_brings_it_again(
    session: Session, model: ModelServer
) -> None:
    kept = keep(opened(model), session, budget=BUDGET)
    messages: list[Any] = [{"role": "user", "content": "Hello"}]
    reply = kept.chat.completions.create(model="gpt-4o", messages=messages)
    messages += [reply.choices[0].message, {"role": "user", "content": "Again"}]
    kept.chat.completions.create(model="gpt-4o", messages=messages)
    outputs = [one for one in session.events() if one.kind == "assistant.output"]
    assert len(outputs) == 2
    assert all(one.payload["snapshot_id"] for one in outputs)
    assert kinds(session).count("user.input") == 2


def test_tool_calls_and_their_answers_stay_pairs(session: Session, model: ModelServer) -> None:
    kept = keep(opened(model), session, budget=BUDGET)
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Beijing"}'}}
    messages: list[Any] = [
        *long_talk(12),
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"temp": 22}'},
    ]
    kept.chat.completions.create(model="gpt-4o", messages=messages, tools=[TOOL])
    asked = model.asked[-1]
    assert asked["tools"][0]["function"]["name"] == "weather"
    assert [one["id"] for message in asked["messages"] for one in message.get("tool_calls", ())] == ["c1"]
    assert '{"temp": 22}' in json.dumps(asked["messages"]).replace("\\", "")


def test_a_list_that_was_changed_takes_the_session_back_and_goes_on(session: Session, model: ModelServer) -> None:
    kept = keep(opened(model), session, budget=BUDGET)
    first, wrong, right = ({"role": "user", "content": text} for text in ("Hello", "wrong", "right"))
    kept.chat.completions.create(model="gpt-4o", messages=[first, wrong])
    kept.chat.completions.create(model="gpt-4o", messages=[first, right])
    said = str(model.asked[-1]["messages"])
    assert "right" in said
    assert "wrong" not in said
    assert "context.rolled_back" in kinds(session)
    kept.chat.completions.create(model="gpt-4o", messages=[first, wrong])
    assert "wrong" in str(model.asked[-1]["messages"])


def test_responses_get_items_that_fit(session: Session, model: ModelServer) -> None:
    kept = keep(opened(model), session, budget=BUDGET)
    model.answers = lambda asked: Said(body=json.dumps(_response("It is sunny.")).encode())
    items = [*long_talk(20), {"role": "user", "content": "And now?"}]
    answer = kept.responses.create(model="gpt-4o", instructions="You plan trips.", input=items)
    assert answer.output_text == "It is sunny."
    sent = model.asked[-1]
    assert sent["path"].endswith("/responses")
    assert "And now?" in str(sent["input"])
    assert FIRST not in str(sent["input"])
    newest = list(session.events())[-1]
    assert (newest.kind, "It is sunny." in str(newest.payload)) == ("assistant.output", True)


def _response(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "r", "object": "response", "created_at": 0, "model": "gpt-4o", "output": [message], "status": "completed",
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
