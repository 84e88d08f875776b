"""The command line of the time machine, against the real application: what the story in the docs does not run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

import promptctx
from promptctx.cli import Cli, app
from workers.settings import load_settings

pytest_plugins = ["api_server"]

Run = Callable[..., Any]


@pytest.fixture
def run(http: httpx2.Client) -> Run:
    """Runs a command. With `--json` what it printed, parsed."""
    url = str(http.base_url).rstrip("/")
    with promptctx.Client(url) as client:
        session = client.session("trip")
        session.instructions(role="You book trips.")
        for turn in range(4):
            session.user(f"Find the train number {turn}, please. " + f"Leg {turn} goes over the mountains. " * 14)
            session.assistant(f"Train {turn} leaves at noon.")
            session.compile(budget=290).result(60)

    def _run(*words: str) -> Any:
        done = CliRunner().invoke(app, list(words), obj=Cli(url=url), env={"COLUMNS": "160", "TERM": "dumb"})
        assert done.exit_code == 0, f"{words}: {done.output}"
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return _run


def test_prompts_are_explained(run: Run) -> None:
    found = run("diff", "trip@3", "trip@4", "--json")
    assert (found["before"]["version"], found["after"]["version"]) == (3, 4)
    assert any("train number 3" in line["text"] for change in found["changes"] for line in change["lines"])
    assert "train number 3" in run("diff", "trip@3", "trip@4")
    lines = run("blame", "trip@4", "train number 3", "--json")["lines"]
    assert [event["kind"] for line in lines for event in line["events"]] == ["user.input"]
    assert "user.input" in run("blame", "trip@4")
    assert run("why", "trip@4", "2", "--json")["disposition"] == "dropped"
    assert "dropped by" in run("why", "trip@4", "2")
    assert run("bisect", "trip", "train number 2", "--json")["appeared"]["version"] == 3
    assert "appeared in version 3: user.input" in run("bisect", "trip", "train number 2")
    summaries = run("provenance", "trip@4", "--json")["summaries"]
    assert {one["event_id"] for row in summaries for one in row["originals"]}
    assert "train number" in run("provenance", "trip@4")


def test_a_rollback_counts_what_it_hides_and_tells_what_it_brings_back_in_short(run: Run) -> None:
    assert "would go back to seq 8 from 9, hiding 1 event\n" in run("rollback", "trip", "--to-seq", "8", "--dry-run")
    assert "go back to seq 4 from 9, hiding 5 events\n" in run("rollback", "trip", "--to-seq", "4")
    assert "  brings back seq 5–9\n" in run("rollback", "trip", "--to-seq", "9", "--dry-run")


def test_no_secret_is_in_a_folder_for_a_bug_report_nor_in_what_a_rollback_would_hide(
    run: Run, http: httpx2.Client, tmp_path: Path
) -> None:
    key = "ghp_" + "a1B2" * 9
    with promptctx.Client(str(http.base_url).rstrip("/")) as client:
        session = client.session("trip")
        for turn in range(4, 8):
            session.user(f"Find the train number {turn}, please. " + f"Leg {turn} goes over the mountains. " * 30)
            session.assistant(f"Train {turn} leaves at noon. The key is {key}.")
            prompt = session.compile(budget=600, query="Train 5 leaves at noon. The key is?").result(60)
    folder = tmp_path / "bug"
    run("reproduce", prompt.id, "--bundle", "--to", str(folder))
    told = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert [name for name, text in told.items() if key in text] == []
    assert [name for name, text in told.items() if "The key is [masked]" in text]
    shown = run("rollback", "trip", "--to-seq", "9", "--dry-run")
    assert "The key is [masked" in shown


def test_flags_and_labels_choose_what_is_kept(run: Run) -> None:
    assert "flagged trip@2 as bad" in run("flag", "trip@2", "--note", "wrong train")
    (bad,) = run("flagged", "--json")["flagged"]
    assert (bad["version"], bad["note"]) == (2, "wrong train")
    assert "trip@2" in run("flagged")
    assert run("active", "trip", "--json")["version"] == 4
    assert "labelled trip@3 active" in run("label", "trip", "3", "active")
    assert run("active", "trip", "--json")["version"] == 3
    assert [row["version"] for row in run("label", "trip", "--json")["marked"]] == [2, 3]
    assert run("prune", "trip", "--keep-last", "1", "--dry-run", "--json")["pruned"] == 1
    whole = run("show", "trip@1", "--json")["payload"]
    assert run("prune", "trip", "--keep-last", "1", "--json")["pruned"] == 1
    assert run("show", "trip@1", "--json")["payload"] == whole
    assert run("prune", "trip", "--keep-last", "1", "--json")["pruned"] == 0
    assert run("bisect", "trip", "train number 0", "--json")["appeared"]["version"] == 1, (
        "a pruned version is made again"
    )


def test_a_bundle_of_a_reproduction_is_taken_in_elsewhere(
    run: Run, serve: Any, empty_store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "report"
    files = run("reproduce", "trip@3", "--to", str(folder), "--bundle", "--json")["files"]
    (bundle,) = [name for name in files if "bundle" in name]
    again = run("restore", str(folder / bundle), "--json")
    assert (again["session"], again["events"], again["prompts"]) == ("trip", 0, 0), "it is all here already"
    copy = shutil.copy(empty_store, tmp_path / "elsewhere.db")
    with serve(load_settings(database_url=f"sqlite:///{copy}")) as other:
        there = str(other.base_url).rstrip("/")
        taken = CliRunner().invoke(app, ["restore", str(folder / bundle)], obj=Cli(url=there))
        replayed = CliRunner().invoke(app, ["replay", "--session", "trip", "--json"], obj=Cli(url=there))
    assert (taken.exit_code, replayed.exit_code) == (0, 0), taken.output + replayed.output
    assert "3 prompts are new here" in " ".join(taken.stdout.split())


def test_a_what_if_takes_modes_as_they_stand_in_the_settings_file_or_alone(run: Run, tmp_path: Path) -> None:
    for name, text in (("a.toml", "[modes.tiny]\n[[modes.tiny.slots]]\n"), ("b.toml", "[tiny]\n[[tiny.slots]]\n")):
        path = tmp_path / name
        path.write_text(text + 'slot = "constraints"\ntoken_budget = 200\n', encoding="utf-8")
        found = run("replay", "trip@4", "--schema", str(path), "--set", "mode=tiny", "--json")
        assert found["would"]["mode"] == "tiny"


def test_pruning_tells_what_it_proved_and_a_dry_run_no_bytes(run: Run) -> None:
    told = run("prune", "trip", "--keep-last", "1", "--dry-run")
    assert told.strip() == "would prune 3 of 4 versions; 3 of them were rebuilt to the byte first"
    assert "pruned 3 of 4 versions, " in run("prune", "trip", "--keep-last", "1")


def test_a_diff_back_in_time_says_what_came_later(run: Run) -> None:
    assert "- message" in (told := run("diff", "trip@4", "trip@3", "--brief"))
    assert "assistant.output at seq 9 came after seq 7, where the other prompt ends" in " ".join(told.split())
