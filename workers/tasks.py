"""The tasks: stable names, arguments of ids only. A task never fails: what goes wrong is recorded with the work.

Each worker process has an engine and a sweeper of its own, so that work gets done also while the broker is away.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

import structlog
from celery import current_task, signals

from domain.errors import PromptctxError
from workers import metrics, telemetry, tracing
from workers.app import TRACE, app, dead_letters, queue_name
from workers.assembly import build, settle_in
from workers.dispatch import Sweeper, sweepers
from workers.engine import Engine, sweeping
from workers.settings import Settings, load_settings
from workers.store.work import KINDS

logger = structlog.get_logger(__name__)

_lock = threading.Lock()
_engines: dict[int, Engine] = {}
_sweepers: dict[int, list[Sweeper]] = {}


def engine() -> Engine:
    """The engine of this process, made when it is first needed: connections do not survive a fork."""
    with _lock:
        if os.getpid() not in _engines:
            _engines.clear()
            _engines[os.getpid()] = build(load_settings(dispatcher="celery", broker_url=app.conf.broker_url))
        return _engines[os.getpid()]


def _task(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Celery's decorator, whose types are not declared."""
    register: Callable[[Callable[..., None]], Callable[..., None]] = app.task(name=name)
    return register


def _request() -> Any:
    """The message of the task at work, whose type is not declared."""
    return current_task.request


def _run(kind: str, tenant: str, stream: int) -> None:
    try:
        deps, request = engine().deps, _request()
        with tracing.under(request.get(TRACE)):
            sweeping.run(deps, tenant, stream, kind)
    except PromptctxError as error:
        logger.warning("work is left for the sweeper", kind=kind, reason=error.message)
    except Exception:
        logger.exception("work is left for the sweeper", kind=kind)


@_task("promptctx.project")
def project(tenant: str, stream: int) -> None:
    _run("project", tenant, stream)


@_task("promptctx.compile")
def compile(tenant: str, stream: int) -> None:
    _run("compile", tenant, stream)


@_task("promptctx.summarize")
def summarize(tenant: str, stream: int) -> None:
    _run("summarize", tenant, stream)


@_task("promptctx.maintenance")
def maintenance(tenant: str, stream: int) -> None:
    _run("maintenance", tenant, stream)


@_task("promptctx.sweep")
def sweep() -> None:
    try:
        engine().sweep()
    except PromptctxError as error:
        logger.warning("sweep failed", reason=error.message)


def _kinds() -> list[str]:
    """The kinds whose queues this worker reads: it sweeps for those, and leaves the others to their workers."""
    read = set(app.amqp.queues.consume_from)
    settings = load_settings()
    return [kind for kind in KINDS if queue_name(settings, kind) in read] or list(KINDS)


def _start_sweepers() -> None:
    if os.getpid() not in _sweepers:
        _sweepers.clear()
        _sweepers[os.getpid()] = sweepers(engine().deps, _kinds())
        for one in _sweepers[os.getpid()]:
            one.start()
        settle_in(engine())


def _child_begins(**told: Any) -> None:
    _start_sweepers()


def _child_ends(**told: Any) -> None:
    for one in _sweepers.pop(os.getpid(), ()):
        one.close()
    tracing.flush()


def _worker_ready(sender: Any, **told: Any) -> None:
    if "prefork" not in type(sender.pool).__module__:
        # With prefork the children sweep; a thread here would have to survive their forks.
        _start_sweepers()
    if str(app.conf.broker_url).startswith("amqp"):
        _declare_dead_letters()
    _serve_metrics(load_settings())


def _serve_metrics(settings: Settings) -> None:
    """From the parent, which tells of its children too if they share a folder (PROMETHEUS_MULTIPROC_DIR)."""
    if settings.metrics_port is None:
        return
    try:
        port = metrics.serve(settings.host, settings.metrics_port, engine().health)
        logger.info("metrics are served", port=port)
    except PromptctxError as error:
        logger.warning("metrics are not served", reason=error.message)


def _declare_dead_letters() -> None:
    try:
        with app.connection_for_write() as connection:
            bound: Any = dead_letters(load_settings())(connection)
            bound.declare()
    except Exception as error:
        logger.warning("the queue of dead letters could not be declared", reason=telemetry.told(error))


signals.worker_process_init.connect(_child_begins)
signals.worker_process_shutdown.connect(_child_ends)
signals.worker_ready.connect(_worker_ready)
