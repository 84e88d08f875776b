"""Every page of docs/how-to is followed as it stands: files are written, commands typed, code run, outputs compared."""

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from server_process import ROOT, environment, running

FOLDER = ROOT / "docs" / "how-to"
PAGES = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "README.md")
BLOCK = re.compile(r"^```(\w+) ?([\w.-]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_can_be_followed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = BLOCK.findall((FOLDER / page).read_text(encoding="utf-8"))
    named = {name: text for _, name, text in blocks if "." in name}
    for name, text in named.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    settings = {"PROMPTCTX_CONFIG": str(tmp_path / "promptctx.toml")} if "promptctx.toml" in named else {}
    command = ["-m", "workers", "up"]
    if "serve.py" in named:
        command = [str(tmp_path / "serve.py")]
        settings |= {"PROMPTCTX_PORT": str(free_port()), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}"}
    with running(tmp_path, command=command, **settings) as server:
        monkeypatch.setenv("PROMPTCTX_URL", server.url)
        follow(blocks, {**os.environ, **environment(tmp_path), **settings}, tmp_path)


def follow(blocks: list[tuple[str, str, str]], env: dict[str, str], folder: Path) -> None:
    """Code blocks share their names; a block of text is what the code before it prints."""
    names: dict[str, Any] = {}
    said = ""
    for kind, name, text in blocks:
        if kind == "python" and not name:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, "how-to", "exec"), names)
            said = printed.getvalue()
        elif kind == "text":
            assert said == text
        elif kind == "sh":
            assert name == "tested"
            typed(text, env, folder)


def typed(lines: str, env: dict[str, str], folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    known = os.pathsep.join([str(ROOT), str(ROOT / "sdk")])
    done = subprocess.run(
        ["bash", "-euc", lines],
        cwd=folder,
        env={**env, "PATH": path, "PYTHONPATH": known, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def test_every_page_is_listed_and_runs_something() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"]({page})" in listed
        blocks = BLOCK.findall((FOLDER / page).read_text(encoding="utf-8"))
        assert any(kind in ("python", "sh") for kind, _, _ in blocks), page
