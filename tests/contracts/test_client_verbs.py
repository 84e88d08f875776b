"""Every kind of event a caller may send has a verb, and each verb sends what the domain accepts."""

from collections.abc import Callable
from typing import Any

import pytest

from domain.events import PAYLOADS, Payload, parse_payload
from promptctx import Client, Session
from promptctx._track import EventOptions
from promptctx.testing import FakeServer
from promptctx.verbs import Verbs

WORKERS_WRITE = {
    "anchor.moved": "compile moves anchors",
    "context.compiled": "compile writes it beside the snapshot",
    "context.trimmed": "compile trims",
    "context.trim_rolled_back": "compile trims",
    "memory.decided": "remembering writes it beside what it decided",
    "document.attached": "the upload of document() writes it, with hash and chunks",
}
SERVER_FILLS = {"context.rolled_back": {"undoes"}, "event.redacted": {"upto"}}
"""Fields that no caller may send."""
PART = {"type": "image", "url": "u", "media_type": "image/png", "width": 1, "height": 2, "detail": "low"}
MEMORY: dict[str, Any] = {
    "category": "episodic", "importance": 0.9, "scope": "session", "memory_kind": "episodic", "tags": ["t"],
    "subject": "a", "predicate": "b", "object": "c", "derived_from": ["e"],
    "valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-02-01T00:00:00Z",
}  # fmt: skip
CALL = {"id": "c1", "name": "f", "arguments": {"a": 1}}

Act = Callable[[Session], Any]
SHORT: dict[str, Act] = {
    "start": lambda s: s.start(mode="chat"),
    "start_run": lambda s: s.start_run(),
    "end_run": lambda s: s.end_run(run_id="r"),
    "instructions": lambda s: s.instructions(text="t"),
    "constraint": lambda s: s.constraint("c", "text"),
    "remove_constraint": lambda s: s.remove_constraint("c"),
    "user": lambda s: s.user("hi"),
    "assistant": lambda s: s.assistant(),
    "record": lambda s: s.record({"choices": [{"message": {"content": "x"}}]}),
    "pin": lambda s: s.pin("e"),
    "unpin": lambda s: s.unpin("e"),
    "expand": lambda s: s.expand("r"),
    "tool": lambda s: s.tool("f"),
    "remove_tool": lambda s: s.remove_tool("f"),
    "tool_call": lambda s: s.tool_call("f"),
    "tool_result": lambda s: s.tool_result("c1"),
    "environment": lambda s: s.environment(),
    "plan": lambda s: s.plan("t"),
    "observe": lambda s: s.observe(),
    "profile": lambda s: s.profile("k", None),
    "unset_profile": lambda s: s.unset_profile("k"),
    "block": lambda s: s.block("l"),
    "edit_block": lambda s: s.edit_block("l", ""),
    "remember": lambda s: s.remember("text"),
    "revise_memory": lambda s: s.revise_memory("m", "text"),
    "retract_memory": lambda s: s.retract_memory("m"),
    "summary": lambda s: s.summary("text", ["e"]),
    "flag": lambda s: s.flag("p"),
    "label": lambda s: s.label("l", "p"),
    "redact": lambda s: s.redact("e"),
    "emit": lambda s: s.emit("custom.note", {"any": ["JSON", 1, None]}),
    "rollback": lambda s: s.rollback(to_seq=0),
    "fork": lambda s: s.fork("child", at_seq=0),
}
FULL: dict[str, Act] = {
    "start": lambda s: s.start(
        subject="u", mode="react", locale="zh", model="gpt-4o", context_window=8000, reserve_ratio=0.3,
        task_type="code", time_zone="UTC", parent="p", inherit=("plan", "instructions"), title="t", source="x",
    ),
    "start_run": lambda s: s.start_run("goal", run_id="r", mode="react"),
    "end_run": lambda s: s.end_run("result", status="failed", run_id="r"),
    "instructions": lambda s: s.instructions(
        role="r", rules=["a"], core_rules=["b"], output_format="o", text="t",
        examples=[("q", "a"), {"user": "q", "assistant": "a"}],
    ),
    "constraint": lambda s: s.constraint("c", "text", level="warn", pattern="rm", source="x"),
    "user": lambda s: s.user([{"type": "text", "text": "hi"}, PART], directive=False, name="n"),
    "assistant": lambda s: s.assistant(
        "said", tool_calls=[CALL], reasoning=[{"text": "hm", "signature": "sig", "data": 1}], model="m", provider="p",
        usage={"input_tokens": 1, "output_tokens": 2, "cached_tokens": 0}, snapshot_id="p",
    ),
    "expand": lambda s: s.expand("r", start=5, end=9, content="slice"),
    "tool": lambda s: s.tool(
        "f", "does f", {"type": "object"}, required=["a"], fields=["x.y"], volatility="stable"
    ),
    "tool_call": lambda s: s.tool_call("f", {"a": 1}, call_id="c1"),
    "tool_result": lambda s: s.tool_result(
        "c1", {"temp": 22}, status="error", name="f", observed_at="2026-01-01T00:00:00Z"
    ),
    "environment": lambda s: s.environment({"cwd": "/"}, secrets={"token": "t"}),
    "plan": lambda s: s.plan(
        "t", ["one", {"id": "2", "text": "two", "tool": "f", "deps": ["1"], "status": "running", "retries": 1,
                      "reflection": "hm"}],
        status="blocked", phase="executing", current_step="2", interruption="stop",
    ),
    "observe": lambda s: s.observe("r", step_id="1", tool="f", decision="go", failed=True, facts=["x"]),
    "profile": lambda s: s.profile("k", "v", category="identity", source="x"),
    "block": lambda s: s.block("l", "text", limit=10, read_only=True),
    "remember": lambda s: s.remember("text", id="m", supersedes=["n"], **MEMORY),
    "revise_memory": lambda s: s.revise_memory("m", "text", **MEMORY),
    "retract_memory": lambda s: s.retract_memory("m", scope="tenant", reason="wrong"),
    "summary": lambda s: s.summary(
        "text", ["e"], id="s", method="llm", model="m", prompt_hash="h", supersedes=["z"]
    ),
    "flag": lambda s: s.flag("p", verdict="good", note="n"),
    "label": lambda s: s.label("l", "p", note="n"),
    "redact": lambda s: s.redact("e", "why"),
    "rollback": lambda s: s.rollback(to_seq=3, to_version=2, scope="memory_kept", reason="why", loosen=True),
}  # fmt: skip


def sent(act: Act) -> tuple[str, Any]:
    """Kind and payload of the one event that a verb put into the log."""
    server = FakeServer()
    server.started["s"] = {}  # what is forked must be there
    act(Client(transport=server).session("s"))
    (event,) = [event for events in server.streams.values() for event in events]
    return event["kind"], event["payload"]


def test_no_kind_lacks_a_verb() -> None:
    kinds = {sent(act)[0] for act in SHORT.values()} - {"custom.note"}
    assert kinds | set(WORKERS_WRITE) == set(PAYLOADS)
    assert not kinds & set(WORKERS_WRITE)


def test_every_verb_is_tried_here() -> None:
    verbs = {name for name in vars(Verbs) if not name.startswith("_")} - {"id", "run_id"}
    assert verbs | {"rollback", "fork"} == set(SHORT)


@pytest.mark.parametrize("verb", SHORT)
def test_a_verb_with_the_least_it_needs_sends_what_the_domain_accepts(verb: str) -> None:
    kind, payload = sent(SHORT[verb])
    parsed = parse_payload(kind, 1, payload)
    assert isinstance(parsed, Payload) or kind == "custom.note"


@pytest.mark.parametrize("verb", FULL)
def test_a_verb_can_say_everything_its_kind_can_carry(verb: str) -> None:
    kind, payload = sent(FULL[verb])
    parse_payload(kind, 1, payload)
    assert set(payload) == set(PAYLOADS[kind].model_fields) - SERVER_FILLS.get(kind, set())


def test_a_verb_without_a_long_form_has_no_more_to_say() -> None:
    for verb in set(SHORT) - set(FULL) - {"emit", "record"}:
        kind, payload = sent(SHORT[verb])
        assert set(payload) == set(PAYLOADS[kind].model_fields) - SERVER_FILLS.get(kind, set()), verb


def test_the_envelope_goes_with_every_verb() -> None:
    server = FakeServer()
    envelope: EventOptions = {
        "event_id": "e1", "occurred_at": "2026-01-01T00:00:00Z", "actor": "cron", "run_id": "r",
        "causation_id": "c", "correlation_id": "k",
    }  # fmt: skip
    Client(transport=server).session("s").user("hi", **envelope)
    (event,) = server.events("s")
    assert {key: event[key] for key in envelope} == envelope
