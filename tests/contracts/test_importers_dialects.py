"""What is particular to one source each, on small handmade logs."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_importers import CALL, events_of, only, payloads, reason, write, write_lines

from promptctx.importers import detect

Json = Any


def test_swe_agent_takes_only_the_task_for_a_directive(tmp_path: Path) -> None:
    history = [
        {"role": "system", "content": "s", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "look how it is done", "agent": "main", "is_demo": True},
        {"role": "user", "content": "fix it", "agent": "main", "message_type": "observation"},
        {"role": "assistant", "content": "ls\n```\nls\n```", "thought": "ls", "action": "ls", "agent": "main"},
        {"role": "user", "content": "main.py", "agent": "main", "message_type": "observation"},
        {"role": "assistant", "content": "", "tool_calls": [CALL, {**CALL, "id": "c2"}], "agent": "main"},
        {"role": "tool", "content": "both", "tool_call_ids": ["c1", "c2"], "agent": "main"},
    ]
    steps = [{"response": "ls\n```\nls\n```", "state": "{}", "observation": "main.py"}, {"response": "unheard"}]
    path = write(tmp_path / "x.traj", {"history": history, "trajectory": steps, "environment": "e", "info": {}})
    assert detect(path) == "swe-agent"
    assert [one.get("directive", True) for one in payloads(path, "user.input")] == [False, True, False]
    assert [(one["call_id"], one["content"]) for one in payloads(path, "tool.result")] == [("c1", "both"), ("c2", "")]
    assert payloads(path, "custom.swe_agent.steps") == [{"steps": [{"state": "{}"}, {"response": "unheard"}]}]


def test_what_a_simulated_user_does_with_tools_of_its_own_stays_beside(tmp_path: Path) -> None:
    call = {"id": "u1", "name": "reboot", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "assistant", "content": "Please reboot."},
        {"role": "user", "content": "Doing it.", "tool_calls": [call]},
        {"role": "tool", "id": "u1", "content": "ok", "requestor": "user"},
        {"role": "user", "content": "Done."},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "id": "a1", "requestor": "assistant"}]},
        {"role": "tool", "id": "a1", "content": "bad", "requestor": "assistant", "error": True},
    ]
    info = {"environment_info": {"domain_name": "telecom", "policy": "Be kind."}, "agent_info": {"llm": "gpt-4o"}}
    simulation = {"id": "0123456789", "task_id": "[a]b", "messages": messages, "reward_info": {"reward": 1.0}}
    path = write(tmp_path / "run.json", {"info": info, "tasks": [{"id": "[a]b"}], "simulations": [simulation]})
    assert only(path).session_id == "tau2-bench-telecom-gpt-4o-a-b-01234567"
    assert [one["content"] for one in payloads(path, "user.input")] == ["Done."]
    assert payloads(path, "instruction.set") == [{"text": "Be kind."}]
    assert payloads(path, "tool.result") == [{"call_id": "a1", "content": "bad", "status": "error"}]
    assert [one["content"] for one in payloads(path, "custom.tau2.user_tool_call")] == ["Doing it."]
    assert [one["content"] for one in payloads(path, "custom.tau2.user_tool_result")] == ["ok"]


def test_langchain_messages_are_read_in_both_ways_they_are_written(tmp_path: Path) -> None:
    dumped: list[Json] = [
        {"type": "human", "content": "Hi", "id": "1"},
        {
            "type": "ai",
            "content": "",
            "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}],
            "additional_kwargs": {"reasoning_content": "hm", "tool_calls": [{"id": "c"}], "refusal": "r"},
            "response_metadata": {"model_name": "m"},
            "usage_metadata": {"input_tokens": 5, "output_tokens": 2, "input_token_details": {"cache_read": 3}},
        },
        {"type": "tool", "content": "1", "tool_call_id": "c", "name": "f", "status": "error"},
    ]
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    serialised = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", names[one["type"]]], "kwargs": one}
        for one in dumped
    ]
    thread = {"values": {"messages": dumped, "title": "Greeting"}, "metadata": {"thread_id": "t-1"}}
    path = write(tmp_path / "thread.json", thread)
    assert only(path).session_id == "langgraph-t-1"
    for one in (path, write(tmp_path / "constructors.json", {"messages": serialised})):
        (output,) = payloads(one, "assistant.output")
        assert output == {
            "content": "",
            "tool_calls": [{"id": "c", "name": "f", "arguments": {"a": 1}}],
            "reasoning": [{"text": "hm"}],
            "model": "m",
            "usage": {"input_tokens": 5, "output_tokens": 2, "cached_tokens": 3},
        }
        assert payloads(one, "tool.result")[0]["status"] == "error"
        assert payloads(one, "custom.langgraph.message_extra") == [{"additional_kwargs": {"refusal": "r"}}]


def test_deltas_of_a_replay_are_folded_into_messages(tmp_path: Path) -> None:
    def sse(name: str, **data: Json) -> str:
        return f"event: {name}\ndata: {json.dumps({'thread_id': 't', **data})}\n\n"

    path = tmp_path / "replay.txt"
    path.write_text(
        sse("message_chunk", id="1", role="user", content="Hi", finish_reason="stop")
        + sse("message_chunk", id="2", agent="planner", role="assistant", content="A")
        + sse("message_chunk", id="2", agent="planner", role="assistant", content="B", finish_reason="stop")
        + sse("tool_calls", id="3", agent="coder", role="assistant",
              tool_call_chunks=[{"name": "f", "args": '{"a"', "id": "", "index": 0}])
        + sse("tool_call_chunks", id="3", agent="coder", tool_call_chunks=[{"name": None, "args": ": 1}", "index": 0}])
        + sse("tool_call_result", id="4", agent="coder", content="one", tool_call_id="")
        + sse("interrupt", id="5", options=[1])
    )  # fmt: skip
    assert detect(path) == "deer-flow-replay"
    assert payloads(path, "assistant.output") == [
        {"content": "AB"},
        {"content": "", "tool_calls": [{"id": "", "name": "f", "arguments": '{"a": 1}'}]},
    ]
    assert payloads(path, "tool.result") == [{"call_id": "", "content": "one"}]
    assert [one["agent"] for one in payloads(path, "custom.deer_flow.agent")] == ["planner", "coder"]
    assert payloads(path, "custom.deer_flow.interrupt") == [{"thread_id": "t", "id": "5", "options": [1]}]


# --- pi --------------------------------------------------------------------------------------------------------------


def pi(*lines: Json) -> list[Json]:
    return [{"type": "session", "id": "p-1", "cwd": "/w", "modelId": "claude-x"}, *lines]


def test_pi_messages_carry_thoughts_usage_and_results(tmp_path: Path) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "text", "text": "I look."},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
    ]
    usage = {"input": 5, "output": 2, "cacheRead": 3, "cacheWrite": 1, "totalTokens": 11}
    reply = {
        "role": "assistant",
        "content": blocks,
        "usage": usage,
        "model": "m",
        "provider": "p",
        "stopReason": "aborted",
    }
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": "no", "isError": True}
    lines = pi(
        {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "Look"}]}},
        {"type": "message", "message": reply},
        {"type": "message", "message": result},
        {"type": "compaction", "summary": "s", "tokensBefore": 10},
    )
    path = write_lines(tmp_path / "p.jsonl", lines)
    assert only(path).session_id == "pi-p-1"
    assert [event["kind"] for event in events_of(path)] == [
        "session.started", "custom.pi.session", "user.input", "assistant.output", "custom.pi.message_extra",
        "tool.result", "custom.pi.compaction",
    ]  # fmt: skip
    assert payloads(path, "assistant.output") == [
        {
            "content": [{"type": "text", "text": "I look."}],
            "tool_calls": [{"id": "c1", "name": "read", "arguments": {"path": "a"}}],
            "reasoning": [{"text": "hm", "signature": "sig"}],
            "model": "m",
            "provider": "p",
            "usage": {"input_tokens": 9, "output_tokens": 2, "cached_tokens": 3},
        }
    ]
    assert payloads(path, "custom.pi.message_extra") == [{"stopReason": "aborted"}]
    assert payloads(path, "tool.result") == [{"call_id": "c1", "content": "no", "name": "read", "status": "error"}]
    assert payloads(path, "session.started")[0]["model"] == "claude-x"
    assert reason(write_lines(path, pi())).reason == "no message in it yet"


# --- Codex -----------------------------------------------------------------------------------------------------------


def codex(*items: Json) -> list[Json]:
    meta = {"id": "x-1", "base_instructions": {"text": "Be Codex."}, "parent_thread_id": "x-0"}
    lines = [{"type": "session_meta", "payload": meta}, {"type": "turn_context", "payload": {"model": "gpt-x"}}]
    return [*lines, *({"type": "response_item", "payload": item} for item in items)]


CODEX_ITEMS: list[Json] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "sealed"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I list."}]},
    {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "***"},
    {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": {"content": "ok", "success": True}},
    {"type": "function_call", "call_id": "c3", "name": "shell", "arguments": "{}"},
    {"type": "message", "role": "developer", "content": "More rules"},
    {"type": "web_search_call", "action": {"query": "q"}},
]


def test_codex_items_of_one_reply_are_one_output_with_its_calls(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "c.jsonl", codex(*CODEX_ITEMS))
    session = only(path)
    assert (session.session_id, session.parent, session.title) == ("codex-x-1", "codex-x-0", "List")
    events = events_of(path)
    assert [event["kind"] for event in events] == [
        "session.started", "instruction.set", "custom.codex.session_meta", "custom.codex.turn_context", "user.input",
        "user.input", "assistant.output", "tool.called", "tool.called", "tool.result", "tool.result",
        "assistant.output", "custom.import.instruction", "custom.codex.web_search_call",
    ]  # fmt: skip
    assert events[0]["payload"]["model"] == "gpt-x"
    assert [event["payload"].get("directive", True) for event in events[4:6]] == [False, True]
    assert events[6]["payload"]["reasoning"] == [{"text": "hm", "signature": "sealed"}]
    assert [event["causation_id"] for event in events[7:9]] == [events[6]["event_id"]] * 2
    assert events[8]["payload"] == {"call_id": "c2", "name": "patch", "arguments": "***"}
    assert [one["content"] for one in payloads(path, "tool.result")] == ["a.txt", "ok"]


@pytest.mark.parametrize("length", range(5, len(CODEX_ITEMS)))
def test_a_codex_log_imported_while_it_was_written_gets_exactly_the_rest_later(tmp_path: Path, length: int) -> None:
    path = tmp_path / "c.jsonl"
    whole = events_of(write_lines(path, codex(*CODEX_ITEMS)))
    early = events_of(write_lines(path, codex(*CODEX_ITEMS[:length])))
    assert early == whole[: len(early)]


# --- ADK -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("camel", [False, True], ids=["snake", "camel"])
def test_adk_parts_become_calls_and_results(tmp_path: Path, camel: bool) -> None:
    call, answer = ("functionCall", "functionResponse") if camel else ("function_call", "function_response")
    app, user = ("appName", "userId") if camel else ("app_name", "user_id")
    events = [
        {"author": "user", "content": {"parts": [{"text": "Hi"}]}, "timestamp": 1741218414.9},
        {"author": "shop", "content": {"parts": [{"text": "hm", "thought": True}, {"text": "I look."},
                                                 {call: {"id": "c1", "name": "find", "args": {"q": 1}}}]}},
        {"author": "shop", "content": {"parts": [{answer: {"id": "c1", "name": "f", "response": {"result": "one"}}}]}},
        {"author": "shop", "content": {"parts": [{answer: {"id": None, "name": "f", "response": {"a": 1}}}]},
         "actions": {"state_delta": {"k": 1}}},
        {"author": "shop", "actions": {"state_delta": {}}, "id": "e"},
    ]  # fmt: skip
    path = write(tmp_path / "s.json", {"id": "s1", app: "shop", user: "u", "state": {}, "events": events})
    session = only(path)
    assert (session.session_id, session.subject) == ("adk-shop-s1", "shop:u")
    assert payloads(path, "assistant.output") == [
        {
            "content": [{"type": "text", "text": "I look."}],
            "tool_calls": [{"id": "c1", "name": "find", "arguments": {"q": 1}}],
            "reasoning": [{"text": "hm"}],
        }
    ]
    assert payloads(path, "tool.result") == [
        {"call_id": "c1", "content": "one", "name": "f"},
        {"call_id": "", "content": '{"a": 1}', "name": "f"},
    ]
    assert payloads(path, "custom.adk.event") == [
        {"actions": {"state_delta": {"k": 1}}},
        {"author": "shop", "id": "e"},
    ]


# --- OpenHands -------------------------------------------------------------------------------------------------------


def test_an_openhands_call_is_its_prompt_and_its_reply(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    messages = [{"role": "system", "content": [{"type": "text", "text": "s"}]}, {"role": "user", "content": "u"}]
    reply = {"message": {"role": "assistant", "content": "a", "tool_calls": [CALL]}}
    response = {"model": "m", "choices": [reply], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}
    call = {"messages": messages, "tools": [tool], "kwargs": {"tools": [tool], "top_p": 1}, "response": response}
    path = write(tmp_path / "call.json", call)
    assert detect(path) == "openhands-call"
    assert [event["kind"] for event in events_of(path)] == [
        "session.started", "instruction.set", "tool.registered", "user.input", "assistant.output",
        "custom.openhands.call",
    ]  # fmt: skip
    assert payloads(path, "assistant.output")[0]["usage"] == {"input_tokens": 4, "output_tokens": 1}
    assert payloads(path, "custom.openhands.call")[0]["kwargs"] == {"top_p": 1}
