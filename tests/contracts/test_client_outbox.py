"""The outbox: nothing waits for the server, nothing is lost, and order is kept, whatever becomes of the server."""

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import stamina

from promptctx import Client, Outbox, errors
from promptctx.testing import FakeServer


class Line(httpx2.BaseTransport):
    """A line to a server that can be cut, and that may lose an answer after the work was done."""

    def __init__(self) -> None:
        self.server, self.up = FakeServer(), threading.Event()
        self.lose_answers = 0
        self.up.set()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if not self.up.is_set():
            raise httpx2.ConnectError("away")
        answer = self.server.handle_request(request)
        if self.lose_answers:
            self.lose_answers -= 1
            raise httpx2.ReadError("lost")
        return answer

    def said(self, session: str) -> list[str]:
        return [event["payload"]["content"] for event in self.server.events(session) if event["kind"] == "user.input"]


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def client(line: Line) -> Iterator[Client]:
    with stamina.set_testing(True, attempts=2, cap=True), Client(transport=line) as made:
        yield made


def test_what_is_queued_is_in_the_log_in_order_when_the_block_ends(line: Line, client: Client) -> None:
    with Outbox(client) as outbox:
        first, second = outbox.session("a", mode="chat"), outbox.session("b")
        ids = [s.user(str(number)) for number in range(500) for s in (first, second)]
    assert line.said("a") == line.said("b") == [str(number) for number in range(500)]
    assert line.server.events("a")[0]["kind"] == "session.started"
    told = {event["event_id"] for name in ("a", "b") for event in line.server.events(name)}
    assert set(ids) <= told


def test_events_of_one_session_share_requests(line: Line, client: Client) -> None:
    with Outbox(client, batch=50, interval=5.0) as outbox:
        s = outbox.session("a")
        for number in range(100):
            s.user(str(number))
        outbox.flush()
    assert len(line.server.requests) <= 4


def test_an_answer_that_was_lost_doubles_nothing(line: Line, client: Client) -> None:
    line.lose_answers = 3
    with Outbox(client, batch=10) as outbox:
        s = outbox.session("a")
        for number in range(30):
            s.user(str(number))
    assert line.said("a") == [str(number) for number in range(30)]


def test_while_the_server_is_away_events_wait_and_go_out_in_order_when_it_is_back(line: Line, client: Client) -> None:
    line.up.clear()
    with Outbox(client) as outbox:
        s = outbox.session("a")
        for number in range(20):
            s.user(str(number))
        with pytest.raises(errors.ServerUnavailable) as raised:
            outbox.flush(timeout=0.3)
        assert len(raised.value.details["event_ids"]) == 20
        line.up.set()
        s.user("20")
    assert line.said("a") == [str(number) for number in range(21)]


def test_without_a_folder_closing_says_what_did_not_get_through(line: Line, client: Client) -> None:
    line.up.clear()
    outbox = Outbox(client)
    outbox.session("a").user("x")
    with pytest.raises(errors.ServerUnavailable):
        outbox.close(timeout=0.3)


def test_what_waits_in_a_folder_is_sent_by_whoever_opens_it_next(line: Line, client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    line.up.clear()
    outbox = Outbox(client, folder)
    for number in range(10):
        outbox.session("a").user(str(number))
    outbox.close(timeout=0.3)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    line.up.set()
    with Outbox(client, folder) as again:
        again.session("a").user("10")
    assert line.said("a") == [str(number) for number in range(11)]
    assert list(folder.iterdir()) == []


def test_a_process_that_is_killed_loses_nothing(line: Line, client: Client, tmp_path: Path) -> None:
    program = (
        "import os, sys; from promptctx import Client, Outbox\n"
        "s = Outbox(Client('http://127.0.0.1:9', retries=0), sys.argv[1]).session('a')\n"
        "for number in range(50): s.user(str(number))\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60, check=False)
    (file,) = tmp_path.iterdir()
    with file.open("ab") as torn:
        torn.write(b'{"session": "a", "draft": {"ki')
    with Outbox(client, tmp_path):
        pass
    assert line.said("a") == [str(number) for number in range(50)]


def test_a_process_that_ends_sends_what_it_queued(tmp_path: Path) -> None:
    program = (
        "import sys; from promptctx import Client, Outbox; from promptctx.testing import FakeServer; import atexit\n"
        "server = FakeServer(); atexit.register(lambda: print(len(server.events('a'))))\n"
        "s = Outbox(Client(transport=server), interval=60).session('a')\n"
        "for number in range(50): s.user(str(number))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.strip() == "50"


def test_what_another_process_is_sending_is_left_to_it(line: Line, client: Client, tmp_path: Path) -> None:
    line.up.clear()
    owner = Outbox(client, tmp_path)
    owner.session("a").user("mine")
    other = Outbox(client, tmp_path)
    assert (owner.waiting, other.waiting) == (1, 0)
    line.up.set()
    other.close()
    owner.close()
    assert line.said("a") == ["mine"]


def test_an_outbox_has_a_limit(line: Line, client: Client, tmp_path: Path) -> None:
    line.up.clear()
    outbox = Outbox(client, tmp_path, limit=5000)
    s = outbox.session("a")
    while outbox.waiting < 20:
        s.user("x" * 50)
    with pytest.raises(errors.ServerUnavailable) as raised:
        s.user("x" * 5000)
    assert "5,000 bytes" in raised.value.message
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 8000
    line.up.set()
    outbox.close()


def test_an_event_that_the_server_refuses_stops_no_other(line: Line, client: Client) -> None:
    with Outbox(client, interval=1.0) as outbox:
        s = outbox.session("a")
        s.user("1")
        bad = s.user("2", event_id="e-1")
        s.user("3")
        outbox.flush()
        s.user("another text", event_id="e-1")
        s.user("4")
    assert line.said("a") == ["1", "2", "3", "4"]
    ((session, draft, error),) = outbox.refused
    assert (session, draft["event_id"], error.code) == ("a", bad, "event_conflict")


def test_links_in_the_folder_are_not_followed(line: Line, client: Client, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text(
        json.dumps({"session": "a", "draft": {"kind": "user.input", "payload": {"content": "x"}}}) + "\n"
    )
    folder = tmp_path / "spool"
    folder.mkdir()
    os.symlink(outside, folder / "0.jsonl")
    with Outbox(client, folder):
        pass
    assert line.said("a") == []
    assert outside.exists()


def test_what_is_no_json_is_refused_where_it_is_said(client: Client) -> None:
    with Outbox(client) as outbox:
        with pytest.raises(errors.InvalidEvent):
            outbox.session("a").user(object())
        with pytest.raises(errors.InvalidRequest):
            outbox.session("a").user("x", expected_seq=1)
        outbox.session("a").user("\ud83d lone")
