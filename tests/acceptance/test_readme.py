"""The README's example runs against a real server, and what the README and the decisions name is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ROOT, running
from typer.main import get_command

from promptctx.cli import app

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_example_runs_as_it_stands(block: str, tmp_path: Path) -> None:
    with running(tmp_path) as server:
        done = subprocess.run(
            [sys.executable, "-c", block],
            env={**os.environ, "PROMPTCTX_URL": server.url, "PYTHONPATH": str(ROOT / "sdk"), "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "[禁止] 未经用户明确同意，不得修改预订" in done.stdout
    assert done.stdout.rstrip().endswith("identical when replayed: True")


def test_the_example_is_about_15_lines_and_lies_in_examples_too() -> None:
    (block,) = BLOCKS
    lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 15
    example = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert example.partition('"""\n\n')[2] == block


def test_every_target_of_make_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))}
    assert {"demo", "test", "up"} <= named <= targets


def test_every_command_that_is_named_exists() -> None:
    commands = set(getattr(get_command(app), "commands", {}))
    named = set(re.findall(r"(?:bin/|`)promptctx ([a-z]+)", README))
    assert {"import", "sessions", "compile", "replay"} <= named <= commands


def test_every_file_that_is_named_exists() -> None:
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#:]+)\)", text)
        missing += [f"{page.name}: {link}" for link in links if not (page.parent / link).exists()]
        paths = re.findall(r"`((?:domain|workers|web|sdk|tests|migrations|examples)/[\w./-]*)`", text)
        missing += [f"{page.name}: {path}" for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_every_decision_is_dated_says_what_enforces_it_and_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    pages = sorted(folder.glob("[0-9]*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix(f"# {page.name[:4]} ")
        assert f"[{page.name[:4]}]({page.name}) | {title} |" in listed
        assert re.search(r"^20\d\d-\d\d-\d\d · ", text, re.MULTILINE), page.name
        for heading in ("**Decision.**", "**Why.**", "**Costs.**", "**Enforced by.**"):
            assert text.count(heading) == 1, (page.name, heading)
