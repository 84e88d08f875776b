"""The commands of the compose file and of the image, as processes of this machine on local services.

No Docker engine is needed: the commands, settings and health checks are taken from the two files; only what names a
container's network or disk is replaced.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import stamina
import yaml

pytestmark = [pytest.mark.services, pytest.mark.slow]

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
    with log.open("w") as errors:
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


def posted(url: str, path: str, body: Any) -> Any:
    headers = {"Authorization": f"Bearer {KEY}"}
    answer = httpx2.post(f"{url}{path}", json=body, headers=headers, trust_env=False)
    assert answer.status_code < 300, answer.text
    return answer.json()


def test_the_services_of_the_compose_file_work_together(local: dict[str, str], tmp_path: Path) -> None:
    migrated = subprocess.run(
        command("migrate"), cwd=ROOT, env=environment("migrate", local), capture_output=True, text=True, timeout=WAIT
    )
    assert migrated.returncode == 0, migrated.stderr
    logs = {name: tmp_path / f"{name}.log" for name in ("web", "worker", "worker-summarize")}
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(started(command(name), environment(name, local), log))
            for name, log in logs.items()
        }
        url = address(running["web"], logs["web"])
        until(lambda: answered(url, "/readyz"))
        posted(url, "/v1/sessions/s/events", {"kind": "user.input", "payload": {"content": "hello"}})
        job = posted(url, "/v1/sessions/s/prompts", {"budget": 2000})

        def done() -> Any:
            told = answered(url, f"/v1/jobs/{job['id']}")
            assert told["status"] == "done", told
            return told

        assert until(done)["prompt"]
        compiled = [name for name, log in logs.items() if f"job={job['id']}" in log.read_text()]
        assert compiled == ["worker"], "through Celery, not in the process that serves"
        for name in ("worker", "worker-summarize"):
            until(lambda name=name: healthy(name, environment(name, local)))  # type: ignore[misc]
        for name in ("worker-summarize", "worker"):
            running[name].send_signal(signal.SIGTERM)
            assert running[name].wait(WAIT) == 0, logs[name].read_text()
        running["web"].send_signal(signal.SIGTERM)
        assert running["web"].wait(WAIT) in (0, -signal.SIGTERM), logs["web"].read_text()


def test_flower_sees_the_workers_of_the_compose_file(local: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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
