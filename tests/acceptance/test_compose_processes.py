"""The commands of the compose file and of the image, as processes of this machine on local services.

No Docker engine is needed: the commands, settings and health checks are taken from the two files; only what names a
container's network or disk is replaced. The how-to pages that say `docker compose` are followed on these processes.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import howto_pages
import httpx2
import pytest
import sqlalchemy as sa
import stamina
import yaml
from server_process import free_port

from workers import telemetry
from workers.__main__ import main as workers_command
from workers.app import make_app
from workers.settings import load_settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
ENV_FILE = dict(
    line.split("=", 1)
    for line in (ROOT / ".env.example").read_text("utf-8").splitlines()
    if "=" in line and not line.startswith("#")
)
WAIT = 90.0
KEY = ENV_FILE["PROMPTCTX_ROOT_KEY"]
Process = subprocess.Popen[str]


def filled(text: str) -> str:
    """As compose fills in `${NAME:-default}` from `.env`, and `$$`."""
    found = re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda one: ENV_FILE.get(one[1], one[2] or ""), text)
    return found.replace("$$", "$")


@pytest.fixture
def local(new_postgres_url: str, redis_url: str) -> dict[str, str]:
    """What differs from a container: where the services are, and that any free port will do."""
    return {
        "PROMPTCTX_DATABASE_URL": new_postgres_url,
        "PROMPTCTX_BROKER_URL": redis_url,
        "PROMPTCTX_HOST": "127.0.0.1",
        "PROMPTCTX_PORT": "0",
        "PROMPTCTX_REQUIRE_KEYS": "1",  # as on the public interface of the container
    }


def environment(name: str, local: dict[str, str]) -> dict[str, str]:
    told = {key: filled(value) for key, value in SERVICES[name]["environment"].items()}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **told, **local, "PATH": path, "HOSTNAME": socket.gethostname(), "PYTHONUNBUFFERED": "1"}


def command(name: str) -> list[str]:
    return [filled(word) for word in SERVICES[name]["command"]]


@contextmanager
def started(words: list[str], env: dict[str, str], log: Path) -> Iterator[Process]:
    """A process in a group of its own, gone at the end; what it says on stderr is in `log`."""
    with log.open("a") as errors:
        process = subprocess.Popen(
            words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def address(process: Process, log: Path) -> str:
    assert process.stdout
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return found[0]
    raise AssertionError(f"it ended without serving:\n{log.read_text()}")


def until(check: Any) -> Any:
    """The answer of `check` as soon as it does not fail."""
    expected = (AssertionError, httpx2.TransportError)
    for attempt in stamina.retry_context(on=expected, attempts=None, timeout=WAIT, wait_max=0.5):
        with attempt:
            return check()
    raise AssertionError("not reached")


def healthy(name: str, env: dict[str, str]) -> None:
    kind, words = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    done = subprocess.run(["sh", "-c", filled(words)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stdout + done.stderr


def answered(url: str, path: str) -> Any:
    answer = httpx2.get(f"{url}{path}", headers={"Authorization": f"Bearer {KEY}"}, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.json()


def run_here(arguments: list[str], env: dict[str, str]) -> str:
    """`python -m workers …` in this process, where everything is loaded already: what it prints."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        for name, value in env.items():
            patch.setenv(name, value)
        code = workers_command(arguments)
    telemetry.configure("WARNING")  # as before
    assert code == 0, f"{arguments}\n{printed.getvalue()}"
    return printed.getvalue()


class Deployment:
    """The services as processes, and `docker compose …` as the pages type it."""

    def __init__(self, local: dict[str, str], folder: Path, stack: ExitStack) -> None:
        self.local, self.folder, self.stack = local, folder, stack
        self.running: dict[str, Process] = {}
        self.printed = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.local['PROMPTCTX_PORT']}"

    def typed(self, lines: str, env: dict[str, str], folder: Path) -> str:
        """What the lines print, one after the other; those that are not for compose go to a shell."""
        said = [
            self._compose(shlex.split(line, comments=True)[2:]) if line.startswith("docker compose ")
            else howto_pages.typed(line, env, folder)
            for line in lines.splitlines()
        ]  # fmt: skip
        self.printed += "".join(said)
        if key := re.search(r"^pctx_\S+", self.printed, re.MULTILINE):
            os.environ["PROMPTCTX_API_KEY"] = key[0]  # as the page says of the key that it was shown
        return "".join(said)

    def _compose(self, words: list[str]) -> str:
        if words[0] == "up":
            self.up()
        elif words[0] == "stop":
            self.stop(words[1:])
        else:
            assert words[0] == "exec"
            return self._inside([word for word in words[1:] if word != "-T"])
        return ""

    def up(self) -> None:
        run_here(command("migrate")[3:], environment("migrate", self.local))
        for name in ("web", "worker", "worker-summarize"):
            words, env = command(name), environment(name, self.local)
            self.running[name] = self.stack.enter_context(started(words, env, self.log(name)))
        address(self.running["web"], self.log("web"))
        until(self._both_workers_answer)

    def _both_workers_answer(self) -> None:
        url, broker = self.local["PROMPTCTX_DATABASE_URL"], self.local["PROMPTCTX_BROKER_URL"]
        control: Any = make_app(load_settings(database_url=url, dispatcher="celery", broker_url=broker)).control
        assert len(control.ping(timeout=5, limit=2)) == 2

    def stop(self, names: list[str]) -> None:
        for name in names:
            self.running[name].send_signal(signal.SIGTERM)
        for name in names:
            stopped = (0, -signal.SIGTERM) if name == "web" else (0,)
            assert self.running.pop(name).wait(WAIT) in stopped, self.log(name).read_text()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _inside(self, line: list[str]) -> str:
        """A command in the container of the service that is named first, with `< FILE` and `> FILE` outside of it."""
        service, *words = line
        given = self.folder / words[words.index("<") + 1] if "<" in words else Path(os.devnull)
        taken = self.folder / words[words.index(">") + 1] if ">" in words else None
        words = words[: next((at for at, word in enumerate(words) if word in "<>"), None)]
        if service == "postgres":
            env, words = self._as_postgres(words)
        else:
            env = environment(service, self.local)
        if words[:3] == ["python", "-m", "workers"] and "<" not in line:
            said = run_here(words[3:], env).encode()
        else:
            with given.open("rb") as file:
                said = self._ran(words, env, stdin=file)
        if taken:
            taken.write_bytes(said)
        return "" if taken else said.decode()

    def _as_postgres(self, words: list[str]) -> tuple[dict[str, str], list[str]]:
        """PostgreSQL's own programs: where the server is, and its names for the role and the database."""
        url = sa.make_url(self.local["PROMPTCTX_DATABASE_URL"])
        named = {"--username=promptctx": f"--username={url.username}", "--dbname=promptctx": f"--dbname={url.database}"}
        named["promptctx"] = str(url.database)
        env = {"PGHOST": str(url.host), "PGPORT": str(url.port or 5432), "PGPASSWORD": str(url.password or "")}
        return {**os.environ, **env}, [named.get(word, word) for word in words]

    def _ran(self, words: list[str], env: dict[str, str], stdin: IO[bytes] | None = None) -> bytes:
        done = subprocess.run(words, cwd=ROOT, env=env, stdin=stdin, capture_output=True, timeout=WAIT)
        assert done.returncode == 0, f"{words}\n{done.stdout.decode()}{done.stderr.decode()}"
        return done.stdout


@pytest.mark.celery
@pytest.mark.services
def test_the_services_of_the_compose_file_work_together_as_the_pages_say(
    local: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("NOT TESTED: no pg_dump on this machine")
    monkeypatch.setenv("PROMPTCTX_API_KEY", "")  # the page makes one
    with ExitStack() as stack:
        deployed = Deployment({**local, "PROMPTCTX_PORT": str(free_port())}, tmp_path, stack)
        monkeypatch.setenv("PROMPTCTX_URL", deployed.url)
        howto_pages.follow("production.md", {}, tmp_path, deployed.typed)
        compiled = [name for name in deployed.running if "prompt compiled" in deployed.log(name).read_text()]
        assert compiled == ["worker"], "through Celery, not in the process that serves"
        for name in ("worker", "worker-summarize"):
            healthy(name, environment(name, deployed.local))
        howto_pages.follow("upgrade.md", {}, tmp_path, deployed.typed)
        deployed.stop(["worker-summarize", "worker", "web"])


def test_more_settings_reach_every_service_that_reads_them() -> None:
    told = yaml.safe_load(howto_pages.files_of("production.md")["docker-compose.override.yml"])["services"]
    assert set(told) == {name for name in SERVICES if name == "web" or name.startswith("worker")}
    assert {volume.split(":")[1] for one in told.values() for volume in one["volumes"]} == {"/app/promptctx.toml"}
    assert "WORKDIR /app" in (ROOT / "Dockerfile").read_text("utf-8")


@pytest.mark.celery
@pytest.mark.services
def test_flower_sees_the_workers_of_the_compose_file(local: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    words = [word.replace("5555", str(port)) for word in command("flower")]
    with (
        started(command("worker"), environment("worker", local), tmp_path / "worker.log"),
        started([*words, "--address=127.0.0.1"], environment("flower", local), tmp_path / "flower.log"),
    ):

        def seen() -> Any:
            healthy = httpx2.get(f"http://127.0.0.1:{port}/healthcheck", trust_env=False)
            told = httpx2.get(f"http://127.0.0.1:{port}/workers?json=1", trust_env=False).json()["data"]
            assert (healthy.status_code, [one["status"] for one in told]) == (200, [True])
            return told

        assert [one["hostname"].partition("@")[0] for one in until(seen)] == ["worker"]


def test_the_image_serves_by_itself_on_a_file(tmp_path: Path) -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    (told,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    (declared,) = [line for line in lines if line.startswith("ENV PROMPTCTX_")]
    env = dict(pair.split("=", 1) for pair in declared.split()[1:])
    assert env["PROMPTCTX_DATABASE_URL"].startswith("sqlite:////data/")
    env |= {
        "PROMPTCTX_DATABASE_URL": f"sqlite:///{tmp_path / 'promptctx.db'}",
        "PROMPTCTX_HOST": "127.0.0.1",
        "PROMPTCTX_PORT": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    log = tmp_path / "image.log"
    with started(told, {**os.environ, **env}, log) as process:
        url = address(process, log)
        until(lambda: answered(url, "/readyz"))
