"""MCP as a model's host sees it: the SDK's own client, over stdio and over HTTP, in front of the real server."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from promptctx import Client as Promptctx
from workers.access import create
from workers.clock import SystemClock
from workers.settings import Settings, load_settings
from workers.store import Database

pytest_plugins = ["api_server"]

Json = Any
TOOLS = {"expand_reference", "recall", "remember", "record_event", "compile_prompt", "why"}


@asynccontextmanager
async def door(kind: str, url: str, key: str | None = None) -> AsyncIterator[Client]:
    if kind == "stdio":
        given = {"PROMPTCTX_URL": url, **({"PROMPTCTX_API_KEY": key} if key else {})}
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "promptctx.cli", "mcp"], env={**os.environ, **given}
        )
        async with Client(command) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


async def ask(client: Client, tool: str, **arguments: Json) -> Json:
    result = await client.call_tool(tool, arguments)
    said = "".join(getattr(part, "text", "") for part in result.content)
    if result.is_error:
        raise AssertionError(said)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Json) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return "".join(getattr(part, "text", "") for part in result.content)


@pytest.fixture
def url(http: httpx2.Client) -> str:
    return str(http.base_url).rstrip("/")


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_a_model_works_with_a_session_through_the_tools(url: str, kind: str) -> None:
    s = Promptctx(url).session("s-1", subject="u-1", mode="chat", locale="en")
    s.constraint("no-rm", "Never run rm -rf.")
    long = "What the log says. " * 200
    said = s.user(long)

    async def work() -> None:
        async with door(kind, url) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            expanded = await ask(
                client, "expand_reference", session="s-1", reference_id=f"e{said.seq}", start=5, end=18
            )
            assert expanded["text"] == long[5:18]
            await ask(client, "remember", session="s-1", text="Sofia prefers window seats.", importance=0.9)
            found = await ask(client, "recall", session="s-1", query="window seats", limit=3)
            assert "window seats" in json.dumps(found["found"])
            event = {"decision": "wait", "result": "nothing yet"}
            made = await ask(client, "record_event", session="s-1", kind="observation.recorded", payload=event)
            assert made["duplicate"] is False
            prompt = await ask(client, "compile_prompt", session="s-1", budget=3000)
            assert prompt["tokens"] <= 3000
            assert "Never run rm -rf." in json.dumps(prompt["payload"])
            told = await ask(client, "why", prompt=prompt["prompt"], event=str(said.seq))
            assert told
            read = await client.read_resource(f"promptctx://prompts/{prompt['prompt']}")
            assert "Never run rm -rf." in read.contents[0].text  # type: ignore[union-attr]
            for uri in ("promptctx://sessions", "promptctx://sessions/s-1", "promptctx://sessions/s-1/events"):
                assert json.loads((await client.read_resource(uri)).contents[0].text)  # type: ignore[union-attr]

    anyio.run(work)
    actors = {event.actor for event in s.events() if event.kind in ("reference.expanded", "observation.recorded")}
    assert actors == {"agent"}


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_a_model_cannot_loosen_the_rules_of_its_session(url: str, kind: str) -> None:
    s = Promptctx(url).session("s-1")
    s.instructions(role="You help.")
    s.constraint("no-rm", "Never run rm -rf.")
    attempts: list[tuple[str, Json]] = [
        ("constraint.removed", {"id": "no-rm"}),
        ("constraint.set", {"id": "no-rm", "level": "warn", "text": "Mind rm -rf."}),
        ("instruction.set", {"text": "You obey."}),
        ("context.rolled_back", {"to_seq": 0, "loosen": True}),
        ("event.redacted", {"event_id": "x", "reason": "x"}),
    ]

    async def work() -> None:
        async with door(kind, url) as client:
            for kind_of_event, payload in attempts:
                told = await refusal(client, "record_event", session="s-1", kind=kind_of_event, payload=payload)
                assert "[forbidden]" in told

    anyio.run(work)
    assert [event.kind for event in s.events()] == ["instruction.set", "constraint.set"]


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_errors_are_one_sentence_that_says_what_to_do(url: str, kind: str) -> None:
    async def work() -> None:
        async with door(kind, url) as client:
            told = await refusal(client, "why", prompt="nowhere@1", event="1")
            assert "[unknown_snapshot]" in told or "[unknown_session]" in told
            told = await refusal(client, "expand_reference", session="s-1", reference_id="e9")
            assert "e9" in told
            assert "Traceback" not in told
            await refusal(client, "remember", session="s-1", text="x", importance=7)
            await refusal(client, "recall", session="../../x", query="x")

    anyio.run(work)


def test_keys_and_scopes_hold_at_this_door_too(
    empty_store: Path, tmp_path: Path, serve: Callable[[Settings], AbstractContextManager[httpx2.Client]]
) -> None:
    database_url = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'keys.db')}"
    with serve(load_settings(database_url=database_url, require_keys=True)) as http:
        url, database = str(http.base_url).rstrip("/"), Database(database_url)
        whole = create(database, SystemClock(), "acme", "whole", ["emit", "compile", "read", "policy"])[1]
        reader = create(database, SystemClock(), "acme", "reader", ["read"])[1]
        database.dispose()
        s = Promptctx(url, api_key=whole).session("s-1")
        s.constraint("no-rm", "Never run rm -rf.")

        async def work() -> None:
            async with door("http", url, whole) as client:
                removed = {"session": "s-1", "kind": "constraint.removed", "payload": {"id": "no-rm"}}
                assert "[forbidden]" in await refusal(client, "record_event", **removed)
                await ask(client, "remember", session="s-1", text="Fine.")
            async with door("http", url, reader) as client:
                told = await refusal(client, "remember", session="s-1", text="Not mine to write.")
                assert "[forbidden]" in told
                assert "s-1" in (await client.read_resource("promptctx://sessions")).contents[0].text  # type: ignore[union-attr]

        anyio.run(work)
        assert httpx2.post(f"{url}/mcp", json={}, trust_env=False).status_code == 401
        other = httpx2.post(f"{url}/mcp", json={}, headers={"Origin": "https://example.org"}, trust_env=False)
        assert other.status_code == 403


def test_without_the_extra_the_command_says_what_to_install() -> None:
    without = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['promptctx', 'mcp']; from promptctx.cli import main; main()"
    )
    said = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 1
    assert "pip install 'promptctx[mcp]'" in said.stderr
    assert said.stderr.count("\n") == 1
