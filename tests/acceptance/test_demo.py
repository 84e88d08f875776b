"""`make demo`, as a process: on a thread, through a Celery worker, and what it says when no worker is there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from server_process import ROOT

Json = dict[str, Any]


def demo(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "workers", "demo", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sdk"), "PYTHONUTF8": "1", **settings},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """What the demo says to programs, run once for all tests of this file."""
    done = demo("--json", TMPDIR=str(tmp_path_factory.mktemp("demo")))
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    return found


def test_every_turn_of_the_log_gets_a_prompt_within_the_budget(told: Json) -> None:
    turns = told["turns"]
    assert len(turns) == 30
    assert [turn["version"] for turn in turns] == list(range(1, 31))
    assert all(turn["tokens"] <= told["budget"] == 2000 for turn in turns)
    assert turns[-1]["history"] > 4 * told["budget"]


def test_the_rule_is_in_every_prompt_although_the_history_outgrows_the_budget(told: Json) -> None:
    assert all(turn["rule"] for turn in told["turns"])
    assert any(turn["dropped"] for turn in told["turns"])


def test_the_missing_event_of_the_bad_answer_has_one_reason(told: Json) -> None:
    why = told["why"]
    assert why["kind"] == "tool.result"
    assert why["unit"]["disposition"] in ("summarized", "referenced", "dropped")
    assert (why["dropped"]["disposition"], why["dropped"]["reason"]) == ("dropped", "window")
    assert why["fact_in_prompt"] is False


def test_the_prompt_of_the_bad_answer_replays_to_the_byte(told: Json) -> None:
    replay = told["replay"]
    assert replay["identical"] is True
    assert replay["content_hash"] == replay["replayed_hash"] == told["turns"][18]["content_hash"]


def test_without_a_worker_the_wait_ends_with_advice(told: Json) -> None:
    assert "is a worker running?" in told["timeout"]


def test_the_database_that_it_leaves_is_a_whole_store(told: Json) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workers", "verify"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sdk"), "PROMPTCTX_DATABASE_URL": told["database_url"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


def test_people_are_told_the_same(told: Json, tmp_path: Path) -> None:
    done = demo(TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"identical: sha256 {told['replay']['content_hash']}" in done.stdout
    for part in ("30 of 30 prompts", "【硬性约束】", "reason window", "is a worker running?", "make up"):
        assert part in done.stdout


@pytest.mark.celery
@pytest.mark.services
def test_a_celery_worker_makes_the_same_bytes(told: Json, redis_url: str, tmp_path: Path) -> None:
    done = demo("--dispatcher", "celery", "--json", TMPDIR=str(tmp_path), PROMPTCTX_BROKER_URL=redis_url)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dispatcher"] == "celery"
    assert [turn["content_hash"] for turn in found["turns"]] == [turn["content_hash"] for turn in told["turns"]]
    assert found["same_as_thread"] == 30
    assert "is a worker running?" in found["timeout"]


def test_a_broker_that_is_away_is_told_in_a_line(tmp_path: Path) -> None:
    done = demo("--dispatcher", "celery", TMPDIR=str(tmp_path), PROMPTCTX_BROKER_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Redis" in done.stderr
