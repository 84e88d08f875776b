"""The engine: load, ask the domain, save. Web and tasks call it; it knows neither."""

from collections.abc import Callable, Sequence
from typing import Any

from workers.engine import append, project, reading, sweeping, verify
from workers.engine.deps import Deps
from workers.engine.leases import Outcome
from workers.store import streams, work

__all__ = ["Deps", "Engine", "Outcome"]

Json = dict[str, Any]


class Engine:
    """Every method takes the tenant first and returns what the HTTP interface sends."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    def append(
        self,
        tenant: str,
        session: str,
        events: Sequence[Any],
        expected_seq: int | None = None,
        may_loosen: bool = True,
    ) -> Json:
        return append.append(self.deps, tenant, session, events, expected_seq, may_loosen)

    def project(self, tenant: str, stream_id: str) -> Outcome:
        with self.deps.database.read() as unit:
            row = streams.get(unit, tenant, stream_id)
        return project.project(self.deps, tenant, row.number) if row else Outcome.IDLE

    def events(self, tenant: str, session: str, stream: str = "session", after: int = 0, limit: int = 200) -> Json:
        return reading.events(self.deps, tenant, session, stream, after, limit)

    def sessions(self, tenant: str, limit: int = 50, after: str | None = None) -> Json:
        return reading.sessions(self.deps, tenant, limit, after)

    def verify(
        self, tenant: str | None = None, session: str | None = None, progress: Callable[[int], None] | None = None
    ) -> Json:
        return verify.verify(self.deps, tenant, session, progress)

    def sweep(self, limit: int = 100) -> int:
        """Run what is due, whether or not anyone rang for it; how many claims that were."""
        return sweeping.sweep(self.deps, limit)

    def health(self) -> Json:
        """How much waits and how much is parked. Raises StoreUnavailable when the database does not answer."""
        with self.deps.database.read() as unit:
            return {"store": self.deps.database.dialect, **work.overview(unit)}
