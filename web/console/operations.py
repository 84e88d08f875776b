"""Pages for operators: how the pipeline does, and what the server is set to."""

import tomllib
from typing import Any

from fastapi import APIRouter, Request
from pydantic import SecretStr
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from domain.modes import BUILTIN
from web.access import Callers, Engines
from web.console.rendering import page
from web.console.visitors import HOME, Forms, Visitors
from workers.settings import PREFIX, Settings, masked

Json = dict[str, Any]

pages = APIRouter(prefix=HOME)

PARKED = 200


@pages.get("/health")
def health_page(visitor: Visitors, engine: Engines, caller: Callers) -> Response:
    """How much waits and for how long, what lags, and what is parked with the error that stopped it."""
    work, store = engine.backlog(caller.tenant, PARKED), engine.health()
    return page(visitor, "health.html", work=work, store=store)


@pages.post("/health/retry")
async def retry_parked(visitor: Visitors, engine: Engines, caller: Callers, form: Forms) -> Response:
    session = form.get("session") or None
    await run_in_threadpool(engine.retry, caller.tenant, session)
    return RedirectResponse(f"{HOME}/health", 303)


@pages.get("/settings")
def settings_page(request: Request, visitor: Visitors, caller: Callers) -> Response:
    """All settings with where each differs from its default, and the modes. Secrets are not shown."""
    settings: Settings = request.app.state.settings
    modes = [(name, spec, False) for name, spec in tomllib.loads(BUILTIN).items() if name not in settings.modes]
    modes += [(name, spec, True) for name, spec in settings.modes.items()]
    return page(visitor, "settings.html", settings=list(map(dict, _told(settings))), modes=modes)


def _told(settings: Settings) -> list[Json]:
    rows = []
    for name, field in type(settings).model_fields.items():
        if name == "modes":
            continue
        value = getattr(settings, name)
        changed = value != field.get_default()
        rows.append({"name": name, "variable": f"{PREFIX}{name.upper()}", "value": _safe(value), "changed": changed})
    return rows


def _safe(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return "••••••"
    return masked(value) if isinstance(value, str) and "://" in value else str(value)
