"""What a user of the client sees of its types. Never run: mypy and pyright, both strict, read it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

from promptctx import (
    AsyncBatch,
    AsyncClient,
    AsyncJob,
    AsyncPrompt,
    AsyncSession,
    Batch,
    Client,
    ContextOverflow,
    Document,
    EventRecord,
    Job,
    Outbox,
    OutboxSession,
    Prompt,
    PromptctxError,
    PromptInfo,
    Receipt,
    Replay,
    Session,
    SessionInfo,
    State,
    Stats,
)
from promptctx.testing import FakeServer

Answer = Mapping[str, Any]


def of_client(client: Client) -> None:
    assert_type(Client("http://127.0.0.1:8765", timeout=3, api_key="k", retries=0, transport=FakeServer()), Client)
    with client as opened:
        assert_type(opened, Client)
    assert_type(client.session("s", subject="u", mode="react", locale="en", context_window=8000), Session)
    assert_type(client.sessions("text", mode="chat", limit=10), Iterator[SessionInfo])
    assert_type(client.prompt("p", "anthropic"), Prompt)
    assert_type(client.job("j"), Job)
    assert_type(client.stats(), Stats)
    assert_type(client.replays("s", first=1, last=9), Iterator[Replay])
    assert_type(client.dump("p"), Answer)
    assert_type(client.diff("p", "q"), Answer)
    assert_type(client.diff("p", changes={"budget": 4000}), Answer)
    assert_type(client.flagged("good", session="s"), Answer)
    assert_type(client.restore(b""), Answer)
    assert_type(client.memories("u", "query", scope="tenant", closed=True), Answer)
    assert_type(client.memory("u", "m"), Answer)
    assert_type(client.forget_memory("u", "m", "wrong"), Answer)
    assert_type(client.care_for_memory("u", dry_run=False), Answer)
    assert_type(client.undo_memory("u", "c"), Answer)
    assert_type(client.export_memory("u"), Answer)
    assert_type(client.import_memory("u", {}), Answer)
    assert_type(client.close(), None)


def of_session(s: Session) -> None:
    assert_type(s.id, str)
    assert_type(s.seq, int)
    assert_type(s.run_id, str | None)
    assert_type(s.prompt_id, str | None)
    assert_type(s.head(), int)
    assert_type(s.state(), State)
    assert_type(s.append([{"kind": "custom.x", "payload": {}}], expected_seq=3), tuple[Receipt, ...])
    assert_type(s.compile(budget=8000, format="text", wait=1), Job)
    assert_type(s.document(Path("notes.md"), title="Notes"), Document)
    assert_type(s.document_text("d", 0, 10), str)
    assert_type(s.rollback(to_version=3, scope="memory_kept"), Receipt)
    assert_type(s.rollback_plan(to_seq=3), Answer)
    assert_type(s.fork("child", at_seq=3, title="t"), Session)
    assert_type(s.bisect("text"), Answer)
    assert_type(s.anchors(), Answer)
    assert_type(s.labels(), Answer)
    assert_type(s.active("openai"), Prompt)
    assert_type(s.prune(keep_last=5, dry_run=True), Answer)
    assert_type(s.bundle(), bytes)
    assert_type(s.events(3, stream="audit"), Iterator[EventRecord])
    assert_type(s.prompts(limit=3), Iterator[PromptInfo])
    with s.batch(expected_seq=1) as batch:
        assert_type(batch, Batch)
        assert_type(batch.user("hello"), str)
    assert_type(batch.receipts, tuple[Receipt, ...])


def of_verbs(s: Session) -> None:
    assert_type(s.start(subject="u").warnings, tuple[str, ...])
    run = assert_type(s.start_run("goal", mode="react"), Receipt)
    assert_type(s.end_run("done"), Receipt)
    assert_type(s.emit("custom.deploy", {"build": 7}, actor="ci"), Receipt)
    assert_type(s.instructions(role="r", rules=["a"], core_rules=("b",), examples=[("q", "a")]), Receipt)
    assert_type(s.constraint("id", "text", level="warn"), Receipt)
    assert_type(s.remove_constraint("id"), Receipt)
    assert_type(s.user("hello", occurred_at=datetime.now(UTC), expected_seq=3), Receipt)
    assert_type(s.user([{"type": "text", "text": "hello"}], directive=False), Receipt)
    assert_type(s.assistant("", tool_calls=[{"id": "c", "name": "f", "arguments": {}}]), Receipt)
    assert_type(s.record({"choices": []}), Receipt)
    assert_type(s.pin(run), Receipt)
    assert_type(s.unpin("event"), Receipt)
    assert_type(s.expand("ref", start=0, end=10), Receipt)
    assert_type(s.tool("f", "does f", {"type": "object"}, required=["a"], volatility="stable"), Receipt)
    assert_type(s.remove_tool("f"), Receipt)
    assert_type(s.tool_call("f", {"a": 1}), Receipt)
    assert_type(s.tool_result("c", {"any": ["JSON"]}, status="error"), Receipt)
    assert_type(s.environment({"cwd": "/"}, secrets={"token": "t"}), Receipt)
    assert_type(s.plan("t", ["one", {"id": "2", "text": "two"}]), Receipt)
    assert_type(s.observe("r", facts=["f"]), Receipt)
    assert_type(s.profile("city", "Paris", category="identity"), Receipt)
    assert_type(s.unset_profile("city"), Receipt)
    assert_type(s.block("label", "text", limit=100), Receipt)
    assert_type(s.edit_block("label", "text"), Receipt)
    assert_type(s.remember("fact", scope="tenant", memory_kind="episodic", derived_from=[run, "e"]), Receipt)
    assert_type(s.revise_memory("m", "text"), Receipt)
    assert_type(s.retract_memory("m", reason="wrong"), Receipt)
    assert_type(s.summary("text", [run]), Receipt)
    assert_type(s.flag(verdict="good"), Receipt)
    assert_type(s.label("active", "p"), Receipt)
    assert_type(s.redact(run, "on request"), Receipt)
    assert_type((run.event_id, run.seq, run.duplicate, run.stream), tuple[str, int, bool, str])


def of_prompt(job: Job) -> None:
    assert_type(job.id, str)
    assert_type(job.session, str)
    assert_type(job.status, str)
    assert_type(job.prompt_id, str | None)
    assert_type(job.error, PromptctxError | None)
    assert_type(job.refresh(), Job)
    prompt = assert_type(job.result(timeout=None), Prompt)
    assert_type((prompt.id, prompt.version, prompt.tokens, prompt.budget), tuple[str, int, int, int | None])
    assert_type(prompt.text, str)
    assert_type(prompt.messages, list[dict[str, Any]])
    assert_type(prompt.tools, list[dict[str, Any]])
    assert_type(prompt.warnings, tuple[str, ...])
    assert_type(prompt.report, Answer)
    assert_type(prompt.openai(model="m"), dict[str, Any])
    assert_type(prompt.anthropic(max_tokens=100), dict[str, Any])
    assert_type(prompt.derive("text"), Prompt)
    assert_type(prompt.replay().identical, bool | None)
    assert_type(prompt.what_if({"budget": 4000}), Answer)
    assert_type(prompt.diff("q"), Answer)
    assert_type(prompt.blame("text"), Answer)
    assert_type(prompt.why(33, verify=True), Answer)
    assert_type(prompt.why("event"), Answer)
    assert_type(prompt.originals(3), Answer)
    assert_type(prompt.bundle(), bytes)


def of_outbox(client: Client) -> None:
    with Outbox(client, ".spool", batch=10, interval=0.5) as outbox:
        s = assert_type(outbox.session("s", mode="chat"), OutboxSession)
        assert_type(s.user("hello"), str)
        assert_type(outbox.put("s", {"kind": "custom.x", "payload": {}}), str)
        assert_type(outbox.waiting, int)
        assert_type(outbox.flush(timeout=None), None)
    assert_type(outbox.close(), None)


def of_errors(job: Job) -> None:
    try:
        job.result()
    except ContextOverflow as error:
        assert_type(error.details, Answer)
        assert_type((error.code, error.message, error.status), tuple[str, str, int])


async def of_async_client(client: AsyncClient) -> None:
    assert_type(AsyncClient(timeout=3, retries=0, transport=FakeServer()), AsyncClient)
    async with client as opened:
        assert_type(opened, AsyncClient)
    assert_type(client.session("s", subject="u"), AsyncSession)
    assert_type(client.sessions("text"), AsyncIterator[SessionInfo])
    assert_type(await client.prompt("p"), AsyncPrompt)
    assert_type(await client.job("j"), AsyncJob)
    assert_type(await client.stats("s"), Stats)
    assert_type(client.replays(), AsyncIterator[Replay])
    assert_type(await client.dump("p"), Answer)
    assert_type(await client.diff("p", "q"), Answer)
    assert_type(await client.flagged(), Answer)
    assert_type(await client.restore(b""), Answer)
    assert_type(await client.memories("u"), Answer)
    assert_type(await client.memory("u", "m"), Answer)
    assert_type(await client.forget_memory("u", "m"), Answer)
    assert_type(await client.care_for_memory("u"), Answer)
    assert_type(await client.undo_memory("u", "c"), Answer)
    assert_type(await client.export_memory("u"), Answer)
    assert_type(await client.import_memory("u", {}), Answer)
    assert_type(await client.close(), None)


async def of_async_session(s: AsyncSession) -> None:
    assert_type((s.id, s.seq, s.run_id, s.prompt_id), tuple[str, int, str | None, str | None])
    assert_type(await s.head(), int)
    assert_type(await s.state(), State)
    assert_type(await s.append([]), tuple[Receipt, ...])
    assert_type(await s.compile(budget=8000), AsyncJob)
    assert_type(await s.document("notes.md"), Document)
    assert_type(await s.document_text("d"), str)
    assert_type(await s.rollback(to_version=3), Receipt)
    assert_type(await s.rollback_plan(to_seq=3), Answer)
    assert_type(await s.fork("child"), AsyncSession)
    assert_type(await s.bisect("text"), Answer)
    assert_type(await s.anchors(), Answer)
    assert_type(await s.labels(), Answer)
    assert_type(await s.active(), AsyncPrompt)
    assert_type(await s.prune(), Answer)
    assert_type(await s.bundle(), bytes)
    assert_type(s.events(), AsyncIterator[EventRecord])
    assert_type([one async for one in s.prompts()], list[PromptInfo])
    async with s.batch() as batch:
        assert_type(batch, AsyncBatch)
        assert_type(batch.user("hello"), str)
    assert_type(batch.receipts, tuple[Receipt, ...])


async def of_async_verbs(s: AsyncSession) -> None:
    run = assert_type(await s.start_run("goal"), Receipt)
    assert_type(await s.start(subject="u"), Receipt)
    assert_type(await s.end_run("done"), Receipt)
    assert_type(await s.emit("custom.deploy", {"build": 7}), Receipt)
    assert_type(await s.instructions(role="r", rules=["a"]), Receipt)
    assert_type(await s.constraint("id", "text"), Receipt)
    assert_type(await s.remove_constraint("id"), Receipt)
    assert_type(await s.user("hello", expected_seq=3), Receipt)
    assert_type(await s.assistant("hello"), Receipt)
    assert_type(await s.record({"choices": []}), Receipt)
    assert_type(await s.pin(run), Receipt)
    assert_type(await s.unpin("event"), Receipt)
    assert_type(await s.expand("ref"), Receipt)
    assert_type(await s.tool("f"), Receipt)
    assert_type(await s.remove_tool("f"), Receipt)
    assert_type(await s.tool_call("f", {"a": 1}), Receipt)
    assert_type(await s.tool_result("c", "text"), Receipt)
    assert_type(await s.environment({"cwd": "/"}), Receipt)
    assert_type(await s.plan("t", ["one"]), Receipt)
    assert_type(await s.observe("r"), Receipt)
    assert_type(await s.profile("city", "Paris"), Receipt)
    assert_type(await s.unset_profile("city"), Receipt)
    assert_type(await s.block("label"), Receipt)
    assert_type(await s.edit_block("label", "text"), Receipt)
    assert_type(await s.remember("fact"), Receipt)
    assert_type(await s.revise_memory("m", "text"), Receipt)
    assert_type(await s.retract_memory("m"), Receipt)
    assert_type(await s.summary("text", [run]), Receipt)
    assert_type(await s.flag(), Receipt)
    assert_type(await s.label("active"), Receipt)
    assert_type(await s.redact(run), Receipt)


async def of_async_prompt(job: AsyncJob) -> None:
    assert_type((job.id, job.session, job.status, job.prompt_id), tuple[str, str, str, str | None])
    assert_type(job.error, PromptctxError | None)
    assert_type(await job.refresh(), AsyncJob)
    prompt = assert_type(await job.result(), AsyncPrompt)
    assert_type((prompt.text, prompt.warnings), tuple[str, tuple[str, ...]])
    assert_type((prompt.messages, prompt.tools), tuple[list[dict[str, Any]], list[dict[str, Any]]])
    assert_type(prompt.openai(), dict[str, Any])
    assert_type(prompt.anthropic(), dict[str, Any])
    assert_type(await prompt.derive("anthropic"), AsyncPrompt)
    assert_type(await prompt.replay(), Replay)
    assert_type(await prompt.what_if({"budget": 4000}), Answer)
    assert_type(await prompt.diff("q"), Answer)
    assert_type(await prompt.blame(), Answer)
    assert_type(await prompt.why(33), Answer)
    assert_type(await prompt.originals(), Answer)
    assert_type(await prompt.bundle(), bytes)
