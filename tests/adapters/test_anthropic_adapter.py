"""Anthropic's client with prompts that fit."""

import json
from typing import Any

import anthropic
from anthropic.types import MessageParam
from conftest import BUDGET, FIRST, RULE, long_talk
from model_server import ModelServer, Said
from pydantic import TypeAdapter

from promptctx import Session
from promptctx.adapters.anthropic import keep

Json = dict[str, Any]


def answer(*blocks: Json) -> Said:
    made = {
        "id": "m", "type": "message", "role": "assistant", "model": "claude", "content": list(blocks),
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 5},
    }  # fmt: skip
    return Said(body=json.dumps(made).encode())


def opened(model: ModelServer) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=model.url.removesuffix("/v1"), api_key="none", max_retries=0)


def test_a_long_list_with_tools_is_sent_as_what_fits_in_the_providers_own_types(
    session: Session, model: ModelServer
) -> None:
    model.answers = lambda asked: answer({"type": "text", "text": "It is sunny."})
    kept = keep(opened(model), session, budget=BUDGET)
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Beijing"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "22 degrees"}
    messages: list[Any] = [
        *long_talk(20), {"role": "user", "content": "And now?"}, {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]  # fmt: skip
    tool = {"name": "weather", "description": "Looks it up.", "input_schema": {"type": "object", "properties": {}}}
    reply = kept.messages.create(
        model="claude-sonnet-4-5", max_tokens=100, system="You plan trips.", messages=messages, tools=[tool]
    )
    assert reply.content[0].text == "It is sunny."
    asked = model.asked[-1]
    assert RULE in str(asked["system"])
    assert FIRST not in str(asked["messages"])
    assert asked["tools"][0]["name"] == "weather"
    assert "22 degrees" in str(asked["messages"][-1])
    TypeAdapter(list[MessageParam]).validate_python(asked["messages"])
    recorded = [one for one in session.events() if one.kind == "assistant.output"][-1]
    assert recorded.payload["snapshot_id"]
