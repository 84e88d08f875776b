"""A real worker process on Redis: what is asked for gets done, whatever happens to messages and processes."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import started
from collector import collecting
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from worker_process import working

from workers import assembly, tracing
from workers.engine import Deps, Engine
from workers.settings import Settings, load_settings
from workers.store import EVERY, Database, migrate

pytestmark = [pytest.mark.celery, pytest.mark.services, pytest.mark.slow]

WAIT = 300.0


def event(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"kind": kind, "event_id": str(uuid.uuid4()), "payload": payload}


BOTH = pytest.mark.parametrize("store", ["sqlite_url", "new_postgres_url"])
ONE = pytest.mark.parametrize("store", ["sqlite_url"])
"""What happens to processes and messages does not depend on the database; the quicker one will do."""


@pytest.fixture
def settings(request: pytest.FixtureRequest, store: str, redis_url: str) -> Settings:
    database_url = request.getfixturevalue(store)
    migrate.upgrade(database_url)
    return load_settings(database_url=database_url, dispatcher="celery", broker_url=redis_url)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    """The side that serves: it appends and asks, and does no work itself."""
    built = assembly.build(settings)
    yield built
    assembly.close(built)


def ask(engine: Engine, session: str, **body: Any) -> dict[str, Any]:
    return engine.request_prompt("default", session, {"budget": 2000, **body})


@BOTH
def test_a_worker_projects_and_compiles_what_was_asked_for(engine: Engine, settings: Settings) -> None:
    with working(settings) as process:
        asked = []
        for number in range(6):
            session = f"s-{number % 3}"
            engine.append("default", session, [event("user.input", content=f"turn {number}")])
            asked.append(ask(engine, session)["id"])
        done = [engine.wait_job("default", name, WAIT) for name in asked]
        assert [job["status"] for job in done] == ["done"] * 6
        assert process.poll() is None
    prompts = [engine.prompt("default", job["prompt"]) for job in done]
    assert [prompt["version"] for prompt in prompts] == [1, 1, 1, 2, 2, 2]
    assert all(engine.replay("default", prompt["id"])["identical"] for prompt in prompts)
    assert engine.verify()["ok"]


@ONE
def test_a_trace_goes_through_the_broker_to_the_worker_process(engine: Engine, settings: Settings) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    try:
        with collecting() as got, working(settings, OTEL_EXPORTER_OTLP_ENDPOINT=got.url, OTEL_BSP_SCHEDULE_DELAY="100"):
            with tracing.span("asked"):
                engine.append("default", "s", [event("user.input", content="the queen of spades")])
                job = ask(engine, "s")["id"]
            assert engine.wait_job("default", job, WAIT)["status"] == "done"
            waiting = threading.Event()
            while not {"project", "compile"} <= {span.name for span in got.spans()}:
                waiting.wait(0.05)
    finally:
        tracing.use(None)
    (asked,) = (one for one in exporter.get_finished_spans() if one.name == "asked")
    assert asked.context is not None
    rung = {span.name: span for span in got.spans() if int.from_bytes(span.trace_id) == asked.context.trace_id}
    assert {"promptctx.project", "compile"} <= rung.keys()
    assert b"queen" not in b"".join(got.bodies)


@BOTH
def test_every_dispatcher_gives_the_same_bytes(engine: Engine, settings: Settings, tmp_path: Path) -> None:
    history = [
        {**event("instruction.set", role="You are terse."), "event_id": str(uuid.UUID(int=1))},
        {**event("user.input", content="说中文 " * 500), "event_id": str(uuid.UUID(int=2))},
        {**event("user.input", content="hello"), "event_id": str(uuid.UUID(int=3))},
    ]
    url = f"sqlite:///{tmp_path / 'inline.db'}"
    migrate.upgrade(url)
    inline = assembly.build(load_settings(database_url=url, dispatcher="inline"))
    body = {"as_of": "2026-01-01T00:00:00Z", "budget": 1200}
    for one in (engine, inline):
        one.append("default", "s", history)
    here = ask(inline, "s", **body)
    with working(settings):
        there = engine.wait_job("default", ask(engine, "s", **body)["id"], WAIT)
    hashes = [one.prompt("default", job["prompt"])["content_hash"] for one, job in ((inline, here), (engine, there))]
    assembly.close(inline)
    assert hashes[0] == hashes[1]


@ONE
def test_f28_a_broker_that_forgets_everything_loses_nothing(engine: Engine, settings: Settings, redis_url: str) -> None:
    engine.append("default", "s", [event("user.input", content="before anybody worked")])
    job = ask(engine, "s")
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    with working(settings):
        assert engine.wait_job("default", job["id"], WAIT)["status"] == "done"


@BOTH
def test_f09_a_worker_killed_at_work_is_followed_by_another(engine: Engine, settings: Settings) -> None:
    sessions = [f"s-{number}" for number in range(10)]
    with working(settings) as first:
        asked = []
        for session in sessions:
            engine.append("default", session, [event("user.input", content="x" * 1000) for _ in range(40)])
            asked.append(ask(engine, session)["id"])
        engine.wait_job("default", asked[0], WAIT)
        started.end(first)
    # Leases of a dead worker end by themselves after a minute; here their end is brought forward.
    with engine.deps.database.write(EVERY) as unit:
        from sqlalchemy import text

        unit.execute(text("UPDATE work SET due_at = 1 WHERE due_at IS NOT NULL"))
    with working(settings):
        done = [engine.wait_job("default", name, WAIT) for name in asked]
    assert [job["status"] for job in done] == ["done"] * 10
    assert engine.verify()["ok"]


@ONE
def test_without_a_worker_a_job_stays_queued_and_says_so(engine: Engine) -> None:
    engine.append("default", "s", [event("user.input", content="is anybody there?")])
    job = engine.wait_job("default", ask(engine, "s")["id"], 0.2)
    assert (job["status"], job["finished_at"]) == ("queued", None)


@ONE
def test_f20_f34_strange_messages_do_no_harm(engine: Engine, settings: Settings) -> None:
    from workers.app import make_app

    app = make_app(settings)
    for name, args in (
        ("promptctx.project", ("nobody", 999)),
        ("promptctx.project", ({"__type__": "foo", "__value__": 1}, 1)),
        ("promptctx.compile", ()),
        ("promptctx.brand_new", ("default", 1)),
        ("promptctx.summarize", ("default", 1)),
    ):
        app.send_task(name, args=args, queue="promptctx.project", retry=False)
    engine.append("default", "s", [event("user.input", content="hello")])
    with working(settings, "--concurrency=1") as process:
        assert engine.wait_job("default", ask(engine, "s")["id"], WAIT)["status"] == "done"
        assert process.poll() is None


@ONE
def test_f19_a_worker_told_to_stop_stops_soon(settings: Settings) -> None:
    engine = Engine(Deps(Database(settings.database_url)))
    with working(settings) as process:
        engine.append("default", "s", [event("user.input", content="hello")])
        assert engine.wait_job("default", ask(engine, "s")["id"], WAIT)["status"] == "done"  # by its sweeper
        process.terminate()
        process.wait(60)
    assert engine.verify()["ok"]
