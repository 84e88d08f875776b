"""The time machine of an engine: what was, why it was so, and what would have been. Nothing here makes a version."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workers.engine import bundles, explain, marks, pruning, replay, undoing
from workers.engine.deps import Deps
from workers.engine.recompile import Changes
from workers.store import acts

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

    def flagged(self, tenant: str, verdict: str = "bad", session: str | None = None) -> Json:
        return marks.flagged(self.deps, tenant, verdict, session)

    def labels(self, tenant: str, session: str) -> Json:
        return marks.labels(self.deps, tenant, session)

    def active(self, tenant: str, session: str, format: str | None = None) -> Json:
        """The prompt that agents get: the version labelled `active` last, else the newest."""
        return marks.active(self.deps, tenant, session, format)

    def prune(
        self, tenant: str, session: str, keep_last: int = 100, sample: int = 20, *, dry_run: bool = False,
        by: str = acts.OPERATOR,
    ) -> Json:  # fmt: skip
        return pruning.prune(self.deps, tenant, session, keep_last, sample, dry_run=dry_run, by=by)

    def bundle(self, tenant: str, *, prompt: str | None = None, session: str | None = None) -> Iterator[bytes]:
        """The lines of a bundle: of one prompt with all before it, or of a session."""
        if prompt is not None:
            return bundles.of_prompt(self.deps, tenant, prompt)
        return bundles.of_session(self.deps, tenant, session or "")

    def restore(self, tenant: str, lines: Iterable[bytes], by: str = acts.OPERATOR) -> Json:
        """Import a bundle, all of it or nothing."""
        return bundles.restore(self.deps, tenant, lines, by)
