"""Compactions that tools recorded are found as they stand in each kind of log, and judged by the same measures."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compaction.judging import Judged, judged, row
from benchmarks.compaction.recorded import Compaction, compactions
from benchmarks.compaction.rules import laid_down, told, verbatim
from benchmarks.compactions import main
from benchmarks.trajectory.sessions import Session, opened
from workers.tokens import Tokens

ENCODING = "o200k_base"
ASKED = "Close ticket TCK-90210, please. Never mail the customer."
FILLER = "nothing new in this part of the log, " * 60


def moment(minute: int) -> str:
    return f"2026-01-05T10:{minute:02}:00.000Z"


def steps() -> list[tuple[str, Any]]:
    """An agent that looks a ticket up, reads on for a while, and needs the ticket's queue in the end."""
    found: list[tuple[str, Any]] = [("user", ASKED)]
    for step in range(10):
        answer = "TCK-90210 lies in the queue QUE-31337" if step == 0 else FILLER
        found += [("call", (f"c{step}", {"page": step})), ("result", (f"c{step}", answer))]
    return found


# --- the two formats --------------------------------------------------------------------------------------------------


def pi_line(kind: str, said: Any, minute: int) -> dict[str, Any]:
    if kind == "user":
        message = {"role": "user", "content": [{"type": "text", "text": said}]}
    elif kind == "call":
        block = {"type": "toolCall", "id": said[0], "name": "look", "arguments": said[1]}
        message = {"role": "assistant", "content": [block], "usage": {"input": 90, "cacheRead": 10}}
    else:
        message = {"role": "toolResult", "toolCallId": said[0], "content": [{"type": "text", "text": said[1]}]}
    return {"type": "message", "id": f"m{minute}", "timestamp": moment(minute), "message": message}


def claude_line(kind: str, said: Any, minute: int) -> dict[str, Any]:
    common = {"uuid": f"u{minute}", "sessionId": "s", "timestamp": moment(minute)}
    if kind == "user":
        return {**common, "type": "user", "message": {"role": "user", "content": said}}
    if kind == "call":
        block: dict[str, Any] = {"type": "tool_use", "id": said[0], "name": "look", "input": said[1]}
        reply = {"id": said[0], "role": "assistant", "content": [block], "usage": {"input_tokens": 100}}
        return {**common, "type": "assistant", "message": reply}
    block = {"type": "tool_result", "tool_use_id": said[0], "content": said[1]}
    return {**common, "type": "user", "message": {"role": "user", "content": [block]}}


AFTER = [("call", ("d1", {"queue": "QUE-31337"})), ("result", ("d1", "moved"))]
SUMMARY = "The agent reads the pages of ticket TCK-90210; the user wants no mail to the customer, never."


def write(folder: Path, lines: list[dict[str, Any]]) -> Path:
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def pi_log(folder: Path, **kept: Any) -> Path:
    header = {"type": "session", "id": "s", "cwd": "/work", "timestamp": moment(59)}  # a branch is newer than its past
    lines = [header, *(pi_line(kind, said, at) for at, (kind, said) in enumerate(steps(), start=1))]
    lines.append({"type": "compaction", "timestamp": moment(30), "summary": SUMMARY, "tokensBefore": 9000, **kept})
    return write(folder, lines + [pi_line(kind, said, 31 + at) for at, (kind, said) in enumerate(AFTER)])


def claude_log(folder: Path, **kept: Any) -> Path:
    lines = [claude_line(kind, said, at) for at, (kind, said) in enumerate(steps(), start=1)]
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s"}
    lines.append({**boundary, "timestamp": moment(30), "compactMetadata": {"preTokens": 9000, **kept}})
    lines.append({**claude_line("user", SUMMARY, 31), "isCompactSummary": True})
    return write(folder, lines + [claude_line(kind, said, 32 + at) for at, (kind, said) in enumerate(AFTER)])


def only(folder: Path) -> tuple[Session, Compaction]:
    [session] = opened(folder, Tokens().counter(ENCODING), ENCODING)
    [found] = compactions(session)
    return session, found


def text_at(session: Session, seq: int | None) -> str:
    return str(session.events[(seq or 0) - 1].payload)


@pytest.mark.parametrize("kept", [{"firstKeptEntryIndex": 20}, {"firstKeptEntryId": "m20"}])
def test_pi_keeps_the_entries_from_one_on_named_by_place_or_by_id(tmp_path: Path, kept: dict[str, Any]) -> None:
    session, found = only(pi_log(tmp_path, **kept))
    assert (found.tool, found.summary, found.tokens_before, found.tokens_after) == ("pi", SUMMARY, 9000, 100)
    assert "'c9'" in text_at(session, found.kept_from)
    assert found.until == len(session.events) + 1


@pytest.mark.parametrize(("kept", "expected"), [({}, None), ({"preservedMessages": {"uuids": ["u20", "u21"]}}, "'c9'")])
def test_claude_code_keeps_the_messages_that_its_boundary_names(
    tmp_path: Path, kept: dict[str, Any], expected: str | None
) -> None:
    session, found = only(claude_log(tmp_path, **kept))
    assert (found.tool, found.summary, found.tokens_before, found.tokens_after) == ("claude-code", SUMMARY, 9000, 100)
    assert found.kept_from is None if expected is None else expected in text_at(session, found.kept_from)


# --- judging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [claude_log, pi_log])
def test_both_sides_get_the_same_budget_and_are_asked_for_the_same_values(tmp_path: Path, log: Any) -> None:
    kept = {"firstKeptEntryIndex": 20} if log is pi_log else {"preservedMessages": {"uuids": ["u20"]}}
    [found] = judged(opened(log(tmp_path, **kept), Tokens().counter(ENCODING), ENCODING))
    assert isinstance(found, Judged)
    told_row = row(found)
    tool, ours = told_row["sides"]["tool"], told_row["sides"]["promptctx"]
    assert told_row["constraints"] == ["Never mail the customer."]
    assert told_row["turns"] == 1
    assert ours["tokens"] <= tool["tokens"] < told_row["tokens_before"]
    assert tool["unsaid"] == ours["unsaid"] == 1
    assert list(tool["missed"]) == ["QUE-31337"]  # the tool's summary forgot the queue
    assert tool["directive_kept"] is False
    assert (tool["constraints_verbatim"], tool["constraints_told"]) == (0, 1)
    assert tool["breaks"] == ["lost_instruction"]
    assert ours["directive_kept"] is True
    assert ours["constraints_verbatim"] == 1
    assert ours["rule_breaks"] == 0
    assert list(ours["held"]) == ["QUE-31337"]


def test_a_compaction_before_which_nothing_had_to_go_is_skipped_with_the_reason(tmp_path: Path) -> None:
    log = pi_log(tmp_path, firstKeptEntryIndex=1)
    text = (log / "log.jsonl").read_text().replace(FILLER, "short")
    (log / "log.jsonl").write_text(text)
    [found] = judged(opened(log, Tokens().counter(ENCODING), ENCODING))
    assert isinstance(found, str)
    assert "nothing had to go" in found


def test_rules_are_sentences_that_lay_something_down_in_english_and_chinese() -> None:
    said = ["Fix it.\nYou must not touch main.py! Thanks.", "请尽快修复。不要修改数据库。", "x" * 400 + " never"]
    assert laid_down(said) == ["You must not touch main.py!", "不要修改数据库。"]
    assert verbatim("You must not touch main.py!", ["He said: You must\nnot touch main.py! Yes."])
    assert told("Never mail the customer.", ["- no mail to a customer, never"])
    assert not told("Never mail the customer.", ["never", "a customer"])


def test_tables_and_quotations_are_written_into_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- begin {name} -->\n<!-- end -->\n" for name in ("logs", "table", "examples")))
    folder = tmp_path / "corpus"
    folder.mkdir()
    log = claude_log(folder, preservedMessages={"uuids": ["u20"]})
    assert main(["--corpus", str(log), "--json", "--doc", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["tool"] for one in report["compactions"]] == ["claude-code"]
    text = page.read_text()
    assert "| 1 | promptctx |" in text
    assert "kept by promptctx, lost by claude-code (1)" in text
    assert "the user: Never mail the customer." in text
