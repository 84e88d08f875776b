"""The pages of docs/how-to as a reader follows them: files written, commands typed, code run, outputs compared."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server_process import ROOT

FOLDER = ROOT / "docs" / "how-to"
PAGES = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "README.md")
_BLOCK = re.compile(r"^```(\w+) ?([\w.-]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

Env = dict[str, str]
Shell = Callable[[str, Env, Path], str]


def blocks_of(page: str) -> list[tuple[str, str, str]]:
    """Kind, name and text of each fenced block."""
    return _BLOCK.findall((FOLDER / page).read_text(encoding="utf-8"))


def files_of(page: str) -> dict[str, str]:
    """What the page tells to write, by name."""
    return {name: text for _, name, text in blocks_of(page) if "." in name}


def typed(lines: str, env: Env, folder: Path) -> str:
    """What the commands print, typed in `folder` with the programs and modules of the checkout at hand."""
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
    return done.stdout


def follow(page: str, env: Env, folder: Path, shell: Shell = typed) -> None:
    """Python blocks share their names; a block of text is what the code or the commands before it print."""
    for name, text in files_of(page).items():
        (folder / name).write_text(text, encoding="utf-8")
    names: dict[str, Any] = {}
    said = ""
    for kind, name, text in blocks_of(page):
        if kind == "python" and not name:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, page, "exec"), names)
            said = printed.getvalue()
        elif kind == "text":
            assert fits(text, said), f"{page} shows\n{text}\nand it was\n{said}"
        elif kind == "sh":
            assert name == "tested", "a command that is not run is indented"
            said = shell(text, {**os.environ, **env}, folder)


def fits(shown: str, said: str) -> bool:
    """Whether an output is as shown, where `…` stands for anything."""
    first, *others = shown.split("…")
    if not others:
        return said == first
    at = len(first) if said.startswith(first) else -1
    for piece in others[:-1]:
        found = said.find(piece, at) if at >= 0 else -1
        at = found + len(piece) if found >= 0 else -1
    return 0 <= at <= len(said) - len(others[-1]) and said.endswith(others[-1])
