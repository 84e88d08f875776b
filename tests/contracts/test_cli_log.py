"""The command line about the log: sessions, events, emit, tail, and how it fails."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
import stamina
from typer.testing import CliRunner, Result

from promptctx.cli import Cli, app
from promptctx.testing import FakeServer

HOSTILE = "\x1b[2J\x9b31m\x07\u202egnp.exe\x00\ud800"


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=9, cap=True):
        yield


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def run(server: FakeServer) -> Callable[..., Result]:
    def _run(*arguments: str, **extra: Any) -> Result:
        settings = {"obj": Cli(transport=server), "env": {"COLUMNS": "120"}, **extra}
        return CliRunner().invoke(app, list(arguments), **settings)

    return _run


Run = Callable[..., Result]


def test_emit_appends_one_event(run: Run, server: FakeServer) -> None:
    said = run("emit", "s-1", "user.input", '{"content": "hi"}', "--actor", "user", "--json")
    assert said.exit_code == 0
    receipt = json.loads(said.stdout)
    assert (receipt["seq"], receipt["duplicate"], receipt["stream"]) == (1, False, "session")
    assert server.events("s-1")[0]["actor"] == "user"
    again = run("emit", "s-1", "user.input", '{"content": "hi"}', "--event-id", receipt["event_id"])
    assert "number 1" in again.stdout
    assert "already" in again.stdout


def test_emit_reads_a_payload_from_stdin(run: Run, server: FakeServer) -> None:
    assert run("emit", "s-1", "user.input", "-", input='{"content": "你好 \\ud800"}').exit_code == 0
    assert server.events("s-1")[0]["payload"] == {"content": "你好 \ud800"}
    assert run("emit", "s-1", "custom.ping").exit_code == 0
    assert server.events("s-1")[1]["payload"] == {}


@pytest.mark.parametrize("payload", ['{"content":', "hi", "", b"\xff\xfe\x00", "[" * 100_000])
def test_a_payload_that_is_no_json_is_wrong_usage(run: Run, server: FakeServer, payload: str | bytes) -> None:
    said = run("emit", "s-1", "user.input", "-", input=payload)
    assert_fails(said, 2, "not JSON")
    assert server.requests == []


def test_emit_refuses_when_the_session_moved(run: Run) -> None:
    run("emit", "s-1", "custom.a")
    assert_fails(run("emit", "s-1", "custom.b", "--expected-seq", "0"), 1, "concurrency_conflict")


def test_events_are_listed_in_order(run: Run) -> None:
    for text in ("one", "two", "three"):
        run("emit", "s-1", "user.input", json.dumps({"content": text}))
    lines = run("events", "s-1").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert lines[2].endswith("three")
    listed = json.loads(run("events", "s-1", "--json", "--after", "1", "--limit", "1").stdout)
    assert [event["payload"] for event in listed["events"]] == [{"content": "two"}]
    assert json.loads(run("events", "s-1", "--stream", "audit", "--json").stdout) == {"events": []}


def test_sessions_are_listed(run: Run) -> None:
    run("emit", "s-1", "session.started", '{"mode": "react", "title": "[bold]A :smile: title"}')
    shown = run("sessions").stdout
    assert "[bold]A :smile: title" in shown
    (session,) = json.loads(run("sessions", "--json").stdout)["sessions"]
    assert (session["id"], session["mode"], session["head"]) == ("s-1", "react", 1)


def test_hostile_text_cannot_drive_the_terminal(run: Run) -> None:
    run("emit", "s-1", "user.input", json.dumps({"content": HOSTILE}))
    run("emit", "s-1", "session.started", json.dumps({"title": HOSTILE}))
    run("compile", "s-1")
    for command in (("events", "s-1"), ("sessions",), ("show", "s-1-1"), ("prompts", "s-1")):
        for extra in ((), ("--json",)):
            shown = run(*command, *extra)
            assert shown.exit_code == 0
            assert not set(shown.stdout) & set(HOSTILE.replace("gnp.exe", "").replace("[2J", "").replace("31m", ""))
    (event, _) = json.loads(run("events", "s-1", "--json").stdout)["events"]
    assert event["payload"]["content"] == HOSTILE
    assert "\\x1b[2J" in run("events", "s-1").stdout


def test_an_error_message_cannot_drive_the_terminal_either(run: Run) -> None:
    said = run("events", "nobody\u202e")
    assert_fails(said, 1, "unknown_session")
    assert "\u202e" not in said.stderr


def test_secrets_are_not_shown(run: Run, server: FakeServer) -> None:
    values = {"token": {"value": "hush", "secret": True}, "cwd": {"value": "/tmp", "secret": False}}
    run("emit", "s-1", "tool.environment", json.dumps({"values": values}))
    for command in (("events", "s-1"), ("events", "s-1", "--json"), ("tail", "s-1")):
        shown = run(*command, obj=Cli(transport=server, sleep=stop))
        assert "hush" not in shown.output
        assert "/tmp" in shown.stdout


def stop(_: float) -> None:
    raise KeyboardInterrupt


def test_tail_goes_on_until_it_is_interrupted(run: Run, server: FakeServer) -> None:
    for number in range(12):
        run("emit", "s-1", "user.input", json.dumps({"content": f"text {number}"}))
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt
        run("emit", "s-1", "user.input", '{"content": "late"}')

    said = run("tail", "s-1", "--json", "--interval", "0.5", obj=Cli(transport=server, sleep=sleep))
    assert said.exit_code == 0
    assert said.stderr == ""
    assert [json.loads(line)["seq"] for line in said.stdout.splitlines()] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert looks == [0.5, 0.5]
    shown = run("tail", "s-1", "--after", "12", obj=Cli(transport=server, sleep=stop)).stdout
    assert shown.splitlines()[0].endswith("late")


def assert_fails(said: Result, code: int, words: str) -> None:
    assert said.exit_code == code, said.output
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1
    assert said.stderr.startswith("promptctx: ")
    assert words in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bogus",), "bogus"),
        (("event",), "Did you mean"),
        (("emit", "s-1"), "KIND"),
        (("events", "s-1", "--limit", "0"), "--limit"),
        (("events", "s-1", "--stream", "other"), "--stream"),
        (("events", "s-1", "--nope"), "--nope"),
        (("--url", "ftp://x", "sessions"), "address"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    run: Run, server: FakeServer, arguments: tuple[str, ...], words: str
) -> None:
    assert_fails(run(*arguments), 2, words)
    assert server.requests == []


@pytest.mark.parametrize("session", ["a/b", "x" * 201, "\n"])
def test_an_id_that_cannot_be_is_one_line_and_exit_1(run: Run, session: str) -> None:
    assert_fails(run("events", session), 1, "invalid_request")


def test_a_server_that_is_away_is_one_line_and_exit_1(run: Run, server: FakeServer) -> None:
    server.faults = [httpx2.ConnectError("refused")] * 9
    assert_fails(run("--url", "http://u:secret@nowhere.test", "sessions"), 1, "http://nowhere.test")


def test_an_error_of_our_own_is_one_line_unless_debug_is_on(run: Run, server: FakeServer) -> None:
    server.faults = [RuntimeError("oh"), RuntimeError("oh")]
    assert_fails(run("sessions"), 1, "RuntimeError: oh")
    said = run("--debug", "sessions")
    assert isinstance(said.exception, RuntimeError)


def test_no_command_shows_the_help(run: Run) -> None:
    said = run()
    assert (said.exit_code, said.stdout) == (2, "")
    assert "Commands:" in said.stderr
    assert run("--help").exit_code == 0
    assert run("--version").stdout.startswith("promptctx")


def test_the_address_and_the_key_come_from_the_environment(run: Run, server: FakeServer) -> None:
    run("sessions", env={"PROMPTCTX_URL": "http://ctx.test:1", "PROMPTCTX_API_KEY": "k-123"})
    assert str(server.requests[0].url).startswith("http://ctx.test:1/v1/sessions")
    assert server.requests[0].headers["Authorization"] == "Bearer k-123"
