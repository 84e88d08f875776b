"""`record` reads what the providers answer, as objects or as dicts."""

from types import SimpleNamespace
from typing import Any

import pytest

from domain.events import parse_payload
from promptctx import Client, InvalidRequest
from promptctx.testing import FakeServer

OPENAI: dict[str, Any] = {
    "id": "chatcmpl-1",
    "model": "gpt-4o-2024",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"北京"}'}},
                    {"id": "c2", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}},
}
ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "北京"}},
        {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 3},
}


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(item) for key, item in value.items()})
    return [as_object(item) for item in value] if isinstance(value, list) else value


class Dumps:
    """An object of a provider's library: it dumps itself."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def model_dump(self) -> dict[str, Any]:
        return self.data


def recorded(reply: Any) -> dict[str, Any]:
    server = FakeServer()
    Client(transport=server).session("s").record(reply)
    (event,) = server.events("s")
    parse_payload(event["kind"], 1, event["payload"])
    assert (event["kind"], event["actor"]) == ("assistant.output", "agent")
    payload: dict[str, Any] = event["payload"]
    return payload


@pytest.mark.parametrize("shape", [dict, Dumps, as_object], ids=["dict", "dumping object", "plain object"])
def test_an_openai_completion_is_recorded_whole(shape: Any) -> None:
    assert recorded(shape(OPENAI)) == {
        "tool_calls": [
            {"id": "c1", "name": "weather", "arguments": '{"city":"北京"}'},
            {"id": "c2", "name": "shell", "arguments": "ls"},
        ],
        "model": "gpt-4o-2024",
        "provider": "openai",
        "usage": {"input_tokens": 90, "output_tokens": 7, "cached_tokens": 64},
    }


@pytest.mark.parametrize("shape", [dict, Dumps, as_object], ids=["dict", "dumping object", "plain object"])
def test_an_anthropic_message_is_recorded_whole(shape: Any) -> None:
    search = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    assert recorded(shape(ANTHROPIC)) == {
        "content": [{"type": "text", "text": "I look."}, {"type": "data", "data": search}],
        "tool_calls": [{"id": "t1", "name": "weather", "arguments": {"city": "北京"}}],
        "reasoning": [{"text": "hm", "signature": "sig"}, {"data": "opaque"}],
        "model": "claude-sonnet",
        "provider": "anthropic",
        "usage": {"input_tokens": 93, "output_tokens": 5, "cached_tokens": 80},
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "hi"}, {"content": "hi"}),
        ({"content": None, "refusal": "I can't."}, {"content": "I can't."}),
        ({"content": "x", "reasoning_content": "hm"}, {"content": "x", "reasoning": [{"text": "hm"}]}),
        (
            {"content": "", "function_call": {"name": "f", "arguments": "{}"}},
            {"tool_calls": [{"id": "", "name": "f", "arguments": "{}"}]},
        ),
        ({"content": [{"type": "text", "text": "a"}]}, {"content": [{"type": "text", "text": "a"}]}),
    ],
)
def test_the_shapes_that_chat_servers_answer_in(message: dict[str, Any], expected: dict[str, Any]) -> None:
    assert recorded({"choices": [{"message": message}]}) == {**expected, "provider": "openai"}


@pytest.mark.parametrize("reply", ["text", None, {}, {"choices": []}, {"role": "user", "content": []}, 5, [1]])
def test_anything_else_is_refused_with_advice(reply: Any) -> None:
    with pytest.raises(InvalidRequest, match="assistant"):
        recorded(reply)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
            {"type": "image", "url": "u", "detail": "low"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}},
            {"type": "image", "data": "QUJD", "media_type": "image/jpeg"},
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "QUJD"}},
            {"type": "image", "data": "QUJD", "media_type": "image/gif"},
        ),
        ({"type": "image", "source": {"type": "url", "url": "u"}}, {"type": "image", "url": "u"}),
        ({"type": "image", "url": "u"}, {"type": "image", "url": "u"}),
        ({"type": "file", "file": {"id": "f"}}, {"type": "data", "data": {"type": "file", "file": {"id": "f"}}}),
        ("plain", {"type": "text", "text": "plain"}),
    ],
)
def test_parts_of_other_formats_become_ours(given: Any, kept: dict[str, Any]) -> None:
    server = FakeServer()
    Client(transport=server).session("s").user([given])
    (event,) = server.events("s")
    parse_payload(event["kind"], 1, event["payload"])
    assert event["payload"]["content"] == [kept]
