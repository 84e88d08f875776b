"""The endpoints of the time machine: what was, why it was so, and what would have been.

A prompt is named by its id, or as `SESSION@VERSION`.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from domain.errors import InvalidRequest
from web import models
from web.access import Callers, Engines
from web.bodies import Reply, json_object
from web.openapi import takes
from web.parameters import Cursor, JsonBytes, Limit, PromptId, SessionId

history = APIRouter(prefix="/v1", tags=["time machine"])

First = Annotated[int, Query(alias="from", ge=1, description="the first version")]
Last = Annotated[int | None, Query(alias="to", ge=1, description="the last version")]
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
    line: Annotated[int | None, Query(ge=1, description="only the line with this number, as `blame` counts")] = None,
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
