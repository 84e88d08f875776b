"""Who is calling, and which scope each call needs: one place, for all endpoints.

The gate admits the caller before anything else is read; what may be called is decided here, by the endpoint's name.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope as Asgi

from web.console.visitors import key_of
from workers.access import Access, Caller, Scope
from workers.engine import Engine

__all__ = ["OPEN", "Caller", "Callers", "Engines", "admitted", "check_kinds", "needed", "token_in"]

OPEN = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/console/sign-in"})
"""What anyone may ask: it tells nothing of any tenant."""

OPEN_FOLDER = "/console/static/"
"""Style, script and icon of the console."""

NEEDED: Mapping[str, tuple[Scope, ...]] = {
    "append": ("emit",),
    "put_document": ("emit",),
    "ingest": ("emit",),
    "compile_prompt": ("compile",),
    # Who may ask for a prompt may fetch it.
    "job": ("compile", "read"),
    "prompt": ("compile", "read"),
    "active": ("compile", "read"),
    "replay": ("read",),
    "replay_everything": ("read",),
    "replay_session": ("read",),
    "what_if": ("read",),
    "diff": ("read",),
    "forget_memory": ("emit",),
    "care_for_memory": ("emit",),
    "undo_memory": ("emit",),
    "import_memory": ("emit",),
    # A bundle brings its own rules.
    "restore": ("policy",),
    # Of all tenants together.
    "numbers": ("admin",),
    "prune": ("admin",),
    "retry": ("admin",),
    # Of the console: forms that append events, and what tells of the server rather than of a tenant.
    "roll_back": ("emit",),
    "make_fork": ("emit",),
    "retry_parked": ("admin",),
    "settings_page": ("admin",),
    "sign_out": ("emit", "compile", "read", "policy", "admin"),
}
"""By the endpoint's name: one of these. What only reads needs `read`; whatever else is not named here needs `admin`."""


def needed(name: str, method: str) -> tuple[Scope, ...]:
    return NEEDED.get(name) or (("read",) if method in ("GET", "HEAD") else ("admin",))


async def admitted(scope: Asgi, headers: Headers) -> Caller | None:
    """The caller; None where anyone may ask. Raises Unauthorized and TooManyRequests."""
    if scope["path"] in OPEN or scope["path"].startswith(OPEN_FOLDER):
        return None
    access: Access = scope["app"].state.access
    token = token_in(headers.get("Authorization", "")) or key_of(scope, headers)
    found = access.remembered(token)
    who: Caller = found if found is not None else await run_in_threadpool(access.admit, token)
    access.count(who)
    return who


def token_in(sent: str) -> str | None:
    """The key, as a bearer's, or as the password that a browser asks for."""
    kind, _, rest = sent.partition(" ")
    if kind.lower() == "bearer":
        return rest.strip() or None
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(rest, validate=True).decode().partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


async def caller(request: Request) -> Caller:
    """Who was admitted. Raises Forbidden if their key may not call this."""
    found: Caller = request.state.caller
    found.require(*needed(request.scope["route"].name, request.method))
    return found


ADMINISTRATIVE = frozenset({"event.redacted"})
"""Kinds of events that no emitter may send: what they do cannot be undone."""


def check_kinds(caller: Caller, wire: Iterable[Any]) -> None:
    """Raises Forbidden at an event that needs more than `emit`."""
    if any(isinstance(one, dict) and one.get("kind") in ADMINISTRATIVE for one in wire):
        caller.require("admin")


async def engine(request: Request) -> Engine:
    found: Engine = request.app.state.engine
    return found


Callers = Annotated[Caller, Depends(caller)]
Engines = Annotated[Engine, Depends(engine)]
