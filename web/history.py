"""The endpoints of the time machine: what was, why it was so, and what would have been.

A prompt is named by its id, or as `SESSION@VERSION`.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from domain.errors import Forbidden, InvalidRequest
from web import models
from web.access import Callers, Engines
from web.bodies import Reply, json_object, spool
from web.openapi import takes, takes_lines
from web.parameters import AsFormat, Counted, Cursor, JsonBytes, Limit, PromptId, SessionId, Whole

history = APIRouter(prefix="/v1", tags=["time machine"])

First = Annotated[Counted, Query(alias="from", description="the first version")]
Last = Annotated[Counted | None, Query(alias="to", description="the last version")]
Text = Annotated[str | None, Query(max_length=10_000, description="only lines that hold this")]


@history.post("/replays", response_model=models.Replays)
def replay_everything(engine: Engines, caller: Callers, limit: Limit = 100, after: Cursor = None) -> Reply:
    """Replay the prompts of all sessions, a page at a time."""
    return Reply(engine.history.replays(caller.tenant, None, limit=limit, after=after))


@history.post("/sessions/{session}/replays", response_model=models.Replays)
def replay_session(
    session: SessionId, engine: Engines, caller: Callers, first: First = 1, last: Last = None, limit: Limit = 100,
    after: Cursor = None,
) -> Reply:  # fmt: skip
    """Replay the prompts of a session, all or a range of versions, a page at a time."""
    return Reply(engine.history.replays(caller.tenant, session, first, last, limit, after))


@history.post(
    "/prompts/{prompt}/what-if", response_model=models.WhatIf, openapi_extra=takes(models.Change)
)  # fmt: skip
def what_if(prompt: PromptId, body: JsonBytes, engine: Engines, caller: Callers) -> Reply:
    """Compile it with another request or schema, and compare. Nothing is stored."""
    changes, schema = changes_in(json_object(body))
    return Reply(engine.history.what_if(caller.tenant, prompt, changes, schema))


@history.post("/prompts/{prompt}/diff", response_model=models.Diff, openapi_extra=takes(models.Against))
def diff(prompt: PromptId, body: JsonBytes, engine: Engines, caller: Callers) -> Reply:
    """What changed from this prompt to another one, or to what that would be with changes; each with its cause."""
    told = json_object(body)
    other = told.pop("to", None)
    if other is not None and not isinstance(other, str):
        raise InvalidRequest("to: the id of a prompt, or SESSION@VERSION.", path="to")
    changes, schema = changes_in(told)
    return Reply(engine.history.diff(caller.tenant, prompt, other, changes, schema))


@history.get("/prompts/{prompt}/blame", response_model=models.Blame)
def blame(prompt: PromptId, engine: Engines, caller: Callers, text: Text = None) -> Reply:
    """Each line of it with the events that made it."""
    return Reply(engine.history.blame(caller.tenant, prompt, text))


@history.get("/prompts/{prompt}/why", response_model=models.Why)
def why(
    prompt: PromptId,
    engine: Engines,
    caller: Callers,
    event: Annotated[str, Query(max_length=200, description="its id, its seq in the session, or subject:12")],
    verify: Annotated[bool, Query(description="try what would have kept it")] = False,
) -> Reply:
    """Where an event went in it, and the rule and the numbers that decided it."""
    return Reply(engine.history.why(caller.tenant, prompt, event, verify=verify))


@history.get("/prompts/{prompt}/provenance", response_model=models.Provenance)
def provenance(
    prompt: PromptId,
    engine: Engines,
    caller: Callers,
    line: Annotated[Counted | None, Query(description="only the line with this number, as `blame` counts")] = None,
) -> Reply:
    """Its summaries down to the originals."""
    return Reply(engine.history.provenance(caller.tenant, prompt, line))


@history.get("/sessions/{session}/bisect", response_model=models.Bisect)
def bisect(
    session: SessionId,
    engine: Engines,
    caller: Callers,
    text: Annotated[str, Query(min_length=1, max_length=10_000)],
) -> Reply:
    """The first version in which a text appeared, the first in which it vanished, and what did it."""
    return Reply(engine.history.bisect(caller.tenant, session, text))


@history.get("/sessions/{session}/anchors", response_model=models.Anchors)
def anchors(session: SessionId, engine: Engines, caller: Callers) -> Reply:
    """Every version of the instruction, with what it changed."""
    return Reply(engine.history.anchors(caller.tenant, session))


@history.get("/sessions/{session}/rollback", response_model=models.RollbackPlan)
def rollback_plan(
    session: SessionId,
    engine: Engines,
    caller: Callers,
    to_seq: Annotated[Whole | None, Query()] = None,
    to_version: Annotated[Counted | None, Query()] = None,
    loosen: Annotated[bool, Query(description="with the right to loosen rules")] = False,
) -> Reply:
    """What a rollback would hide, keep and take back, without doing it. The event context.rolled_back does it."""
    return Reply(engine.history.rollback_plan(caller.tenant, session, to_seq, to_version, loosen=loosen))


@history.get("/flagged", response_model=models.Flagged)
def flagged(
    engine: Engines,
    caller: Callers,
    verdict: Annotated[Literal["bad", "good"], Query()] = "bad",
    session: Annotated[str | None, Query(max_length=200, description="of this session only")] = None,
) -> Reply:
    """The work list: prompts whose answers were flagged, the newest flag first."""
    return Reply(engine.history.flagged(caller.tenant, verdict, session))


@history.get("/sessions/{session}/labels", response_model=models.Labels)
def labels(session: SessionId, engine: Engines, caller: Callers) -> Reply:
    """The versions of a session that have labels or flags."""
    return Reply(engine.history.labels(caller.tenant, session))


@history.get("/sessions/{session}/prompts/active", response_model=models.Prompt)
def active(session: SessionId, engine: Engines, caller: Callers, format: AsFormat = None) -> Reply:
    """The prompt that agents get: the version labelled `active` last, else the newest."""
    return Reply(engine.history.active(caller.tenant, session, format))


@history.post("/sessions/{session}/prune", response_model=models.Pruned)
def prune(
    session: SessionId,
    engine: Engines,
    caller: Callers,
    keep_last: Annotated[int, Query(ge=0, le=10**9)] = 100,
    sample: Annotated[int, Query(ge=1, le=10_000, description="how many are rebuilt before any goes")] = 20,
    dry_run: bool = False,
) -> Reply:
    """Take the bytes of prompts that are neither labelled nor flagged nor among the last; each rebuilds on demand."""
    return Reply(engine.history.prune(caller.tenant, session, keep_last, sample, dry_run=dry_run, by=caller.by))


_BUNDLE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-ndjson": {}}, "description": "One JSON value per line, sealed by a hash"}
}


@history.get("/prompts/{prompt}/bundle", response_class=StreamingResponse, responses=_BUNDLE)
def bundle_of_prompt(prompt: PromptId, engine: Engines, caller: Callers) -> Response:
    """All that a prompt was made from, with the versions before it, as one file; secrets masked."""
    return _stream(engine.history.bundle(caller.tenant, prompt=prompt))


@history.get("/sessions/{session}/bundle", response_class=StreamingResponse, responses=_BUNDLE)
def bundle_of_session(session: SessionId, engine: Engines, caller: Callers) -> Response:
    """A whole session with all its versions as one file; secrets masked."""
    return _stream(engine.history.bundle(caller.tenant, session=session))


@history.post("/bundles", status_code=201, response_model=models.Restored, openapi_extra=takes_lines())
async def restore(request: Request, engine: Engines, caller: Callers) -> Reply:
    """Import a bundle, hash-checked, all of it or nothing. It brings rules with it: that needs the scope `policy`."""
    if not caller.may_loosen:
        raise Forbidden("A bundle brings its own rules; that needs the scope `policy`.")
    with closing(await spool(request)) as file:
        return Reply(await run_in_threadpool(engine.history.restore, caller.tenant, file, caller.by), 201)


def _stream(lines: Iterator[bytes]) -> Response:
    """The first line is made before the answer begins, so that what is refused is refused with a problem."""
    first = next(lines)
    return StreamingResponse(chain([first], lines), media_type="application/x-ndjson")


def changes_in(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a what-if sets, and the modes that it brings."""
    if extra := body.keys() - {"set", "schema"}:
        path = min(extra)
        raise InvalidRequest(f"{path}: no such field; a what-if has `set` and `schema`.", path=path)
    found = []
    for name in ("set", "schema"):
        value = body.get(name) or {}
        if not isinstance(value, dict):
            raise InvalidRequest(f"{name}: a JSON object.", path=name)
        found.append(value)
    return found[0], found[1]
