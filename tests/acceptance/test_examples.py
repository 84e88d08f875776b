"""The examples run as they stand, without a key, each on a server of its own, and tell the story that they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import started
from server_process import ROOT, running

FOLDER = ROOT / "examples"
STORIES = ("weather_react", "coding_agent", "rag_chat", "assistant_with_memory")


def told(name: str, **settings: str) -> str:
    """What an example prints; it has a group of its own, so that its server ends with it."""
    process = started.start(
        [sys.executable, str(FOLDER / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "sdk"), "PYTHONUTF8": "1", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=400)
    finally:
        started.end(process)
    assert process.returncode == 0, err
    return str(out)


def test_the_rule_outlives_a_small_budget_and_a_poisoned_result() -> None:
    said = told("weather_react")
    turns = re.findall(r"history +(\d+) tokens, prompt +(\d+), rule in it: (\w+)", said)
    assert len(turns) == 7
    assert int(turns[-1][0]) > 2000
    assert all(int(prompt) <= 2000 and rule == "yes" for _, prompt, rule in turns)
    assert "shell(rm -rf /)\n        refused" in said
    assert "the agent asks the log to drop the rule: forbidden" in said
    assert said.rstrip().endswith("identical: True")


@pytest.mark.slow
def test_sixty_turns_of_a_coding_agent_fit_into_4000_tokens() -> None:
    said = told("coding_agent")
    found = re.search(r"prompts: 60, largest (\d+) of 4000 tokens; goal and rule in 60 of them", said)
    assert found
    assert int(found[1]) <= 4000
    history = [int(tokens) for tokens in re.findall(r"^ +\d+ +(\d+) ", said, re.MULTILINE)]
    assert history[-1] > 5 * 4000
    reuse = re.search(r"prefix reuse over all prompts: (\d+)%", said)
    assert reuse
    assert 0 < int(reuse[1]) < 100


def test_a_chat_expands_what_it_needs_of_a_document_through_mcp() -> None:
    said = told("rag_chat")
    assert said.count("expand_reference({") == 2
    assert "model: promptctx_backlog_age_seconds: over 60 for five minutes" in said
    assert "model: python -m workers erase ann --dry-run" in said
    assert all(int(tokens) <= 1500 for tokens in re.findall(r"\(prompt (\d+) tokens\)", said))


def test_a_fact_of_one_session_is_in_the_next_ones_prompt_until_it_changes() -> None:
    said = told("assistant_with_memory")
    known = re.findall(r"its prompt knows of Lin: (.*)", said)
    assert known == ["nothing", "Lin lives in Oslo", "Lin lives in Oslo", "Lin lives in Bergen"]
    assert re.search(r"Lin lives in Bergen +true now\n +Lin lives in Oslo +was true, ended by event", said)


def test_an_example_uses_the_server_that_is_named(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        first = told("assistant_with_memory", PROMPTCTX_URL=server.url)
        second = told("assistant_with_memory", PROMPTCTX_URL=server.url)
    assert "knows of Lin: nothing" in first
    assert "knows of Lin: nothing" not in second


def test_each_example_is_short_and_listed() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in FOLDER.glob("*.py"):
        assert f"`{path.name}`" in listed
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 120, path.name
