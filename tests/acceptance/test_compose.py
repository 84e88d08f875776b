"""The compose file and the image say only what the code knows: no Docker engine is needed to see that."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers import tracing
from workers.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
WORKERS = [name for name, service in OURS.items() if "worker" in service["command"]]


def test_the_services_are_the_documented_ones() -> None:
    plain = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert plain == {"postgres", "redis", "migrate", "web", "worker", "worker-summarize"}
    assert {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service} == {
        "rabbitmq": ["rabbitmq"],
        "flower": ["flower"],
    }


@pytest.mark.parametrize("name", [name for name in OURS if OURS[name]["command"][0] == "python"])
def test_a_server_command_exists(name: str) -> None:
    python, *arguments = OURS[name]["command"]
    assert python == "python"
    done = subprocess.run(
        [sys.executable, *arguments, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def options(name: str) -> dict[str, str]:
    pairs = (word.split("=", 1) for word in OURS[name]["command"] if word.startswith("--"))
    return dict(pairs)


def test_the_workers_together_listen_on_every_queue_of_the_app() -> None:
    app = importlib.import_module("workers.app").app
    listened = [queue for name in WORKERS for queue in options(name)["--queues"].split(",")]
    assert sorted(listened) == sorted(queue.name for queue in app.conf.task_queues)


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_is_named_and_runs_our_app(name: str) -> None:
    assert options(name)["--app"] == "workers.app"
    node = options(name)["--hostname"].removesuffix("@%h")
    assert f"--destination={node}@$$HOSTNAME" in OURS[name]["healthcheck"]["test"][1]


@pytest.mark.parametrize("name", OURS)
def test_a_service_sets_only_what_the_settings_know(name: str) -> None:
    known = {f"PROMPTCTX_{field.upper()}" for field in Settings.model_fields} | {tracing.ENDPOINT}
    assert set(OURS[name]["environment"]) <= known


def test_the_plain_values_are_valid_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in OURS["web"]["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+(?::[-?]([^}]*))?\}", r"\1", value))
    assert Settings().dispatcher == "celery"


def test_the_example_of_the_environment_names_exactly_what_the_file_reads() -> None:
    read = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text(encoding="utf-8")))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(?:# )?([A-Z_]+)=", example, flags=re.MULTILINE)) == read


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_what_serves_waits_for_the_migration_and_says_how_it_is(name: str) -> None:
    assert OURS[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert OURS[name]["healthcheck"]["test"]


def test_every_volume_is_declared_and_no_port_is_open_to_the_world() -> None:
    mounted = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert mounted == set(COMPOSE["volumes"])
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_copies_what_is_there_and_does_not_run_as_root() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    sources = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [source for source in sources if f"!{source}" not in ignored] == []
    assert [line.split()[1] for line in lines if line.startswith("USER ")] == ["promptctx"]
