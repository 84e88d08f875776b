"""Rebuild: every stream's read-models folded anew beside the live ones, which serve until the pointer flips.

Compiles and projections go on meanwhile, and no model is called: summaries and facts are events, not made again.
"""

import time
from typing import Any

from domain.errors import StoreUnavailable
from domain.history import REFOLDING_KINDS
from domain.state import FOLD
from workers.engine import walking
from workers.engine.deps import Deps
from workers.engine.leases import Outcome, Parked, keep, settle, under
from workers.engine.refold import CHUNK, Build, Guard
from workers.engine.walking import Progress
from workers.store import Unit, acts, log, models, passages, streams, work
from workers.store.streams import StreamRow
from workers.store.work import Claim

Json = dict[str, Any]

PATIENCE = 60.0
LOOK_AGAIN = 0.02


class _Superseded(Exception):
    """Somebody else began a newer generation, as the projection does after a rollback: theirs will be the live one."""


def rebuild(
    deps: Deps, tenant: str | None = None, session: str | None = None, progress: Progress | None = None, *,
    only_old: bool = False,
) -> Json:  # fmt: skip
    """What was rebuilt. `only_old` leaves rows alone that this release's fold wrote."""
    report: Json = {"streams": 0, "events": 0, "problems": []}
    folded: dict[str, int] = {}
    total = walking.size(deps, tenant, session)
    for row in walking.rows(deps, tenant, session):
        if row.stream_id.startswith("audit/") or (only_old and _is_current(deps, row)):
            if progress is not None:
                progress(row.head, total)
            continue
        folded[row.tenant] = folded.get(row.tenant, 0) + 1
        report["streams"] += 1
        report["events"] += row.head
        if problem := _stream(deps, row, progress, total):
            report["problems"].append({"tenant": row.tenant, "stream": row.stream_id, **problem})
    for name, count in folded.items():
        with deps.database.write(name) as unit:
            about = {"session": session, "streams": count}
            acts.note(unit, name, deps.clock.now(), acts.OPERATOR, "models.rebuilt", about)
    report["ok"] = not report["problems"]
    return report


def _is_current(deps: Deps, row: StreamRow) -> bool:
    with deps.database.read(row.tenant) as unit:
        return models.checkpoint(unit, row.tenant, row.number).fold == FOLD


def _stream(deps: Deps, row: StreamRow, progress: Progress | None, total: int) -> Json | None:
    """What stopped the rebuild of one stream. Others go on."""
    try:
        build = _bulk(deps, row, progress, total)
        _take_over(deps, row, build)
    except _Superseded:
        pass
    except Parked as poison:
        return {
            "problem": f"seq {poison.seq}: {poison}",
            "hint": "its live rows serve on; repair the release that cannot fold this event, then rebuild again",
        }
    return None


def _bulk(deps: Deps, row: StreamRow, progress: Progress | None, total: int) -> Build:
    with deps.database.read(row.tenant) as unit:
        live = models.checkpoint(unit, row.tenant, row.number)
    begun: list[Build] = []

    def mine(unit: Unit) -> None:
        if begun and not models.is_building(unit, row.tenant, row.number, begun[0].generation):
            raise _Superseded

    begun.append(Build(deps, row.tenant, row.number, live, mine))
    begun[0].fold_history(None if progress is None else lambda done: progress(done, total))
    return begun[0]


def _take_over(deps: Deps, row: StreamRow, build: Build) -> None:
    """Under the stream's lease: what came meanwhile, then the flip."""
    until = time.monotonic() + PATIENCE
    while True:
        mark = deps.signals.mark()
        with deps.database.write(row.tenant) as unit:
            work.unpark(unit, row.tenant, row.number)
            work.reopen(unit, row.tenant, row.number, "project", streams.head(unit, row.tenant, row.number))
            claimed = work.claim(unit, row.tenant, row.number, "project")
        if claimed is not None:
            break
        if time.monotonic() > until:
            raise StoreUnavailable(f"{row.stream_id} is being worked on all the time; rebuild it again later.")
        deps.signals.wait(mark, LOOK_AGAIN)
    outcome = under(deps, claimed, lambda deps, claimed: _finish(deps, claimed, build))
    deps.signals.progressed()
    if outcome is Outcome.MORE:
        deps.dispatcher.ring(row.tenant, row.number, "project")


def _finish(deps: Deps, claimed: Claim, build: Build) -> Outcome:
    tenant, stream = claimed.tenant, claimed.stream
    while True:
        with deps.database.read(tenant) as unit:
            live = models.checkpoint(unit, tenant, stream)
            came = log.after(unit, tenant, stream, build.seq, CHUNK)
        if any(one.kind in REFOLDING_KINDS for one in came):
            # The projection folds all of it anew for that, and by this release: its rows will be as good.
            with deps.database.write(tenant) as unit:
                return settle(unit, claimed, live.seq)
        if came:
            build.fold_events([one.seq for one in came], _keeping(claimed, live.seq))
            continue
        with deps.database.write(tenant) as unit:
            outcome = settle(unit, claimed, build.seq)
            build.flip(unit, live)
            passages.drop_terms(unit, tenant, stream)
            for seq in passages.left_over(unit, tenant, stream):
                passages.forget(unit, tenant, stream, seq - 1, seq)
            if deps.index_after:
                work.want(unit, tenant, stream, "index", build.seq)
        build.clear()
        return outcome


def _keeping(claimed: Claim, done: int) -> Guard:
    return lambda unit: keep(unit, claimed, done)
