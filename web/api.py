"""The endpoints. Each reads what came, asks the engine once, and sends the answer as it is."""

from collections.abc import Iterable
from contextlib import closing
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from web import compiles, models
from web.access import Callers, Engines, check_kinds
from web.bodies import Reply, json_object, spool
from web.openapi import takes, takes_text
from web.parameters import (
    AsFormat,
    Cursor,
    DocumentId,
    IfNoneMatch,
    JobId,
    JsonBytes,
    Limit,
    PromptId,
    Seq,
    SessionId,
    StreamName,
    Whole,
    batch_in,
    request_in,
    text_type,
)

_PIECE = 1 << 16

api = APIRouter(prefix="/v1")


# --- the log ---------------------------------------------------------------------------------------------------------


@api.post(
    "/sessions/{session}/events", tags=["log"], status_code=201, response_model=models.Appended,
    openapi_extra=takes(models.NewEvent, models.NewEvents),
)  # fmt: skip
def append(
    session: SessionId,
    body: JsonBytes,
    engine: Engines,
    caller: Callers,
    expected_seq: Annotated[Whole | None, Query(description="refuse unless the session's head is this")] = None,
) -> Reply:
    """Append one event or a batch. The same `event_id` with the same content again is no second event."""
    wire, expected = batch_in(json_object(body), expected_seq)
    check_kinds(caller, wire)
    return Reply(engine.append(caller.tenant, session, wire, expected, caller.may_loosen, by=caller.by), 201)


@api.get("/sessions", tags=["log"], response_model=models.Sessions)
def sessions(
    engine: Engines,
    caller: Callers,
    limit: Limit = 100,
    after: Cursor = None,
    q: Annotated[str, Query(max_length=200, description="what id, subject, mode, model, title or source holds")] = "",
    mode: Annotated[str, Query(max_length=200)] = "",
) -> Reply:
    """The sessions, newest first. A page of a search may hold fewer than `limit` and still have a `next`."""
    return Reply(engine.sessions(caller.tenant, limit, after, q=q, mode=mode))


@api.get("/sessions/{session}/events", tags=["log"], response_model=models.Events)
def events(
    session: SessionId, engine: Engines, caller: Callers, after: Seq = 0, limit: Limit = 200,
    stream: StreamName = "session",
    reveal: Annotated[bool, Query(description="show secrets as the log has them; needs `admin`")] = False,
) -> Reply:  # fmt: skip
    """The events of a session behind a seq, in order; of its subject or its audit stream on request.

    Secrets that were marked as such, and known key formats, are masked."""
    if reveal:
        caller.require("admin")
        engine.note(caller.tenant, caller.by, "secrets.revealed", session=session, stream=stream)
    return Reply(engine.events(caller.tenant, session, stream, after, limit, reveal=reveal))


@api.get("/sessions/{session}/state", tags=["log"], response_model=models.State)
def state(session: SessionId, engine: Engines, caller: Callers) -> Reply:
    """What a restarted agent needs to go on: slots, plan, open calls, anchors."""
    return Reply(engine.state(caller.tenant, session))


@api.get("/stats", tags=["log"], response_model=models.Stats)
def stats_of_all(engine: Engines, caller: Callers) -> Reply:
    """Sizes of messages, slots and prompts of all sessions, and the settings that follow from them."""
    return Reply(engine.stats(caller.tenant))


@api.get("/sessions/{session}/stats", tags=["log"], response_model=models.Stats)
def stats(session: SessionId, engine: Engines, caller: Callers) -> Reply:
    """The same of one session."""
    return Reply(engine.stats(caller.tenant, session))


# --- prompts ---------------------------------------------------------------------------------------------------------


@api.post(
    "/sessions/{session}/prompts", tags=["prompts"], response_model=models.Prompt,
    responses={202: {"model": models.Job, "description": "Not done within `wait`; `Location` names the job"}},
    openapi_extra=takes(models.NewPrompt),
)  # fmt: skip
async def compile_prompt(session: SessionId, body: JsonBytes, engine: Engines, caller: Callers) -> Response:
    """Compile a prompt. With `wait` the answer is the prompt if it is done by then, otherwise a job to ask for."""
    asked, seconds = request_in(await run_in_threadpool(json_object, body))
    return await compiles.ask(engine, caller.tenant, session, asked, seconds)


@api.get("/jobs/{job}", tags=["prompts"], response_model=models.Job)
def job(job: JobId, engine: Engines, caller: Callers) -> Reply:
    """How far a compile is."""
    return Reply(engine.job(caller.tenant, job))


@api.get("/sessions/{session}/prompts", tags=["prompts"], response_model=models.Prompts)
def prompts(
    session: SessionId, engine: Engines, caller: Callers, limit: Limit = 100, after: Cursor = None
) -> Reply:  # fmt: skip
    """The prompts of a session, newest first."""
    return Reply(engine.prompts(caller.tenant, session, limit, after))


@api.get(
    "/prompts/{prompt}", tags=["prompts"], response_model=models.Prompt,
    responses={304: {"description": "`If-None-Match` names it: it has not changed"}},
)  # fmt: skip
def prompt(
    prompt: PromptId, engine: Engines, caller: Callers, format: AsFormat = None, if_none_match: IfNoneMatch = None
) -> Response:
    """A prompt, in the format it was compiled for or derived in another."""
    return compiles.cached(engine.prompt(caller.tenant, prompt, format), if_none_match)


@api.get("/prompts/{prompt}/report", tags=["prompts"], response_model=models.Report)
def report(prompt: PromptId, engine: Engines, caller: Callers) -> Reply:
    """Where every unit and item went, and why."""
    return Reply(engine.report(caller.tenant, prompt))


@api.get("/prompts/{prompt}/dump", tags=["prompts"], response_model=models.Dump)
def dump(prompt: PromptId, engine: Engines, caller: Callers) -> Reply:
    """All that is stored of it: beside what the prompt itself tells, its neutral messages and its layout."""
    return Reply(engine.dump(caller.tenant, prompt))


@api.post("/prompts/{prompt}/replay", tags=["prompts"], response_model=models.Replay)
def replay(prompt: PromptId, engine: Engines, caller: Callers) -> Reply:
    """Compile it again from the log and compare the bytes."""
    return Reply(engine.replay(caller.tenant, prompt))


# --- documents -------------------------------------------------------------------------------------------------------


@api.put(
    "/sessions/{session}/documents/{document}", tags=["documents"], status_code=201, response_model=models.Document,
    openapi_extra=takes_text(),
)  # fmt: skip
async def put_document(
    request: Request,
    session: SessionId,
    document: DocumentId,
    engine: Engines,
    caller: Callers,
    title: Annotated[str | None, Query(max_length=500)] = None,
    source: Annotated[str | None, Query(max_length=500, description="where it comes from, as a URL")] = None,
) -> Reply:
    """Upload a text or Markdown document, up to 64 MiB; it is kept once per content and cut into chunks."""
    media_type = text_type(request.headers.get("content-type"))
    with closing(await spool(request)) as file:
        pieces: Iterable[bytes] = iter(partial(file.read, _PIECE), b"")
        return Reply(
            await run_in_threadpool(
                engine.put_document, caller.tenant, session, document, pieces, title, source, media_type
            ),
            201,
        )


@api.get(
    "/sessions/{session}/documents/{document}", tags=["documents"], response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "The text"}},
)  # fmt: skip
def get_document(
    session: SessionId,
    document: DocumentId,
    engine: Engines,
    caller: Callers,
    start: Annotated[Whole, Query(alias="from", description="first character")] = 0,
    end: Annotated[Whole | None, Query(alias="to", description="the character after the last")] = None,
) -> Response:
    """The text of a document, or a slice of it by character offsets."""
    text = engine.get_document(caller.tenant, session, document, start, end)
    return Response(text.encode(), media_type="text/plain; charset=utf-8")


# --- work ------------------------------------------------------------------------------------------------------------


@api.get("/work", tags=["work"], response_model=models.Work)
def work(engine: Engines, caller: Callers, limit: Limit = 100) -> Reply:
    """How much work waits and for how long, and what is parked: stopped at an error until somebody has looked."""
    return Reply(engine.backlog(caller.tenant, limit))


@api.post("/work/retry", tags=["work"], response_model=models.Retried)
def retry(
    engine: Engines,
    caller: Callers,
    session: Annotated[str | None, Query(max_length=200, description="only what this session writes to")] = None,
) -> Reply:
    """Take parked work up again, once what stopped it is mended."""
    return Reply({"retried": engine.retry(caller.tenant, session, by=caller.by)})
