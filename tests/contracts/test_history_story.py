"""docs/reproduce-a-bad-answer.md runs, and says what the commands say.

After a change: `UPDATE_DOCS=1 pytest tests/contracts/test_history_story.py`, and look at the diff.
"""

import os
import re
import shlex
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

import promptctx
from promptctx.cli import Cli, app

pytest_plugins = ["api_server"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reproduce-a-bad-answer.md"
_HIDDEN = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z"), "<time>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"),
)


def told(command: str, url: str) -> str:
    """What a command prints; JSON is for programs, and such a command is run for what it does."""
    words = shlex.split(command)[2:]
    done = CliRunner().invoke(app, words, obj=Cli(url=url), env={"COLUMNS": "120", "TERM": "dumb"})
    assert done.exit_code == 0, f"{command}: {done.output}"
    text = "" if "--json" in words else done.stdout
    for pattern, name in _HIDDEN:
        text = pattern.sub(name, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def retold(page: str, url: str) -> str:
    """The page with what its commands print now."""

    def block(found: "re.Match[str]") -> str:
        commands = [line for line in found[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{one}\n{told(one, url)}" for one in commands) + "```"

    return re.sub(r"```console\n(.*?)```", block, page, flags=re.DOTALL)


def test_the_page_says_what_happens(http: httpx2.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, url = PAGE.read_text(encoding="utf-8"), str(http.base_url).rstrip("/")
    names: dict[str, Any] = {}
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PROMPTCTX_URL", url)
    exec(compile(block, str(PAGE), "exec"), names)
    monkeypatch.chdir(tmp_path)
    now = retold(page, url)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(now, encoding="utf-8")
    assert now == page
    before, after = (promptctx.Client().prompt(f"trip@{version}") for version in (18, 31))
    assert "Never book without" in before.text
    assert before.text == after.text
    bundle = (tmp_path / "bad-answer" / "bundle.jsonl").read_bytes()
    assert promptctx.Client().restore(bundle)["events"] == 0
