"""Compile: load in a read unit, compute outside of any, store in one short write unit.

The jobs of a session run in order, one worker at a time.
"""

import time
from dataclasses import dataclass
from typing import Any

import structlog

from domain.compiling import compile_prompt, still_holds
from domain.errors import PromptctxError, StoreUnavailable, Timeout
from domain.requests import parse_request
from domain.snapshots import Layout, Prompt
from domain.windows import Shallow
from workers import faults, metrics, telemetry, tracing
from workers.engine import contexts, dumping, recalling, requests
from workers.engine.audit import write_audit
from workers.engine.contexts import Loaded, Pins, Reach
from workers.engine.deps import Deps
from workers.engine.leases import Outcome, StreamParked, keep, micro, settle, under
from workers.engine.prompts import said, snapshot_about, snapshot_body, snapshot_id
from workers.engine.refining import Refining
from workers.store import Unit, jobs, snapshots, streams, work
from workers.store.jobs import JobRow
from workers.store.snapshots import SnapshotRow
from workers.store.work import Claim

Json = dict[str, Any]

logger = structlog.get_logger(__name__)

YIELD_AFTER = 2.0
PATIENCE = 15.0
"""Seconds that somebody who waits gives the holder of the lease to finish a job, before taking it over."""
SOONEST, LATEST = 0.002, 0.1
"""Seconds between two looks for what another process does: a tenth of the time waited so far, at least and at most."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A prompt that is not stored yet, and all that it came from."""

    prompt: Prompt
    parent: str | None
    before: Layout | None
    loaded: Loaded
    content: snapshots.Packed

    @property
    def trimmed(self) -> bool:
        """Whether the history was cut anew for it."""
        return self.prompt.layout.trims != (self.before.trims if self.before else 0)


def compile_session(
    deps: Deps, tenant: str, stream: int, *, upto: int | None = None, patience: float | None = None
) -> Outcome:
    """Claim the session's compile work and run its jobs in order; errors are recorded in the jobs, not raised."""
    with deps.database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, stream, "compile", patience=micro(patience), lease=deps.lease)
    if claimed is None:
        return Outcome.IDLE
    faults.point("compile.claimed")
    outcome = under(deps, claimed, lambda deps, claimed: _drain(deps, claimed, upto))
    deps.signals.progressed()
    if outcome is Outcome.MORE:
        deps.dispatcher.ring(tenant, stream, "compile")
    return outcome


def run_job(deps: Deps, tenant: str, job_id: str, timeout: float = 30.0) -> Json:
    """The finished job, run here and now unless another worker is at it. Raises Timeout."""
    return _until_finished(deps, tenant, job_id, timeout, here=True)


def wait_job(deps: Deps, tenant: str, job_id: str, seconds: float) -> Json:
    """The job when it is finished, or as it is after so many seconds."""
    return _until_finished(deps, tenant, job_id, seconds, here=False)


def _until_finished(deps: Deps, tenant: str, job_id: str, seconds: float, *, here: bool) -> Json:
    started = time.monotonic()
    while True:
        mark = deps.signals.mark()
        row, session = requests.find(deps, tenant, job_id)
        waited = time.monotonic() - started
        if row.finished_at is not None:
            return requests.shown(row, session)
        if waited >= seconds:
            if here:
                raise Timeout(f"The prompt was not compiled within {seconds:g} s; ask for the job later.", job=job_id)
            return requests.job(deps, tenant, job_id)
        ran = compile_session(deps, tenant, row.stream, upto=row.number, patience=PATIENCE) if here else Outcome.IDLE
        if ran is not Outcome.IDLE:
            continue
        deps.signals.wait(mark, min(pause(waited), seconds - waited))


def pause(waited: float) -> float:
    """Short at first, so that a quick answer is seen at once; a slow one is late by a tenth, and asks little."""
    return min(max(waited / 10, SOONEST), LATEST)


def _drain(deps: Deps, claimed: Claim, upto: int | None) -> Outcome:
    until = time.monotonic() + YIELD_AFTER
    done = claimed.done_seq
    while True:
        with deps.database.read(claimed.tenant) as unit:
            job = jobs.following(unit, claimed.tenant, claimed.stream, done)
        if job is None:
            with deps.database.write(claimed.tenant) as unit:
                return settle(unit, claimed, done)
        pause = time.monotonic() > until or (upto is not None and job.number >= upto)
        last = pause or job.number >= claimed.wanted_seq
        outcome = _run(deps, claimed, job, last=last)
        deps.signals.progressed()
        done = job.number
        if last:
            return outcome


def _run(deps: Deps, claimed: Claim, job: JobRow, *, last: bool) -> Outcome:
    """One job, to its end: a prompt or an error. Only an outage of the database leaves it open."""
    with structlog.contextvars.bound_contextvars(job=job.id, request_id=job.request_id):
        told: dict[str, Any] = {"tenant": job.tenant, "stream": job.stream, "job": job.id, "request_id": job.request_id}
        with tracing.span("compile", parent=job.traceparent, **told) as span:
            return _run_once(deps, claimed, job, span, last=last)


def _run_once(deps: Deps, claimed: Claim, job: JobRow, span: tracing.Span, *, last: bool) -> Outcome:
    started = time.monotonic()
    while True:
        answer, compiled, error = None, None, None
        try:
            answer = None if job.fresh else _stored_answer(deps, job)
            compiled = None if answer else _compile(deps, job)
        except PromptctxError as failed:
            if isinstance(failed, StoreUnavailable) and not isinstance(failed, StreamParked):
                raise
            error = _told(failed)
        except Exception as failed:
            logger.exception("compile failed")
            message = f"The compile failed where it should not: {telemetry.told(failed)}."
            error = {"code": "internal_error", "message": message, "details": {}}
        try:
            outcome = _store(deps, claimed, job, answer, compiled, error, last=last)
        except _ErasedMeanwhile:
            continue
        _measure(compiled, error, span, time.monotonic() - started)
        return outcome


def _measure(compiled: _Compiled | None, error: Json | None, span: tracing.Span, seconds: float) -> None:
    if error is not None:
        metrics.failed(error["code"])
        logger.info("job failed", code=error["code"])
        span.tell(error__type=error["code"])
    elif compiled is None:
        metrics.answered()
    else:
        prompt, trimmed = compiled.prompt, compiled.trimmed
        span.tell(tokens=prompt.tokens, budget=prompt.budget, messages=len(prompt.messages), trimmed=trimmed)
        metrics.compiled(prompt.report, seconds, trimmed=trimmed)
        logger.info("prompt compiled", tokens=prompt.tokens, seconds=round(seconds, 4))


class _ErasedMeanwhile(Exception):
    """Something that the prompt was made of is gone: it must be made anew, without."""


def _told(error: PromptctxError) -> Json:
    return {"code": error.code, "message": error.message, "details": dict(error.details)}


def _stored_answer(deps: Deps, job: JobRow) -> str | None:
    with deps.database.read(job.tenant) as unit:
        return snapshots.id_by_key(unit, job.tenant, job.stream, job.key)


def _compile(deps: Deps, job: JobRow) -> _Compiled:
    request = parse_request(job.request)
    pins = Pins(job.tenant, request, job.heads, job.as_of)
    with deps.database.read(job.tenant) as unit:
        parent = jobs.prompt_before(unit, job)
        data, places = snapshots.carried(unit, job.tenant, job.stream, parent) if parent else (None, {})
    before = Layout.read(data)
    if data is not None and before is None:
        logger.warning("the layout of another release cannot be read; the prompt is made without it", prompt=parent)
        parent = None
    loaded = contexts.load(deps, pins, Reach(before, deep=False))
    if before is not None and not still_holds(before, loaded.context):
        parent, before = _holding(deps, job, parent, loaded)
        loaded = contexts.load(deps, pins, Reach(before, deep=False))
    faults.point("compile.loaded")
    sources = deps.sources.fetch(loaded.context.query, loaded.plan.mode.slots) + recalling.fetch(
        deps, pins, loaded, before, Refining(deps, pins, loaded)
    )
    try:
        loaded = loaded.with_sources(sources)
        prompt = compile_prompt(loaded.context, request, before, loaded.count, loaded.plan)
    except Shallow:
        loaded = contexts.load(deps, pins, Reach(before)).with_sources(sources)
        prompt = compile_prompt(loaded.context, request, before, loaded.count, loaded.plan)
    body = snapshot_body(job, prompt, loaded, parent)
    log = said(loaded.messages.values(), places)
    content = snapshots.packed((job.tenant, job.stream), prompt.layout.dump(), body, log)
    return _Compiled(prompt, parent, before, loaded, content)


def _holding(deps: Deps, job: JobRow, parent: str | None, loaded: Loaded) -> tuple[str | None, Layout | None]:
    """The newest prompt before this one whose layout a rollback or an erasure left in force, and that layout."""
    with deps.database.read(job.tenant) as unit:
        while parent is not None:
            row = snapshots.get(unit, job.tenant, parent)
            data = snapshots.layout(unit, job.tenant, job.stream, parent)
            if (layout := Layout.read(data)) is not None and still_holds(layout, loaded.context):
                return parent, layout
            parent = row.parent if row else None
    return None, None


def _store(
    deps: Deps, claimed: Claim, job: JobRow, answer: str | None, compiled: _Compiled | None, error: Json | None, *,
    last: bool,
) -> Outcome:  # fmt: skip
    now = deps.clock.now()
    faults.point("compile.compiled")
    with deps.database.write(claimed.tenant) as unit:
        outcome = (settle if last else keep)(unit, claimed, job.number)
        faults.point("compile.after_lease")
        if compiled is not None:
            if contexts.erased_since(unit, job.tenant, compiled.loaded):
                raise _ErasedMeanwhile
            answer = _store_snapshot(unit, job, compiled, now)
            if deps.model is not None and compiled.trimmed:
                work.want_next(unit, job.tenant, job.stream, "summarize")
        jobs.finish(unit, job, answer, error, now)
        faults.point("compile.after_job")
    faults.point("compile.committed")
    if compiled is not None and answer is not None:
        dumping.keep_file(deps, job.tenant, answer)
        if deps.model is not None and compiled.trimmed:
            deps.dispatcher.ring(job.tenant, job.stream, "summarize")
    return outcome


def _store_snapshot(unit: Unit, job: JobRow, compiled: _Compiled, now: int) -> str:
    """Insert the snapshot, unless its key has an answer by now, with the audit events that tell of it."""
    first = snapshots.id_by_key(unit, job.tenant, job.stream, job.key)
    if first is not None and not job.fresh:
        return first
    home = streams.by_number(unit, job.tenant, job.stream)
    assert home is not None
    version = streams.next_version(unit, home)
    prompt = compiled.prompt
    row = SnapshotRow(
        tenant=job.tenant,
        id=snapshot_id(job),
        stream=job.stream,
        version=version,
        parent=compiled.parent,
        view=job.view,
        about=snapshot_about(job, prompt),
        content_hash=prompt.content_hash,
        created_at=now,
        redacted_at=None,
    )
    snapshots.put(unit, row, job.key if first is None else None, compiled.content)
    faults.point("compile.after_snapshot")
    write_audit(unit, home, row, prompt, compiled.loaded.context.session, compiled.before, now)
    faults.point("compile.after_audit")
    return row.id
