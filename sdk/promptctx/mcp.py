"""The tools and resources that promptctx offers to models over MCP: one definition, behind two doors.

`promptctx mcp` speaks it on stdio and passes each call on to a server's HTTP API; the server itself speaks it at `/mcp`
and passes each call on to its own API, with the key of whoever called. So keys and scopes hold here as they do there.
What comes this way comes from a model: every event has the actor `agent`, who may never loosen a rule.

Needs the extra: `pip install 'promptctx[mcp]'`.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from promptctx import AsyncClient, errors
from promptctx.prompt import Format
from promptctx.session import Stream

Json = dict[str, Any]
Opened = AbstractAsyncContextManager[AsyncClient]

NAME = "promptctx"
INSTRUCTIONS = (
    "promptctx keeps the log of an agent's session and compiles prompts from it. Where a prompt shows a reference such "
    "as e42 in place of a long text, expand_reference brings a slice of it back. recall finds what was said before, "
    "remember keeps a fact for later sessions, why tells what became of an event in a prompt."
)
ACTOR = "agent"
MOST = 2**53

SessionId = Annotated[str, Field(description="id of the session", max_length=200)]
Offset = Annotated[int, Field(description="first character", ge=0, le=MOST)]
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

REFUSED = frozenset({"event.redacted", "context.rolled_back", "session.forked"})
"""Kinds that change what counts in a session: for people, not for models."""


def build(opened: Callable[[Context[Any, Any]], Opened]) -> MCPServer[Any]:
    """The server; `opened` gives a client for one call, with the rights of whoever calls."""
    server: MCPServer[Any] = MCPServer(NAME, instructions=INSTRUCTIONS, log_level="WARNING")
    _tools(server, opened)
    _resources(server, opened)
    return server


def over_http(url: str | None = None, api_key: str | None = None) -> MCPServer[Any]:
    """The server of one user: each call goes to a promptctx server, as `Client(url)` would find it."""
    return build(lambda ctx: AsyncClient(url, api_key=api_key))


@asynccontextmanager
async def _asking(opened: Opened, failure: type[Exception] = ToolError) -> AsyncIterator[AsyncClient]:
    """A client for one call; an error of the server is one sentence that the model can act on."""
    try:
        async with opened as client:
            yield client
    except errors.PromptctxError as error:
        raise failure(f"{error.message} [{error.code}]") from None


def _tools(server: MCPServer[Any], opened: Callable[[Context[Any, Any]], Opened]) -> None:
    @server.tool(annotations=ADDS)
    async def expand_reference(
        ctx: Context[Any, Any],
        session: SessionId,
        reference_id: Annotated[str, Field(description="as the prompt shows it: e42, or a document's id")],
        start: Offset = 0,
        end: Annotated[int | None, Field(description="the character after the last", ge=0, le=MOST)] = None,
    ) -> Json:
        """Bring a slice of what a prompt only refers to back: returns the text, and puts it into the window."""
        async with _asking(opened(ctx)) as client:
            s = client.session(session)
            receipt = await s.expand(reference_id, start=start, end=end, actor=ACTOR)
            async for event in s.events(receipt.seq - 1, limit=1):
                return {"reference_id": reference_id, "text": _text(event.payload.get("content")), "seq": receipt.seq}
            return {"reference_id": reference_id, "text": "", "seq": receipt.seq}

    @server.tool(annotations=READS)
    async def recall(
        ctx: Context[Any, Any],
        session: SessionId,
        query: Annotated[str, Field(description="what to look for, in words", max_length=10_000)],
        limit: Annotated[int, Field(description="at most so many", ge=1, le=50)] = 5,
    ) -> Json:
        """Find what was said or remembered about something, in this session and the user's others, the best first."""
        wanted = {"top_k": limit, "min_score": 0.0, "token_budget": 200 * limit}
        async with _asking(opened(ctx)) as client:
            job = await client.session(session).compile(
                query=query, mode="chat", overrides={"slots": {"recall": wanted}}, wait=5.0
            )
            prompt = await job.result(30.0)
            items = (prompt.report.get("slots", {}).get("recall") or {}).get("items") or ()
        found = [{key: item.get(key) for key in ("text", "score", "events")} for item in items]
        return {"found": found[:limit], "prompt": prompt.id}

    @server.tool(annotations=ADDS)
    async def remember(
        ctx: Context[Any, Any],
        session: SessionId,
        text: Annotated[str, Field(description="the fact, in one sentence")],
        category: Annotated[str, Field(description="fact, general, episodic, procedural, tool_failure …")] = "fact",
        importance: Annotated[float, Field(description="how much it matters", ge=0, le=1)] = 0.5,
        scope: Annotated[
            Literal["session", "subject"], Field(description="this session only, or its user")
        ] = "subject",
        subject: Annotated[str | None, Field(description="whom or what it is about")] = None,
        predicate: Annotated[str | None, Field(description="what of it: with another object it is superseded")] = None,
        object: Annotated[str | None, Field(description="what it is")] = None,
    ) -> Json:
        """Keep a fact for later prompts and sessions. The same subject and predicate with another object supersede."""
        async with _asking(opened(ctx)) as client:
            receipt = await client.session(session).remember(
                text, category=category, importance=importance, scope=scope, subject=subject, predicate=predicate,
                object=object, actor=ACTOR,
            )  # fmt: skip
        return {"event_id": receipt.event_id, "seq": receipt.seq, "stream": receipt.stream}

    @server.tool(annotations=ADDS)
    async def record_event(
        ctx: Context[Any, Any],
        session: SessionId,
        kind: Annotated[str, Field(description="kind of the event, as observation.recorded or custom.deploy")],
        payload: Annotated[Json, Field(description="its payload, by its kind")],
        event_id: Annotated[str | None, Field(description="a UUID: sent again, it adds nothing")] = None,
    ) -> Json:
        """Append an event to the session's log. What would loosen the session's rules is refused."""
        if kind in REFUSED:
            raise ToolError(f"{kind} is not for models: a person does it with the command line or the API. [forbidden]")
        event = {"kind": kind, "payload": payload, "actor": ACTOR, **({"event_id": event_id} if event_id else {})}
        async with _asking(opened(ctx)) as client:
            (receipt,) = await client.session(session).append([event])
        told = {"event_id": receipt.event_id, "seq": receipt.seq, "duplicate": receipt.duplicate}
        return {**told, **({"warnings": list(receipt.warnings)} if receipt.warnings else {})}

    @server.tool(annotations=READS)
    async def compile_prompt(
        ctx: Context[Any, Any],
        session: SessionId,
        budget: Annotated[int | None, Field(description="most tokens it may have", ge=1, le=MOST)] = None,
        mode: Annotated[str | None, Field(description="chat, tool, rag, react, or one of your own")] = None,
        format: Annotated[Format, Field(description="whose messages it is made of")] = "openai",
        query: Annotated[str | None, Field(description="what to recall memories for")] = None,
    ) -> Json:
        """Compile the session into a prompt: the payload for the model, its tokens, and what was left out."""
        async with _asking(opened(ctx)) as client:
            job = await client.session(session).compile(budget=budget, mode=mode, format=format, query=query, wait=5.0)
            prompt = await job.result(30.0)
        out = [one for one in prompt.report.get("units") or () if one.get("disposition") != "included"]
        return {
            "prompt": prompt.id, "version": prompt.version, "tokens": prompt.tokens, "budget": prompt.budget,
            "payload": dict(prompt.payload), "left_out": out[:100], "warnings": list(prompt.warnings),
        }  # fmt: skip

    @server.tool(annotations=READS)
    async def why(
        ctx: Context[Any, Any],
        prompt: Annotated[str, Field(description="id of the prompt, or SESSION@VERSION")],
        event: Annotated[str, Field(description="id of the event, its seq in the session, or subject:12")],
    ) -> Json:
        """Where an event went in a prompt, the rule that decided it, and what would have kept it."""
        async with _asking(opened(ctx)) as client:
            return dict(await (await client.prompt(prompt)).why(event))


def _resources(server: MCPServer[Any], opened: Callable[[Context[Any, Any]], Opened]) -> None:
    @server.resource("promptctx://sessions{?limit}", mime_type="application/json")
    async def sessions(ctx: Context[Any, Any], limit: Annotated[int, Field(ge=1, le=1000)] = 100) -> str:
        """The sessions, newest first."""
        async with _asking(opened(ctx), ResourceError) as client:
            found: list[Json] = []
            async for one in client.sessions():
                found.append({"id": one.id, "title": one.title, "head": one.head, "prompts": one.prompts})
                if len(found) >= limit:
                    break
        return json.dumps({"sessions": found}, ensure_ascii=True)

    @server.resource("promptctx://sessions/{session}", mime_type="application/json")
    async def session(session: str, ctx: Context[Any, Any]) -> str:
        """A session as it stands: slots, plan, open calls, anchors."""
        async with _asking(opened(ctx), ResourceError) as client:
            state = await client.session(session).state()
        return json.dumps({"session": state.session, "seq": state.seq, "slots": state.slots}, default=str)

    @server.resource("promptctx://sessions/{session}/events", mime_type="application/json")
    async def events(session: str, ctx: Context[Any, Any]) -> str:
        """The newest events of a session, at most 100, in order."""
        stream: Stream = "session"
        async with _asking(opened(ctx), ResourceError) as client:
            s = client.session(session)
            after = max(0, await s.head() - 100)
            found = [
                {"seq": one.seq, "event_id": one.event_id, "kind": one.kind, "payload": one.payload}
                async for one in s.events(after, stream=stream)
            ]
        return json.dumps({"events": found}, default=str)

    @server.resource("promptctx://prompts/{prompt}", mime_type="text/plain")
    async def prompt(prompt: str, ctx: Context[Any, Any]) -> str:
        """A compiled prompt, for reading."""
        async with _asking(opened(ctx), ResourceError) as client:
            return (await client.prompt(prompt)).text


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in parts if part)
