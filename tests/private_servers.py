"""Servers that may be killed: PostgreSQL, Redis and RabbitMQ of the suite's own, on free ports, in folders apart.

The machine's servers are never touched. A server that is killed keeps its port and its folder, and starts again there.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import kombu
import psycopg
import redis
import started

DEADLINE = 300.0
"""Seconds after which a test fails, on a machine that does ten other things as well."""


class Missing(Exception):
    """The programs of a server are not installed."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def listens(port: int) -> bool:
    """Somebody takes connections there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def until(true: Callable[[], bool], what: str, deadline: float = DEADLINE) -> None:
    """Look until it is so; a failure, not a wait, is what the deadline is for."""
    end = time.monotonic() + deadline
    while not true():
        assert time.monotonic() < end, f"not within {deadline:g} s: {what}"
        time.sleep(0.05)


def _program(name: str, *places: str) -> str:
    found = shutil.which(name)
    for place in places:
        found = found or next((str(path) for path in sorted(Path("/").glob(f"{place}/{name}"), reverse=True)), None)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


class _Process:
    """A server that runs in the foreground, in a process group of its own."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._command, self._folder, self._environment = command, folder, dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "server.log").open("ab") as output:
            self._process = started.start(
                self._command, cwd=self._folder, env=self._environment, stdout=output, stderr=output
            )

    def end(self) -> None:
        if self._process is not None:
            started.end(self._process, seconds=DEADLINE)
        self._process = None


class PrivateRedis:
    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        folder.mkdir(parents=True)
        program = _program("redis-server")
        told = [
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(folder),
        ]
        self._process = _Process([program, *told, *options], folder, os.environ)

    def start(self) -> None:
        self._process.start()
        until(self.answers, "Redis answers")

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.url, socket_connect_timeout=2, socket_timeout=5)

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def crash(self) -> None:
        self._process.end()

    stop = crash


class PrivateRabbit:
    def __init__(self, folder: Path) -> None:
        self.port, dist = free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        folder.mkdir(parents=True)
        for empty in ("env.conf", "rabbitmq.conf"):
            (folder / empty).write_text("")
        (folder / "plugins").write_text("[].\n")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")},
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"chaos{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        }
        # Not the one on the path: distributions wrap it to change the user.
        places = ("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin", "usr/lib/rabbitmq/bin", "usr/local/sbin", "opt/*/sbin")
        program = next((str(found) for place in places for found in Path("/").glob(f"{place}/rabbitmq-server")), None)
        self._process = _Process([program or _program("rabbitmq-server")], folder, environment)

    def start(self) -> None:
        self._process.start()
        until(self.answers, "RabbitMQ answers")

    def answers(self) -> bool:
        if not listens(self.port):
            return False
        try:
            with kombu.Connection(self.url, connect_timeout=5) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0)
        except (OSError, kombu.exceptions.OperationalError):
            return False
        return True

    def crash(self) -> None:
        self._process.end()

    stop = crash


class PrivatePostgres:
    """PostgreSQL refuses to run as root: then it runs as the user that its package made."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.server_url = f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"
        self._folder = folder / "data"
        folder.mkdir(parents=True)
        self._as: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
            self._as = [_program("runuser"), "-u", "postgres", "--"]
        self._ctl = _program("pg_ctl", "usr/lib/postgresql/*/bin")
        initdb = _program("initdb", "usr/lib/postgresql/*/bin")
        self._run(initdb, "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", str(self._folder))

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [*self._as, *command], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self._folder} -c max_connections=100"
        log = str(self._folder / "server.log")
        self._run(self._ctl, "start", "--wait", f"--pgdata={self._folder}", f"--log={log}", f"--options={options}")
        started.watch(int((self._folder / "postmaster.pid").read_text().split()[0]))

    def crash(self) -> None:
        """As if the machine had lost its power: no checkpoint, every connection cut."""
        self._run(self._ctl, "stop", "--wait", f"--pgdata={self._folder}", "--mode=immediate")

    def stop(self) -> None:
        running = subprocess.run(
            [*self._as, self._ctl, "status", f"--pgdata={self._folder}"], cwd="/", capture_output=True
        )
        if running.returncode == 0:
            self.crash()

    def new_database(self, name: str) -> str:
        with psycopg.connect(self.server_url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"{self.server_url.rsplit('/', 1)[0]}/{name}"
