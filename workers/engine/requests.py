"""Compile requests: checked, pinned to what the log holds now, and queued."""

from dataclasses import dataclass, replace
from typing import Any

import structlog
import uuid_utils

from domain.bounds import LARGEST
from domain.canonical import canonical_json, content_hash
from domain.errors import InvalidRequest, UnknownJob
from domain.requests import CompileRequest, parse_request
from workers import faults, tracing
from workers.clock import format_time, parse_time
from workers.engine.deps import Deps
from workers.engine.drafts import is_uuid
from workers.engine.reading import session_row, subject_stream
from workers.store import Unit, jobs, streams, work
from workers.store.jobs import JobRow
from workers.store.streams import StreamRow

Json = dict[str, Any]

MAX_PARENTS = 8
MAX_WAIT = 60.0
DEFAULT_LOCALE = "zh"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request body, taken apart: what the compile depends on, and how the caller wants to be served."""

    request: CompileRequest
    as_of: int | None
    min_seq: int
    fresh: bool
    wait: float


def read_body(body: Any) -> Asked:
    """Raises InvalidRequest naming the field."""
    if not isinstance(body, dict):
        raise InvalidRequest("The body is a JSON object.", path="body")
    told = dict(body)
    as_of = parse_time(told.pop("as_of", None), "as_of", InvalidRequest)
    min_seq = _number(told.pop("min_seq", None), "min_seq", whole=True)
    wait = _number(told.pop("wait", None), "wait")
    fresh = told.pop("fresh", False)
    if not isinstance(fresh, bool):
        raise InvalidRequest("fresh: true or false.", path="fresh")
    try:
        canonical_json(told)
    except (ValueError, TypeError, RecursionError):
        raise InvalidRequest("The body holds something that is no JSON, such as NaN.", path="body") from None
    return Asked(parse_request(told), as_of, int(min_seq), fresh, min(wait, MAX_WAIT))


def _number(value: Any, path: str, *, whole: bool = False) -> float:
    if value is None:
        return 0
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= LARGEST:
        raise InvalidRequest(f"{path}: a {'whole ' if whole else ''}number from 0 to {LARGEST}.", path=path)
    return value


def request_prompt(deps: Deps, tenant: str, session: str, body: Any, *, ring: bool = True) -> Json:
    """The job of the request, pinned: whatever is appended from now on does not change what it gives."""
    asked = read_body(body)
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        if asked.min_seq > home.head:
            raise InvalidRequest(
                f"min_seq: the session is at seq {home.head}, not yet at {asked.min_seq}.",
                path="min_seq", head=home.head,
            )  # fmt: skip
        pinned = pin(unit, home)
    row = _queue(deps, _job(deps, home, asked, pinned))
    if ring:
        deps.dispatcher.ring(tenant, home.number, "compile")
        if deps.dispatcher.at_once:
            return job(deps, tenant, row.id)
    return shown(row, session)


@dataclass(frozen=True, slots=True)
class Pinned:
    """The heads of every stream that the compile reads, and the time of the newest event at them."""

    heads: Json
    newest: int


def pin(unit: Unit, home: StreamRow) -> Pinned:
    names = {"subject": subject_stream(home.name, home.about.get("subject")), "tenant": "tenant/shared"}
    found = {name: streams.get(unit, home.tenant, stream_id) for name, stream_id in names.items()}
    parents = _parents(unit, home)
    heads: Json = {
        "session": {"stream": home.stream_id, "seq": home.head},
        **{name: {"stream": names[name], "seq": row.head if row else 0} for name, row in found.items()},
        "parents": [{"stream": row.stream_id, "seq": row.head} for row in parents],
    }
    return Pinned(heads, max(row.updated_at for row in (home, *parents, *found.values()) if row is not None))


def _parents(unit: Unit, home: StreamRow) -> list[StreamRow]:
    """The sessions that this one inherits from, the nearest first."""
    found: list[StreamRow] = []
    row: StreamRow | None = home
    while row is not None and len(found) < MAX_PARENTS and (name := row.about.get("parent")):
        row = streams.get(unit, home.tenant, f"session/{name}")
        if row is None or row.number in {home.number, *(one.number for one in found)}:
            break
        found.append(row)
    return found


def _job(deps: Deps, home: StreamRow, asked: Asked, pinned: Pinned) -> JobRow:
    as_of = pinned.newest if asked.as_of is None else asked.as_of
    request = _with_defaults(deps, home, asked.request)
    view = request.view()
    key = content_hash({"view": view, "query": request.query, "as_of": as_of, "heads": pinned.heads})
    return JobRow(
        tenant=home.tenant,
        id=str(uuid_utils.uuid7()),
        stream=home.number,
        number=0,
        view=view,
        key=bytes.fromhex(key),
        fresh=asked.fresh,
        request=request.model_dump(exclude_defaults=True),
        heads=pinned.heads,
        as_of=as_of,
        predecessor=None,
        status="queued",
        prompt=None,
        error=None,
        created_at=deps.clock.now(),
        finished_at=None,
        request_id=structlog.contextvars.get_contextvars().get("request_id"),
        traceparent=tracing.here(),
    )


def _with_defaults(deps: Deps, home: StreamRow, request: CompileRequest) -> CompileRequest:
    """The server's own locale, where neither the request nor the session says one: what decides bytes is pinned."""
    if request.locale or home.about.get("locale") or deps.locale == DEFAULT_LOCALE:
        return request
    return request.model_copy(update={"locale": deps.locale})


def _queue(deps: Deps, row: JobRow) -> JobRow:
    """Give the job its number and its predecessor: the newest request of the same view before it."""
    with deps.database.write(row.tenant) as unit:
        # The counter's row is held from here on, so numbers and predecessors agree.
        number = work.want_next(unit, row.tenant, row.stream, "compile")
        faults.point("request.after_number")
        before = jobs.latest(unit, row.tenant, row.stream, row.view)
        row = replace(row, number=number, predecessor=before)
        jobs.put(unit, row)
        faults.point("request.after_job")
    faults.point("request.committed")
    return row


def job(deps: Deps, tenant: str, job_id: str) -> Json:
    row, session = find(deps, tenant, job_id)
    if row.finished_at is None:
        with deps.database.read(tenant) as unit:
            status = work.status(unit, tenant, row.stream, "compile")
        if status and status["leased"] and status["done_seq"] == row.number - 1:
            return {**shown(row, session), "status": "running"}
    return shown(row, session)


def find(deps: Deps, tenant: str, job_id: str) -> tuple[JobRow, str]:
    """The job and the name of its session. Raises UnknownJob."""
    with deps.database.read(tenant) as unit:
        row = jobs.get(unit, tenant, job_id) if is_uuid(job_id) else None
        home = streams.by_number(unit, tenant, row.stream) if row else None
    if row is None or home is None:
        raise UnknownJob(f"No job {job_id!r}.", job=job_id)
    return row, home.name


def shown(row: JobRow, session: str) -> Json:
    return {
        "id": row.id,
        "session": session,
        "status": row.status,
        "prompt": row.prompt,
        "error": _error(row),
        "created_at": format_time(row.created_at),
        "finished_at": format_time(row.finished_at),
        "request_id": row.request_id,
    }


def _error(row: JobRow) -> Json | None:
    """With the id under which the log of whoever compiled says more."""
    if row.error is None or row.request_id is None:
        return row.error
    return {**row.error, "details": {**row.error["details"], "request_id": row.request_id}}
