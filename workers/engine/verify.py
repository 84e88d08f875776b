"""Verify: the hash chains hold, no seq is missing, and the read-models are what the log folds to."""

from collections.abc import Callable, Iterator
from typing import Any

from domain.digests import GENESIS
from domain.errors import StoreUnavailable
from workers.engine.deps import Deps
from workers.engine.folds import fold_log
from workers.engine.project import catch_up
from workers.engine.reading import PLACES, related, session_row
from workers.store import EVERY, log, models, streams
from workers.store.streams import StreamRow

Json = dict[str, Any]
PAGE = 1000


def verify(
    deps: Deps, tenant: str | None = None, session: str | None = None, progress: Callable[[int], None] | None = None
) -> Json:
    """What is wrong, by stream; `progress` is told of every page of events."""
    report: Json = {"streams": 0, "events": 0, "problems": []}
    for row in _rows(deps, tenant, session):
        report["streams"] += 1
        report["events"] += row.head
        for problem in (_chain(deps, row, progress), _tables(deps, row)):
            if problem is not None:
                report["problems"].append({"tenant": row.tenant, "stream": row.stream_id, "problem": problem})
    report["ok"] = not report["problems"]
    return report


def _rows(deps: Deps, tenant: str | None, session: str | None) -> Iterator[StreamRow]:
    if tenant is not None and session is not None:
        with deps.database.read(tenant) as unit:
            home = session_row(unit, tenant, session)
            found = [related(unit, home, place) for place in PLACES]
        yield from (row for row in found if row is not None)
        return
    at = 0
    while True:
        with deps.database.read(EVERY) as unit:
            page = streams.every(unit, at, 100)
        if not page:
            return
        yield from (row for row in page if tenant in (None, row.tenant))
        at = page[-1].number


def _chain(deps: Deps, row: StreamRow, progress: Callable[[int], None] | None) -> str | None:
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
            progress(len(found))
    return None if digest == row.digest else "the last digest is not that of the head: events at the end were cut off"


def _tables(deps: Deps, row: StreamRow) -> str | None:
    if row.stream_id.startswith("audit/"):
        return None
    try:
        catch_up(deps, row.tenant, row.number, row.head)
    except StoreUnavailable as parked:
        return parked.message
    with deps.database.read(row.tenant) as unit:
        checkpoint = models.checkpoint(unit, row.tenant, row.number)
        held = models.load_all(unit, row.tenant, row.number, checkpoint.generation)
        folded = fold_log(unit, row.tenant, row.number, checkpoint.seq)
    if held == folded:
        return None
    differ = [name for name in held.tables if held.tables[name] != folded.tables[name]]
    return f"the read-models differ from the log in {', '.join(differ)}"
