"""The benchmark that replays agent logs: its scores on hand-made prompts, and a sampled run on real logs."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trajectories import main
from benchmarks.trajectory import reporting
from benchmarks.trajectory.measuring import budgets, cell, measure, planned
from benchmarks.trajectory.methods import Compiled, LastN, Promptctx, Run
from benchmarks.trajectory.peer_side.serve import count_message as count_in_a_peer
from benchmarks.trajectory.peers import PEERS, environment
from benchmarks.trajectory.reporting import write
from benchmarks.trajectory.scoring import (
    Earlier,
    PrefixBound,
    broken_rules,
    candidates,
    shared_prefix,
    standing,
    text_of,
)
from benchmarks.trajectory.sessions import Session, Turn, load
from benchmarks.trajectory.shortfalls import shortfalls, told
from domain.rendering.openai import count_message
from workers.tokens import Tokens, unpack_ranks

ROOT = Path(__file__).resolve().parents[2]
ENCODING = "o200k_base"
COUNT = Tokens().counter(ENCODING)


def words(text: str) -> int:
    return len(text.split())


def said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": json.dumps(arguments)}}


# --- what a call needs ------------------------------------------------------------------------------------------------


def test_a_short_argument_is_needed_whole_and_a_long_one_by_its_identifiers() -> None:
    long = "please run the tests of src/app.py again for ticket AB-1234 and then say whether all of them pass at last"
    arguments = {"city": "New York", "n": 12345, "deep": [{"x": "AB1"}], "on": True, "none": None, "said": long}
    assert candidates(json.dumps(arguments)) == {"New York", "12345", "src/app.py", "AB-1234"}


def test_the_keys_of_arguments_are_not_values() -> None:
    assert candidates('{"reservation_id": "XEWRD9"}') == {"XEWRD9"}


def test_arguments_that_are_no_json_are_one_text() -> None:
    assert candidates("ls -la /tmp") == {"ls -la /tmp"}


def test_only_what_stood_in_an_earlier_message_is_needed() -> None:
    earlier = Earlier()
    earlier.add('{"reservation_id": "XEWRD9"}')
    assert set(earlier.needed(['{"id": "XEWRD9", "other": "never seen"}'])) == {"XEWRD9"}


# --- grounding --------------------------------------------------------------------------------------------------------


def context_of(value: str, *texts: str) -> set[str]:
    earlier = Earlier()
    for text in texts:
        earlier.add(text)
    found = earlier.context(value)
    assert found is not None
    return found


def test_the_context_of_a_value_are_the_words_within_forty_characters() -> None:
    text = f"farther {'.' * 40} nearby 4711 key_of it {'.' * 40} beyond"
    assert context_of("4711", text) == {"nearby", "key"}


def test_a_json_key_is_context_and_a_word_that_holds_the_value_is_not() -> None:
    assert context_of("XEWRD9", '{"reservation": "XEWRD9"}') == {"reservation"}
    assert context_of("port", "import airports") == {"airports", "import"}  # each stands beside the other's


def test_a_run_of_chinese_is_context() -> None:
    assert context_of("A-204", "请预订房间：A-204。") == {"请预订房间"}


def test_context_grows_with_what_is_said_later() -> None:
    earlier = Earlier()
    earlier.add("order 4711")
    assert earlier.context("4711") == {"order"}
    earlier.add("parcel 4711")
    assert earlier.context("4711") == {"order", "parcel"}
    assert earlier.context("4712") is None


def test_a_bare_list_of_identifiers_grounds_nothing() -> None:
    context = context_of("XEWRD9", "the reservation XEWRD9")
    assert standing("XEWRD9", context, ["XEWRD9, HAT052, 4711"]) == "bare"
    assert standing("XEWRD9", context, ["reservation XEWRD9"]) == "grounded"
    assert standing("XEWRD9", context, ["reservation"]) == "absent"


def test_a_word_grounds_within_eighty_characters_of_the_same_message() -> None:
    context = {"reservation"}
    assert standing("XEWRD9", context, [f"reservation {'.' * 78} XEWRD9"]) == "grounded"
    assert standing("XEWRD9", context, [f"reservation {'.' * 80} XEWRD9"]) == "bare"
    assert standing("XEWRD9", context, ["reservation", "XEWRD9"]) == "bare"
    assert standing("XEWRD9", context, ["XEWRD9", "reservation: XEWRD9"]) == "grounded"


def test_calls_and_parts_are_part_of_what_a_message_says() -> None:
    message = said("assistant", None, tool_calls=[call("c1", city="Paris")])
    assert text_of(message) == 'look_up({"city": "Paris"})'
    assert text_of(said("user", [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}])) == "a\n"


# --- rules ------------------------------------------------------------------------------------------------------------


def broken(messages: Sequence[dict[str, Any]], tokens: int = 10) -> list[str]:
    return broken_rules(messages, tokens, 10, "be kind", "find it")


WHOLE = [
    said("system", "be kind\n\n## Tools"),
    said("user", "please find it"),
    said("assistant", None, tool_calls=[call("c1"), call("c2")]),
    said("tool", "two", tool_call_id="c2"),
    said("tool", "one", tool_call_id="c1"),
]


def test_a_prompt_that_keeps_all_rules_breaks_none() -> None:
    assert broken(WHOLE) == []


@pytest.mark.parametrize(
    ("messages", "tokens", "expected"),
    [
        (WHOLE, 11, ["over_budget"]),
        (WHOLE[1:], 10, ["lost_system"]),
        ([WHOLE[0], *WHOLE[2:]], 10, ["lost_instruction"]),
        (WHOLE[:-1], 10, ["orphans"]),
        ([*WHOLE[:2], *WHOLE[3:]], 10, ["orphans"]),
        ([*WHOLE[:3], said("user", "wait"), *WHOLE[3:]], 10, ["orphans"]),
        ([WHOLE[0], said("assistant", "you want me to find it")], 10, ["lost_instruction"]),
    ],
)
def test_each_broken_rule_is_named(messages: list[dict[str, Any]], tokens: int, expected: list[str]) -> None:
    assert broken(messages, tokens) == expected


# --- prefix -----------------------------------------------------------------------------------------------------------


def test_the_shared_prefix_ends_within_the_first_message_that_differs() -> None:
    before = [said("system", "be kind"), said("user", "one two three"), said("user", "four")]
    after = [said("system", "be kind"), said("user", "one two four"), said("user", "four")]
    assert shared_prefix(before, after, words) == (3 + 1 + 2) + (1 + 2)
    assert shared_prefix(before, before, words) == sum(count_message(one, words) for one in before)
    assert shared_prefix(before, after[1:], words) == 0


def test_the_bound_reuses_all_until_a_cut_and_then_only_what_stands_before_the_window() -> None:
    bound = PrefixBound(budget=100, low_water=0.5)
    units = [(seq, 20) for seq in range(1, 8)]
    bound.step(units[:4], None, 10, counts=False)  # 90 fit
    bound.step(units[:5], None, 10, counts=True)  # 110 do not: two units stay, 10 of 50 tokens are the same
    assert (bound.reused, bound.total) == (10, 50)
    bound.step(units[:6], None, 10, counts=True)
    assert (bound.reused, bound.total) == (10 + 50, 50 + 70)


def test_the_bound_keeps_the_newest_directive_beside_the_window() -> None:
    bound = PrefixBound(budget=100, low_water=0.5)
    units = [(seq, 20) for seq in range(1, 8)]
    bound.step(units[:4], 1, 10, counts=False)
    bound.step(units[:5], 1, 10, counts=True)  # half of the 70 beside the directive holds one unit
    assert (bound.reused, bound.total) == (10 + 20, 50)
    for end in (6, 7):  # 70 and 90 fit
        bound.step(units[:end], 1, 10, counts=True)
    bound.step([*units, (8, 20)], 1, 10, counts=True)  # and this does not
    assert (bound.reused, bound.total) == (30 + 50 + 70 + 30, 50 + 70 + 90 + 50)


def test_a_unit_that_is_over_the_mark_alone_is_cut_down_to_it_in_the_bound() -> None:
    bound = PrefixBound(budget=100, low_water=0.5)
    bound.step([(1, 20)], None, 0, counts=False)
    bound.step([(1, 20), (2, 500)], None, 0, counts=True)
    bound.step([(1, 20), (2, 500), (3, 10)], None, 0, counts=True)
    assert (bound.reused, bound.total) == (0 + 50, 50 + 60)


# --- sessions and cells -----------------------------------------------------------------------------------------------


def log(tmp_path: Path, steps: int = 40) -> Path:
    """A log in which each call takes the ticket that the first answer named."""
    messages = [said("system", "You are a clerk."), said("user", "Close the ticket that Ms Adams opened.")]
    for step in range(steps):
        answer = "the ticket of Ms Adams is TCK-90210" if step == 0 else f"step {step}: " + "nothing new here, " * 30
        messages.append(said("assistant", None, tool_calls=[call(f"c{step}", ticket="TCK-90210", step=step)]))
        messages.append(said("tool", answer, tool_call_id=f"c{step}"))
    (tmp_path / "clerk").mkdir()
    (tmp_path / "clerk" / "log.json").write_text(json.dumps(messages))
    return tmp_path


def sessions(folder: Path, *sources: str) -> list[Session]:
    return list(load(folder, COUNT, ENCODING, sources))


class Everything:
    """A method that knows no budget."""

    name, version, carries, low_water = "everything", "1", False, 1.0

    def begin(self, session: Session, budget: int) -> Run:
        return self

    def compile(self, turn: Turn) -> Compiled:
        return Compiled(turn.messages, 1.0)

    def end(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_log_is_told_as_turns_with_the_history_before_each(tmp_path: Path) -> None:
    [session] = sessions(log(tmp_path))
    turns = [(turn.seq, len(turn.messages), turn.tokens, turn.instruction_text) for turn in session.turns()]
    assert [count for _, count, _, _ in turns] == list(range(2, 82, 2))
    assert [tokens for _, _, tokens, _ in turns] == session.sizes
    assert {told for *_, told in turns} == {"Close the ticket that Ms Adams opened."}
    assert session.source == "clerk"
    assert session.sizes[-1] < session.tokens


def test_budgets_are_the_floor_and_a_share_of_the_rest(tmp_path: Path) -> None:
    [session] = sessions(log(tmp_path))
    found = budgets(session)
    assert found["25%"] == session.floor + (session.tokens - session.floor) // 4
    assert found["10%"] == session.floor + (session.tokens - session.floor) // 10
    assert found["4000"] == 4000
    assert "8000" not in found  # the session is smaller


def test_a_sample_of_turns_is_spread_and_brings_the_turns_before_along(tmp_path: Path) -> None:
    [session] = sessions(log(tmp_path))
    budget = budgets(session)["25%"]
    over = [at for at, size in enumerate(session.sizes) if size > budget]
    plan = planned(session, budget, False, 3)
    assert len(plan.scored) == 3
    assert plan.scored <= set(over)
    assert plan.compiled == plan.scored | {at - 1 for at in plan.scored}
    assert planned(session, budget, True, 3).compiled == set(range(over[0] - 1, max(plan.scored) + 1))


def test_a_method_over_budget_breaks_the_rule_at_every_turn_and_grounds_nothing(tmp_path: Path) -> None:
    [(_, found)] = measure(sessions(log(tmp_path)), [Everything()], cells=["25%"])
    told = cell(list(found.values()))
    assert told["breaks"] == {"over_budget": told["turns"]}
    assert told["grounding"] == 0.0
    assert told["grounding_any_size"] == 1.0
    assert told["prefix_reuse"] > 0.9


def test_what_the_suffix_lost_is_missed_with_the_place_where_it_stood(tmp_path: Path) -> None:
    text = log(tmp_path) / "clerk" / "log.json"
    messages = json.loads(text.read_text())
    for message in messages[4:-2]:  # between the first answer and the last call the ticket is not named again
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = '{"step": 1}'
    text.write_text(json.dumps(messages))
    [(_, found)] = measure(sessions(tmp_path), [LastN()], cells=["25%"])
    [sums] = found.values()
    assert (sums.needed, sums.grounded) == (1, 0)
    [miss] = sums.misses
    assert (miss.value, miss.standing) == ("TCK-90210", "absent")
    assert "the ticket of Ms Adams is" in miss.stood
    assert miss.where.startswith("tool at seq")


def test_an_answer_that_comes_late_is_an_earlier_message_all_the_same(tmp_path: Path) -> None:
    text = log(tmp_path) / "clerk" / "log.json"
    messages = json.loads(text.read_text())
    late = said("tool", "the parcel is PRC-31337", tool_call_id="late")
    messages[4:4] = [said("assistant", None, tool_calls=[call("late")]), *messages[4:6], late]
    messages[-2]["tool_calls"][0]["function"]["arguments"] = '{"parcel": "PRC-31337"}'
    text.write_text(json.dumps(messages))
    [(_, found)] = measure(sessions(tmp_path), [LastN()], cells=["25%"])
    [sums] = found.values()
    assert [miss.value for miss in sums.misses][-1] == "PRC-31337"


def test_a_folder_is_a_source_and_a_log_beside_the_folders_is_its_format(tmp_path: Path) -> None:
    folder = log(tmp_path)
    (folder / "alone.json").write_text((folder / "clerk" / "log.json").read_text().replace("clerk", "guide"))
    assert {session.source for session in sessions(folder)} == {"clerk", "openai"}
    assert [session.source for session in sessions(folder, "clerk")] == ["clerk"]


# --- peers ------------------------------------------------------------------------------------------------------------


def test_peers_count_tokens_as_the_benchmark_does() -> None:
    os.environ["TIKTOKEN_CACHE_DIR"] = str(unpack_ranks(ENCODING))
    parts = [{"type": "text", "text": "看这里"}, {"type": "image_url", "image_url": {"url": "x", "detail": "auto"}}]
    for message in [*WHOLE, said("user", parts), said("user", "<|endoftext|>")]:
        assert count_in_a_peer(message) == count_message(message, COUNT)


ECHO = """
from benchmarks.trajectory.peer_side.serve import serve

def prompt(lane):
    if lane.budget < 0:
        raise ValueError("no room")
    print("a library talks")
    told = {"role": "user", "content": f"{lane.kept} kept, {len(lane.tokens)} counted"}
    return [*range(len(lane.messages)), told], 1.5

serve("pytest", prompt)
"""


def test_a_peer_gets_histories_by_line_and_answers_with_places_and_messages() -> None:
    def asked(keep: int, *new: dict[str, Any], **more: Any) -> str:
        question = {"lane": 1, "begin": False, "budget": 10, "base": 3, "keep": keep, "new": new, "instruction": 0}
        return json.dumps({**question, **more})

    lines = [
        asked(0, said("user", "a"), said("user", "b"), begin=True),
        asked(1, said("user", "c")),
        asked(2, budget=-1),
        json.dumps({"lane": 1, "begin": False, "end": True}),
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TIKTOKEN_CACHE_DIR": str(unpack_ranks(ENCODING))}
    done = subprocess.run(
        [sys.executable, "-c", ECHO], input="\n".join(lines), capture_output=True, text=True, cwd=ROOT, env=environ,
        check=True,
    )  # fmt: skip
    version, *answers = map(json.loads, done.stdout.splitlines())
    assert version["version"]
    assert answers == [
        {"messages": [0, 1, said("user", "0 kept, 2 counted")], "ms": 1.5},
        {"messages": [0, 1, said("user", "1 kept, 2 counted")], "ms": 1.5},
        {"error": "ValueError: no room"},
    ]


# --- the whole --------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[dict[str, Any], str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "sdk")])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.trajectories", "--json", *arguments], capture_output=True, text=True,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report, done.stderr


def test_a_peer_that_is_not_installed_is_skipped_loudly(tmp_path: Path) -> None:
    folder = log(tmp_path)
    report, told = run("--corpus", str(folder), "--peers", str(tmp_path / "none"), "--methods", "last-n,hello-agents")
    assert set(report["methods"]) == {"last-n"}
    assert "Python >= 3.12" in report["skipped"]["hello-agents"]
    assert "SKIPPED hello-agents" in told


def test_peers_that_are_installed_run_in_the_same_run(tmp_path: Path) -> None:
    installed = [peer.name for peer in PEERS if environment(peer).exists()][:2]  # some take long to start
    if not installed:
        pytest.skip("NOT TESTED: no peers; python -m benchmarks.trajectories --install-peers")
    report, _ = run("--corpus", str(log(tmp_path)), "--methods", ",".join(installed), "--max-turns", "3")
    assert report["skipped"] == {}
    assert set(report["methods"]) == set(installed)
    for name, method in report["methods"].items():
        assert method["cells"]["25%"]["turns"] == 3, name
        assert method["cells"]["25%"]["tokens_after"] > 0, method["failures"]


@pytest.mark.benchmarks
@pytest.mark.corpus
def test_a_sampled_run_on_real_logs_has_every_number_and_no_broken_rule(corpus: Path) -> None:
    report, told = run(
        "--corpus", str(corpus), "--quick", "--methods", "promptctx,last-n", "--low-water", "0.9", "--misses", "2",
        "--sources", "tau-bench,swe-agent",
    )  # fmt: skip
    assert set(report["methods"]) == {"promptctx", "promptctx@0.9", "last-n"}
    for name, method in report["methods"].items():
        for where, found in method["cells"].items():
            assert found["turns"] > 0
            assert found["rule_breaks"] == 0, (name, where, found["breaks"], method["failures"])
            assert 0 < found["grounding"] <= 1
            assert 0 <= found["prefix_reuse"] <= 1
            assert 0 < found["prefix_bound"] <= 1
            assert found["tokens_after"] < found["tokens_before"]
            assert found["ms_p50"] > 0
            assert 0 < found["fill"] <= 1
    assert "25%" in report["methods"]["promptctx"]["sources"]["tau-bench"]
    assert "stood:" in told


def test_a_method_that_nobody_knows_is_named_with_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--methods", "last-m"])
    assert "'last-m' is none of promptctx, last-n, rule-summary, langchain-trim" in capsys.readouterr().err


def test_results_and_prompts_are_written_between_the_marks_of_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = log(tmp_path), tmp_path / "page.md"
    marks = ("run", "results", "sources", "curves", "short", "misses 1", "prompt log,60,25%", "other")
    page.write_text("".join(f"# {mark}\n<!-- begin {mark} -->\nold\n<!-- end -->\n" for mark in marks))
    main(["--corpus", str(folder), "--methods", "promptctx", "--low-water", "0.5", "--doc", str(page)])
    text = page.read_text()
    assert text.count("old") == 1  # nothing is known about `other`
    assert "| promptctx " in text
    assert "1 sessions of 1 sources, o200k_base" in text
    assert "| clerk | 25% |" in text
    assert " 25% grounding    0.5" in text
    assert "**25%**: first of all methods; rule breaks 0 (goal 0); grounding " in text
    assert "| 0.5 |" in text
    assert "BEFORE: " in text
    assert "AFTER: " in text
    assert "'TCK-90210': grounded" in text
    assert "promptctx@0.5" in capsys.readouterr().out


def test_a_cell_that_misses_its_goal_is_told_with_how_much_and_the_values_that_were_missed(tmp_path: Path) -> None:
    text = log(tmp_path) / "clerk" / "log.json"
    messages = json.loads(text.read_text())
    for message in messages[4:-2]:
        for one in message.get("tool_calls", ()):
            one["function"]["arguments"] = '{"step": 1}'
    text.write_text(json.dumps(messages))
    found = sessions(tmp_path)
    blind = LastN()
    blind.name = Promptctx.name  # what the suffix loses stands for what promptctx would
    [(_, results)] = measure(found, [blind], cells=["25%"])
    report = reporting.report([blind], results, found, ENCODING)
    short = shortfalls(report, results)["25%"]
    assert short["missed"] == {"grounding": 0.97}
    assert short["weakest_sources"] == [{"source": "clerk", "grounding": 0.0, "needed": 1}]
    [example] = short["examples"]
    assert (example["value"], example["turns"], example["standing"]) == ("TCK-90210", 1, "absent")
    page = told(shortfalls(report, results), report)
    assert "**grounding 0, goal 0.970: 0.970 short**" in page
    assert "stood: the ticket of Ms Adams is TCK-90210" in page


def test_a_page_never_names_somebodys_home_directory(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- begin a --><!-- end -->")
    write(page, lambda name: "in '/Users/ann/x' and /home/bob/y")
    assert page.read_text() == "<!-- begin a -->\n\nin '~/x' and ~/y\n\n<!-- end -->"


@pytest.mark.corpus
def test_the_same_log_gives_the_same_score_twice(corpus: Path) -> None:
    found = sessions(corpus, "swe-agent")
    scores = [
        [(key, sums.grounded, sums.reused, sums.after) for _, found_ in measure(found, [Promptctx()]) for key, sums in
         found_.items()]
        for _ in range(2)
    ]  # fmt: skip
    assert scores[0] == scores[1]
