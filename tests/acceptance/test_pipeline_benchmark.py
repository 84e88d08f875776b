"""The measurements of the pipeline: what their reports hold, on runs too small to say anything."""

import json
from pathlib import Path

import pytest

from benchmarks import load, pipeline
from benchmarks.pipelines import page
from benchmarks.pipelines.memory import thirds
from benchmarks.pipelines.traffic import Plan, endpoint
from benchmarks.speed import Scale
from benchmarks.trajectory import reporting

ROOT = Path(__file__).resolve().parents[2]
TINY = Scale(runs=1, appends=16, batched=400, compiles=1, trips=4, peers=False)


@pytest.mark.benchmarks
def test_agents_under_load_lose_nothing_and_the_report_tells_by_endpoint_and_process() -> None:
    report = load.run(Plan(sessions=3, seconds=4, think=0.2), ["sqlite"])

    told = report["deployments"][0]
    assert (told["errors"], told["lost"], told["refused"], told["unanswered"]) == (0, 0, {}, {}), told["problems"]
    assert told["verify"]["ok"]
    assert told["drained_seconds"] is not None
    assert not told["complaints"]
    assert told["verify"]["events"] >= told["acknowledged"] > 3
    assert {"POST /v1/sessions/{}/events", "POST /v1/sessions/{}/prompts"} <= {
        row["endpoint"] for row in told["endpoints"]
    }
    assert all(row["p50"] <= row["p95"] <= row["p99"] <= row["max"] for row in told["endpoints"])
    assert [row["process"] for row in told["memory"]] == ["server"]
    assert json.loads(json.dumps(report)) == report


@pytest.mark.benchmarks
def test_each_path_has_its_ratio_its_goal_and_whether_that_was_reached(tmp_path: Path) -> None:
    report = pipeline.run(TINY, (1_000, 1_200), ["sqlite"], ["inline", "thread"])

    assert not report["missing"]
    by_path = {goal["path"]: goal for goal in report["goals"]}
    assert by_path["append, 1 per call, SQLite, to Core's single rows"]["reached"] > 0
    assert by_path["append, 1 per call, SQLite, to eventsourcing"]["passed"] is None
    for path in ("doorbell to projected, p95, SQLite, thread, ms", "storage, SQLite, to the bytes appended"):
        assert by_path[path]["passed"] is not None
    assert {"driver_one", "core_one", "ours_one"} <= set(report["figures"]["append_sqlite"])
    assert {"catch_up", "append_one", "doorbell_p95", "compile_p50"} <= set(report["figures"]["sqlite_thread"])
    document = tmp_path / "page.md"
    document.write_text((ROOT / "docs" / "benchmarks-pipeline.md").read_text())
    reporting.write(document, page.pipeline_parts(report).get)
    assert "| storage, SQLite, to the bytes appended | ≤ 3 |" in document.read_text()


def test_memory_is_flat_unless_its_last_third_is_a_tenth_above_the_second() -> None:
    def judged(*parts: float) -> object:
        return thirds([(at + part * 10, size) for part, size in enumerate(parts) for at in range(10)], 30)["flat"]

    assert judged(50, 100, 100) is True
    assert judged(50, 100, 109) is True
    assert judged(100, 100, 112) is False
    assert judged(100, 100) is None


def test_requests_are_told_apart_by_endpoint_and_not_by_id() -> None:
    assert endpoint("/v1/sessions/load-0001/events") == "/v1/sessions/{}/events"
    assert endpoint("/v1/prompts/p-1/report") == "/v1/prompts/{}/report"
    assert endpoint("/v1/sessions") == "/v1/sessions"
