"""The embedded server as a whole: one process, one SQLite file, used over HTTP and ended in more than one way."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx2
from server_process import ROOT, environment, running

from promptctx import Client

Json = dict[str, Any]


def opened(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=60, trust_env=False)


def log_of(url: str, session: str) -> list[Json]:
    with opened(url) as http:
        found: list[Json] = http.get(f"/v1/sessions/{session}/events").json()["events"]
    return found


def test_an_agent_appends_and_gets_a_prompt_that_can_be_explained_and_replayed(tmp_path: Path) -> None:
    with running(tmp_path) as server, Client(server.url) as client:
        session = client.session("s-1", subject="u-1", mode="react", model="gpt-4o")
        session.instructions(role="You watch the weather.", rules=["Be brief."])
        session.constraint("no-rm", "不允许执行 rm -rf", level="block")
        session.profile("城市", "北京")
        session.user("今天天气怎么样?")
        session.assistant("", tool_calls=[{"id": "c1", "name": "weather", "arguments": {"city": "北京"}}])
        session.tool_result("c1", '{"temp": 22}')
        prompt = session.compile(budget=4000).result(timeout=60)
        text = json.dumps(prompt.messages, ensure_ascii=False)
        assert all(part in text for part in ("You watch the weather.", "不允许执行 rm -rf", "今天天气怎么样?", "北京"))
        assert prompt.tokens <= 4000
        assert prompt.report["ledger"]["closes"] is True
        assert client.prompt(prompt.id).content_hash == prompt.content_hash
        with opened(server.url) as http:
            assert http.post(f"/v1/prompts/{prompt.id}/replay").json()["identical"] is True


def test_what_was_acknowledged_survives_a_kill_and_a_job_is_done_by_the_next_process(tmp_path: Path) -> None:
    nobody_works = {"PROMPTCTX_DISPATCHER": "celery", "PROMPTCTX_BROKER_URL": "redis://127.0.0.1:1/0"}
    with running(tmp_path, **nobody_works) as server, Client(server.url) as client:
        session = client.session("s-1")
        session.user("remember me")
        job = session.compile(budget=4000)
        before = log_of(server.url, "s-1")
        server.process.kill()
        server.process.wait()
    with running(tmp_path) as server, Client(server.url) as client:
        assert log_of(server.url, "s-1") == before
        prompt = client.job(job.id).result(timeout=60)
        assert "remember me" in json.dumps(prompt.messages)


def test_the_server_ends_when_it_is_told_to_although_someone_follows_a_session(tmp_path: Path) -> None:
    with running(tmp_path) as server, opened(server.url) as http:
        http.post("/v1/sessions/s-1/events", content=b'{"kind": "user.input", "payload": {"content": "x"}}')
        with http.stream("GET", "/v1/sessions/s-1/events/live?after=0") as response:
            assert next(response.iter_lines()).startswith("data: ")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=60) in (0, -signal.SIGTERM)


def test_two_servers_on_one_file_share_one_log(tmp_path: Path) -> None:
    with running(tmp_path) as one, running(tmp_path) as two:

        def write(url: str, name: str) -> None:
            with opened(url) as http:
                for number in range(20):
                    content = {"kind": "user.input", "payload": {"content": f"{name} {number}"}}
                    sent = http.post("/v1/sessions/s-1/events", content=json.dumps(content).encode())
                    assert sent.status_code == 201, sent.text

        threads = [threading.Thread(target=write, args=(server.url, name)) for server, name in ((one, "a"), (two, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log = log_of(one.url, "s-1")
        assert log == log_of(two.url, "s-1")
        assert [event["seq"] for event in log] == list(range(1, 41))
        told = [event["payload"]["content"][0]["text"] for event in log]
        for name in ("a", "b"):
            assert [text for text in told if text.startswith(name)] == [f"{name} {number}" for number in range(20)]


def test_a_server_says_whether_it_is_ready_and_what_it_offers(tmp_path: Path) -> None:
    with running(tmp_path) as server, opened(server.url) as http:
        assert http.get("/healthz").json() == {"status": "ok"}
        assert http.get("/readyz").json()["status"] == "ok"
        assert http.get("/docs").status_code == 200
        assert http.get("/openapi.json").json()["info"]["title"] == "promptctx"


def test_a_port_that_is_taken_is_told_in_a_line(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        port = server.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "workers", "up"],
            cwd=ROOT,
            env={**environment(tmp_path), "PROMPTCTX_PORT": port},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode != 0
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
