"""Verify: the hash chains hold, no seq is missing, the read-models are what the log folds to, and erased is erased.

Every finding says what to do about it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from domain.digests import GENESIS
from domain.errors import StoreUnavailable
from workers.engine import walking
from workers.engine.closures import unerased
from workers.engine.deps import Deps
from workers.engine.folds import fold_log
from workers.engine.project import catch_up
from workers.engine.walking import Progress
from workers.store import log, models, snapshots, subject_keys
from workers.store.streams import StreamRow

Json = dict[str, Any]
PAGE = 1000

RESTORE = (
    "the log was changed outside of promptctx: stop writing, restore the newest backup that verifies, and import what"
    " came after it again"
)
KEYS = (
    "if the subject was erased since, `python -m workers erase --again FILE` erases what is left; if not, restore the"
    " table `subject_keys`, then `rebuild`"
)
REBUILD = "python -m workers rebuild --tenant {tenant} --session {session}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be: which check found it, where, and the way out."""

    check: str
    problem: str
    hint: str


def verify(deps: Deps, tenant: str | None = None, session: str | None = None, progress: Progress | None = None) -> Json:
    """What is wrong, by stream; `progress` is told of every page of events."""
    total = walking.size(deps, tenant, session)
    report: Json = {"streams": 0, "events": 0, "snapshots": 0, "problems": []}
    for row in walking.rows(deps, tenant, session):
        report["streams"] += 1
        report["events"] += row.head
        report["snapshots"] += row.version
        for found in _findings(deps, row, progress, total):
            told = {"check": found.check, "problem": found.problem, "hint": found.hint}
            report["problems"].append({"tenant": row.tenant, "stream": row.stream_id, **told})
    report["ok"] = not report["problems"]
    return report


def _findings(deps: Deps, row: StreamRow, progress: Progress | None, total: int) -> Iterator[Finding]:
    broken = _chain(deps, row, progress, total)
    if broken is not None:
        yield Finding("chain", broken, RESTORE)
        # What a broken log folds to, and what it should have erased, means nothing.
        return
    yield from _tables(deps, row)
    with deps.database.read(row.tenant) as unit:
        if lost := subject_keys.lost(unit, row.tenant, row.number):
            seqs = ", ".join(map(str, lost[:10]))
            yield Finding("keys", f"what seq {seqs} said cannot be read: the key of its subject is not there", KEYS)
        for problem, hint in unerased(unit, row):
            yield Finding("erasure", problem, hint)
        for snapshot in snapshots.unreadable(unit, row.tenant, row.number):
            yield Finding(
                "snapshots", f"prompt {snapshot} cannot be read, or is not the one that was hashed",
                "compile the same request with `fresh`; the old version is lost unless a backup has it",
            )  # fmt: skip


def _chain(deps: Deps, row: StreamRow, progress: Progress | None, total: int) -> str | None:
    """Reads up to the head that `row` has; what came after it is the next run's."""
    seq, digest = 0, GENESIS
    while seq < row.head:
        with deps.database.read(row.tenant) as unit:
            found = log.after(unit, row.tenant, row.number, seq, PAGE, upto=row.head)
        if not found:
            return f"seq {seq + 1} is missing"
        if problem := log.broken_link(row, found, seq, digest):
            return problem
        seq, digest = found[-1].seq, found[-1].digest
        if progress is not None:
            progress(len(found), total)
    return None if digest == row.digest else "the last digest is not that of the head: events at the end were cut off"


def _tables(deps: Deps, row: StreamRow) -> Iterator[Finding]:
    if row.stream_id.startswith("audit/"):
        return
    hint = REBUILD.format(tenant=row.tenant, session=row.name) if row.stream_id.startswith("session/") else (
        f"python -m workers rebuild --tenant {row.tenant}"
    )  # fmt: skip
    try:
        catch_up(deps, row.tenant, row.number, row.head)
    except StoreUnavailable as parked:
        yield Finding("tables", parked.message, hint)
        return
    with deps.database.read(row.tenant) as unit:
        checkpoint = models.checkpoint(unit, row.tenant, row.number)
        held = models.load_all(unit, row.tenant, row.number, checkpoint.generation)
        folded = fold_log(unit, row.tenant, row.number, checkpoint.seq)
    if held != folded:
        differ = [name for name in held.tables if held.tables[name] != folded.tables[name]]
        yield Finding("tables", f"the read-models differ from the log in {', '.join(differ)}", hint)
