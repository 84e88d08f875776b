"""Going back and branching off: each shows first what it would do, and does it when that is confirmed."""

from typing import Annotated, Any

import uuid_utils
from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from domain.errors import InvalidRequest, PromptctxError, UnknownSession
from web.access import Callers, Engines
from web.console.refusals import corrected
from web.console.rendering import page
from web.console.showing import segment
from web.console.visitors import HOME, Forms, Visitors
from web.parameters import SessionId
from workers.engine.drafts import checked_new

Json = dict[str, Any]

pages = APIRouter(prefix=HOME)

Number = Annotated[int | None, Query(ge=0, le=2**53)]
LISTED = 200


@pages.get("/sessions/{session}/rollback")
def rollback_page(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, to_seq: Number = None,
    to_version: Number = None,
) -> Response:  # fmt: skip
    told = engine.session(caller.tenant, session)
    asked: Json = {"to_seq": to_seq, "to_version": to_version}
    shown: Json = {"session": session, "told": told, "asked": asked, "listed": LISTED, "id": _new_id()}
    shown |= {"plan": None, "wrong": None}
    if to_seq is None and to_version is None:
        return page(visitor, "rollback.html", **shown)
    try:
        shown["plan"] = engine.history.rollback_plan(caller.tenant, session, to_seq, to_version)
    except PromptctxError as error:
        return corrected(visitor, "rollback.html", shown, error)
    return page(visitor, "rollback.html", **shown)


@pages.post("/sessions/{session}/rollback")
async def roll_back(session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, form: Forms) -> Response:
    """Just what was shown: the session must not have moved since."""
    payload = {"to_seq": _whole(form, "to_seq"), "reason": form.get("reason", "")[:1000]}
    if form.get("to_version"):
        payload["to_version"] = _whole(form, "to_version")
    event = {"kind": "context.rolled_back", "payload": payload, "event_id": form.get("id") or _new_id()}
    await run_in_threadpool(
        engine.append, caller.tenant, session, [event], _whole(form, "head"), may_loosen=caller.may_loosen
    )
    return RedirectResponse(f"{HOME}/sessions/{segment(session)}", 303)


@pages.get("/sessions/{session}/fork")
def fork_page(
    session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, at_seq: Number = None,
    name: Annotated[str, Query(max_length=200)] = "",
) -> Response:  # fmt: skip
    told = engine.session(caller.tenant, session)
    at = told["head"] if at_seq is None else at_seq
    name = name.strip()
    shown: Json = {"session": session, "told": told, "at": at, "name": name, "wrong": None, "id": _new_id()}
    try:
        taken = bool(name) and _is_taken(engine, caller.tenant, name)
        if name and not taken:
            checked_new(name)
        if not 1 <= at <= told["head"]:
            raise InvalidRequest(f"at_seq: the session is at seq {told['head']}.", path="at_seq")
    except PromptctxError as error:
        return corrected(visitor, "fork.html", {**shown, "asked": False}, error)
    last = engine.events(caller.tenant, session, "session", at - 1, 1)["events"]
    return page(visitor, "fork.html", asked=bool(name), taken=taken, last=last, **shown)


@pages.post("/sessions/{session}/fork")
async def make_fork(session: SessionId, visitor: Visitors, engine: Engines, caller: Callers, form: Forms) -> Response:
    child = form.get("name", "").strip()
    payload = {"parent": session, "at_seq": _whole(form, "at_seq")}
    event = {"kind": "session.forked", "payload": payload, "event_id": form.get("id") or _new_id()}
    await run_in_threadpool(engine.append, caller.tenant, child, [event], may_loosen=caller.may_loosen)
    return RedirectResponse(f"{HOME}/sessions/{segment(child)}", 303)


def _is_taken(engine: Any, tenant: str, name: str) -> bool:
    try:
        engine.session(tenant, name)
    except UnknownSession:
        return False
    return True


def _whole(form: Json, name: str) -> int:
    told = form.get(name, "")
    if not (told.isascii() and told.isdigit() and len(told) <= 15):
        raise InvalidRequest(f"{name}: a whole number.", path=name)
    return int(told)


def _new_id() -> str:
    """Stands in the form, so that a form that is sent twice does it once."""
    return str(uuid_utils.uuid7())
