"""Telemetry: one id from the request to the task's log line, numbers without names, and no payload in any line."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import structlog
from starlette.testclient import TestClient
from store_histories import drain, event, said

from domain.errors import InvalidRequest
from web.app import create_app
from workers import metrics, telemetry
from workers.engine import Deps, Engine, compile, folding
from workers.settings import Settings
from workers.store import Database, migrate

SECRET = "sk-live-7a9f0c2d4e6b8a1c3d5e7f90"


@pytest.fixture
def embedded(sqlite_url: str) -> Engine:
    migrate.upgrade(sqlite_url)
    return Engine(Deps(Database(sqlite_url)))


@pytest.fixture
def client(embedded: Engine, sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> Iterator[TestClient]:
    """Its log lines go where `capsys` finds them."""
    telemetry.configure("DEBUG")
    app = create_app(embedded, Settings(database_url=sqlite_url))
    with TestClient(app, base_url="http://127.0.0.1") as made:
        yield made
    structlog.reset_defaults()


def test_the_id_of_a_request_is_in_its_answer_and_in_the_tasks_lines(
    client: TestClient, embedded: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded.append("default", "s", [said("hello")])
    mine = f"req-{uuid.uuid4().hex[:8]}"
    answer = client.post("/v1/sessions/s/prompts", json={"budget": 2000}, headers={"X-Request-Id": mine})
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (202, mine)
    drain(embedded)  # as a worker does, elsewhere
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "prompt compiled" in line]
    assert f"request_id={mine}" in line
    assert f"job={answer.json()['id']}" in line


def test_no_payload_gets_into_a_log_line(
    client: TestClient, embedded: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when what fails quotes it: a fold, a compile, and a request that go wrong."""

    def fails(*told: Any, **more: Any) -> Any:
        raise ValueError(f"cannot work on {SECRET}")

    embedded.append(
        "default", "s", [said(SECRET), event("tool.environment", values={"KEY": {"value": SECRET, "secret": True}})]
    )
    client.post("/v1/sessions/s/events", content=f'{{"kind": "user.input", "payload": {{"content": {SECRET}')
    client.post("/v1/sessions/s/events", json={"kind": "user.input", "payload": {"content": SECRET, SECRET: 1}})
    monkeypatch.setattr(compile, "compile_prompt", fails)
    asked = client.post("/v1/sessions/s/prompts", json={"budget": 2000, "query": SECRET})
    drain(embedded)
    job = client.get(f"/v1/jobs/{asked.json()['id']}").json()
    assert (job["status"], job["error"]["code"]) == ("failed", "internal_error")
    assert job["request_id"] == asked.headers["X-Request-Id"] == job["error"]["details"]["request_id"]
    assert SECRET not in str(job)
    monkeypatch.setattr(folding, "changes", fails)
    embedded.append("default", "s", [said(SECRET)])
    drain(embedded)
    monkeypatch.setattr(embedded, "events", fails)
    assert client.get("/v1/sessions/s/events").status_code == 500
    written = capsys.readouterr().err
    work = client.get("/v1/work").json()
    (parked,) = work["streams"]
    assert parked["reason"].startswith("user.input cannot be folded: builtins.ValueError at ")
    assert SECRET not in str(work), "what stopped it is told without what it failed at"
    assert "compile failed" in written
    assert "parked" in written
    assert "request failed" in written
    assert "builtins.ValueError at " in written
    assert SECRET not in written


def test_metrics_tell_of_compiles_and_of_what_waits(client: TestClient, embedded: Engine) -> None:
    before = numbers(client)
    embedded.append("default", "s", [said("hello"), said("world")])
    waiting = numbers(client)
    assert (waiting["promptctx_backlog"], waiting["promptctx_projection_lag_events"]) == (1.0, 2.0)
    client.post("/v1/sessions/s/prompts", json={"budget": 2000})
    client.post("/v1/sessions/s/prompts", json={"budget": 2000})
    drain(embedded)
    after = numbers(client)
    assert (after["promptctx_backlog"], after["promptctx_projection_lag_events"]) == (0.0, 0.0)
    for name in ('promptctx_compiles_total{outcome="prompt"}', "promptctx_compile_seconds_count"):
        assert after[name] - before.get(name, 0.0) == 1.0
    known = 'promptctx_compiles_total{outcome="known"}'
    assert after[known] - before.get(known, 0.0) == 1.0
    assert 'promptctx_prompt_tokens_count{zone="anchor_business"}' in after
    labels = set(re.findall(r'(\w+)="', client.get("/metrics").text))
    assert labels <= {"outcome", "zone", "le"}, "nobody's name is a label"


def test_a_worker_serves_its_metrics_on_a_port_of_its_own(embedded: Engine) -> None:
    embedded.append("default", "s", [said("hello"), said("world")])
    port = metrics.serve("127.0.0.1", 0, embedded.health)
    page = httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    assert "promptctx_projection_lag_events 2.0" in page
    assert "promptctx_compile_seconds_bucket" in page
    with pytest.raises(InvalidRequest, match="PROMPTCTX_METRICS_PORT"):
        metrics.serve("127.0.0.1", port, embedded.health)
    drain(embedded)


def numbers(client: TestClient) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in client.get("/metrics").text.splitlines() if line[:1] != "#")
    return {name: float(value) for name, _, value in lines}


def test_f04_a_server_whose_work_waits_too_long_is_not_ready(embedded: Engine, sqlite_url: str) -> None:
    embedded.append("default", "s", [said("hello")])
    with embedded.deps.database.write("default") as unit:
        unit.connection.exec_driver_sql("UPDATE work SET due_at = due_at - 60000000")
    for limit, status in ((30.0, 503), (3600.0, 200)):
        app = create_app(embedded, Settings(database_url=sqlite_url, ready_backlog_seconds=limit))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            answer = client.get("/readyz")
            assert answer.status_code == status
            assert client.get("/healthz").status_code == 200
    drain(embedded)


def test_a_server_on_a_store_that_was_not_migrated_lives_and_is_not_ready(sqlite_url: str) -> None:
    engine = Engine(Deps(Database(sqlite_url)))
    with TestClient(create_app(engine, Settings(database_url=sqlite_url)), base_url="http://127.0.0.1") as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
