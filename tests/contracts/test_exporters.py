"""A session goes out as chat messages or as lines of events, and comes in again as it was."""

import json
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from promptctx import Client
from promptctx.cli import Cli, app
from promptctx.importers import ImportedSession, read
from promptctx.testing import FakeServer

Json = Any
CHAT = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "What is the weather? 北京 {x} \u2028 <|endoftext|>"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "22"},
    {"role": "user", "content": [{"type": "text", "text": "And this?"},
                                 {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
    {"role": "assistant", "content": "22 degrees."},
]  # fmt: skip
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": {"type": "object"}}}
]


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def run(server: FakeServer, *words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], obj=Cli(transport=server))


def imported(server: FakeServer, path: Path, prefix: str = "") -> list[str]:
    before = set(server.started)
    assert run(server, "import", path, "--session-prefix", prefix).exit_code == 0
    return [name for name in server.started if name not in before]


def messages(server: FakeServer, session: str) -> Json:
    return json.loads(run(server, "export", session, "--to", "openai").stdout)


def test_chat_messages_come_out_as_they_went_in(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps({"model": "gpt-4o", "messages": CHAT, "tools": TOOLS}))
    (session,) = imported(server, tmp_path / "chat.json")
    assert messages(server, session) == {"model": "gpt-4o", "messages": CHAT, "tools": TOOLS}


def test_lines_of_an_older_log_come_in_without_what_is_refused_now(server: FakeServer, tmp_path: Path) -> None:
    kinds = [
        ("session.started", {"parent": ".."}),
        ("instruction.set", {}),
        ("constraint.set", {"id": "q", "text": ""}),
        ("user.input", {"content": "hi"}),
    ]
    lines = [
        {"session": name, "event_id": str(UUID(int=number)), "kind": kind, "payload": payload}
        for number, (name, (kind, payload)) in enumerate(product(("..", "a@3"), kinds))
    ]
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, lines)))
    first, second = imported(server, tmp_path / "old.jsonl")
    assert first.startswith("session-")
    assert second.startswith("a-3-")
    for name in (first, second):
        assert [one["kind"] for one in server.events(name)] == [
            "session.started", "custom.import.instruction", "custom.import.constraint", "user.input",
        ]  # fmt: skip
        assert server.events(name)[0]["payload"] == {"parent": first}
    assert imported(server, tmp_path / "old.jsonl") == []


def test_lines_of_events_bring_the_session_back(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps({"messages": CHAT}))
    (session,) = imported(server, tmp_path / "chat.json")
    lines = tmp_path / "events.jsonl"
    assert run(server, "export", session, "--output", lines).exit_code == 0
    assert imported(server, lines) == []
    assert len(server.events(session)) == len(lines.read_text().splitlines())
    elsewhere = FakeServer()
    assert imported(elsewhere, lines) == [session]
    kept = ("event_id", "kind", "payload", "actor", "causation_id")
    told = [[{key: event.get(key) for key in kept} for event in one.events(session)] for one in (server, elsewhere)]
    assert told[0] == told[1]


def test_a_call_that_was_emitted_on_its_own_stands_with_its_reply(server: FakeServer) -> None:
    s = Client(transport=server).session("s-1")
    s.user("Look.")
    said = s.assistant("I look.")
    s.tool_call("look", {"at": 1}, call_id="c1", causation_id=said.event_id)
    s.tool_call("look", {"at": 2}, call_id="c2")
    told = messages(server, "s-1")["messages"]
    assert [[call["id"] for call in one.get("tool_calls", ())] for one in told] == [[], ["c1"], ["c2"]]


@pytest.mark.corpus
@pytest.mark.parametrize("pattern", ["tau-bench/*.json", "mini-swe-agent/*.json", "agent-sessions/kimi/*.jsonl"])
def test_real_sessions_say_the_same_after_a_round_trip(
    server: FakeServer, corpus: Path, tmp_path: Path, pattern: str
) -> None:
    for path in sorted(corpus.glob(pattern)):
        for session in imported(server, path):
            first = messages(server, session)
            again = tmp_path / "again.json"
            again.write_text(json.dumps(first))
            (found,) = (one for one in read(again, "openai") if isinstance(one, ImportedSession))
            other = FakeServer()
            Client(transport=other).session("again").append(list(found.events))
            assert messages(other, "again")["messages"] == first["messages"]


def test_what_is_no_session_is_one_line_of_error(server: FakeServer) -> None:
    said = run(server, "export", "nowhere")
    assert said.exit_code == 1
    assert said.stderr.count("\n") == 1
