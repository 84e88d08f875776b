"""Pages of sessions: the list, what is flagged, one session with its timeline, versions, instruction and memory."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from domain.errors import InvalidRequest
from web.access import Callers, Engines
from web.console import bars
from web.console.rendering import fragment, page
from web.console.visitors import HOME, Visitors
from web.live import coming, resume_point
from web.parameters import Cursor, SessionId, StreamName

Json = dict[str, Any]

pages = APIRouter(prefix=HOME)

PAGE = 50
VERSIONS = 60
MOST_FLAGGED = 200
STREAMS = ("session", "subject", "tenant", "audit")

Sought = Annotated[str, Query(max_length=200)]
Scope = Annotated[Literal["subject", "tenant"], Query()]
Before = Annotated[int | None, Query(ge=1, le=2**53)]


@pages.get("")
def sessions_page(
    visitor: Visitors, engine: Engines, caller: Callers, q: Sought = "", mode: Sought = "", after: Cursor = None
) -> Response:
    """The sessions, newest first; those whose id, title, subject, model or source holds a text."""
    found = engine.sessions(caller.tenant, PAGE, after, q=q.strip(), mode=mode.strip())
    more: Json = {"q": q, "mode": mode, "after": after}
    return page(visitor, "sessions.html", **found, **more)


@pages.get("/flagged")
def flagged_page(visitor: Visitors, engine: Engines, caller: Callers, verdict: Sought = "bad") -> Response:
    """The work list of answers that somebody flagged."""
    if verdict not in ("bad", "good"):
        raise InvalidRequest("verdict: bad or good.", path="verdict")
    found = engine.history.flagged(caller.tenant, verdict)["flagged"]
    return page(visitor, "flagged.html", flagged=found[:MOST_FLAGGED], total=len(found), verdict=verdict)


@pages.get("/sessions/{session}")
def session_page(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, stream: StreamName = "session"
) -> Response:
    told = engine.session(caller.tenant, session)
    events = _events(engine, caller, session, stream, told["head"] + 1 if stream == "session" else None)
    return page(visitor, "session.html", session=session, told=told, streams=STREAMS, **events)


@pages.get("/sessions/{session}/versions")
def versions_part(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, after: Cursor = None
) -> Response:
    """Tokens by zone over the versions."""
    found = engine.prompts(caller.tenant, session, VERSIONS, after)
    marks = {one["version"]: one for one in engine.history.labels(caller.tenant, session)["marked"]}
    strip = bars.strip(found["prompts"])
    zones = {piece.zone for one in strip for piece in one["bar"].pieces}
    more = {"marks": marks, "zones": zones, "next": found["next"], "after": after}
    return page(visitor, "versions.html", session=session, strip=strip, **more)


@pages.get("/sessions/{session}/events")
def events_part(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, stream: StreamName = "session",
    before: Before = None,
) -> Response:  # fmt: skip
    """Older events of a stream, newest first."""
    found = _events(engine, caller, session, stream, before)
    return page(visitor, "events_page.html", session=session, **found)


@pages.get("/sessions/{session}/events/{seq}")
def event_page(
    session: SessionId, seq: int, visitor: Visitors, engine: Engines, caller: Callers, stream: StreamName = "session"
) -> Response:
    """One event, whole."""
    at = min(max(seq, 1), 2**53)
    found = engine.events(caller.tenant, session, stream, at - 1, 1)["events"]
    if not found or found[0]["seq"] != at:
        raise InvalidRequest(f"There is no event {seq} in this stream.", path="seq")
    return page(visitor, "event.html", session=session, stream=stream, event=found[0])


def _events(engine: Any, caller: Any, session: str, stream: str, before: int | None) -> Json:
    """A page back from the newest one or from `before`; `older` is where the next page back ends."""
    end: int = engine.events(caller.tenant, session, stream, 0, 1)["head"] + 1 if before is None else before
    after = max(0, end - 1 - PAGE)
    found = engine.events(caller.tenant, session, stream, after, PAGE)
    events = [one for one in found["events"] if one["seq"] < end]
    return {"events": events[::-1], "head": found["head"], "older": after + 1 if after else None, "stream": stream}


@pages.get("/sessions/{session}/live", response_class=EventSourceResponse)
async def live_part(
    session: SessionId,
    visitor: Visitors,
    engine: Engines,
    caller: Callers,
    start: Annotated[int, Depends(resume_point)],
    stream: StreamName = "session",
) -> AsyncIterator[ServerSentEvent]:
    """Rows for the timeline as events come. Their ids are seqs, so that a browser that was cut off misses none."""
    async for event in coming(engine, caller.tenant, session, stream, start):
        row = fragment(visitor, "event_row.html", session=session, stream=stream, event=event, fresh=True)
        text = row.encode("utf-8", "replace").decode().replace("\r", " ")
        yield ServerSentEvent(raw_data=" ".join(text.split("\n")), id=str(event["seq"]))


@pages.get("/sessions/{session}/anchors")
def anchors_page(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, whole: bool = False
) -> Response:
    """Every instruction that was in force, and what each changed: first the page, then what takes a look at the whole
    log."""
    if not visitor.part and not whole:
        return page(visitor, "anchors.html", session=session, anchors=None)
    found = engine.history.anchors(caller.tenant, session)["anchors"]
    return page(visitor, "anchors.html", session=session, anchors=found[::-1])


@pages.get("/sessions/{session}/memory")
def memory_page(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, q: Sought = "", of: Scope = "subject",
    after: Cursor = None,
) -> Response:  # fmt: skip
    """What is remembered of the subject, the best answers to a query first, and the state an agent would go on from."""
    told = engine.session(caller.tenant, session)
    subject = told["subject"] or f"session:{session}"
    found = {
        scope: engine.memories.listing(
            caller.tenant, subject, scope, q or None, PAGE, after if of == scope else None, closed=not q
        )
        for scope in ("subject", "tenant")
    }
    state = engine.state(caller.tenant, session)
    facts = _events(engine, caller, session, "subject", None)
    return page(visitor, "memory.html", session=session, told=told, state=state, facts=facts, found=found, q=q)
