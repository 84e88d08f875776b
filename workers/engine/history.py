"""The time machine of an engine: what was, why it was so, and what would have been. Nothing here makes a version."""

from collections.abc import Mapping
from typing import Any

from workers.engine import explain, replay, undoing
from workers.engine.deps import Deps
from workers.engine.recompile import Changes

Json = dict[str, Any]


class History:
    """Every method takes the tenant first and returns what the HTTP interface sends. A prompt is named by its id, or as
    `SESSION@VERSION`."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    def replays(
        self,
        tenant: str,
        session: str | None = None,
        first: int = 1,
        last: int | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Json:
        return replay.replay_all(self.deps, tenant, session, first, last, limit, after)

    def what_if(
        self, tenant: str, prompt: str, changes: Mapping[str, Any], schema: Mapping[str, Any] | None = None
    ) -> Json:
        return replay.what_if(self.deps, tenant, prompt, Changes(changes, schema or {}))

    def diff(
        self,
        tenant: str,
        before: str,
        after: str | None = None,
        changes: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Json:
        return explain.diff(self.deps, tenant, before, after, Changes(changes or {}, schema or {}))

    def blame(self, tenant: str, prompt: str, text: str | None = None) -> Json:
        return explain.blame(self.deps, tenant, prompt, text)

    def why(self, tenant: str, prompt: str, event: str, *, verify: bool = False) -> Json:
        return explain.why(self.deps, tenant, prompt, event, verify=verify)

    def provenance(self, tenant: str, prompt: str, line: int | None = None) -> Json:
        return explain.provenance(self.deps, tenant, prompt, line)

    def bisect(self, tenant: str, session: str, text: str) -> Json:
        return explain.bisect(self.deps, tenant, session, text)

    def anchors(self, tenant: str, session: str) -> Json:
        return explain.anchors(self.deps, tenant, session)

    def rollback_plan(
        self,
        tenant: str,
        session: str,
        to_seq: int | None = None,
        to_version: int | None = None,
        *,
        loosen: bool = False,
    ) -> Json:
        """What a rollback would hide, keep and take back, without doing it."""
        return undoing.plan(self.deps, tenant, session, to_seq, to_version, loosen=loosen)
