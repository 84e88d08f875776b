"""Whether the process lives, and whether it can do its work."""

from fastapi import APIRouter

from domain.errors import StoreUnavailable
from web import models
from web.access import Engines
from web.bodies import Reply

health = APIRouter(tags=["health"])


@health.get("/healthz", response_model=models.Health)
async def alive() -> Reply:
    """The process lives."""
    return Reply({"status": "ok"})


@health.get("/readyz", response_model=models.Ready)
def ready(engine: Engines) -> Reply:
    """The database answers and has the tables that this server needs; how much work waits. Otherwise 503."""
    found = engine.health()
    if found["status"] != "ok":
        raise StoreUnavailable(f"The store is {found['status']}; run `python -m workers migrate`.", **found)
    return Reply(found)
