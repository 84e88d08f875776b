"""Whether the process lives, whether it can do its work, and numbers for those who watch it."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from domain.errors import StoreUnavailable
from web import models
from web.access import Callers, Engines
from web.bodies import Reply
from workers import metrics

health = APIRouter(tags=["health"])


@health.get("/healthz", response_model=models.Health)
async def alive() -> Reply:
    """The process lives."""
    return Reply({"status": "ok"})


@health.get("/readyz", response_model=models.Ready)
def ready(request: Request, engine: Engines) -> Reply:
    """The database answers and has the tables that it should, and work does not wait for too long. Otherwise 503."""
    found = engine.health()
    if found["status"] != "ok":
        raise StoreUnavailable(f"The store is {found['status']}; run `python -m workers migrate`.", **found)
    limit = request.app.state.settings.ready_backlog_seconds
    if found["oldest_due_seconds"] > limit:
        raise StoreUnavailable(
            f"Work has waited for more than {limit:g} s: start workers, or see `python -m workers doctor`.", **found
        )
    return Reply(found)


@health.get("/metrics", include_in_schema=False)
def numbers(engine: Engines, caller: Callers) -> Response:
    """For Prometheus."""
    return Response(metrics.render(engine.health()), media_type=CONTENT_TYPE_LATEST)
