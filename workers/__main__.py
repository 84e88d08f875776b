"""`python -m workers …`: what needs the store. Everything else goes over HTTP, with the client `promptctx`."""

import argparse
import importlib
import json
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from domain.errors import InvalidRequest, PromptctxError
from workers import assembly, metrics, telemetry
from workers.access import commands as access
from workers.access import refuse_open_door
from workers.clock import SystemClock
from workers.commands import care, erase
from workers.settings import Settings, load_settings, masked
from workers.store import Database, migrate


def main(argv: Sequence[str]) -> int:
    if argv[:1] == ["demo"]:
        # The demo plays both sides of the wire, and nothing else here does.
        return int(importlib.import_module("workers.demo").main(argv[1:]))
    asked = _parser().parse_args(argv)
    try:
        settings = load_settings()
        telemetry.configure(settings.log_level)
        code: int = asked.run(settings, asked)
        return code
    except PromptctxError as error:
        if asked.debug:
            raise
        print(f"workers {asked.command}: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


# --- servers and workers ----------------------------------------------------------------------------------------------


def up(settings: Settings, asked: argparse.Namespace) -> int:
    """The embedded server: migrates, serves, and does the work in threads of its own."""
    return _serve(settings, asked, migrate.upgrade)


def web(settings: Settings, asked: argparse.Namespace) -> int:
    """The server alone: with the dispatcher celery, workers elsewhere do the work."""
    return _serve(settings, asked, migrate.check)


def _serve(settings: Settings, asked: argparse.Namespace, prepare: Callable[[str], None]) -> int:
    host, port = asked.host or settings.host, settings.port if asked.port is None else asked.port
    settings = settings.model_copy(update={"host": host})
    # The port first: a server that nobody can reach changes no tables and takes nobody's work.
    with _bound(host, port) as bound:
        prepare(settings.database_url)
        processes = asked.processes or os.cpu_count() or 1
        return _serve_one(settings, bound) if processes == 1 else _serve_many(settings, bound, processes)


def _serve_one(settings: Settings, bound: socket.socket) -> int:
    import uvicorn

    engine = assembly.build(settings)
    try:
        refuse_open_door(engine.deps.database, settings, engine.deps.clock)
        # By name: the web stands above the workers and imports them, never the other way round.
        app = importlib.import_module("web.app").create_app(engine, settings)
        assembly.settle_in(engine)
        config = uvicorn.Config(app, **_served(settings))
        uvicorn.Server(config).run(sockets=[_listening(settings, bound, config.backlog)])
    finally:
        assembly.close(engine)
    return 0


def _serve_many(settings: Settings, bound: socket.socket, processes: int) -> int:
    """Processes that share a port and the store: each serves and works, and one that dies is followed by another."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    database = Database(settings.database_url, settings.sync_mode)
    refuse_open_door(database, settings, SystemClock())
    database.dispose()
    os.environ["PROMPTCTX_HOST"] = settings.host  # they read the settings themselves
    config = uvicorn.Config("web.app:from_settings", factory=True, workers=processes, **_served(settings))
    Multiprocess(config, [_listening(settings, bound, config.backlog)]).run()
    return 0


def _served(settings: Settings) -> dict[str, Any]:
    return {
        "log_level": settings.log_level.lower(), "access_log": False, "timeout_graceful_shutdown": 5,
        # Longer than clients keep an idle connection: the side that is asked must not be the one that hangs up.
        "timeout_keep_alive": 75,
        # A process that still loads its modules on a busy machine is not one that hangs: killed, it would never begin.
        "timeout_worker_healthcheck": 120,
    }  # fmt: skip


def _listening(settings: Settings, bound: socket.socket, backlog: int) -> socket.socket:
    """The socket, told of by its URL: it is printed when it answers."""
    bound.listen(backlog)
    address = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"promptctx: http://{address}:{bound.getsockname()[1]} ({masked(settings.database_url)})", flush=True)
    return bound


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidRequest(
            f"Port {port} of {host} cannot be used ({error.strerror}): stop what listens there, or choose another with"
            " --port or PROMPTCTX_PORT."
        ) from None
    # Small answers must not wait for the acknowledgement of the one before.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def worker(settings: Settings, asked: argparse.Namespace) -> int:
    """Does the work: as a Celery worker, or without a broker by looking for it in the database."""
    migrate.check(settings.database_url)
    if settings.dispatcher == "celery":
        return _celery_worker(settings, asked)
    engine = assembly.build(settings)
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    assembly.settle_in(engine)
    if settings.metrics_port is not None:
        port = metrics.serve(settings.host, settings.metrics_port, engine.health)
        print(f"promptctx: metrics on port {port}", flush=True)
    print("promptctx: working", flush=True)
    stop.wait()
    assembly.close(engine)
    return 0


def _celery_worker(settings: Settings, asked: argparse.Namespace) -> int:
    # A stop lets running tasks end within the soft shutdown's time, and gives back the rest.
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    from workers.app import QUEUED, app, queue_name

    every = ",".join(queue_name(settings, kind) for kind in QUEUED)
    options = [
        "worker",
        f"--queues={asked.queues or every}",
        f"--concurrency={asked.concurrency}",
        f"--pool={asked.pool}",
        # Two workers of one name would fight for one control queue.
        f"--hostname=promptctx-{uuid.uuid4().hex[:12]}@%h",
        f"--loglevel={settings.log_level}",
        "--without-gossip",
        "--without-mingle",
    ]
    app.worker_main(options)
    return 0


# --- care -------------------------------------------------------------------------------------------------------------


def doctor(settings: Settings, asked: argparse.Namespace) -> int:
    from workers.doctor import examine

    found = examine(settings)
    if asked.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            if name != "problems":
                print(f"{name}: {json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value}")
        for problem in found["problems"]:
            print(f"problem: {problem}")
        print("all well" if not found["problems"] else f"{len(found['problems'])} problems")
    return 1 if found["problems"] else 0


# --- the command line -------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers", description="What needs the store of promptctx.")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[Settings, Any], int], about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about)
        made.set_defaults(run=run)
        return made

    for name, run, about in (
        ("up", up, "migrate and serve; the work is done in threads of this process"),
        ("web", web, "serve; the work is done where the dispatcher says"),
    ):
        made = command(name, run, about)
        made.add_argument("--host")
        made.add_argument("--port", type=int, help="0 takes any free one")
        made.add_argument("--processes", type=int, default=1, help="that serve and work; 0 is one for each core")
    made = command("worker", worker, "do the work: a Celery worker, or without a broker one that looks for it")
    made.add_argument("--queues", help="names with commas; all of them when left out")
    made.add_argument("--concurrency", type=int, default=2)
    made.add_argument("--pool", default="prefork", choices=("prefork", "threads", "solo"))
    for module in (care, erase):
        module.add(command)
    made = command("doctor", doctor, "tell what is configured, what answers, and what waits for a person")
    made.add_argument("--json", action="store_true")
    access.add_to(commands)
    commands.add_parser("demo", help="a real agent's log, end to end")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
