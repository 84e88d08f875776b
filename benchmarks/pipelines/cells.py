"""One store with one dispatcher: what a caller waits for, and what the work behind it takes."""

import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compiles import BUDGET
from benchmarks.driving import TENANT, prepare
from benchmarks.pipelines.figures import percentiles
from benchmarks.pipelines.noop import TASK, make_noop
from benchmarks.pipelines.services import RABBITMQ, REDIS, Missing, Process, celery_environment, forget_queues, worker
from benchmarks.speed import SESSION, Measured, Scale, events, fresh_url, median
from workers import assembly
from workers.app import queue_name
from workers.dispatch import Dispatcher
from workers.engine import Deps, Engine
from workers.settings import Settings, load_settings
from workers.store import Database, models, streams

Json = Any

BROKERS = {"celery-redis": REDIS, "celery-rabbitmq": RABBITMQ}
DISPATCHERS = ("inline", "thread", *BROKERS)
PATIENCE = 120.0
BEHIND = "s-behind"
"""The session whose projection is late."""


class Heard:
    """A dispatcher that notes when it was last rung."""

    def __init__(self, inner: Dispatcher) -> None:
        self._inner, self.at_once, self.rung = inner, inner.at_once, 0.0

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        self.rung = time.perf_counter()
        self._inner.ring(tenant, stream, kind)

    def start(self, deps: Deps) -> None:
        self._inner.start(deps)

    def close(self) -> None:
        self._inner.close()


@dataclass(frozen=True, slots=True)
class Cell:
    """An engine at work."""

    engine: Engine
    heard: Heard

    def append(self, given: Sequence[Json], size: int, session: str = SESSION) -> float:
        """Events per second, so many a call, as the caller waits for it."""
        begun = time.perf_counter()
        for at in range(0, len(given), size):
            self.engine.append(TENANT, session, given[at : at + size])
        return len(given) / (time.perf_counter() - begun)

    def projected(self, session: str = SESSION) -> None:
        """Returns once the read-models are at the head that the stream has now."""
        deps, until = self.engine.deps, time.monotonic() + PATIENCE
        with deps.database.read(TENANT) as unit:
            row = streams.get(unit, TENANT, f"session/{session}")
        assert row is not None
        while time.monotonic() < until:
            mark = deps.signals.mark()
            with deps.database.read(TENANT) as unit:
                if models.checkpoint(unit, TENANT, row.number).seq >= row.head:
                    return
            deps.signals.wait(mark, 0.001)
        raise Missing(f"the projection was not done within {PATIENCE:g} s")

    def ring(self, session: str) -> None:
        with self.engine.deps.database.read(TENANT) as unit:
            row = streams.get(unit, TENANT, f"session/{session}")
        assert row is not None
        self.engine.deps.dispatcher.ring(TENANT, row.number, "project")


def measured(store: str, dispatcher: str, scale: Scale) -> Measured:
    """All that is measured of one cell. Raises Missing."""
    with ExitStack() as stack:
        settings, process = stack.enter_context(_place(store, dispatcher))
        late = events(scale.batched, seed=3)
        _write_unseen(settings, process, late)
        begun = time.perf_counter()
        cell = stack.enter_context(_working(settings))
        cell.ring(BEHIND)
        cell.projected(BEHIND)
        caught_up = len(late) / (time.perf_counter() - begun)
        return {"catch_up": caught_up, **_asked(cell, scale)}


def _asked(cell: Cell, scale: Scale) -> Measured:
    """Appends first, then single events and prompts, each waited for."""
    found: dict[str, list[float]] = {"append_one": [], "append_hundred": []}
    for run in range(scale.runs):
        for name, count, size in (("append_one", scale.appends // 4, 1), ("append_hundred", scale.batched // 4, 100)):
            session = f"{name}-{run}"
            found[name].append(cell.append(events(count, seed=run + 1), size, session))
            cell.projected(session)
    given = events(100 + 8 * scale.trips, seed=9)
    cell.append(given[:100], 100)
    cell.projected()
    one = [_doorbell(cell, event) for event in given[100 : 100 + scale.trips]]
    turns = given[100 + scale.trips :]
    trips = [_trip(cell, turns[at : at + 4]) for at in range(0, 4 * scale.trips, 4)]
    rates = {name: median(values) for name, values in found.items()}
    return {**rates, **_ranked("doorbell", one), **_ranked("compile", trips[2:])}


def _ranked(name: str, milliseconds: Sequence[float]) -> Measured:
    return {f"{name}_{rank}": value for rank, value in percentiles(milliseconds, 3).items()}


def _doorbell(cell: Cell, event: Json) -> float:
    """Milliseconds from the ring of an append until its event is in the read-models."""
    cell.engine.append(TENANT, SESSION, [event])
    cell.projected()
    return (time.perf_counter() - cell.heard.rung) * 1000


def _trip(cell: Cell, turn: Sequence[Json]) -> float:
    """Milliseconds from the request for a prompt until its job is seen done, one more turn each time."""
    cell.engine.append(TENANT, SESSION, turn)
    cell.projected()
    begun = time.perf_counter()
    job = cell.engine.request_prompt(TENANT, SESSION, {"format": "openai", "budget": BUDGET})
    if job["status"] in ("queued", "running"):
        job = cell.engine.wait_job(TENANT, job["id"], PATIENCE)
    if job["status"] != "done":
        raise Missing(f"a prompt was not compiled: {job['status']}, {job['error']}")
    return (time.perf_counter() - begun) * 1000


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def _place(store: str, dispatcher: str) -> Iterator[tuple[Settings, Process | None]]:
    """A fresh store, and a worker process where the dispatcher needs one."""
    with ExitStack() as stack:
        url = stack.enter_context(fresh_url(store))
        prepare(url)
        if dispatcher not in BROKERS:
            yield load_settings(database_url=url, dispatcher=dispatcher), None
            return
        environment = celery_environment(url, BROKERS[dispatcher])
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="promptctx-")))
        process = stack.enter_context(worker(environment, folder))
        yield _settings(environment), process


def _settings(environment: dict[str, str]) -> Settings:
    return load_settings(
        database_url=environment["PROMPTCTX_DATABASE_URL"], dispatcher="celery",
        broker_url=environment["PROMPTCTX_BROKER_URL"], queue_prefix=environment["PROMPTCTX_QUEUE_PREFIX"],
    )  # fmt: skip


@contextmanager
def _working(settings: Settings) -> Iterator[Cell]:
    heard = Heard(assembly.make_dispatcher(settings))
    engine = assembly.build(settings, dispatcher=heard)
    try:
        yield Cell(engine, heard)
    finally:
        assembly.close(engine)


def _write_unseen(settings: Settings, process: Process | None, given: Sequence[Json]) -> None:
    """Append while nobody works: no ring, and a worker that stands still."""
    silent = Engine(Deps(Database(settings.database_url)))
    if process is not None:
        process.signal(signal.SIGSTOP)
    try:
        for at in range(0, len(given), 500):
            silent.append(TENANT, BEHIND, given[at : at + 500])
    finally:
        silent.deps.database.dispose()
        if process is not None:
            process.signal(signal.SIGCONT)


def noop(dispatcher: str, scale: Scale) -> Measured:
    """Milliseconds of a Celery task that does nothing, from sending it to having its answer. Raises Missing."""
    with tempfile.TemporaryDirectory(prefix="promptctx-") as folder:
        environment = celery_environment("sqlite:///unused.db", BROKERS[dispatcher])
        settings = _settings(environment)
        queue = queue_name(settings, "project")
        command = ("--app=benchmarks.pipelines.noop", "worker", "--concurrency=2", f"--queues={queue}",
                   "--loglevel=INFO", "--without-gossip", "--without-mingle")  # fmt: skip
        process = Process("noop", command, environment, Path(folder), module="celery")
        try:
            process.wait_for(" ready.")
            app = make_noop(settings)
            trip = partial(_there_and_back, app, queue)
            taken = [trip() for _ in range(scale.trips + 20)][20:]
            app.close()
        finally:
            process.stop()
            forget_queues(environment)
    return _ranked("noop", taken)


def _there_and_back(app: Any, queue: str) -> float:
    begun = time.perf_counter()
    app.send_task(TASK, queue=queue).get(timeout=PATIENCE)
    return (time.perf_counter() - begun) * 1000
