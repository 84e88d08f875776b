"""What a person or a program asks of a subject's memory, under one name."""

from collections.abc import Mapping
from typing import Any

from domain.errors import InvalidRequest
from workers.engine import caring, remembered
from workers.engine.deps import Deps

Json = dict[str, Any]


class Memories:
    """Every method takes the tenant and the subject first. `scope` is `subject`, or `tenant` for what all share."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def listing(
        self, tenant: str, subject: str, scope: str = "subject", query: str | None = None, limit: int = 100,
        after: str | None = None, *, closed: bool = False, session: str | None = None,
    ) -> Json:  # fmt: skip
        """The newest first, or those that answer a query with the score explained; `closed` ones on request. Of a
        `session` those that it keeps to itself."""
        return remembered.listing(
            self._deps, tenant, subject, scope, query, limit, after, closed=closed, session=session
        )

    def one(self, tenant: str, subject: str, memory: str, scope: str = "subject", session: str | None = None) -> Json:
        return remembered.one(self._deps, tenant, subject, memory, scope, session)

    def forget(
        self, tenant: str, subject: str, memory: str, scope: str = "subject", reason: str = "", actor: str | None = None
    ) -> Json:
        return caring.forget(self._deps, tenant, subject, memory, scope, reason, actor)

    def care(self, tenant: str, subject: str, scope: str = "subject", *, dry_run: bool = True) -> Json:
        """Merge near-duplicates and end what is over."""
        return caring.care(self._deps, tenant, subject, scope, dry_run=dry_run)

    def undo(self, tenant: str, subject: str, change: str, scope: str = "subject") -> Json:
        if not caring.is_change(change):
            raise InvalidRequest(
                "change: the id that care, forget or an import gave, or that of an event.", path="change"
            )
        return caring.undo(self._deps, tenant, subject, scope, change)

    def export(self, tenant: str, subject: str) -> Json:
        return remembered.export(self._deps, tenant, subject)

    def restore(self, tenant: str, subject: str, data: Mapping[str, Any]) -> Json:
        """Import an export."""
        return caring.restore(self._deps, tenant, subject, data)
