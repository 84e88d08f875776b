"""Sweep: find due work in the database. No message is needed for anything to get done."""

from typing import Any

from workers.engine.compile import compile_session
from workers.engine.deps import Deps
from workers.engine.leases import Outcome
from workers.engine.project import project
from workers.store import migrate, work

HANDLERS = {"project": project, "compile": compile_session}
"""By kind of work. A kind of a newer release is left for it."""


def sweep(deps: Deps, limit: int = 100) -> int:
    """Run what is due now; how many rows were claimed."""
    with deps.database.read() as unit:
        found = work.due(unit, limit)
    return sum(run(deps, one.tenant, one.stream, one.kind) for one in found)


def run(deps: Deps, tenant: str, stream: int, kind: str) -> bool:
    """One claim of one row; false if there was nothing to claim."""
    handler = HANDLERS.get(kind)
    return handler is not None and handler(deps, tenant, stream) is not Outcome.IDLE


def health(deps: Deps) -> dict[str, Any]:
    """Progress, not liveness: work that is due for long means that nobody works."""
    with deps.database.read() as unit:
        revision = migrate.revision(unit.connection)
        ready = revision == migrate.newest()
        seen = work.overview(unit) if ready else work.Overview(0, 0, 0.0)
    return {
        "status": "ok" if ready else "not migrated",
        "store": deps.database.dialect,
        "revision": revision,
        "due": seen.due,
        "oldest_due_seconds": round(seen.oldest_seconds, 3),
        "parked": seen.parked,
    }
