"""The types that users see: mypy and pyright, both strict, agree with `tests/typed`, line by line."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from promptctx import AsyncClient, AsyncJob, AsyncPrompt, AsyncSession, Client, Job, Outbox, Prompt, Session

TYPED = Path(__file__).parents[1] / "typed"
CACHE = Path(__file__).parents[2] / ".mypy_cache" / "typed"
SHOWN = {
    ("of_client",): [Client],
    ("of_session", "of_verbs"): [Session],
    ("of_prompt",): [Job, Prompt],
    ("of_outbox",): [Outbox],
    ("of_async_client",): [AsyncClient],
    ("of_async_session", "of_async_verbs"): [AsyncSession],
    ("of_async_prompt",): [AsyncJob, AsyncPrompt],
}


def mypy(path: Path, folder: Path) -> set[int]:
    """The lines that it finds fault with, as a user's project sees the package."""
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    said = run(folder, "mypy", "--config-file", "mypy.ini", "--cache-dir", str(CACHE), "--no-error-summary", str(path))
    assert said.returncode in (0, 1), said.stdout + said.stderr
    found = re.findall(rf"^(.*{path.name}):(\d+): error", said.stdout, re.MULTILINE)
    assert len(found) == said.stdout.count(": error"), said.stdout
    return {int(line) for _, line in found}


def pyright(path: Path, folder: Path) -> set[int]:
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    said = run(folder, "pyright", "--outputjson", "--pythonpath", sys.executable, path.name)
    assert said.returncode in (0, 1), said.stdout + said.stderr
    told = json.loads(said.stdout[said.stdout.index("{") :])["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in told if one["severity"] == "error"}


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture(params=[mypy, pyright], ids=lambda checker: checker.__name__)
def faults(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], set[int]]]:
    return lambda name: request.param(TYPED / name, tmp_path)


@pytest.mark.slow
def test_right_uses_have_the_types_that_they_say(faults: Callable[[str], set[int]]) -> None:
    assert faults("right_uses.py") == set()


@pytest.mark.slow
def test_wrong_uses_are_refused_by_their_lines(faults: Callable[[str], set[int]]) -> None:
    lines = (TYPED / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    assert faults("wrong_uses.py") == {number for number, line in enumerate(lines, 1) if "# wrong" in line}


@pytest.mark.parametrize("functions", SHOWN, ids=lambda names: names[0])
def test_everything_public_stands_among_the_right_uses(functions: tuple[str, ...]) -> None:
    tree = ast.parse((TYPED / "right_uses.py").read_text(encoding="utf-8"))
    bodies = [node for node in tree.body if getattr(node, "name", "") in functions]
    used = {node.attr for body in bodies for node in ast.walk(body) if isinstance(node, ast.Attribute)}
    public = {name for kind in SHOWN[functions] for name in vars(kind) if name[0] != "_"}
    public |= {name for kind in SHOWN[functions] for base in kind.__mro__ for name in vars(base) if name[0] != "_"}
    fields = {name for kind in SHOWN[functions] for name in getattr(kind, "__dataclass_fields__", ())}
    assert len(bodies) == len(functions)
    assert sorted(public - fields - used) == []
