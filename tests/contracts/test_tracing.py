"""Traces: one from a request over the doorbell to what the worker did, which tells no text, and none unless wanted."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from collector import collecting
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from store_histories import event, said

from workers import tracing
from workers.assembly import build, close
from workers.dispatch import Bell
from workers.engine import Deps, Engine, sweeping
from workers.settings import load_settings
from workers.store import Database, jobs, migrate

pytest_plugins = ["api_server"]

SECRET = "the queen of spades"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


def tree(spans: InMemorySpanExporter, trace: int) -> list[str]:
    """The spans of a trace, each by the names from its root on."""
    found = {
        one.context.span_id: one for one in spans.get_finished_spans() if one.context and one.context.trace_id == trace
    }

    def path(one: ReadableSpan) -> str:
        above = found.get(one.parent.span_id) if one.parent else None
        return f"{path(above)} > {one.name}" if above else one.name

    return sorted(map(path, found.values()))


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in spans.get_finished_spans() if one.name == name]


def trace_of(one: ReadableSpan) -> int:
    assert one.context is not None
    return one.context.trace_id


def finished(http: httpx2.Client, job: str) -> dict[str, Any]:
    told: dict[str, Any] = {}

    def is_done() -> bool:
        told.update(json.loads(http.get(f"/v1/jobs/{job}").content))
        return told["status"] not in ("queued", "running")

    until(is_done)
    return told


def until(holds: Any) -> None:
    waiting = threading.Event()
    for _ in range(3000):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen within 30 s")


EVENTS = "POST /v1/sessions/{session}/events"
PROMPTS = "POST /v1/sessions/{session}/prompts"


def test_one_trace_leads_from_a_request_through_a_worker_thread_to_what_it_did(
    http: httpx2.Client, spans: InMemorySpanExporter
) -> None:
    body = {"kind": "user.input", "payload": {"content": SECRET}}
    assert http.post("/v1/sessions/s/events", content=json.dumps(body)).status_code == 201
    until(lambda: named(spans, "project") and named(spans, "promptctx.project") and named(spans, EVENTS))
    (appended,) = named(spans, EVENTS)
    rung = f"{EVENTS} > append > promptctx.project"
    assert tree(spans, trace_of(appended)) == [EVENTS, f"{EVENTS} > append", rung, f"{rung} > project"]

    asked = http.post("/v1/sessions/s/prompts", content=b'{"budget": 4000}')
    assert asked.status_code == 202
    job = json.loads(asked.content)["id"]
    prompt = finished(http, job)["prompt"]
    until(lambda: named(spans, "promptctx.compile") and named(spans, PROMPTS))
    (requested,) = named(spans, PROMPTS)
    rung = f"{PROMPTS} > promptctx.compile"
    assert tree(spans, trace_of(requested)) == [PROMPTS, rung, f"{rung} > compile"]
    (compiled,) = named(spans, "compile")
    assert compiled.attributes is not None
    assert compiled.attributes["promptctx.job"] == job
    assert compiled.attributes["promptctx.request_id"] == asked.headers["X-Request-Id"]
    assert compiled.attributes["promptctx.budget"] == 4000

    http.post(f"/v1/prompts/{prompt}/replay")
    until(lambda: named(spans, "POST /v1/prompts/{prompt}/replay"))
    (replayed,) = named(spans, "replay")
    assert replayed.attributes is not None
    assert replayed.attributes["promptctx.verdict"] == "identical"
    assert replayed.parent is not None
    (request,) = named(spans, "POST /v1/prompts/{prompt}/replay")
    assert (request.kind, request.attributes and request.attributes["http.response.status_code"]) == (
        SpanKind.SERVER,
        200,
    )


def test_a_request_goes_on_with_the_trace_of_its_caller_and_a_strange_one_is_none(
    http: httpx2.Client, spans: InMemorySpanExporter
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    http.get("/v1/sessions", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    for strange in ("", "00-0-0-01", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "x" * 5000, "00-é"):
        assert http.get("/v1/sessions", headers={"traceparent": strange.encode()}).status_code == 200
    until(lambda: len(named(spans, "GET /v1/sessions")) == 6)
    first, *others = named(spans, "GET /v1/sessions")
    assert f"{trace_of(first):032x}" == trace
    assert all(one.parent is None for one in others)
    assert len({trace_of(one) for one in others}) == 5


def test_what_is_asked_every_few_seconds_leaves_no_span(http: httpx2.Client, spans: InMemorySpanExporter) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert http.get(path).status_code == 200
    http.get("/v1/nowhere")
    until(lambda: named(spans, "GET"))
    assert [one.name for one in spans.get_finished_spans()] == ["GET"]


def test_no_text_gets_into_a_span(http: httpx2.Client, spans: InMemorySpanExporter) -> None:
    """Neither of an event, nor of a query string, nor of what fails and quotes it."""
    body = {"kind": "user.input", "payload": {"content": SECRET}}
    http.post("/v1/sessions/s/events", content=json.dumps(body))
    http.post("/v1/sessions/s/prompts", content=json.dumps({"wait": 30, "query": SECRET}))
    http.get("/v1/prompts/s@1/blame", params={"text": SECRET})
    http.get("/v1/sessions/s/bisect", params={"text": SECRET})
    http.get("/v1/sessions", params={"limit": SECRET})
    http.post("/v1/sessions/s/events", content=json.dumps({"kind": "user.input", "payload": {SECRET: 1}}))
    http.post("/v1/sessions/s/prompts", content=json.dumps({"wait": 30, "budget": 5}))
    until(lambda: len(named(spans, PROMPTS)) == 2 and len(named(spans, "compile")) == 2)
    told = "".join(one.to_json() for one in spans.get_finished_spans())
    assert "queen" not in told
    assert "context_overflow" in told
    assert "invalid_event" in told


def test_a_job_that_a_sweep_finds_belongs_to_the_trace_of_who_asked(
    database: Database, tenant: str, spans: InMemorySpanExporter
) -> None:
    """Its ring was lost; the row remembers."""
    engine = Engine(Deps(database))
    engine.append(tenant, "s", [said("hello")])
    with tracing.span("asked") as _:
        engine.request_prompt(tenant, "s", {})
    assert engine.sweep()
    (asked,) = named(spans, "asked")
    (compiled,) = named(spans, "compile")
    assert tree(spans, trace_of(asked)) == ["asked", "asked > compile", "asked > compile > project"]
    swept = [one.context.span_id for one in named(spans, "promptctx.compile") if one.context]
    assert [link.context.span_id for link in compiled.links] == swept[:1]


def test_a_message_to_a_broker_carries_the_trace_and_nothing_else_new(
    database: Database, tenant: str, spans: InMemorySpanExporter
) -> None:
    sent: list[tuple[Any, str | None]] = []
    bell = Bell(lambda ring: sent.append((ring, tracing.here())))
    engine = Engine(Deps(database, dispatcher=bell))
    engine.append(tenant, "s", [said("hello")])
    until(lambda: sent)
    bell.close()
    (appended,) = named(spans, "append")
    ((tenant_told, _, kind), trace) = (sent[0][0], sent[0][1])
    assert (tenant_told, kind) == (tenant, "project")
    assert trace is not None
    assert f"{trace_of(appended):032x}" in trace
    # What a worker does with it, in another process:
    with tracing.under(trace):
        sweeping.run(Deps(database), *sent[0][0])
    assert tree(spans, trace_of(appended)) == [
        "append", "append > promptctx.project", "append > promptctx.project > project",
    ]  # fmt: skip


def test_what_fails_is_an_error_by_its_type_alone(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="queen"), tracing.span("work"):
        raise ValueError(SECRET)
    (one,) = spans.get_finished_spans()
    assert one.attributes is not None
    assert (one.attributes["error.type"], one.status.status_code, one.events) == ("ValueError", StatusCode.ERROR, ())
    assert "queen" not in one.to_json()


def test_without_an_address_nothing_is_traced_or_even_loaded(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tracing.ENDPOINT, raising=False)
    migrate.upgrade(sqlite_url)
    script = (
        "import sys; from workers import tracing; from workers.assembly import build, close;"
        "from workers.settings import load_settings; engine = build(load_settings(dispatcher='inline'));"
        "engine.append('t', 's', [{'kind': 'user.input', 'payload': {'content': 'x'}}]); close(engine);"
        "assert tracing.here() is None; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PROMPTCTX_DATABASE_URL": sqlite_url},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert told.stdout.strip() == "[]"


def test_spans_go_where_the_environment_says(sqlite_url: str) -> None:
    migrate.upgrade(sqlite_url)
    script = (
        "from workers.assembly import build, close; from workers.settings import load_settings;"
        "engine = build(load_settings(dispatcher='inline'));"
        f"engine.append('t', 's', [{{'kind': 'user.input', 'payload': {{'content': {SECRET!r}}}}}]); close(engine)"
    )
    with collecting() as got:
        where = {tracing.ENDPOINT: got.url, "PROMPTCTX_DATABASE_URL": sqlite_url}
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, **where}, check=True, timeout=120)
    assert {span.name for span in got.spans()} == {"append", "promptctx.project", "project"}
    assert SECRET.encode() not in b"".join(got.bodies)


def test_without_the_packages_the_server_says_so_and_goes_on(sqlite_url: str) -> None:
    migrate.upgrade(sqlite_url)
    script = (
        "import sys; sys.modules['opentelemetry.sdk'] = None; from workers.assembly import build, close;"
        "from workers.settings import load_settings; close(build(load_settings(dispatcher='inline')))"
    )
    where = {tracing.ENDPOINT: "http://127.0.0.1:1", "PROMPTCTX_DATABASE_URL": sqlite_url}
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, **where}, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    assert "install the dependency group telemetry" in told.stdout + told.stderr


def test_a_job_says_nothing_of_its_trace_when_traces_are_off(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [event("user.input", content="hello")])
    job = engine.request_prompt(tenant, "s", {})
    with engine.deps.database.read(tenant) as unit:
        row = jobs.get(unit, tenant, job["id"])
    assert row is not None
    assert row.traceparent is None


def test_building_an_engine_twice_configures_once(sqlite_url: str, spans: InMemorySpanExporter) -> None:
    migrate.upgrade(sqlite_url)
    engine = build(load_settings(database_url=sqlite_url, dispatcher="inline"))
    engine.append("t", "s", [said("hello")])
    close(engine)
    assert named(spans, "append")
