"""Dispatchers: whoever rings, however often, in whatever order, or not at all, the work gets done once."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from store_histories import drain, event, said

from workers import assembly
from workers.dispatch import Bell, Dispatcher, Inline, Ring, Sweeper, Threads
from workers.engine import Deps, Engine, requests
from workers.settings import load_settings
from workers.store import Database, models, streams

NEVER = (1e6, 1e6)
"""A sweeper that sweeps once, at the beginning."""


class Deaf:
    """A dispatcher that hears nothing: every ring is lost."""

    at_once = False

    def __init__(self) -> None:
        self.lost: list[Ring] = []

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        self.lost.append((tenant, stream, kind))

    def start(self, deps: Deps) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(params=["inline", "thread"])
def dispatcher(request: pytest.FixtureRequest) -> Dispatcher:
    return Inline() if request.param == "inline" else Threads(every=NEVER)


@pytest.fixture
def running(database: Database, dispatcher: Dispatcher) -> Iterator[Engine]:
    deps = Deps(database, dispatcher)
    dispatcher.start(deps)
    yield Engine(deps)
    dispatcher.close()


def projected(engine: Engine, tenant: str, session: str = "s") -> int:
    with engine.deps.database.read(tenant) as unit:
        row = streams.get(unit, tenant, f"session/{session}")
        return models.checkpoint(unit, tenant, row.number).seq if row else 0


def eventually(engine: Engine, true: Callable[[], bool]) -> bool:
    """Looks again after each sign of progress."""
    for _ in range(2000):
        mark = engine.deps.signals.mark()
        if true():
            return True
        engine.deps.signals.wait(mark, 0.05)
    return False


def test_what_is_appended_is_projected_without_being_asked(running: Engine, tenant: str) -> None:
    for number in range(5):
        running.append(tenant, "s", [said(str(number)), event("profile.set", key="k", value=number)])
    assert eventually(running, lambda: projected(running, tenant) == 5)
    assert running.verify(tenant, "s")["ok"]


def test_a_request_is_compiled_without_being_asked_again(running: Engine, tenant: str) -> None:
    running.append(tenant, "s", [said("hello")])
    jobs = [running.request_prompt(tenant, "s", {"budget": 1000 + number}) for number in range(3)]
    done = [running.wait_job(tenant, job["id"], 60) for job in jobs]
    assert [job["status"] for job in done] == ["done"] * 3
    assert [running.prompt(tenant, job["prompt"])["version"] for job in done] == [1, 2, 3]


def test_inline_is_done_when_the_call_returns(database: Database, tenant: str) -> None:
    inline = Inline()
    engine = Engine(Deps(database, inline))
    inline.start(engine.deps)
    engine.append(tenant, "s", [said("hello")])
    assert projected(engine, tenant) == 1
    assert engine.request_prompt(tenant, "s", {})["status"] == "done"


def test_f04_lost_rings_are_healed_by_the_sweeper(database: Database, tenant: str) -> None:
    deaf = Deaf()
    engine = Engine(Deps(database, deaf))
    engine.append(tenant, "s", [said("hello")])
    job = engine.request_prompt(tenant, "s", {})
    assert {kind for _, _, kind in deaf.lost} == {"project", "compile"}
    sweeper = Sweeper(engine.deps, NEVER)
    sweeper.start()
    assert engine.wait_job(tenant, job["id"], 60)["status"] == "done"
    sweeper.close()


@pytest.mark.parametrize("seed", range(4))
def test_f03_f13_rings_in_any_order_doubled_and_lost_give_the_same(database: Database, tenant: str, seed: int) -> None:
    rng = random.Random(seed)
    deaf = Deaf()
    engine = Engine(Deps(database, deaf))
    ids = []
    for number in range(8):
        engine.append(tenant, f"s{number % 2}", [said(f"{number}"), event("profile.set", key="k", value=number)])
        ids.append(engine.request_prompt(tenant, f"s{number % 2}", {"budget": 5000})["id"])
    rings = [ring for ring in deaf.lost for _ in range(rng.choice((0, 1, 2)))]
    rng.shuffle(rings)
    from workers.engine import sweeping

    for ring in rings:
        sweeping.run(engine.deps, *ring)
    drain(engine)
    found = [engine.job(tenant, name) for name in ids]
    assert [job["status"] for job in found] == ["done"] * 8
    versions = [engine.prompt(tenant, job["prompt"])["version"] for job in found]
    assert versions == [1, 1, 2, 2, 3, 3, 4, 4]
    assert engine.verify(tenant)["ok"]


def test_f20_a_kind_of_a_newer_release_is_left_alone(engine: Engine, tenant: str) -> None:
    from workers.engine import sweeping

    engine.append(tenant, "s", [said("a")])
    assert not sweeping.run(engine.deps, tenant, 1, "consolidate")


def test_threads_close_while_work_is_left(database: Database, tenant: str) -> None:
    threads = Threads(every=NEVER)
    engine = Engine(Deps(database, threads))
    threads.start(engine.deps)
    for number in range(20):
        engine.append(tenant, f"s{number}", [said("x")])
    threads.close()
    drain(Engine(Deps(database)))
    assert engine.verify(tenant)["ok"]


# --- the bell ---------------------------------------------------------------------------------------------------------


def test_the_bell_sends_ids_only_and_the_same_ring_once() -> None:
    sent: list[Ring] = []
    begun, release, both = threading.Event(), threading.Event(), threading.Event()

    def send(ring: Ring) -> None:
        sent.append(ring)
        begun.set()
        release.wait(60)
        if len(sent) == 2:
            both.set()

    bell = Bell(send)
    bell.ring("t", 1, "project")
    assert begun.wait(60)
    for _ in range(5):
        bell.ring("t", 2, "project")
    release.set()
    assert both.wait(60)
    bell.close()
    assert sent == [("t", 1, "project"), ("t", 2, "project")]


def test_f05_a_broker_that_is_down_is_left_in_peace_for_a_while() -> None:
    tried: list[Ring] = []
    failed = threading.Event()

    def send(ring: Ring) -> None:
        tried.append(ring)
        failed.set()
        raise OperationalError("refused")

    bell = Bell(send, quiet=1e6)
    bell.ring("t", 1, "project")
    assert failed.wait(60)
    for number in range(2, 9):
        bell.ring("t", number, "project")
    bell.close()
    assert tried == [("t", 1, "project")]


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_f05_appends_do_not_wait_for_a_broker_that_never_answers(
    sqlite_url: str, silent_broker: str, tenant: str
) -> None:
    from workers.store import migrate

    migrate.upgrade(sqlite_url)
    settings = load_settings(database_url=sqlite_url, dispatcher="celery", broker_url=silent_broker)
    engine = assembly.build(settings)
    for number in range(50):
        engine.append(tenant, "s", [said(str(number))])
    assert engine.events(tenant, "s")["head"] == 50
    assembly.close(engine)


@pytest.mark.parametrize("session", ["s", "会" * 200])
def test_f37_f38_a_message_is_short_and_holds_no_content(
    database: Database, tenant: str, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    from celery import Celery

    sent: list[Any] = []
    monkeypatch.setattr(Celery, "send_task", lambda self, name, args=(), **told: sent.append((name, args, told)))
    bell = assembly.celery_bell(load_settings(dispatcher="celery", broker_url="redis://127.0.0.1:1/0"))
    deaf = Deaf()
    engine = Engine(Deps(database, deaf))
    engine.append(tenant, session, [said("secret words")])
    requests.request_prompt(engine.deps, tenant, session, {"query": "secret words"})
    for ring in deaf.lost:
        bell._send(ring)
    bell.close()
    assert {name for name, _, _ in sent} == {"promptctx.project", "promptctx.compile"}
    for name, args, told in sent:
        assert len(json.dumps([name, args])) <= 300
        assert "secret" not in json.dumps(args)
        assert told["retry"] is False


def test_the_queues_are_declared_and_the_settings_are_those_that_survive() -> None:
    from workers.app import make_app

    for broker in ("redis://127.0.0.1:6379/0", "amqp://guest:guest@127.0.0.1:5672//"):
        conf = make_app(load_settings(broker_url=broker)).conf
        names = {queue.name for queue in conf.task_queues}
        assert names == {f"promptctx.{kind}" for kind in ("compile", "project", "summarize", "maintenance")}
        assert conf.task_acks_late
        assert conf.task_ignore_result
        assert conf.result_backend is None
        assert conf.worker_prefetch_multiplier == 1
        assert conf.accept_content == ["json"]
        assert not conf.task_always_eager
        assert not conf.task_create_missing_queues
        assert conf.task_time_limit < conf.broker_transport_options.get("visibility_timeout", 120)
