"""The endpoints of memory: what is remembered of a subject, how it came about, and the care for it.

What is written of a session goes there by events; these calls need no session.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from domain.errors import InvalidRequest
from web import models
from web.access import Callers, Engines
from web.bodies import Reply, json_object
from web.openapi import takes
from web.parameters import Cursor, JsonBytes, Limit, SessionId

memory = APIRouter(prefix="/v1/subjects/{subject}", tags=["memory"])

MemoryId = Annotated[str, Path(max_length=500)]
SharedBy = Annotated[
    Literal["subject", "tenant"], Query(description="memories of the subject, or those that all of the tenant share")
]
OfSession = Annotated[
    str | None, Query(max_length=200, description="what this session of the subject keeps to itself, instead")
]


@memory.get("/memories", response_model=models.Memories)
def memories(
    subject: SessionId, engine: Engines, caller: Callers, scope: SharedBy = "subject",
    query: Annotated[str | None, Query(max_length=2000, description="only those that answer it, scored")] = None,
    closed: Annotated[bool, Query(description="those too that are no longer true")] = False,
    limit: Limit = 100, after: Cursor = None, session: OfSession = None,
) -> Reply:  # fmt: skip
    """What is remembered, the newest first; for a query the best first, each with what made its score."""
    return Reply(
        engine.memories.listing(caller.tenant, subject, scope, query, limit, after, closed=closed, session=session)
    )


@memory.get("/memories/{memory}", response_model=models.MemoryHistory)
def memory_history(
    subject: SessionId, memory: MemoryId, engine: Engines, caller: Callers, scope: SharedBy = "subject",
    session: OfSession = None,
) -> Reply:  # fmt: skip
    """One memory with all that happened to it, what was decided about it, and the events that it was made from."""
    return Reply(engine.memories.one(caller.tenant, subject, memory, scope, session))


@memory.post("/memories/{memory}/forget", response_model=models.Forgotten, openapi_extra=takes(models.Forget))
def forget_memory(
    subject: SessionId, memory: MemoryId, body: JsonBytes, engine: Engines, caller: Callers, scope: SharedBy = "subject"
) -> Reply:
    """End a memory. The log keeps it, and `undo` brings it back."""
    told = _told(body, {"reason": str})
    return Reply(engine.memories.forget(caller.tenant, subject, memory, scope, told.get("reason", "")))


@memory.post("/memory/care", response_model=models.Cared, openapi_extra=takes(models.Care))
def care_for_memory(
    subject: SessionId, body: JsonBytes, engine: Engines, caller: Callers, scope: SharedBy = "subject"
) -> Reply:
    """Merge what says the same and end what is over. Unless `dry_run` is false it only tells what it would do."""
    told = _told(body, {"dry_run": bool})
    return Reply(engine.memories.care(caller.tenant, subject, scope, dry_run=told.get("dry_run", True)))


@memory.post("/memory/undo", response_model=models.Undone, openapi_extra=takes(models.Undo))
def undo_memory(
    subject: SessionId, body: JsonBytes, engine: Engines, caller: Callers, scope: SharedBy = "subject"
) -> Reply:
    """Take back what care, a forgetting or an import did, or any one event of this memory, a block's edit as well."""
    told = _told(body, {"change": str})
    if "change" not in told:
        raise InvalidRequest("change: name what is to be taken back.", path="change")
    return Reply(engine.memories.undo(caller.tenant, subject, told["change"], scope))


@memory.get("/memory", response_model=models.MemoryExport)
def export_memory(subject: SessionId, engine: Engines, caller: Callers) -> Reply:
    """All that is kept of a subject as one JSON object: memories, profile and core blocks. Secrets are masked."""
    return Reply(engine.memories.export(caller.tenant, subject))


@memory.post("/memory", response_model=models.MemoryImported, openapi_extra=takes(models.MemoryExport))
def import_memory(subject: SessionId, body: JsonBytes, engine: Engines, caller: Callers) -> Reply:
    """Import an export. Each memory is decided about beside what is held; the same again changes nothing."""
    return Reply(engine.memories.restore(caller.tenant, subject, json_object(body)))


def _told(body: bytes, fields: dict[str, type]) -> dict[str, Any]:
    """The fields of a small body, each of its type. Raises InvalidRequest naming the one that is wrong."""
    told = json_object(body)
    for name, value in told.items():
        if name not in fields:
            raise InvalidRequest(f"{name}: no such field; there is {', '.join(fields)}.", path=name)
        if not isinstance(value, fields[name]) or (isinstance(value, str) and len(value) > models.LONGEST_REASON):
            raise InvalidRequest(f"{name}: must be a {fields[name].__name__}, and short.", path=name)
    return told
