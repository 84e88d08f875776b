"""The commands of docs/operations.md, run in their order on a store of their own."""

import re
import shlex
from pathlib import Path

import pytest

from workers.__main__ import main
from workers.engine import Deps, Engine
from workers.metrics import render
from workers.store import Database, migrate

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh tested\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_command_of_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'promptctx.db'}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROMPTCTX_DATABASE_URL", url)
    migrate.upgrade(url)
    engine = Engine(Deps(Database(url)))
    started = {"kind": "session.started", "payload": {"subject": "ann"}}
    engine.append("default", "s", [started, {"kind": "user.input", "payload": {"content": "my secret"}}])
    (tmp_path / "erasures.json").write_text("[]")
    commands = [line for block in BLOCKS for line in block.splitlines() if line]
    assert len(commands) >= 10
    told = {}
    for line in commands:
        python, flag, module, *arguments = shlex.split(line)
        assert (python, flag, module) == ("python", "-m", "workers")
        assert main(arguments) == 0, line
        told[line] = capsys.readouterr().out
    assert "would erase" in told["python -m workers erase ann --dry-run"]
    assert "finished" in told["python -m workers erasures"]
    assert engine.verify()["ok"]
    assert all(one["redacted"] for one in engine.events("default", "s")["events"][:2])
    assert (tmp_path / "backup.db").stat().st_size > 0


def test_every_metric_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"promptctx_[a-z_]+", PAGE))
    waiting = {"due": 0, "oldest_due_seconds": 0.0, "parked": 0, "lag": 0}
    there = set(re.findall(r"^# TYPE (\S+)", render(waiting).decode(), flags=re.MULTILINE))
    assert named <= there
