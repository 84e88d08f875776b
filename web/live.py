"""A session's events as they come, by server-sent events: an id per event, so that a reader resumes where it was."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from web.access import Callers, Engines
from web.bodies import to_json
from web.parameters import LastEventId, SessionId, StreamName, Whole, seq_in
from workers.engine import Engine

PAGE = 200
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks at the log. Events come from any process, so looking is the only way to see them all."""

live = APIRouter(prefix="/v1", tags=["log"])


async def resume_point(
    session: SessionId,
    engine: Engines,
    caller: Callers,
    stream: StreamName = "session",
    after: Annotated[Whole | None, Query(description="start behind this seq; at the head if not given")] = None,
    last_event_id: LastEventId = None,
) -> int:
    """The seq to start behind. Asks the log before the answer begins, so that a refusal can still be one."""
    page = await run_in_threadpool(engine.events, caller.tenant, session, stream, after or 0, 1)
    if last_event_id:
        return seq_in(last_event_id)
    return after if after is not None else int(page["head"])


@live.get("/sessions/{session}/events/live", response_class=EventSourceResponse)
async def follow(
    session: SessionId,
    engine: Engines,
    caller: Callers,
    start: Annotated[int, Depends(resume_point)],
    stream: StreamName = "session",
) -> AsyncIterator[ServerSentEvent]:
    """The session's events from now on, or from a seq on, as server-sent events with the seq as their id."""
    async for event in coming(engine, caller.tenant, session, stream, start):
        yield _sent(event)


async def coming(engine: Engine, tenant: str, session: str, stream: str, after: int) -> AsyncIterator[dict[str, Any]]:
    """The events behind a seq, and from then on each as it comes."""
    seq, pause = after, FIRST_PAUSE
    while True:
        page = await run_in_threadpool(engine.events, tenant, session, stream, seq, PAGE)
        for event in page["events"]:
            yield event
            seq, pause = event["seq"], FIRST_PAUSE
        if len(page["events"]) < PAGE:
            await anyio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


def _sent(event: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(raw_data=to_json(event).decode(), id=str(event["seq"]))
