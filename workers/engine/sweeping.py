"""Sweep: find due work in the database. No message is needed for anything to get done."""

import time
from collections.abc import Sequence
from typing import Any

from workers import tracing
from workers.clock import format_time
from workers.engine.compile import compile_session
from workers.engine.deps import Deps
from workers.engine.indexing import index
from workers.engine.leases import Outcome
from workers.engine.maintaining import maintain
from workers.engine.project import project
from workers.engine.reading import PLACES, related, session_row
from workers.engine.summarizing import summarize
from workers.store import EVERY, acts, migrate, streams, work

Json = dict[str, Any]

HANDLERS = {
    "compile": compile_session, "project": project, "summarize": summarize, "maintenance": maintain, "index": index,
}  # fmt: skip
"""By kind of work. A kind of a newer release is left for it."""

NAMED = 100
"""Streams that the account of a retry names; it counts all."""

LOOK_AGAIN = 2.0
"""Seconds after which a sweep ends, done or not: what has become urgent meanwhile comes first in the next one."""


def sweep(deps: Deps, limit: int = 100, kinds: Sequence[str] = work.KINDS) -> int:
    """Run what is due now, the most urgent first; how many rows were claimed."""
    until, done = time.monotonic() + LOOK_AGAIN, 0
    for one in due(deps, limit, kinds):
        done += run(deps, one.tenant, one.stream, one.kind)
        if time.monotonic() > until:
            break
    return done


def due(deps: Deps, limit: int, kinds: Sequence[str] = work.KINDS) -> list[work.Due]:
    with deps.database.read(EVERY) as unit:
        return work.due(unit, limit, [kind for kind in kinds if kind in HANDLERS], lease=deps.lease)


def run(deps: Deps, tenant: str, stream: int, kind: str) -> bool:
    """One claim of one row; false if there was nothing to claim."""
    handler = HANDLERS.get(kind)
    if handler is None:
        return False
    with tracing.span(f"promptctx.{kind}", kind="consumer", tenant=tenant, stream=stream) as span:
        outcome = handler(deps, tenant, stream)
        span.tell(outcome=outcome.name.lower())
    return outcome is not Outcome.IDLE


def health(deps: Deps) -> Json:
    """Progress, not liveness: work that is due for long means that nobody works."""
    with deps.database.read(EVERY) as unit:
        revision = migrate.revision(unit.connection)
        ready = revision == migrate.newest()
        seen = work.overview(unit) if ready else work.Overview(0, 0, 0.0)
        lag = work.lag(unit) if ready else 0
    return {
        "status": "ok" if ready else "not migrated",
        "store": deps.database.dialect,
        "revision": revision,
        "lag": lag,
        **_counted(seen),
    }


def _counted(seen: work.Overview) -> Json:
    return {
        "due": seen.due,
        "oldest_due_seconds": round(seen.oldest_seconds, 3),
        "open": seen.open,
        "at_work": seen.at_work,
        "failing": seen.failing,
        "parked": seen.parked,
    }


def backlog(deps: Deps, tenant: str, limit: int = 100) -> Json:
    """What waits in a tenant, and what is parked, with the error that stopped it."""
    with deps.database.read(tenant) as unit:
        seen, found = work.overview(unit, tenant), work.parked(unit, limit, tenant)
    shown = [
        {
            "stream": row["stream"],
            "kind": row["kind"],
            "parked_at": format_time(row["parked_at"]),
            "reason": row["error"].get("message", "unknown"),
            "seq": row["error"].get("seq"),
        }
        for row in found
    ]
    return {**_counted(seen), "streams": shown}


def _tenants(deps: Deps) -> list[str]:
    with deps.database.read(EVERY) as unit:
        return streams.tenants(unit)


def retry(deps: Deps, tenant: str | None, session: str | None = None, by: str = acts.OPERATOR) -> int:
    """Take parked work up again: of all tenants, of one, or of one session and what it writes to; how much it was."""
    chosen: list[int | None] = [None]
    if tenant is not None and session is not None:
        with deps.database.read(tenant) as unit:
            home = session_row(unit, tenant, session)
            chosen = [row.number for place in PLACES if (row := related(unit, home, place)) is not None]
    freed: list[work.Freed] = []
    for name in [tenant] if tenant is not None else _tenants(deps):
        with deps.database.write(name) as unit:
            found = [one for stream in chosen for one in work.unpark(unit, name, stream)]
            if found:
                about = {"session": session, "streams": [one.stream for one in found][:NAMED], "count": len(found)}
                acts.note(unit, name, deps.clock.now(), by, "work.retried", about)
        freed += found
    for one in freed:
        deps.dispatcher.ring(one.tenant, one.stream, one.kind)
    return len(freed)
