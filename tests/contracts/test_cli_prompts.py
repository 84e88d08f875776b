"""The command line about prompts: compile, prompts, show, replay."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from promptctx.cli import Cli, app
from promptctx.cli.prompts import overrides_of
from promptctx.cli.report import budget_bar
from promptctx.testing import FakeServer

REPORT: dict[str, Any] = {
    "budget": 1000,
    "tokens": 600,
    "zones": {"anchor_system": 100, "window": 400, "slots": 99, "reinforcement": 1},
    "units": [
        {"from_seq": 1, "to_seq": 8, "units": 4, "tokens": 800, "disposition": "dropped", "reason": "window"},
        {"from_seq": 9, "to_seq": 9, "units": 1, "tokens": 5, "disposition": "dropped", "reason": "window"},
        {"from_seq": 10, "to_seq": 10, "units": 1, "tokens": 50, "disposition": "summarized", "reason": "age"},
        {"from_seq": 11, "to_seq": 20, "units": 5, "tokens": 400, "disposition": "included", "reason": "window"},
    ],
    "slots": {
        "recall": {
            "budget": 200,
            "used": 10,
            "items": [
                {"key": "m-1", "disposition": "dropped", "reason": "min_score", "tokens": 12},
                {"key": "m-2", "disposition": "included", "reason": "", "tokens": 10},
            ],
        }
    },
    "warnings": ["unknown mode 'x': chat is used"],
}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def run(server: FakeServer) -> Callable[..., Result]:
    def _run(*arguments: str, **extra: Any) -> Result:
        return CliRunner().invoke(app, list(arguments), obj=Cli(transport=server), env={"COLUMNS": "120"}, **extra)

    assert _run("emit", "s-1", "user.input", '{"content": "What is the weather?"}').exit_code == 0
    return _run


Run = Callable[..., Result]


def test_compile_shows_the_prompt_and_its_budget(run: Run) -> None:
    said = run("compile", "s-1", "--budget", "100")
    assert said.exit_code == 0
    assert "@@ user" in said.stdout
    assert "What is the weather?" in said.stdout
    assert "of 100" in said.stdout
    assert "window" in said.stdout


def test_compile_as_json_is_the_whole_prompt(run: Run, server: FakeServer) -> None:
    said = run(
        "compile", "s-1", "--json", "--budget", "100", "--mode", "react", "--model", "gpt-4o", "--format", "anthropic",
        "--query", "weather", "--as-of", "2026-01-01T00:00:00Z", "--fresh", "--preset", "classic", "--locale", "zh",
        "--set", "slots.recall.top_k=3", "--set", "low_water=0.5",
    )  # fmt: skip
    prompt = json.loads(said.stdout)
    assert {"id", "version", "tokens", "payload", "report", "content_hash", "request", "inputs"} <= set(prompt)
    asked = json.loads(server.requests[-1].content)
    assert asked.pop("wait") > 0
    assert asked == {
        "budget": 100, "mode": "react", "model": "gpt-4o", "format": "anthropic", "query": "weather",
        "as_of": "2026-01-01T00:00:00Z", "fresh": True, "preset": "classic", "locale": "zh",
        "overrides": {"slots": {"recall": {"top_k": 3}}, "low_water": 0.5},
    }  # fmt: skip


def test_compile_need_not_wait(run: Run) -> None:
    assert run("compile", "s-1", "--no-wait").stdout == "job job-1 is queued\n"
    assert json.loads(run("compile", "s-1", "--no-wait", "--json").stdout)["status"] == "queued"


def test_a_compile_that_nobody_does_ends_with_advice(server: FakeServer, run: Run) -> None:
    server.worker = False
    said = run("compile", "s-1", "--timeout", "0")
    assert said.exit_code == 1
    assert "worker" in said.stderr
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize("change", ["x", "=1", "a..b=1", ".=1"])
def test_an_override_that_is_none_is_wrong_usage(run: Run, change: str) -> None:
    said = run("compile", "s-1", "--set", change)
    assert said.exit_code == 2
    assert "--set" in said.stderr


def test_overrides_nest_by_their_dots() -> None:
    made = overrides_of(["slots.recall.top_k=3", "slots.recall.min_score=0.4", "placement.recall=tail", "x=true"])
    assert made == {"slots": {"recall": {"top_k": 3, "min_score": 0.4}}, "placement": {"recall": "tail"}, "x": True}
    with pytest.raises(Exception, match="inside"):
        overrides_of(["a=1", "a.b=2"])


def test_prompts_are_listed(run: Run) -> None:
    run("compile", "s-1")
    run("compile", "s-1", "--fresh")
    assert [one["version"] for one in json.loads(run("prompts", "s-1", "--json").stdout)["prompts"]] == [2, 1]
    assert "s-1-2" in run("prompts", "s-1").stdout
    assert len(json.loads(run("prompts", "s-1", "--json", "--limit", "1").stdout)["prompts"]) == 1


def test_show_tells_what_was_left_out_and_why(run: Run, server: FakeServer) -> None:
    run("compile", "s-1")
    server.prompts["s-1-1"]["report"] = REPORT
    said = run("show", "s-1-1")
    assert said.exit_code == 0
    rows = [line.split() for line in said.stdout.splitlines()]
    assert ["events", "1", "to", "9", "(5", "units)", "dropped", "window", "805"] in rows
    assert ["event", "10", "summarized", "age", "50"] in rows
    assert ["recall:", "m-1", "dropped", "min_score", "12", "slots"] in rows
    assert "m-2" not in said.stdout
    assert "Not in the prompt as it was: 3" in said.stdout
    assert "! unknown mode 'x': chat is used" in said.stdout
    assert json.loads(run("show", "s-1-1", "--json").stdout)["report"] == REPORT


def test_show_derives_another_format(run: Run) -> None:
    run("compile", "s-1")
    derived = json.loads(run("show", "s-1-1", "--format", "text", "--json").stdout)
    assert derived["payload"] == {"text": "user: What is the weather?"}
    assert derived["derived"]


def test_an_unknown_prompt_is_one_line_and_exit_1(run: Run) -> None:
    for command in ("show", "replay"):
        said = run(command, "nope")
        assert (said.exit_code, said.stdout) == (1, "")
        assert said.stderr == (
            "promptctx: No prompt 'nope': name one by its id or as SESSION@VERSION; `promptctx prompts SESSION` lists"
            " them. [unknown_snapshot]\n"
        )


def test_replay_compares_the_bytes(run: Run, server: FakeServer) -> None:
    run("compile", "s-1")
    assert run("replay", "s-1-1").stdout.startswith("identical: sha256 ")
    assert json.loads(run("replay", "s-1-1", "--json").stdout)["identical"] is True
    answer = {
        "prompt": "s-1-1", "identical": False, "content_hash": "a", "replayed_hash": "b",
        "first_difference": {"at": "messages.0"}, "cause": "code",
    }  # fmt: skip
    server.faults = [httpx2.Response(200, json=server.prompts["s-1-1"]), httpx2.Response(200, json=answer)]
    said = run("replay", "s-1-1")
    assert said.exit_code == 1
    assert "cause: code" in said.stdout
    assert "messages.0" in said.stdout


def test_the_bar_has_a_cell_for_every_zone_and_never_too_many() -> None:
    for marks in ("█░", "#.", " ░"):
        bar = budget_bar(REPORT["zones"], 1000, 60, marks).plain.split("\n")
        assert len(bar[0]) == 60
        assert "reinforcement 1 " in bar[1]
        assert "free 400" in bar[1]
    letters = budget_bar(REPORT["zones"], 1000, 60, " ░").plain.split("\n")[0]
    assert [letters.count(mark) for mark in "SLWR░"] == [6, 5, 24, 1, 24]


@pytest.mark.parametrize("zones", [{}, {"window": 0}, {"window": 5000}, {f"zone {n}": 1 for n in range(30)}])
def test_the_bar_fits_whatever_the_report_says(zones: dict[str, int]) -> None:
    bar = budget_bar(zones, 1000, 40).plain.split("\n")[0]
    assert len(bar) == 40


def test_a_report_of_another_release_does_not_break_the_page(run: Run, server: FakeServer) -> None:
    run("compile", "s-1")
    server.prompts["s-1-1"] |= {"report": {}, "budget": None, "extra": 1, "payload": {"messages": [{"role": "x"}]}}
    assert run("show", "s-1-1").exit_code == 0
