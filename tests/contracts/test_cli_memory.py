"""The command memory, and the calls behind it, against the real application."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

import promptctx
from promptctx.cli import Cli, app
from web import models

pytest_plugins = ["api_server"]

Run = Callable[..., Any]


@pytest.fixture
def url(http: httpx2.Client) -> str:
    """A server to which a subject has told three things, and where two memories say the same."""
    address = str(http.base_url).rstrip("/")
    with promptctx.Client(address) as client:
        session = client.session("s", subject="ada", locale="en")
        session.user("My name is Ada.")
        session.user("I live in Bergen.")
        session.user("I've moved to Oslo.")
        session.remember("Ada likes her tea hot")
        session.remember("ada also likes her tea hot.")
        until = time.monotonic() + 60
        while len(client.memories("ada", closed=True)["memories"]) < 5:
            assert time.monotonic() < until
    return address


@pytest.fixture
def run(url: str) -> Run:
    def _run(*words: str, fails: bool = False) -> Any:
        options = {"COLUMNS": "200", "TERM": "dumb"}
        done = CliRunner().invoke(app, ["memory", "ada", *words], obj=Cli(url=url), env=options)
        assert (done.exit_code != 0) == fails, f"{words}: {done.output}"
        return json.loads(done.stdout) if "--json" in words else done.output

    return _run


def test_what_a_session_keeps_to_itself_is_shown_with_it(url: str, run: Run) -> None:
    with promptctx.Client(url) as client:
        client.session("s").remember("The ring lies in the drawer", scope="session")
    assert "ring" not in run()
    assert "The ring lies in the drawer" in run("--session", "s")
    assert "names" not in run("--session", "s", "--search", "ring")
    (found,) = run("--session", "s", "--json")["memories"]
    assert "memory.recorded" in run("--session", "s", "--history", found["id"])
    assert "No session 'other'" in run("--session", "other", fails=True)
    assert "--session goes with" in run("--session", "s", "--care", fails=True)


def test_a_memory_is_listed_searched_and_traced(run: Run) -> None:
    assert "The user lives in Oslo" in run()
    assert "Bergen" not in run()
    assert "(closed) The user lives in Bergen" in run("--closed")
    assert "0.7 × relevance" in run("--search", "where does she live")
    assert "answers it" in run("--search", "zeppelin")
    (found,) = [one for one in run("--closed", "--json")["memories"] if "Bergen" in one["text"]]
    told = run("--history", found["id"])
    assert "over, closed by" in told
    assert "before: The user lives in Bergen" in told
    assert "made from user.input" in told


def test_forgetting_and_care_are_undone(run: Run) -> None:
    (oslo,) = [one for one in run("--json")["memories"] if "Oslo" in one["text"]]
    change = run("--forget", oslo["id"], "--reason", "asked", "--json")["change"]
    assert "Oslo" not in run()
    assert "took back memory.retracted" in run("--undo", change)
    assert "Oslo" in run()
    assert "--apply does it" in run("--care")
    assert len(run("--json")["memories"]) == 4
    assert "--undo" in run("--care", "--apply")
    assert len(run("--json")["memories"]) == 3
    assert "nothing is to be done" in run("--care")


def test_a_memory_is_exported_and_imported(run: Run, url: str, tmp_path: Path) -> None:
    file = tmp_path / "ada.json"
    assert "5 memories" in run("--export", str(file))
    assert json.loads(run("--export", "-"))["format"] == "promptctx-memory/1"
    assert "NONE" in run("--import", str(file))
    with promptctx.Client(url) as client:
        client.import_memory("twin", json.loads(file.read_text()))
        assert len(client.memories("twin")["memories"]) >= 3
    file.write_text("[1")
    assert "no JSON of an export" in run("--import", str(file), fails=True)


def test_wrong_usage_is_one_line(run: Run) -> None:
    assert "Choose one" in run("--care", "--forget", "x", fails=True)
    assert "unknown_memory" in run("--forget", "x", fails=True)
    assert "change" in run("--undo", "x", fails=True)


def test_the_answers_are_what_the_document_says(url: str, http: httpx2.Client) -> None:
    def check(kind: type[Any], method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        answer = http.request(method, f"/v1/subjects/ada{path}", content=content)
        assert answer.status_code == 200, answer.text
        TypeAdapter(kind).validate_python(answer.json())
        assert set(answer.json()) <= set(kind.model_fields)
        return answer.json()

    listed = check(models.Memories, "GET", "/memories?query=oslo")["memories"]
    name = listed[0]["id"]
    check(models.MemoryHistory, "GET", f"/memories/{name}")
    change = check(models.Forgotten, "POST", f"/memories/{name}/forget", {"reason": "r"})["change"]
    check(models.Undone, "POST", "/memory/undo", {"change": change})
    check(models.Cared, "POST", "/memory/care", {})
    data = check(models.MemoryExport, "GET", "/memory")
    check(models.MemoryImported, "POST", "/memory", data)
    for path, body in (("/memory/undo", {}), ("/memory/care", {"dry_run": 1}), ("/memory", {"format": "x"})):
        assert http.post(f"/v1/subjects/ada{path}", content=json.dumps(body).encode()).status_code == 422
    assert http.get("/v1/subjects/ada/memories?scope=session").status_code == 422
    assert http.get("/v1/subjects/ada/memories?after=x").status_code == 422
