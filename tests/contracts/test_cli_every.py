"""What holds for every command: help that reads, --json, completion; and the file of settings that init writes."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from promptctx import Client, errors
from promptctx.cli import Cli, app
from promptctx.testing import FakeServer

COMMANDS: dict[str, click.Command] = getattr(get_command(app), "commands")  # noqa: B009
TALKS_ANOTHER_LANGUAGE = {"mcp"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_explains_itself(name: str) -> None:
    said = CliRunner().invoke(app, [name, "--help"])
    assert said.exit_code == 0
    assert said.stdout.startswith(f"Usage: promptctx {name}")
    first = (COMMANDS[name].help or "").strip().partition("\n")[0]
    assert first.endswith((".", ";", ",")) or "." in (COMMANDS[name].help or "")
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} is not explained"


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - TALKS_ANOTHER_LANGUAGE))
def test_each_command_has_json(name: str) -> None:
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert "--json" in options


def test_what_reads_answers_in_json(tmp_path: Path) -> None:
    server = FakeServer()
    s = Client(transport=server).session("s-1")
    s.user("Hello")
    prompt = s.compile().result()
    s.flag(prompt)
    words = [
        ["sessions"], ["events", "s-1"], ["compile", "s-1"], ["prompts", "s-1"], ["show", prompt.id], ["flagged"],
        ["replay", prompt.id], ["label", "s-1"], ["active", "s-1"], ["stats", "s-1"], ["stats", "--all"],
        ["emit", "s-1", "custom.x", "{}"], ["dump", "s-1", "--to", str(tmp_path / "d")], ["export", "s-1"],
        ["export", "s-1", "--to", "openai"], ["init", "--to", str(tmp_path / "promptctx.toml")],
    ]  # fmt: skip
    for one in words:
        said = CliRunner().invoke(app, [*one, "--json"], obj=Cli(transport=server))
        assert said.exit_code == 0, (one, said.stderr)
        assert json.loads(said.stdout), one


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    env = {"_PROMPTCTX_COMPLETE": f"complete_{shell}", "COMP_WORDS": "promptctx ses", "COMP_CWORD": "1"}
    env |= {"_TYPER_COMPLETE_ARGS": "promptctx ses", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    said = subprocess.run(
        [sys.executable, "-m", "promptctx.cli"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert "sessions" in said.stdout


def test_init_writes_settings_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROMPTCTX_URL", raising=False)
    first = CliRunner().invoke(app, ["--url", "http://127.0.0.1:9999", "init"])
    assert (first.exit_code, first.stderr) == (0, "")
    written = Path("promptctx.toml").read_text()
    assert tomllib.loads(written) == {"client": {"url": "http://127.0.0.1:9999"}}
    assert "127.0.0.1:9999" in repr(Client())
    every = [line.removeprefix("# ") for line in written.splitlines() if line.startswith(("# timeout", "# retries"))]
    Path("promptctx.toml").write_text("[client]\n" + "\n".join(every))
    assert "127.0.0.1:8765" in repr(Client())
    again = CliRunner().invoke(app, ["init"])
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert CliRunner().invoke(app, ["init", "--force"]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[client]\napi_key = 'k'", "PROMPTCTX_API_KEY"),
        ("[client]\nurl = 5", "client.url"),
        ("[client]\ntimeout = -1", "client.timeout"),
        ("[client]\nspeed = 1", "'speed'"),
        ("client = 1", "[client] is a table"),
        ("[client", "not valid TOML"),
    ],
)
def test_wrong_settings_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    monkeypatch.setenv("PROMPTCTX_CONFIG", str(tmp_path / "x.toml"))
    with pytest.raises(errors.InvalidRequest) as raised:
        Client()
    assert told in raised.value.message
    assert "\n" not in raised.value.message


def test_the_server_leaves_the_clients_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.settings import load_settings

    (tmp_path / "x.toml").write_text("port = 8999\n[client]\nurl = 'http://127.0.0.1:8999'\n")
    monkeypatch.setenv("PROMPTCTX_CONFIG", str(tmp_path / "x.toml"))
    assert load_settings().port == 8999


def test_a_prompt_in_a_notebook_is_text_and_never_markup() -> None:
    server = FakeServer()
    s = Client(transport=server).session("<img src=x onerror=alert(1)>")
    s.user("</pre><script>alert('x')</script> \ud83d & \u202e")
    told = s.compile(budget=1000).result()._repr_html_()
    assert "<script" not in told
    assert "<img" not in told
    assert "&lt;script&gt;" in told
    assert told.encode()
    assert f"of {1000:,}" in told
