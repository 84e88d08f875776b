"""Project: fold a stream into its read-models, at most `BATCH` events a transaction, the checkpoint in the same one.

A crash anywhere leaves the batch undone; a second delivery finds nothing to do. Whoever loses the lease loses the
batch as well, since the fencing number is checked where the rows are written.
"""

import time
from dataclasses import dataclass

from domain.errors import Timeout
from domain.events import Event
from domain.history import REFOLDING_KINDS
from domain.memorising import caring, noticing
from domain.state import FOLD, ContextState, lookups
from workers import faults, tracing
from workers.engine import refold
from workers.engine.deps import Deps
from workers.engine.folding import fold_into
from workers.engine.leases import Fenced, Outcome, Parked, StreamParked, keep, micro, settle, under
from workers.engine.states import StateKey
from workers.store import Unit, log, models, recall, streams, work
from workers.store.models import Checkpoint
from workers.store.work import Claim

BATCH = 200
YIELD_AFTER = 2.0
PATIENCE = 5.0
"""Seconds that somebody who waits gives the holder of the lease to write a batch, before taking it over."""
LOOK_AGAIN = 0.02


@dataclass(frozen=True, slots=True)
class _Batch:
    checkpoint: Checkpoint
    events: list[Event]
    state: ContextState
    refolds: bool


def project(deps: Deps, tenant: str, stream: int, *, patience: float | None = None) -> Outcome:
    """Claim the stream and fold what is new. Errors are recorded in the work row, not raised."""
    with deps.database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, stream, "project", patience=micro(patience), lease=deps.lease)
    if claimed is None:
        return Outcome.IDLE
    faults.point("project.claimed")
    with tracing.span("project", tenant=tenant, stream=stream, from_seq=claimed.done_seq, to_seq=claimed.wanted_seq):
        outcome = under(deps, claimed, _drain)
    deps.signals.progressed()
    if outcome is Outcome.MORE:
        deps.dispatcher.ring(tenant, stream, "project")
    return outcome


def catch_up(deps: Deps, tenant: str, stream: int, seq: int, timeout: float = 30.0) -> None:
    """Return when the read-models hold everything up to `seq`; project here and now if nobody else does."""
    started = time.monotonic()
    while True:
        mark = deps.signals.mark()
        with deps.database.read(tenant) as unit:
            if models.checkpoint(unit, tenant, stream).seq >= seq:
                return
        waited = time.monotonic() - started
        if project(deps, tenant, stream, patience=PATIENCE) is Outcome.IDLE:
            _refuse_parked(deps, tenant, stream)
            if waited > timeout:
                raise Timeout(f"The read side did not reach seq {seq} within {timeout:g} s.", seq=seq)
            deps.signals.wait(mark, LOOK_AGAIN)


def _refuse_parked(deps: Deps, tenant: str, stream: int) -> None:
    with deps.database.read(tenant) as unit:
        row = work.status(unit, tenant, stream, "project")
    if row is not None and row["parked"]:
        error = row["last_error"] or {}
        raise StreamParked(
            f"The stream is parked: {error.get('message', 'its projection failed')}. See `python -m workers doctor`.",
            **error,
        )


def _drain(deps: Deps, claimed: Claim) -> Outcome:
    until, told = time.monotonic() + YIELD_AFTER, False
    while True:
        with deps.database.read(claimed.tenant) as unit:
            batch = _read(deps, unit, claimed)
        faults.point("project.read")
        if batch.refolds:
            refold.refold(deps, claimed, batch.checkpoint)
            # What came with the rollback or erasure was folded there, and nobody looked at what it tells.
            told = bool(deps.memory_rules)
            if deps.index_after:
                with deps.database.write(claimed.tenant) as unit:
                    work.want_later(unit, claimed.tenant, claimed.stream, "index", 0, deps.index_after)
            continue
        last = len(batch.events) < BATCH or time.monotonic() > until
        told = told or noticing.any_tells(batch.events, deps.memory_rules)
        outcome = _write(deps, claimed, batch, last=last, told=told)
        deps.signals.progressed()
        if last:
            if told:
                deps.dispatcher.ring(claimed.tenant, claimed.stream, "maintenance")
            return outcome


def _read(deps: Deps, unit: Unit, claimed: Claim) -> _Batch:
    tenant, stream = claimed.tenant, claimed.stream
    checkpoint = models.checkpoint(unit, tenant, stream)
    stored = log.after(unit, tenant, stream, checkpoint.seq, BATCH)
    for expected, one in enumerate(stored, checkpoint.seq + 1):
        if one.seq != expected:
            raise Parked(f"seq {expected} is missing in the log", expected)
    # Rows that another version of the fold wrote are no ground to go on from.
    if checkpoint.fold != FOLD or any(one.kind in REFOLDING_KINDS for one in stored):
        return _Batch(checkpoint, [], ContextState(), refolds=True)
    events = list(map(log.fact, stored))
    key = StateKey(tenant, stream, checkpoint.generation, checkpoint.seq)
    state = deps.states.get(key)
    wanted = lookups(events)
    if state is None:
        state = models.load(unit, tenant, stream, checkpoint.generation, wanted)
    else:
        models.look_up(unit, tenant, stream, checkpoint.generation, state.tables, wanted)
    return _Batch(checkpoint, events, state, refolds=False)


def _write(deps: Deps, claimed: Claim, batch: _Batch, *, last: bool, told: bool = False) -> Outcome:
    """`told` when the events tell something to remember, which is work of its own."""
    checkpoint, events, state = batch.checkpoint, batch.events, batch.state
    tenant, stream = claimed.tenant, claimed.stream
    try:
        dirty = fold_into(state, events)
    except Parked as poison:
        _write_before(deps, claimed, batch, poison)
        raise
    faults.point("project.folded")
    head = events[-1].seq if events else checkpoint.seq
    with deps.database.write(claimed.tenant) as unit:
        if last and len(events) == BATCH:
            # It yields before the end, and a row that waited was not told how far that is.
            work.want(unit, tenant, stream, "project", streams.head(unit, tenant, stream))
        outcome = (settle if last else keep)(unit, claimed, head)
        faults.point("project.after_lease")
        if events and not models.advance(unit, tenant, stream, checkpoint, head):
            raise Fenced
        faults.point("project.after_checkpoint")
        first = min((state.tables[table][key].seq for table, key in dirty if table == "messages"), default=head)
        if first <= checkpoint.seq:
            models.forget_counts(unit, tenant, stream, checkpoint.generation, first)
        models.save(unit, tenant, stream, checkpoint.generation, state, dirty)
        if told:
            work.want(unit, tenant, stream, "maintenance", head)
        elif deps.care_after and caring.remembers(events):
            work.want_later(unit, tenant, stream, "maintenance", head, deps.care_after)
        if deps.index_after and any(event.kind in recall.ROLES for event in events):
            work.want_later(unit, tenant, stream, "index", head, deps.index_after)
        faults.point("project.after_rows")
    faults.point("project.committed")
    if events:
        deps.database.grown(len(dirty))
        deps.states.put(StateKey(tenant, stream, checkpoint.generation, head), state)
    return outcome


def _write_before(deps: Deps, claimed: Claim, batch: _Batch, poison: Parked) -> None:
    """Project what stands before the event that cannot be folded, on a state that has not met it."""
    good = [event for event in batch.events if event.seq < (poison.seq or 0)]
    if not good:
        return
    with deps.database.read(claimed.tenant) as unit:
        checkpoint = batch.checkpoint
        state = models.load(unit, claimed.tenant, claimed.stream, checkpoint.generation, lookups(good))
    _write(deps, claimed, _Batch(checkpoint, good, state, refolds=False), last=False)
