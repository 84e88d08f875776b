"""The judge of the promises over real agent logs: it finds nothing on a sample, and it would find what is broken."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import core
from benchmarks.accounting import as_masked, is_lines_of
from benchmarks.corpus import load, spread, stated_sessions
from benchmarks.tally import Tokenizer
from workers.tokens import unpack_ranks

ROOT = Path(__file__).resolve().parents[2]
COUNTERS = (
    "overflows_wrong", "over_budget", "orphans", "lost_anchors", "lost_constraints", "ledger_errors",
    "replay_mismatches",
)  # fmt: skip


def invariants(*arguments: str, **environment: str) -> tuple[int, Any]:
    """Exit code and report of the command, as a user calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.invariants", "--json", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "sdk")]), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.benchmarks
@pytest.mark.corpus
@pytest.mark.slow
def test_sampled_turns_of_every_source_keep_every_promise(corpus: Path) -> None:
    arguments = ("--corpus", str(corpus), "--sessions", "1", "--turns", "sample:2", "--store", "sqlite", "--edges")

    code, report = invariants(*arguments)

    assert {name: report[name] for name in (*COUNTERS, "errors")} == dict.fromkeys((*COUNTERS, "errors"), 0), report[
        "findings"
    ]
    assert report["compiles"] > report["overflows"] >= 0
    assert report["replays"] == report["compiles"] - report["overflows"]
    assert code == 0


@pytest.mark.benchmarks
@pytest.mark.corpus
@pytest.mark.services
@pytest.mark.slow
def test_prompts_are_the_same_bytes_on_postgresql_as_on_sqlite(
    corpus: Path, postgres_server: str, tmp_path: Path
) -> None:
    for source in ("crosswoz", "deer-flow", "swe-agent", "tau-bench"):
        shutil.copytree(corpus / source, tmp_path / source)
    arguments = (
        "--corpus",
        str(tmp_path),
        "--sessions",
        "1",
        "--turns",
        "sample:2",
        "--store",
        "both",
        "--processes",
        "1",
    )

    code, report = invariants(*arguments, PROMPTCTX_TEST_POSTGRES_URL=postgres_server)

    assert report["stores"] == ["sqlite", "postgres"]
    assert report["replay_mismatches"] == 0, report["findings"]
    assert code == 0


@pytest.mark.corpus
def test_sources_give_the_sessions_that_they_state_and_every_file_is_told_of(corpus: Path) -> None:
    found = load(corpus)

    assert {one.name: one.sessions for one in found.sources if one.stated} == {
        one.name: one.stated for one in found.sources if one.stated
    }
    assert all(reason for _, reason in found.skipped)
    assert "no importer mentioned it" not in {reason for _, reason in found.skipped}


@pytest.mark.benchmarks
def test_each_counter_rises_when_a_prompt_is_broken_and_none_otherwise() -> None:
    code, told = invariants("--self-test")

    assert told == {"self_test": dict.fromkeys(("nothing_broken", *COUNTERS), True)}
    assert code == 0


def test_the_judge_shares_no_code_with_what_it_judges() -> None:
    wanted = (
        "import sys, benchmarks.checker; print({name.split('.')[0] for name in sys.modules} & {'domain', 'workers'})"
    )

    done = subprocess.run([sys.executable, "-c", wanted], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("selected", "sessions"),
    [
        ("24 whole records of 200: tasks 0-23, trial 0.", 24),
        ("Chats 2, 14, 15 of 20 (whole chat.json, 3 files each); none of them has a second variant.", 3),
        ("7 whole .traj files; left out: 3 files that hold a mail address.", 7),
        ("6 of 13 thread files and 3 of 9 replay streams, whole; thread fe3f left out.", 9),
        ("9 whole user records of 15 and their question lines.", 9),
        ("before-compaction.jsonl, whole lines 1-400 of 1003 (first compaction is line 360).", None),
        ("Whole files.", None),
    ],
)
def test_a_source_tells_in_words_how_many_sessions_were_selected(
    selected: str, sessions: int | None, tmp_path: Path
) -> None:
    (tmp_path / "SOURCE.md").write_text(f"# a source\n\n- Licence: MIT\n- Selected: {selected}\n")

    assert stated_sessions(tmp_path / "SOURCE.md") == sessions


def test_a_sample_of_turns_holds_the_first_and_the_last() -> None:
    assert spread(range(10), 4) == [0, 3, 6, 9]
    assert spread(range(3), 4) == [0, 1, 2]
    assert spread(range(10), None) == list(range(10))


def test_a_goal_without_its_peer_is_neither_reached_nor_missed() -> None:
    figures = {"ours": 100.0, "core": 150.0}

    assert core.at_least("append", 0.5, figures, "ours", "core").passed is True
    assert core.at_most("append", 0.5, figures, "ours", "core").passed is False
    assert core.at_least("append", 0.5, figures, "ours", "peer").passed is None


def test_a_masked_key_counts_as_said_and_a_masked_sentence_does_not() -> None:
    key = "ghp_" + "aB3" * 12
    said = [("user", f"use {key} now"), ("user", "delete everything now")]
    shown = [("user", "use [masked] now"), ("user", "delete [masked] now")]

    assert as_masked(said, shown) == [shown[0], said[1]]


REPLY = "\n".join(
    [
        "# What was found", "", "Order #W1234 waits.", "Do not cancel it.", "It was rainy.",
        "The file /srv/report-7.csv " + "holds word after word and " * 20, "Order #W9876 went.", "Nothing more.",
    ]
)  # fmt: skip
KEPT = ("# What was found", "Order #W1234 waits.", "…", "Order #W9876 went.")


@pytest.mark.parametrize(
    ("lines", "wrong", "said"),
    [
        (KEPT, 0, True),
        (("…", "It was rainy.", "The file /srv/report-7.csv holds word", "…", "Nothing more."), 0, True),
        (KEPT, 1, False),
        (("# What was found", "Order #W1234 waits.", "Order #W9876 went."), 0, False),
        (("Order #W1234 waits.", "…", "Order #W9876 went."), 0, False),
        (("# What was found", "…", "Order #W9876 went.", "…", "Order #W1234 waits."), 0, False),
        (("…", "cancel it.", "…", "Order #W9876 went."), 0, False),
        (("# What was found", "Order #W4321 waits.", "…", "Order #W9876 went."), 0, False),
    ],
    ids=["lines", "a piece of a long line", "miscounted", "no gap", "no first gap", "disordered", "half a line", "new"],
)
def test_a_reply_made_of_its_lines_counts_as_said_and_one_that_says_anything_else_does_not(
    lines: tuple[str, ...], wrong: int, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(unpack_ranks("o200k_base")))
    tokenizer = Tokenizer()
    body = "\n".join(lines)
    missing = tokenizer.count(REPLY) - tokenizer.count(body) + wrong

    assert (
        is_lines_of(REPLY, f"{body}\n… ({missing} tokens left out here, reference e3 expands them) …", tokenizer)
        is said
    )
