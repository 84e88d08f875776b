"""Claude Code logs: blocks on lines of their own, tools that answer in between, side chains, noise."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from domain.events import Event, parse_payload
from domain.state import ContextState, fold
from promptctx.importers import ImportedSession, Skipped, detect, read, scan

Json = Any

SESSION = "11111111-2222-4333-8444-555555555555"
AT = "2026-02-12T20:27:54.058Z"


class Log:
    """Builds lines as the tool writes them, each the child of the one before."""

    def __init__(self) -> None:
        self.lines: list[Json] = []

    def add(self, type: str, **fields: Json) -> "Log":
        number = len(self.lines)
        line = {
            "type": type, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "timestamp": AT,
            "sessionId": SESSION, "isSidechain": False, "cwd": "/w", "gitBranch": "main", "version": "2.1.39",
        }  # fmt: skip
        self.lines.append({**line, **fields})
        return self

    def user(self, content: Json, **fields: Json) -> "Log":
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def block(self, message: str | None, *blocks: Json, usage: Json = None, **fields: Json) -> "Log":
        told = {"id": message, "role": "assistant", "model": "claude-x", "content": list(blocks), "usage": usage}
        return self.add("assistant", message=told, **fields)

    def result(self, call: str, content: Json = "ok", error: bool = False, **fields: Json) -> "Log":
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
        return self.user([block], **fields)

    def progress(self) -> "Log":
        return self.add("progress", data={"type": "hook_progress"}, toolUseID="t")

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def use(call: str) -> Json:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}}


def thought(text: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": "sig"}


def sessions(path: Path) -> list[ImportedSession]:
    return [one for one in read(path) if isinstance(one, ImportedSession)]


def events_of(path: Path) -> list[Json]:
    (session,) = sessions(path)
    return list(session.events)


def folded(events: Iterable[Json]) -> ContextState:
    return fold(
        Event(told["event_id"], seq, told["kind"], parse_payload(told["kind"], 1, told["payload"]), seq,
              causation_id=told.get("causation_id"))
        for seq, told in enumerate(events, 1)
    )  # fmt: skip


def shape(events: Iterable[Json]) -> list[str]:
    return [told["kind"].removeprefix("custom.claude_code.") for told in events]


LOG = (
    Log()
    .add("file-history-snapshot", snapshot={"files": {}})
    .user("List the files\nplease")
    .block("m1", thought("Let me see."), usage={"input_tokens": 1, "cache_read_input_tokens": 9, "output_tokens": 1})
    .block("m1", said("I look."), usage={"input_tokens": 1, "cache_read_input_tokens": 9, "output_tokens": 1})
    .block("m1", use("c1"), usage={"input_tokens": 1, "cache_read_input_tokens": 9, "output_tokens": 40})
    .progress()
    .progress()
    .result("c1", "a.txt", toolUseResult={"stdout": "a.txt", "stderr": "", "interrupted": False, "took": 3})
    .block("m1", use("c2"))
    .result("c2", "The user doesn't want to proceed with this tool use.", error=True)
    .block("m2", said("One file."))
    .add("system", subtype="turn_duration", durationMs=5)
)


def test_a_reply_is_one_output_that_later_calls_of_it_join(tmp_path: Path) -> None:
    events = events_of(LOG.write(tmp_path / f"{SESSION}.jsonl"))
    assert shape(events) == [
        "session.started", "environment", "file_history_snapshot", "user.input", "assistant.output", "tool.called",
        "usage", "progress", "tool.result", "tool_use_result", "tool.called", "tool.result", "assistant.output",
        "turn_duration",
    ]  # fmt: skip
    assert events[0]["payload"] == {
        "source": "claude-code", "title": "List the files", "mode": "react", "locale": "en", "model": "claude-x",
    }  # fmt: skip
    output, first, second = events[4], events[5], events[10]
    assert output["payload"] == {
        "content": [said("I look.")],
        "reasoning": [{"text": "Let me see.", "signature": "sig"}],
        "model": "claude-x",
        "usage": {"input_tokens": 10, "output_tokens": 1, "cached_tokens": 9},
    }
    assert first["causation_id"] == second["causation_id"] == output["event_id"]
    assert first["payload"] == {"call_id": "c1", "name": "Bash", "arguments": {"command": "ls"}}
    assert events[6]["payload"]["output_tokens"] == 40
    assert len(events[7]["payload"]["lines"]) == 2
    assert events[9]["payload"] == {"took": 3}
    assert events[11]["payload"]["status"] == "rejected"
    assert all(told["occurred_at"] == "2026-02-12T20:27:54.058000Z" for told in events[3:6])


def test_the_fold_sees_a_reply_with_all_its_calls_answered(tmp_path: Path) -> None:
    state = folded(events_of(LOG.write(tmp_path / "log.jsonl")))
    replies = [message for message in state.rows("messages") if message.role == "assistant"]
    assert [[call.id for call in message.calls] for message in replies] == [["c1", "c2"], []]
    assert not state.tables["open_calls"]
    assert not state.rows("notices")


@pytest.mark.parametrize("length", range(4, len(LOG.lines)))
def test_a_log_imported_while_it_was_written_gets_exactly_the_rest_later(tmp_path: Path, length: int) -> None:
    whole = [told["event_id"] for told in events_of(LOG.write(tmp_path / "log.jsonl"))]
    part = Log()
    part.lines = LOG.lines[:length]
    early = [told["event_id"] for told in events_of(part.write(tmp_path / "log.jsonl"))]
    assert early == whole[: len(early)]


def test_what_is_open_at_the_end_is_left_for_later_and_said_so(tmp_path: Path) -> None:
    path = Log().user("Hi").block("m1", said("Hm")).block("m2", thought("…")).progress().write(tmp_path / "log.jsonl")
    (session,) = sessions(path)
    assert shape(session.events) == ["session.started", "environment", "user.input", "assistant.output"]
    assert session.oddities == {
        "thoughts at the end, left until their reply is there": 1,
        "progress lines at the end, left until something follows": 1,
    }


def test_a_reply_that_was_only_thought_is_an_output_once_something_else_came(tmp_path: Path) -> None:
    path = Log().block("m1", thought("…")).user("Stop").write(tmp_path / "log.jsonl")
    outputs = [told["payload"] for told in events_of(path) if told["kind"] == "assistant.output"]
    assert [one["reasoning"][0]["text"] for one in outputs] == ["…"]
    assert outputs[0]["content"] == []


def test_blocks_on_one_line_are_one_reply_and_redacted_thoughts_are_kept(tmp_path: Path) -> None:
    hidden = {"type": "redacted_thinking", "data": "xxx"}
    path = Log().user("Hi").block(None, hidden, said("A"), use("c1"), use("c1")).write(tmp_path / "log.jsonl")
    (session,) = sessions(path)
    (output,) = (told["payload"] for told in session.events if told["kind"] == "assistant.output")
    assert output["reasoning"] == [{"data": "xxx"}]
    assert [call["id"] for call in output["tool_calls"]] == ["c1", "c1"]
    assert session.oddities["call ids used again"] == 1


@pytest.mark.parametrize(
    ("content", "fields", "directive"),
    [
        ("Do it", {}, True),
        ([said("Do it")], {}, True),
        ("<system-reminder>Careful</system-reminder>", {"isMeta": True}, False),
        ("<local-command-stdout>Compacted</local-command-stdout>", {}, False),
        ("[Request interrupted by user]", {}, False),
        ([said("[Request interrupted by user for tool use]")], {}, False),
        ("<command-name>/review</command-name>", {}, True),
        ("", {}, False),
    ],
)
def test_only_what_somebody_typed_is_a_directive(
    tmp_path: Path, content: Json, fields: dict[str, Json], directive: bool
) -> None:
    path = Log().user(content, **fields).write(tmp_path / "log.jsonl")
    (told,) = (one["payload"] for one in events_of(path) if one["kind"] == "user.input")
    assert told.get("directive", True) is directive
    assert told["content"] == content


def test_a_command_of_the_program_itself_is_no_directive(tmp_path: Path) -> None:
    log = Log().user("<local-command-caveat>Caveat", isMeta=True).user("<command-name>/compact</command-name>")
    told = [one["payload"] for one in events_of(log.write(tmp_path / "log.jsonl")) if one["kind"] == "user.input"]
    assert [one["directive"] for one in told] == [False, False]


def test_a_prompt_queued_while_the_agent_works_is_a_directive(tmp_path: Path) -> None:
    attachment = {"type": "queued_command", "prompt": "Stop that", "commandMode": "prompt"}
    path = Log().user("Hi").add("attachment", attachment=attachment).write(tmp_path / "log.jsonl")
    assert [one["payload"] for one in events_of(path) if one["kind"] == "user.input"][1] == {"content": "Stop that"}


def test_compaction_is_kept_beside_the_conversation(tmp_path: Path) -> None:
    log = (
        Log()
        .user("Hi")
        .add("system", subtype="compact_boundary", compactMetadata={"preTokens": 170_251})
        .user("This session is being continued …", isCompactSummary=True)
    )
    events = events_of(log.write(tmp_path / "log.jsonl"))
    assert shape(events)[-2:] == ["compact_boundary", "compact_summary"]
    assert events[-2]["payload"]["compactMetadata"] == {"preTokens": 170_251}
    assert events[-1]["payload"]["message"]["content"] == "This session is being continued …"


def test_an_error_of_the_api_is_no_reply_of_the_model(tmp_path: Path) -> None:
    log = Log().user("Hi").block(None, said("API Error: 529"), isApiErrorMessage=True)
    assert shape(events_of(log.write(tmp_path / "log.jsonl")))[-1] == "api_error_message"


def test_a_prompt_that_goes_back_is_counted_and_both_stay_in_log_order(tmp_path: Path) -> None:
    log = Log().user("First").block("m1", said("A")).user("Second", parentUuid="u1").user("Other", parentUuid="u1")
    (session,) = sessions(log.write(tmp_path / "log.jsonl"))
    assert shape(session.events)[-3:] == ["user.input", "rewound", "user.input"]
    assert session.oddities == {"prompts that go back to an earlier point": 1}


def test_a_side_chain_in_the_file_is_a_session_of_its_own(tmp_path: Path) -> None:
    log = (
        Log()
        .user("Delegate")
        .user("Search", isSidechain=True, parentUuid=None)
        .block("m1", said("Found"), isSidechain=True)
        .block("m2", said("Done"), parentUuid="u0")
        .user("Count", isSidechain=True, parentUuid=None)
    )
    main, first, second = sessions(log.write(tmp_path / "log.jsonl"))
    assert main.session_id == f"claude-code-{SESSION}"
    assert [one.parent for one in (main, first, second)] == [None, main.session_id, main.session_id]
    assert [one.session_id for one in (first, second)] == [
        f"{main.session_id}-sidechain-u1",
        f"{main.session_id}-sidechain-u4",
    ]
    assert [one.title for one in (main, first, second)] == ["Delegate", "Search", "Count"]
    assert shape(first.events) == ["session.started", "environment", "user.input", "assistant.output"]
    assert next(iter(first.events))["payload"]["parent"] == main.session_id


@pytest.mark.parametrize("own", [SESSION, "agent-ab12"], ids=["names its parent", "names itself"])
def test_a_sub_agents_file_is_a_session_with_a_parent(tmp_path: Path, own: str) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    Log().user("Delegate").block("m", said("OK")).write(tmp_path / f"{SESSION}.jsonl")
    child = Log().user("Search", isSidechain=True, agentId="ab12", sessionId=own)
    child.write(folder / "agent-ab12.jsonl")
    (folder / "agent-ab12.meta.json").write_text('{"agentType": "explore"}')
    found = list(scan(tmp_path))
    above, below = (one for one in found if isinstance(one, ImportedSession))
    assert (below.parent, below.session_id) == (above.session_id, f"{above.session_id}-agent-ab12")
    assert list(below.events)[1]["payload"] == {"details": {"agentType": "explore"}}
    assert [one.quiet for one in found if isinstance(one, Skipped)] == [True]


def test_a_long_run_of_progress_is_folded_into_events_of_bounded_size(tmp_path: Path) -> None:
    log = Log().user("Hi")
    for _ in range(450):
        log.progress()
    events = events_of(log.user("Bye").write(tmp_path / "log.jsonl"))
    assert [len(told["payload"]["lines"]) for told in events if told["kind"].endswith("progress")] == [200, 200, 50]


def test_a_file_without_a_message_gives_no_session_yet(tmp_path: Path) -> None:
    path = Log().add("file-history-snapshot", snapshot={}).write(tmp_path / "log.jsonl")
    assert detect(path) == "claude-code"
    (skipped,) = read(path)
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "no message in it yet"
