"""Spans of agents that are instrumented already: OTLP over HTTP, in JSON, at the path where every exporter sends it.

What calls to models said becomes events, as the importer of such files makes them. Nothing that comes this way may
loosen a rule, whatever the caller's key may.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from domain.errors import InvalidRequest, PromptctxError
from promptctx.importers import ImportedSession, otlp
from web.access import Callers, Engines
from web.bodies import Reply, json_object, read_json_bytes
from workers.engine import Engine

MOST = 500
"""Events of one append."""

traces = APIRouter(prefix="/v1")


@dataclass(frozen=True, slots=True)
class _Body:
    """The body as importers see a file."""

    document: dict[str, Any]
    path: Path = Path("traces")
    kind: str = "document"
    head: list[Any] = field(default_factory=list)
    oddities: Counter[str] = field(default_factory=Counter)

    def records(self, oddities: Counter[str] | None = None) -> Iterator[tuple[int, Any]]:
        """There are none: it is one document."""
        return iter(())


@traces.post("/traces", include_in_schema=False)
async def ingest(request: Request, engine: Engines, caller: Callers) -> Reply:
    """Appends what is new, session by session. What cannot be taken is told as OTLP tells it: in `partialSuccess`."""
    if "protobuf" in request.headers.get("Content-Type", ""):
        raise InvalidRequest(
            "Send OTLP as JSON: set OTEL_EXPORTER_OTLP_PROTOCOL=http/json, or the exporter's encoding to JSON.",
            path="Content-Type",
        )
    body = json_object(await read_json_bytes(request))
    if not isinstance(body.get("resourceSpans"), list):
        raise InvalidRequest("resourceSpans: the body is an OTLP trace request.", path="resourceSpans")
    refused = await run_in_threadpool(_append, engine, caller.tenant, caller.by, body)
    told = {"partialSuccess": {"rejectedSpans": len(refused), "errorMessage": refused[0]}} if refused else {}
    return Reply(told, 200)


def _append(engine: Engine, tenant: str, by: str, body: dict[str, Any]) -> list[str]:
    """Why sessions were refused, one sentence each."""
    refused: list[str] = []
    for found in otlp.sessions(_Body(body)):
        if isinstance(found, ImportedSession):
            events = list(found.events)
            try:
                for start in range(0, len(events), MOST):
                    engine.append(tenant, found.session_id, events[start : start + MOST], may_loosen=False, by=by)
            except PromptctxError as error:
                refused.append(error.message)
    return refused
