"""Sweep: find due work in the database. No message is needed for anything to get done."""

from workers.engine import project
from workers.engine.compile import compile_session
from workers.engine.deps import Deps
from workers.engine.leases import Outcome
from workers.store import work


def sweep(deps: Deps, limit: int = 100) -> int:
    """Run what is due now; how many rows were claimed."""
    with deps.database.read() as unit:
        found = work.due(unit, limit)
    return sum(run(deps, one.tenant, one.stream, one.kind) for one in found)


def run(deps: Deps, tenant: str, stream: int, kind: str) -> bool:
    """One claim of one row; false if there was nothing to claim. A kind of a newer release is left for it."""
    if kind == "project":
        return project.project(deps, tenant, stream) is not Outcome.IDLE
    if kind == "compile":
        return compile_session(deps, tenant, stream) is not Outcome.IDLE
    return False
