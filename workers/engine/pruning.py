"""Pruning: what a prompt says goes, what it was made from stays for ever, so that it can be rebuilt on demand.

Nothing is deleted before a sample of it was rebuilt to the byte.
"""

from collections.abc import Sequence
from typing import Any

from domain.errors import ReplayMismatch
from domain.timemachine.retention import prunable, sample
from workers.engine import marks, replay
from workers.engine.deps import Deps
from workers.store import acts, snapshots
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]

BYTES = ("payload", "messages", "tools")
"""What follows from the inputs. The report and the provenance stay: an erasure looks into them."""

SAMPLE = 20


def prune(
    deps: Deps, tenant: str, session: str, keep_last: int = 100, proof: int = SAMPLE, *, dry_run: bool = False,
    by: str = acts.OPERATOR,
) -> Json:  # fmt: skip
    """Take the bytes of a session's prompts but for those that are labelled, flagged, or among the last. Raises
    ReplayMismatch, and deletes nothing, when one of the sample does not come back identical."""
    rows = {row.id: row for row in replay.rows_of(deps, tenant, session) if row.redacted_at is None}
    kept = {one["prompt"] for one in marks.labels(deps, tenant, session)["marked"]}
    found = prunable(((row.id, row.version) for row in rows.values()), kept, keep_last)
    found = [name for name in found if not _is_pruned(deps, tenant, rows[name])]
    proved = sample(found, max(1, proof))
    for name in proved:
        verdict = replay.replay(deps, tenant, name)
        if not verdict["identical"]:
            sentence = f"Version {rows[name].version} would not come back ({verdict['cause']}); nothing was pruned."
            raise ReplayMismatch(sentence, prompt=name, version=rows[name].version)
    if found and not dry_run:
        with deps.database.write(tenant) as unit:
            acts.note(unit, tenant, deps.clock.now(), by, "prompts.pruned", {"session": session, "count": len(found)})
    freed = 0 if dry_run else _strip(deps, tenant, [rows[name] for name in found])
    return {
        "session": session, "versions": len(rows), "pruned": len(found), "proved": len(proved), "bytes": freed,
        "dry_run": dry_run,
    }  # fmt: skip


def _is_pruned(deps: Deps, tenant: str, row: SnapshotRow) -> bool:
    with deps.database.read(tenant) as unit:
        body = snapshots.body(unit, row)
    return body is None or "payload" not in body


def _strip(deps: Deps, tenant: str, rows: Sequence[SnapshotRow]) -> int:
    """The bytes that became free, texts aside. A prompt that was erased meanwhile stays as it is."""
    freed, loose = 0, set[bytes]()
    for row in rows:
        with deps.database.write(tenant) as unit:
            body = snapshots.body(unit, row)
            if body is not None and "payload" in body:
                kept = {name: value for name, value in body.items() if name not in BYTES}
                less, texts = snapshots.strip(unit, row, kept)
                freed, loose = freed + less, loose | texts
    with deps.database.write(tenant) as unit:
        for stream in {row.stream for row in rows}:
            snapshots.drop_texts(unit, tenant, stream, set(loose))
    return freed
