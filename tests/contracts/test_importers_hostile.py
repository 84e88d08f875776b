"""Importers never fall over: whatever a log holds, they give events the domain takes, a reason, or ImportFailed."""

import copy
import json
import random
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.events import parse_payload
from promptctx.importers import FORMATS, ImportedSession, ImportFailed, detect, read

Json = Any

MESSAGES: list[Json] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "r", "extra": {"returncode": 0, "timestamp": 1.0}},
]
CLAUDE: list[Json] = [
    {"type": "user", "uuid": "a", "sessionId": "s", "message": {"content": "hi"}, "timestamp": "2025-01-01T00:00:00Z"},
    {
        "type": "assistant", "uuid": "b", "parentUuid": "a", "sessionId": "s",
        "message": {"id": "m", "model": "c", "usage": {"input_tokens": 1}, "content": [
            {"type": "thinking", "thinking": "t", "signature": "x"}, {"type": "text", "text": "y"},
            {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        ]},
    },
    {
        "type": "user", "uuid": "c", "parentUuid": "b", "sessionId": "s", "toolUseResult": {"stdout": "x"},
        "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "content": ["z"]}]},
    },
    {"type": "user", "uuid": "d", "isSidechain": True, "sessionId": "s", "message": {"content": "side"}},
    {"type": "progress", "uuid": "e", "sessionId": "s", "data": {}},
    {"type": "system", "subtype": "compact_boundary", "uuid": "f", "sessionId": "s"},
]  # fmt: skip
LANGCHAIN: list[Json] = [
    {"type": "human", "content": "hi"},
    {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {}, "id": "1"}], "additional_kwargs": {"a": 1}},
    {"type": "tool", "content": "x", "tool_call_id": "1"},
]
REQUEST = {"model": "m", "tools": [{"name": "f", "input_schema": {"required": ["a"]}}], "messages": MESSAGES}
SPAN = {
    "traceId": "t", "spanId": "s", "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000000000000005",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(MESSAGES)}},
        {"key": "gen_ai.completion.0.content", "value": {"stringValue": "yes"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
    ],
    "events": [{"name": "gen_ai.user.message", "attributes": [{"key": "content", "value": {"stringValue": "hi"}}]}],
}  # fmt: skip

DOCUMENTS: dict[str, Json] = {
    "openai": REQUEST,
    "otlp": {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]},
    "mini-swe-agent": {"trajectory_format": "mini-swe-agent-1.1", "messages": MESSAGES, "info": {"config": {}}},
    "swe-agent": {"history": [*MESSAGES, {"role": "tool", "tool_call_ids": ["1"]}], "trajectory": [{"response": "x"}]},
    "tau-bench": [{"task_id": 1, "trial": 0, "traj": MESSAGES, "info": {}}],
    "tau2-bench": {
        "info": {"environment_info": {"policy": "p", "tool_defs": []}},
        "simulations": [{"id": "1", "task_id": "t", "messages": MESSAGES}],
    },
    "langgraph": {"values": {"messages": LANGCHAIN}, "metadata": {"thread_id": "t"}},
    "beam": [{"batch_number": 1, "turns": [[{"role": "user", "id": 0, "content": "x", "time_anchor": "May-1-2024"}]]}],
    "crosswoz": {"1": {"messages": [{"role": "usr", "content": "x"}, {"role": "sys", "content": "y"}], "goal": []}},
    "adk": {
        "app_name": "a",
        "user_id": "u",
        "id": "1",
        "events": [
            {"author": "user", "content": {"parts": [{"text": "x"}]}, "timestamp": 1.5},
            {
                "author": "m",
                "content": {"parts": [{"text": "x"}, {"function_call": {"id": "1", "name": "f", "args": {}}}]},
            },
            {"author": "m", "content": {"parts": [{"function_response": {"id": "1", "response": {"result": "x"}}}]}},
        ],
    },
    "openhands-call": {"messages": MESSAGES, "kwargs": {}, "response": {"choices": [{"message": {"content": "x"}}]}},
    "adk-eval": {
        "eval_cases": [
            {
                "eval_id": "e",
                "session_input": {"app_name": "a", "user_id": "u"},
                "conversation": [
                    {
                        "user_content": {"parts": [{"text": "x"}]},
                        "intermediate_data": {"tool_uses": [{"id": "1", "name": "f", "args": {}}]},
                        "final_response": {"parts": [{"text": "y"}]},
                        "creation_timestamp": 1.5,
                    }
                ],
            }
        ]
    },
    "gemini": {
        "sessionId": "s",
        "projectHash": "h",
        "messages": [
            {"type": "user", "content": "x", "timestamp": "2025-01-01T00:00:00Z"},
            {
                "type": "gemini",
                "content": "y",
                "thoughts": [{"subject": "a", "description": "b"}],
                "tokens": {"input": 1, "output": 2, "cached": 0},
                "toolCalls": [
                    {
                        "id": "1",
                        "name": "f",
                        "args": {},
                        "status": "success",
                        "result": [{"functionResponse": {"response": {"output": "r"}}}],
                    }
                ],
            },
            {"type": "info", "content": "i"},
        ],
    },
    "hermes": {"session_id": "s", "session_start": "2025-01-01", "messages": MESSAGES, "system_prompt": "p"},
    "inspect-ai": {
        "eval": {"task": "t", "model": "a/b", "created": "2025-01-01", "eval_id": "e"},
        "plan": {},
        "samples": [
            {
                "id": 1,
                "epoch": 1,
                "attachments": {"ab": "whole"},
                "messages": [
                    {"role": "user", "content": [{"type": "image", "image": "data:image/png;base64,AA"}]},
                    {
                        "role": "assistant",
                        "id": "m",
                        "content": [{"type": "reasoning", "reasoning": "r"}],
                        "tool_calls": [{"id": "1", "function": "f", "arguments": {}}],
                    },
                    {
                        "role": "tool",
                        "tool_call_id": "1",
                        "function": "f",
                        "content": "attachment://ab",
                        "error": {"type": "timeout", "message": "late"},
                    },
                ],
                "events": [
                    {
                        "event": "model",
                        "completed": "2025-01-01",
                        "tools": [{"name": "f", "parameters": {}}],
                        "output": {"usage": {"input_tokens": 1}, "choices": [{"message": {"id": "m"}}]},
                    }
                ],
            }
        ],
    },
    "langfuse": {
        "trace": {"id": "t", "input": '{"prompt": "p", "system": "s"}', "userId": "u"},
        "observations": [
            {
                "type": "GENERATION",
                "id": "g",
                "startTime": "2025-01-01T00:00:00Z",
                "endTime": "2025-01-01T00:00:01Z",
                "input": {
                    "config": {"system_instruction": "i", "tools": [{"function_declarations": [{"name": "f"}]}]},
                    "contents": [{"role": "user", "parts": [{"text": "x"}]}],
                },
                "output": {"content": {"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}]}},
                "metadata": {"attributes": {}},
            },
            {"type": "TOOL", "id": "r", "name": "f", "startTime": "2025-01-01T00:00:02Z", "input": {}, "output": "o"},
            {
                "type": "GENERATION",
                "id": "h",
                "startTime": "2025-01-01T00:00:03Z",
                "input": [
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "o"},
                    {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "response": "o"}]},
                ],
                "output": '{"object": "response", "instructions": "i", "output": [{"type": "reasoning"}]}',
            },
        ],
    },
    "letta": {
        "agents": [
            {
                "name": "a",
                "block_ids": ["b"],
                "tool_ids": ["t"],
                "system": "s",
                "llm_config": {"model": "m"},
                "messages": [
                    {"role": "system", "content": [{"type": "text", "text": "s"}]},
                    {"role": "user", "content": '{"type": "heartbeat"}', "created_at": "2025-01-01"},
                    {"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
                ],
            }
        ],
        "blocks": [{"id": "b", "label": "human", "value": "v", "limit": 20}],
        "tools": [{"id": "t", "json_schema": {"name": "f", "parameters": {}}}],
    },
    "opencode": {"id": "s", "projectID": "p", "directory": "/x", "parentID": None, "time": {"created": 1}},
    "memorybank": {"n": {"history": {"2023-01-01": [{"query": "q", "response": "r"}]}, "name": "n"}},
}
PI: list[Json] = [
    {"type": "session", "id": "1", "cwd": "/", "modelId": "m"},
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "x"}], "timestamp": 1}},
    {"type": "message", "message": {"role": "assistant", "usage": {"input": 1}, "stopReason": "stop", "content": [
        {"type": "thinking", "thinking": "t"}, {"type": "toolCall", "id": "1", "name": "f", "arguments": {}}]}},
    {"type": "message", "message": {"role": "toolResult", "toolCallId": "1", "content": [], "isError": False}},
]  # fmt: skip
CODEX: list[Json] = [
    {"type": "session_meta", "payload": {"id": "1", "base_instructions": {"text": "x"}}, "timestamp": "2025-01-01"},
    {
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
    },
    {"type": "response_item", "payload": {"type": "reasoning", "summary": [{"text": "t"}], "encrypted_content": "e"}},
    {"type": "response_item", "payload": {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}},
    {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "1", "output": {"content": "x"}}},
]
KIMI: list[Json] = [
    {"type": "config.update", "systemPrompt": "s", "time": 1784950509920},
    {"type": "llm.tools_snapshot", "tools": [{"name": "f", "parameters": {}}]},
    {"type": "llm.request", "model": "m"},
    {"type": "context.append_message", "message": {"role": "user", "content": [], "origin": {"kind": "user"}}},
    {"type": "context.append_loop_event", "event": {"type": "content.part", "part": {"type": "think", "think": "t"}}},
    {"type": "context.append_loop_event", "event": {"type": "content.part", "part": {"type": "text", "text": "x"}}},
    {"type": "context.append_loop_event", "event": {"type": "tool.call", "toolCallId": "1", "name": "f", "args": {}}},
    {"type": "context.append_loop_event", "event": {"type": "tool.result", "toolCallId": "1", "result": {"output": 1}}},
    {"type": "context.append_loop_event", "event": {"type": "step.end", "usage": {}}},
]
COPILOT: list[Json] = [
    {"type": "session.start", "data": {"sessionId": "s", "selectedModel": "m"}},
    {"type": "user.message", "data": {"content": "x"}, "timestamp": "2025-01-01"},
    {"type": "assistant.message", "data": {"content": "", "reasoningText": "r", "model": "m", "toolRequests": [
        {"toolCallId": "1", "name": "f", "arguments": "{}"}]}},
    {"type": "tool.execution_complete", "data": {"toolCallId": "1", "success": False, "error": {"message": "e"}}},
    {"type": "assistant.message", "data": {"content": "y", "parentToolCallId": "1"}},
]  # fmt: skip
CURSOR: list[Json] = [
    {"role": "user", "message": {"content": [{"type": "text", "text": "x"}]}},
    {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "f", "input": {}}]}},
    {"role": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "content": "r"}]}},
    {"type": "turn_ended"},
]
OPENHANDS: list[Json] = [
    {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "s"}, "tools": []},
    {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": [{"text": "x"}]}},
    {"kind": "ActionEvent", "source": "agent", "tool_call_id": "1", "llm_response_id": "r", "thought": [],
     "tool_call": {"name": "f", "arguments": "{}"}, "reasoning_content": "t"},
    {"kind": "ActionEvent", "source": "agent", "tool_call_id": "2", "llm_response_id": "r", "tool_name": "f"},
    {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "1",
     "observation": {"content": [{"type": "text", "text": "o"}], "is_error": True}},
    {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "2", "error": "e"},
]  # fmt: skip
EVENTS: list[Json] = [
    {"session": "s", "event_id": str(UUID(int=1)), "kind": "session.started", "payload": {"title": "t"}},
    {"session": "s", "event_id": str(UUID(int=2)), "kind": "user.input", "payload": {"content": "x"}, "actor": "user"},
]
LINES: dict[str, list[Json]] = {
    "openai": MESSAGES, "claude-code": CLAUDE, "pi": PI, "codex": CODEX, "kimi": KIMI, "copilot": COPILOT,
    "cursor": CURSOR, "openhands": OPENHANDS, "promptctx": EVENTS,
}  # fmt: skip

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0.5, 1e300, -1.0]),
    st.text(st.characters(), max_size=8),
    st.sampled_from(["user", "tool", "2025-13-99", "9999-12-31T23:59:59-23:00", "<command-name>", "\ud83d"]),
    st.sampled_from([[], {}, [None], {"type": "text"}, {"type": "text", "text": 5}, {"type": "image", "source": 3}]),
    st.sampled_from(
        [{"role": "user", "content": 5}, {"type": "tool_use"}, {"type": "tool_result", "content": {}}, ["x"]]
    ),
)


def spots(value: Json, path: tuple[Json, ...] = ()) -> list[tuple[Json, ...]]:
    found = [path]
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        found += spots(item, (*path, key))
    return found


def damaged(value: Json, seed: int, replacements: list[Json]) -> Json:
    """The value with some of its parts, at any depth, replaced or taken away."""
    chance = random.Random(seed)
    value = copy.deepcopy(value)
    for replacement in map(copy.deepcopy, replacements):
        path = chance.choice(spots(value))
        if not path:
            return replacement
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        if chance.random() < 0.3:
            del holder[path[-1]]
        else:
            holder[path[-1]] = replacement
    return value


def survives(path: Path) -> None:
    try:
        for found in read(path):
            assert isinstance(found, ImportedSession) or found.reason
            for event in found.events if isinstance(found, ImportedSession) else ():
                # Our own events come as they are, and the server looks at them.
                if isinstance(found, ImportedSession) and found.source != "promptctx":
                    parse_payload(event["kind"], 1, event["payload"])
    except ImportFailed:
        return


def test_the_examples_are_what_they_are_meant_to_be(tmp_path: Path) -> None:
    for name, document in DOCUMENTS.items():
        (tmp_path / "x.json").write_text(json.dumps(document))
        assert detect(tmp_path / "x.json") == name
    for name, lines in LINES.items():
        (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        assert detect(tmp_path / "x.jsonl") == name
    assert {one.name for one in FORMATS} - set(DOCUMENTS) - set(LINES) == {"deer-flow-replay"}


@pytest.mark.parametrize("name", DOCUMENTS)
@given(seed=st.integers(0, 2**32), replacements=st.lists(junk, min_size=1, max_size=4))
@settings(max_examples=60)
def test_a_document_with_anything_in_it_is_survived(name: str, seed: int, replacements: list[Json]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.json")
        path.write_text(json.dumps(damaged(DOCUMENTS[name], seed, replacements)))
        survives(path)


@pytest.mark.parametrize("name", LINES)
@given(seed=st.integers(0, 2**32), replacements=st.lists(junk, min_size=1, max_size=4), cut=st.integers(0, 3000))
@settings(max_examples=60)
def test_lines_with_anything_in_them_are_survived(name: str, seed: int, replacements: list[Json], cut: int) -> None:
    lines = damaged(LINES[name], seed, replacements)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.jsonl")
        whole = "\n".join(json.dumps(line) for line in (lines if isinstance(lines, list) else [lines]))
        path.write_text(whole[:cut] if cut % 2 else whole)
        survives(path)


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes_are_survived(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x.json", "x.jsonl", "x"):
            path = Path(folder, name)
            path.write_bytes(content)
            survives(path)
