"""Bad input of every sort, sent to a running server: each gets the documented refusal and leaves the log as it was."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server_process import ROOT, running

Json = dict[str, Any]

ID = "018f6f2a-0000-7000-8000-%012d"
EVENTS = "/v1/sessions/s-1/events"
PROMPTS = "/v1/sessions/s-1/prompts"
DOCUMENT = "/v1/sessions/s-1/documents/d"
MiB = 1 << 20

LOG: list[Json] = [
    {"kind": "session.started", "payload": {"subject": "u-1", "mode": "react", "model": "gpt-4o"}},
    {"kind": "instruction.set", "payload": {"role": "helper", "rules": [{"text": "be brief"}]}},
    {"kind": "constraint.set", "payload": {"id": "no-rm", "text": "不允许执行 rm -rf", "level": "block"}},
    {"kind": "profile.set", "payload": {"key": "城市", "value": "北京"}},
    {"kind": "user.input", "payload": {"content": "word " * 400}},
    *({"kind": "user.input", "payload": {"content": f"pinned {number}"}} for number in range(6)),
    *({"kind": "message.pinned", "payload": {"event_id": ID % number}} for number in range(5, 10)),
    {"kind": "output.flagged", "payload": {"snapshot_id": "p-1"}},
]


@dataclass
class Server:
    """A running server, and how its log looked last."""

    http: httpx2.Client
    seen: Json

    def has_kept_its_log(self) -> bool:
        before, self.seen = self.seen, picture(self.http)
        return before == self.seen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        running(tmp_path_factory.mktemp("bad-input")) as found,
        httpx2.Client(base_url=found.url, timeout=60, trust_env=False) as client,
    ):
        batch = [{**event, "event_id": ID % number} for number, event in enumerate(LOG)]
        response = client.post(EVENTS, content=json.dumps({"events": batch}).encode())
        assert response.status_code == 201, response.text
        yield Server(client, picture(client))


def picture(http: httpx2.Client) -> Json:
    """Every session with its head, and of each of its streams every event's digest."""
    found: Json = {}
    for session in http.get("/v1/sessions", params={"limit": 1000}).json()["sessions"]:
        streams = {}
        for stream in ("session", "subject", "tenant", "audit"):
            path, query = f"/v1/sessions/{session['id']}/events", {"stream": stream, "limit": 1000}
            page = http.get(path, params=query).json()
            streams[stream] = (page["head"], [event["digest"] for event in page["events"]])
        found[session["id"]] = (session["head"], session["prompts"], streams)
    return found


@dataclass(frozen=True)
class Bad:
    """One bad input: how it is sent, and the refusal that it must get. `path` is the field that must be named."""

    name: str
    body: Any
    status: int
    code: str
    path: str | None = None
    to: str = EVENTS
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def content(self) -> bytes | None:
        return self.body if self.body is None or isinstance(self.body, bytes) else json.dumps(self.body).encode()


def said(content: Any = "x", **more: Any) -> Json:
    return {"kind": "user.input", "payload": {"content": content}, **more}


def of(kind: str, **payload: Any) -> Json:
    return {"kind": kind, "payload": payload}


BODIES = [
    Bad("empty body", b"", 422, "invalid_request", "body"),
    Bad("white space", b" \n\t ", 422, "invalid_request", "body"),
    Bad("half an object", b'{"kind": "user.input", "payl', 422, "invalid_request", "body"),
    Bad("trailing comma", b'{"kind": "user.input",}', 422, "invalid_request", "body"),
    Bad("two objects", b'{"kind": "user.input"}{"kind": "user.input"}', 422, "invalid_request", "body"),
    Bad("single quotes", b"{'kind': 'user.input'}", 422, "invalid_request", "body"),
    Bad("a list", b'[{"kind": "user.input"}]', 422, "invalid_request", "body"),
    Bad("a string", b'"user.input"', 422, "invalid_request", "body"),
    Bad("null", b"null", 422, "invalid_request", "body"),
    Bad("broken UTF-8", b'{"kind": "user.input", "payload": {"content": "\xff"}}', 422, "invalid_request", "body"),
    Bad("cut UTF-8", '{"kind": "城'.encode()[:-1], 422, "invalid_request", "body"),
    Bad("pickled", b"\x80\x04\x95\x0b\x00\x00\x00\x00", 422, "invalid_request", "body"),
    Bad("raw control character", b'{"kind": "user.input", "payload": {"content": "\x01"}}', 422, "invalid_request"),
    Bad("lists without end", b"[" * 500_000, 422, "invalid_request", "body"),
    Bad("objects without end", b'{"kind":' * 200_000, 422, "invalid_request", "body"),
    Bad("nested too deeply", b'{"kind":"custom.x","payload":' + b"[" * 500 + b"]" * 500 + b"}", 422, "invalid_request"),
    Bad("number without end", b'{"kind":"custom.x","payload":' + b"7" * 9999 + b"}", 422, "invalid_request", "body"),
    Bad("body over the limit", b" " * (33 * MiB), 413, "payload_too_large"),
]

EVENT = [
    Bad("no kind", {"payload": {}}, 422, "invalid_event", "kind"),
    Bad("kind of a wrong type", {"kind": 7}, 422, "invalid_event", "kind"),
    Bad("empty kind", {"kind": ""}, 422, "invalid_event", "kind"),
    Bad("kind without end", {"kind": "k" * 10_000}, 422, "invalid_event", "kind"),
    Bad("kind with a line break", {"kind": "user.input\n"}, 422, "invalid_event", "kind"),
    Bad("unknown field of the envelope", said(role="user"), 422, "invalid_event", "role"),
    Bad("unknown field of the payload", of("user.input", text="x"), 422, "invalid_event", "payload.text"),
    Bad("payload of a wrong type", {"kind": "user.input", "payload": "x"}, 422, "invalid_event", "payload"),
    Bad("null for a payload", {"kind": "user.input", "payload": None}, 422, "invalid_event", "payload"),
    Bad("missing field", of("constraint.set", id="a"), 422, "invalid_event", "payload.text"),
    Bad("content of a wrong type", said(7), 422, "invalid_event", "payload.content"),
    Bad("part of an unknown type", said([{"type": "video"}]), 422, "invalid_event", "payload.content.0"),
    Bad("NaN", b'{"kind":"user.input","payload":{"content":NaN}}', 422, "invalid_event", "payload.content"),
    Bad("Infinity deep down", b'{"kind":"custom.x","payload":{"a":[1,{"b":-Infinity}]}}', 422, "invalid_event",
        "payload.a.1.b"),
    Bad("number over the range", b'{"kind":"custom.x","payload":{"a":1e999}}', 422, "invalid_event", "payload.a"),
    Bad("NaN for an importance", b'{"kind":"memory.recorded","payload":{"id":"m","text":"t","importance":NaN}}', 422,
        "invalid_event", "payload.importance"),
    Bad("importance over 1", of("memory.recorded", id="m", text="t", importance=1.5), 422, "invalid_event",
        "payload.importance"),
    Bad("unknown level", of("constraint.set", id="a", text="t", level="maybe"), 422, "invalid_event", "payload.level"),
    Bad("negative context window", of("session.started", context_window=-5), 422, "invalid_event",
        "payload.context_window"),
    Bad("path for a subject", of("session.started", subject="../u-2"), 422, "invalid_event", "payload.subject"),
    Bad("event id that is no UUID", said(event_id="42"), 422, "invalid_event", "event_id"),
    Bad("event id of a wrong type", said(event_id=42), 422, "invalid_event", "event_id"),
    Bad("cause that is no UUID", said(causation_id="x"), 422, "invalid_event", "causation_id"),
    Bad("time that is none", said(occurred_at="yesterday"), 422, "invalid_event", "occurred_at"),
    Bad("time of a wrong type", said(occurred_at=1_700_000_000), 422, "invalid_event", "occurred_at"),
    Bad("schema version 0", said(schema_version=0), 422, "invalid_event", "schema_version"),
    Bad("schema version as text", said(schema_version="1"), 422, "invalid_event", "schema_version"),
    Bad("actor with a control character", said(actor="a\x00b"), 422, "invalid_event", "actor"),
    Bad("actor without end", said(actor="a" * 10_000), 422, "invalid_event", "actor"),
    Bad("payload of 2 MiB", said("x" * 2 * MiB), 413, "payload_too_large"),
    Bad("known id with other content", said("other", event_id=ID % 4), 409, "event_conflict"),
    Bad("erasing what is not there", of("event.redacted", event_id=ID % 999), 422, "invalid_event", "payload.event_id"),
    Bad("sixth pin", of("message.pinned", event_id=ID % 10), 409, "too_many_pins"),
    Bad("a tool lifts a rule", {**of("constraint.removed", id="no-rm"), "actor": "tool"}, 403, "forbidden"),
    Bad("an agent softens a rule", {**of("constraint.set", id="no-rm", text="ok", level="warn"), "actor": "agent"}, 403,
        "forbidden"),
    Bad("an agent rewrites its role", {**of("instruction.set", role="root"), "actor": "agent"}, 403, "forbidden"),
]  # fmt: skip

BATCH = [
    Bad("empty batch", {"events": []}, 422, "invalid_event", "events"),
    Bad("batch that is no list", {"events": {}}, 422, "invalid_event", "events"),
    Bad("batch of numbers", {"events": [said(), 7]}, 422, "invalid_event"),
    Bad("batch with a field too many", {"events": [said()], "mode": "fast"}, 422, "invalid_request", "mode"),
    Bad("batch over the limit", {"events": [said()] * 10_001}, 422, "invalid_event", "events"),
    Bad("one bad event at the end", {"events": [*[said()] * 50, said(7)]}, 422, "invalid_event", "payload.content"),
    Bad("one conflict at the end", {"events": [*[said()] * 5, said("b", event_id=ID % 4)]}, 409, "event_conflict"),
    Bad("expected seq of a wrong type", {"events": [said()], "expected_seq": "1"}, 422, "invalid_request",
        "expected_seq"),
    Bad("expected seq that is true", {"events": [said()], "expected_seq": True}, 422, "invalid_request",
        "expected_seq"),
    Bad("negative expected seq", {"events": [said()], "expected_seq": -1}, 422, "invalid_request", "expected_seq"),
    Bad("expected seq that has passed", {"events": [said()], "expected_seq": 1}, 409, "concurrency_conflict"),
    Bad("expected seq that is no number", said(), 422, "invalid_request", "expected_seq", f"{EVENTS}?expected_seq=x"),
]  # fmt: skip

IDS = [
    Bad(what, said(), 422, "invalid_request", to=f"/v1/sessions/{name}/events")
    for what, name in {
        "id of 201 characters": "x" * 201,
        "id of 10,000 characters": "x" * 10_000,
        "id with a slash": "a%2Fb",
        "id that climbs": "..%2f..%2fetc%2fpasswd",
        "id with NUL": "a%00",
        "id with a line break": "a%0d%0ab",
        "id with a control character": "%1b%5b2J",
        "id that is no UTF-8": "%ff%fe",
        "id that is a lone surrogate": "%ed%a0%80",
    }.items()
]

COMPILES = [
    Bad(what, asked, 422, "invalid_request", path, PROMPTS)
    for what, asked, path in [
        ("negative budget", {"budget": -1}, "budget"),
        ("budget of nothing", {"budget": 0}, "budget"),
        ("half a token", {"budget": 10.5}, "budget"),
        ("budget of a wrong type", {"budget": "much"}, "budget"),
        ("budget NaN", b'{"budget": NaN}', "budget"),
        (
            "score Infinity",
            b'{"overrides": {"slots": {"recall": {"min_score": 1e999}}}}',
            "overrides.slots.recall.min_score",
        ),
        ("negative window", {"window": -8000}, "window"),
        ("unknown format", {"format": "xml"}, "format"),
        ("unknown preset", {"preset": "modern"}, "preset"),
        ("unknown locale", {"locale": "tlh"}, "locale"),
        ("unknown field", {"bugdet": 8000}, "bugdet"),
        ("mode of a wrong type", {"mode": 7}, "mode"),
        ("as_of that is no time", {"as_of": "then"}, "as_of"),
        ("min_seq of a wrong type", {"min_seq": "last"}, "min_seq"),
        ("negative min_seq", {"min_seq": -1}, "min_seq"),
        ("min_seq that is not there yet", {"min_seq": 10_000}, "min_seq"),
        ("fresh of a wrong type", {"fresh": "perhaps"}, "fresh"),
        ("overrides of a wrong type", {"overrides": []}, "overrides"),
        ("unknown slot", {"overrides": {"slots": {"mood": {"top_k": 1}}}}, None),
        ("negative slot budget", {"overrides": {"slots": {"recall": {"token_budget": -1}}}}, None),
        ("share over 1", {"overrides": {"window_share": 2}}, "overrides.window_share"),
        ("unknown place", {"overrides": {"placement": {"recall": "middle"}}}, "overrides.placement.recall"),
        ("negative wait", {"wait": -1}, "wait"),
        ("wait without end", b'{"wait": Infinity}', "wait"),
        ("wait of a wrong type", {"wait": "long"}, "wait"),
        ("list for a request", [], "body"),
        ("half a request", b'{"budget": ', "body"),
    ]
]

OTHERS = [
    Bad("budget below the floor", {"budget": 60, "wait": 30}, 422, "context_overflow", to=PROMPTS),
    Bad("prompt of an unknown session", {"wait": 5}, 404, "unknown_session", to="/v1/sessions/nobody/prompts"),
    Bad("state of an unknown session", None, 404, "unknown_session", None, "/v1/sessions/nobody/state", "GET"),
    Bad("log of an unknown session", None, 404, "unknown_session", None, "/v1/sessions/nobody/events", "GET"),
    Bad("session that is a path", None, 404, "unknown_session", None, "/v1/sessions/%2e%2e/events", "GET"),
    Bad("unknown prompt", None, 404, "unknown_snapshot", None, "/v1/prompts/'%3B%20DROP%20TABLE%20events", "GET"),
    Bad("replay of an unknown prompt", None, 404, "unknown_snapshot", to="/v1/prompts/none/replay"),
    Bad("unknown job", None, 404, "unknown_job", None, "/v1/jobs/none", "GET"),
    Bad("page of nothing", None, 422, "invalid_request", "limit", f"{EVENTS}?limit=0", "GET"),
    Bad("page of everything", None, 422, "invalid_request", "limit", f"{EVENTS}?limit=1000000", "GET"),
    Bad("seq over the range", None, 422, "invalid_request", "after", f"{EVENTS}?after={2**64}", "GET"),
    Bad("cursor that is none", None, 422, "invalid_request", "after", "/v1/sessions?after=%27", "GET"),
    Bad("unknown stream", None, 422, "invalid_request", "stream", f"{EVENTS}?stream=all", "GET"),
    Bad("document that is no UTF-8", b"abc\xff\xfe", 422, "invalid_request", None, DOCUMENT, "PUT"),
    Bad("document in GBK", "城市".encode("gbk"), 422, "invalid_request", None, DOCUMENT, "PUT",
        (("Content-Type", "text/plain; charset=gbk"),)),
    Bad("document over the limit", b"x" * (65 * MiB), 413, "payload_too_large", None, DOCUMENT, "PUT"),
    Bad("document id that climbs", b"x", 422, "invalid_request", None, "/v1/sessions/s-1/documents/..%2fx", "PUT"),
    Bad("document id without end", b"x", 422, "invalid_request", None, f"/v1/sessions/s-1/documents/{'d' * 10_000}",
        "PUT"),
    Bad("slice before the beginning", None, 422, "invalid_request", "from", f"{DOCUMENT}?from=-1", "GET"),
    Bad("unknown document", None, 404, "unknown_document", None, DOCUMENT, "GET"),
    Bad("page of another site", said(), 403, "forbidden", None, EVENTS, "POST", (("Sec-Fetch-Site", "cross-site"),)),
    Bad("deleting the log", None, 405, "method_not_allowed", None, EVENTS, "DELETE"),
    Bad("rewriting the log", said(), 405, "method_not_allowed", None, EVENTS, "PUT"),
    Bad("unknown address", said(), 404, "not_found", None, "/v1/sessions/s-1/event", "POST"),
]  # fmt: skip


@pytest.mark.parametrize("bad", [*BODIES, *EVENT, *BATCH, *IDS, *COMPILES, *OTHERS], ids=lambda bad: bad.name)
def test_bad_input_is_refused_and_leaves_the_log_as_it_was(server: Server, bad: Bad) -> None:
    response = server.http.request(bad.method, bad.to, content=bad.content, headers=dict(bad.headers))
    assert response.status_code == bad.status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    told = json.loads(response.content)
    assert (told["code"], told["status"]) == (bad.code, bad.status)
    assert 0 < len(told["detail"]) < 1000
    assert "Traceback" not in response.text
    if bad.path:
        assert told["details"]["path"] == bad.path
    assert server.has_kept_its_log()


def test_an_unknown_kind_is_no_bad_input(server: Server) -> None:
    for kind in ("custom.mine", "from.the.future"):
        sent = json.dumps({"kind": kind, "payload": {"any": ["thing", None]}}).encode()
        assert server.http.post("/v1/sessions/unknown-kinds/events", content=sent).status_code == 201
    newer = json.dumps({"kind": "user.input", "schema_version": 99, "payload": {"new": True}}).encode()
    assert server.http.post("/v1/sessions/unknown-kinds/events", content=newer).status_code == 201
    told = server.http.get("/v1/sessions/unknown-kinds/events").json()["events"]
    assert [(event["kind"], event["schema_version"]) for event in told] == [
        ("custom.mine", 1), ("from.the.future", 1), ("user.input", 99),
    ]  # fmt: skip
    asked = server.http.post("/v1/sessions/unknown-kinds/prompts", content=b'{"budget": 4000, "wait": 30}')
    assert asked.status_code == 200, asked.text
    assert "from.the.future" in json.dumps(asked.json()["report"]["warnings"])
    assert not server.has_kept_its_log()


# --- files, by the command line ---------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01"
LINE = json.dumps({"role": "user", "content": "hello"}).encode()


@dataclass(frozen=True)
class BadFile:
    name: str
    files: dict[str, bytes]
    why: str
    path: str = ""


FILES = [
    BadFile("empty file", {"a.json": b""}, "empty", "a.json"),
    BadFile("white space", {"a.jsonl": b"\n \n"}, "white space", "a.jsonl"),
    BadFile("half a JSON document", {"a.json": b'[{"role": "user", "content": "he'}, "not JSON", "a.json"),
    BadFile("half a line alone", {"a.jsonl": LINE[:20]}, "", "a.jsonl"),
    BadFile("broken line in the middle", {"a.jsonl": LINE + b"\n{broken\n" + LINE + b"\n"}, "line 2", "a.jsonl"),
    BadFile("broken UTF-8", {"a.json": b'[{"role": "user", "content": "\xff\xfe"}]'}, "UTF-8", "a.json"),
    BadFile("UTF-16", {"a.json": '[{"role": "user", "content": "x"}]'.encode("utf-16")}, "UTF-16", "a.json"),
    BadFile("nested without end", {"a.json": b"[" * 200_000}, "nested", "a.json"),
    BadFile("JSON that is no log", {"a.json": b'{"weather": 22}'}, "", "a.json"),
    BadFile("binary with the name of a log", {"a.json": PNG * 50}, "binary", "a.json"),
    BadFile("folder of images", {f"{number}.png": PNG for number in range(5)}, "image"),
    BadFile("empty folder", {}, ""),
]


def run_import(server: Server, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "promptctx.cli", "--url", str(server.http.base_url), "import", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sdk"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("bad", FILES, ids=lambda bad: bad.name)
def test_a_bad_file_is_told_and_leaves_the_log_as_it_was(server: Server, tmp_path: Path, bad: BadFile) -> None:
    for name, content in bad.files.items():
        (tmp_path / name).write_bytes(content)
    done = run_import(server, str(tmp_path / bad.path), "--json")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout)
    assert told["totals"]["sessions"] == told["totals"]["added"] == 0
    reasons = [one["reason"] for one in (*told["skipped"], *told["failed"])]
    assert len(reasons) == max(len(bad.files), 0)
    assert all(bad.why in reason for reason in reasons)
    assert server.has_kept_its_log()


@pytest.mark.parametrize("arguments", [("no-such-file.json",), ("--format", "xml", "."), ()], ids=str)
def test_a_wrong_call_of_the_importer_is_wrong_usage(server: Server, arguments: tuple[str, ...]) -> None:
    done = run_import(server, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert server.has_kept_its_log()


def test_what_is_good_among_bad_files_is_imported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "broken.json").write_bytes(b'[{"role": "us')
    (tmp_path / "half.jsonl").write_bytes(LINE + b"\n" + LINE + b"\n" + LINE[:12])
    done = run_import(server, str(tmp_path), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert told["totals"]["sessions"] == 1
    assert told["totals"]["added"] > 0
    reasons = {Path(one["path"]).name: one["reason"] for one in told["skipped"]}
    assert "image" in reasons["a.png"]
    assert "not JSON" in reasons["broken.json"]
    again = json.loads(run_import(server, str(tmp_path / "half.jsonl"), "--json").stdout)
    assert again["totals"]["added"] == 0
    assert not server.has_kept_its_log()
