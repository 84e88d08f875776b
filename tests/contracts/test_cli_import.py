"""`promptctx import`: logs in, counts out, and nothing twice."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import stamina
from typer.testing import CliRunner, Result

from promptctx.cli import Cli, app
from promptctx.cli.importing import BATCH_BYTES, BATCH_EVENTS
from promptctx.testing import FakeServer

CHAT = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "What is the weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "22"},
    {"role": "assistant", "content": "22 degrees."},
]


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=9, cap=True):
        yield


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def run(server: FakeServer) -> Callable[..., Result]:
    def _run(*arguments: str | Path) -> Result:
        words = ["import", *map(str, arguments)]
        return CliRunner().invoke(app, words, obj=Cli(transport=server), env={"COLUMNS": "160"})

    return _run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"messages": CHAT}))
    return path


Run = Callable[..., Result]


def summary(said: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def test_a_log_becomes_a_session_and_the_second_time_nothing(run: Run, server: FakeServer, log: Path) -> None:
    first = run(log, "--json")
    assert first.exit_code == 0
    told = summary(first)
    assert set(told) == {"dry_run", "session_ids", "files", "sources", "totals", "skipped", "failed"}
    (source,) = told["sources"]
    assert source["sessions"] == 1
    assert source["added"] == source["events"] > len(CHAT) - 1
    assert (source["duplicates"], told["skipped"], told["failed"]) == (0, [], [])
    (session,) = server.started
    assert told["session_ids"] == [session]
    assert [event["kind"] for event in server.events(session)][:3] == [
        "session.started",
        "instruction.set",
        "user.input",
    ]
    again = summary(run(log, "--json"))["totals"]
    assert (again["added"], again["duplicates"]) == (0, source["events"])
    assert run(log).exit_code == 0


def test_the_table_counts_per_file_and_names_what_was_skipped(run: Run, log: Path) -> None:
    (log.parent / "other.json").write_text('{"unknown": 1}')
    lines = run(log.parent).stdout.splitlines()
    assert lines[0].split() == ["file", "format", "sessions", "events", "new", "skipped"]
    assert lines[1].split()[1:] == ["openai", "1", "6", "6"]
    assert lines[2].endswith("not a conversation in a known format")
    assert lines[-2] == "1 session of 1 file with 6 events; `promptctx sessions` lists them."
    (session,) = summary(run(log.parent, "--json"))["session_ids"]
    assert lines[-1] == f"  {session}"
    (file,) = summary(run(log.parent, "--json"))["files"]
    assert {key: file[key] for key in ("format", "sessions", "events", "added")} == {
        "format": "openai", "sessions": 1, "events": 6, "added": 0,
    }  # fmt: skip
    assert "6 of them there already" in run(log.parent).stdout


@pytest.mark.corpus
def test_a_folder_of_many_formats_is_read_in_one_go(run: Run, corpus: Path) -> None:
    told = summary(run(corpus, "--dry-run", "--json"))
    assert told["failed"] == []
    assert {one["reason"] for one in told["skipped"] if not one["quiet"]} == {
        "not a conversation in a known format",
        "questions with wanted answers, not a conversation",
        "a trace's messages as Langfuse shows them; the trace itself is what is read",
    }
    folders = {Path(one["path"]).relative_to(corpus).parts[0] for one in told["files"]}
    assert folders == {path.parent.name for path in corpus.glob("*/SOURCE.md")}


def test_a_dry_run_sends_nothing(run: Run, server: FakeServer, log: Path) -> None:
    told = summary(run(log, "--dry-run", "--json"))
    assert told["dry_run"] is True
    assert told["totals"]["events"] > 0
    assert server.requests == []
    assert "--dry-run" in run(log, "--dry-run").stdout


def test_under_a_prefix_it_is_another_session(run: Run, server: FakeServer, log: Path) -> None:
    run(log)
    run(log, "--session-prefix", "copy-")
    plain, copy = server.started
    assert copy == f"copy-{plain}"
    ours, theirs = ([event["event_id"] for event in server.events(name)] for name in (plain, copy))
    assert not set(ours) & set(theirs)
    causes = {event["causation_id"] for event in server.events(copy) if event.get("causation_id")}
    assert causes <= set(theirs)
    assert summary(run(log, "--session-prefix", "copy-", "--json"))["totals"]["added"] == 0


def test_a_bad_file_does_not_stop_the_others(run: Run, server: FakeServer, log: Path) -> None:
    bad = log.parent / "bad.json"
    bad.write_bytes(b'{"messages": [\xff')
    (log.parent / "picture.png").write_bytes(b"\x89PNG\x00")
    (log.parent / "other.json").write_text('{"unknown": 1}')
    folder = run(log.parent, "--json")
    assert folder.exit_code == 0
    told = summary(folder)
    assert told["totals"]["sessions"] == 1
    assert {Path(one["path"]).name: one["quiet"] for one in told["skipped"]} == {
        "bad.json": False, "picture.png": True, "other.json": False,
    }  # fmt: skip
    named = run(bad, log, "--json")
    assert named.exit_code == 1
    told = summary(named)
    assert told["totals"]["sessions"] == 1
    assert [Path(one["path"]).name for one in told["failed"]] == ["bad.json"]
    assert "other.json" in run(log.parent).stdout


def test_nothing_imported_is_a_failure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    said = run(tmp_path)
    assert said.exit_code == 1
    assert "Nothing was imported." in said.stdout


def test_a_file_that_is_named_is_told_of_even_if_it_is_no_log(run: Run, log: Path) -> None:
    other = log.parent / "nolog.txt"
    other.write_text("Buy milk.")
    named = run(other).stdout
    assert "nolog.txt" in named
    assert "no logs of their own" not in named
    assert "1 file is no log of its own (" in run(log.parent).stdout


def test_a_path_that_is_not_there_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    said = run(tmp_path / "missing")
    assert said.exit_code == 2
    assert said.stderr.count("\n") == 1


def test_an_unknown_format_is_wrong_usage(run: Run, log: Path) -> None:
    said = run(log, "--format", "nonsense")
    assert said.exit_code == 2
    assert "tau-bench" in said.stderr


def test_long_logs_go_in_many_requests_in_order(run: Run, server: FakeServer, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"text {number}"} for number in range(2 * BATCH_EVENTS + 50)]
    big = [{"role": "user", "content": "x" * (BATCH_BYTES // 2)}] * 3
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"messages": messages + big}))
    assert run(path).exit_code == 0
    sizes = [len(json.loads(request.content).get("events", [0])) for request in server.requests]
    assert max(sizes) == BATCH_EVENTS
    assert max(len(request.content) for request in server.requests) < BATCH_BYTES * 1.01
    (session,) = server.started
    said = [event["payload"]["content"] for event in server.events(session) if event["kind"] == "user.input"]
    assert [text for text in said if text.startswith("text")] == [message["content"] for message in messages]


def test_an_event_over_the_limit_is_left_out_and_told(run: Run, server: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps({"messages": [CHAT[1], {"role": "user", "content": "x" * 2 * BATCH_BYTES}, CHAT[4]]}))
    problem = {"code": "payload_too_large", "detail": "Too large.", "status": 413}
    server.faults = [None, httpx2.Response(413, json=problem)]
    told = summary(run(path, "--json"))
    assert told["totals"]["refused"] == 1
    assert told["totals"]["added"] == told["totals"]["events"] - 1
    assert told["sources"][0]["oddities"]["events over the server's size limit, left out"] == 1


def test_a_session_the_server_refuses_is_told_and_the_next_one_goes_on(run: Run, server: FakeServer, log: Path) -> None:
    other = log.parent / "other.json"
    other.write_text(json.dumps({"messages": [{"role": "user", "content": "another"}, CHAT[4]]}))
    server.faults = [httpx2.Response(422, json={"code": "invalid_event", "detail": "payload.content: no."})]
    said = run(log, other, "--json")
    assert said.exit_code == 1
    told = summary(said)
    assert told["totals"]["sessions"] == 1
    assert told["failed"][0]["reason"] == "payload.content: no."


def test_a_server_that_is_away_ends_the_import(run: Run, server: FakeServer, log: Path) -> None:
    server.faults = [httpx2.ConnectError("refused")] * 20
    said = run(log, log)
    assert said.exit_code == 1
    assert said.stderr.count("\n") == 1
    assert "PROMPTCTX_URL" in said.stderr
