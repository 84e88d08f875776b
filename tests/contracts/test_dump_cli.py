"""The command dump: a folder with a file for every prompt, the same however often it is run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from promptctx.cli import Cli, app
from promptctx.cli.to_files import safe_name
from promptctx.testing import FakeServer
from workers.dumps import safe_name as server_name

pytest_plugins = ["api_server"]

Run = Callable[..., Result]


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def run(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def _run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), obj=Cli(transport=server), env={"COLUMNS": "120"})

    assert _run("emit", "s-1", "user.input", '{"content": "What is the weather?"}').exit_code == 0
    return _run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_prompt_is_a_file_and_the_index_names_them(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        run("compile", "s-1", "--fresh")
    said = run("dump", "s-1", "--to", "out/here")
    assert (said.exit_code, said.stdout) == (0, "2 of 2 prompts written to out/here\n")
    folder = tmp_path / "out" / "here"
    assert sorted(contents(folder)) == ["index.json", "v0001.json", "v0002.json"]
    index = read(folder / "index.json")
    assert index["session"] == "s-1"
    assert [(one["version"], one["id"], one["file"]) for one in index["prompts"]] == [
        (1, "s-1-1", "v0001.json"),
        (2, "s-1-2", "v0002.json"),
    ]
    one = read(folder / "v0001.json")
    assert {"payload", "report", "request", "layout", "messages"} <= set(one)


def test_run_again_it_changes_nothing_and_fetches_nothing(run: Run, server: FakeServer, tmp_path: Path) -> None:
    run("compile", "s-1")
    run("dump", "s-1", "--to", "out")
    before = contents(tmp_path / "out")
    server.requests.clear()
    assert run("dump", "s-1", "--to", "out").stdout == "0 of 1 prompts written to out\n"
    assert contents(tmp_path / "out") == before
    assert not any("/dump" in request.url.path for request in server.requests)


def test_run_again_it_adds_what_is_new_or_was_lost(run: Run, tmp_path: Path) -> None:
    run("compile", "s-1")
    run("dump", "s-1", "--to", "out")
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "v0001.json").unlink()
    run("compile", "s-1", "--fresh")
    told = json.loads(run("dump", "s-1", "--to", "out", "--json").stdout)
    assert told == {"folder": "out", "prompts": 2, "written": 2}
    assert contents(tmp_path / "out")["v0001.json"] == before["v0001.json"]


def test_an_erased_prompt_leaves_the_folder(run: Run, server: FakeServer, tmp_path: Path) -> None:
    run("compile", "s-1")
    run("dump", "s-1", "--to", "out")
    server.prompts["s-1-1"]["redacted"] = True
    assert run("dump", "s-1", "--to", "out").exit_code == 0
    assert sorted(contents(tmp_path / "out")) == ["index.json"]
    (row,) = read(tmp_path / "out" / "index.json")["prompts"]
    assert (row["redacted"], row["file"]) == (True, None)


def test_a_prompt_that_is_erased_meanwhile_is_no_failure(run: Run, server: FakeServer, tmp_path: Path) -> None:
    run("compile", "s-1")
    gone = httpx2.Response(410, json={"code": "snapshot_redacted", "detail": "erased", "details": {}})
    server.faults = [None, gone]
    assert run("dump", "s-1", "--to", "out").exit_code == 0
    assert sorted(contents(tmp_path / "out")) == ["index.json"]


def test_without_a_folder_it_is_the_sessions_own(run: Run, tmp_path: Path) -> None:
    run("emit", ".x", "user.input", '{"content": "hi"}')
    run("compile", ".x")
    assert run("dump", ".x").exit_code == 0
    assert sorted(contents(tmp_path / "dumps" / "%2Ex")) == ["index.json", "v0001.json"]


def test_a_folder_of_another_session_is_left_alone(run: Run, tmp_path: Path) -> None:
    run("compile", "s-1")
    run("dump", "s-1", "--to", "out")
    run("emit", "s-2", "user.input", '{"content": "hi"}')
    before = contents(tmp_path / "out")
    said = run("dump", "s-2", "--to", "out")
    assert said.exit_code == 2
    assert "holds the prompts of session 's-1'" in said.stderr
    (tmp_path / "out" / "index.json").write_text("[]")
    assert run("dump", "s-1", "--to", "out").exit_code == 2
    assert contents(tmp_path / "out") == {**before, "index.json": b"[]"}


def test_a_session_that_is_not_there_makes_no_folder(run: Run, tmp_path: Path) -> None:
    said = run("dump", "nobody", "--to", "out")
    assert (said.exit_code, said.stderr) == (1, "promptctx: There is no session 'nobody'. [unknown_session]\n")
    assert not (tmp_path / "out").exists()


def test_names_are_made_safe_as_on_the_server() -> None:
    for name in ("..", "a b", "城市", "x" * 200, ".x", "C:\\", "plain"):
        assert safe_name(name) == server_name(name)


def test_a_real_server_gives_what_it_dumps_itself(http: httpx2.Client, tmp_path: Path) -> None:
    http.post("/v1/sessions/s-1/events", content=b'{"kind": "user.input", "payload": {"content": "a \\ud800 b"}}')
    made = http.post("/v1/sessions/s-1/prompts", content=b'{"wait": 30}').json()
    said = CliRunner().invoke(app, ["--url", str(http.base_url), "dump", "s-1", "--to", str(tmp_path / "out")])
    assert said.exit_code == 0, said.stderr
    told = read(tmp_path / "out" / "v0001.json")
    assert told == http.get(f"/v1/prompts/{made['id']}/dump").json()
    assert {name: told[name] for name in made} == made
