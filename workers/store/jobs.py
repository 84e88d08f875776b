"""Compile jobs: requests with what they are pinned to, run in order of their number in the session."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import canonical_json, parse_json
from workers.store.database import Prepared, Unit, insert
from workers.store.tables import jobs

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobRow:
    """`heads` names each stream that is read and the seq it is read at; `key` is what makes two requests the same."""

    tenant: str
    id: str
    stream: int
    number: int
    view: str
    key: bytes
    fresh: bool
    request: Json
    heads: Json
    as_of: int
    predecessor: str | None
    status: str
    prompt: str | None
    error: Json | None
    created_at: int
    finished_at: int | None
    request_id: str | None = None
    """Of the request that asked for it: what the log lines of whoever compiles it are found by."""
    traceparent: str | None = None
    """The span that asked for it, while traces are on."""


_FIELDS = (
    "tenant", "id", "stream", "number", "view", "key", "fresh", "request", "heads", "as_of", "predecessor", "status",
    "prompt", "error", "created_at", "finished_at", "request_id", "traceparent",
)  # fmt: skip
_COLUMNS = tuple(jobs.c[name] for name in _FIELDS)


def _row(found: Any) -> JobRow:
    told = dict(zip(_FIELDS, found, strict=True))
    told["fresh"] = bool(told["fresh"])
    for name in ("request", "heads", "error"):
        told[name] = parse_json(told[name]) if told[name] is not None else None
    return JobRow(**told)


_INSERT = Prepared(lambda dialect: insert(jobs, dialect).values({name: bindparam(name) for name in _FIELDS}))


def put(unit: Unit, row: JobRow) -> None:
    packed = {name: getattr(row, name) for name in _FIELDS}
    packed |= {"request": canonical_json(row.request), "heads": canonical_json(row.heads), "fresh": int(row.fresh)}
    unit.run(_INSERT, packed)


_GET = Prepared(
    lambda dialect: sa.select(*_COLUMNS).where(jobs.c.tenant == bindparam("of_tenant"), jobs.c.id == bindparam("of_id"))
)


def get(unit: Unit, tenant: str, job_id: str) -> JobRow | None:
    found = unit.run(_GET, {"of_tenant": tenant, "of_id": job_id}).fetchone()
    return _row(found) if found else None


_OF = (jobs.c.tenant == bindparam("of_tenant"), jobs.c.stream == bindparam("of_stream"))
_NEXT = Prepared(
    lambda dialect: (
        sa.select(*_COLUMNS).where(*_OF, jobs.c.number > bindparam("after")).order_by(jobs.c.number).limit(1)
    )
)


def following(unit: Unit, tenant: str, stream: int, number: int) -> JobRow | None:
    """The next job of the session."""
    found = unit.run(_NEXT, {"of_tenant": tenant, "of_stream": stream, "after": number}).fetchone()
    return _row(found) if found else None


_LATEST = Prepared(
    lambda dialect: (
        sa.select(jobs.c.id).where(*_OF, jobs.c.view == bindparam("of_view")).order_by(jobs.c.number.desc()).limit(1)
    )
)


def latest(unit: Unit, tenant: str, stream: int, view: str) -> str | None:
    """The newest request of a view."""
    found = unit.run(_LATEST, {"of_tenant": tenant, "of_stream": stream, "of_view": view}).fetchone()
    return str(found[0]) if found else None


_PROMPT_BEFORE = Prepared(
    lambda dialect: (
        sa.select(jobs.c.prompt)
        .where(
            *_OF, jobs.c.view == bindparam("of_view"), jobs.c.number < bindparam("before"), jobs.c.prompt.is_not(None)
        )
        .order_by(jobs.c.number.desc())
        .limit(1)
    )
)


def prompt_before(unit: Unit, row: JobRow) -> str | None:
    """The prompt of the predecessor; of one that failed, its own predecessor's."""
    if row.predecessor is None:
        return None
    params = {"of_tenant": row.tenant, "of_stream": row.stream, "of_view": row.view, "before": row.number}
    found = unit.run(_PROMPT_BEFORE, params).fetchone()
    return str(found[0]) if found else None


_FINISH = Prepared(
    lambda dialect: (
        sa.update(jobs)
        .where(jobs.c.tenant == bindparam("of_tenant"), jobs.c.id == bindparam("of_id"), jobs.c.finished_at.is_(None))
        .values(
            status=bindparam("to_status"),
            prompt=bindparam("to_prompt"),
            error=bindparam("to_error"),
            finished_at=bindparam("at"),
        )
    )
)


def finish(unit: Unit, row: JobRow, prompt: str | None, error: Json | None, now: int) -> None:
    """Done with a prompt or failed with an error; what is finished stays as it is."""
    params = {
        "of_tenant": row.tenant, "of_id": row.id, "to_status": "failed" if error else "done", "to_prompt": prompt,
        "to_error": canonical_json(error) if error else None, "at": now,
    }  # fmt: skip
    unit.run(_FINISH, params)


def forget(unit: Unit, tenant: str, stream: int) -> None:
    """Delete a session's requests: what they asked for is part of what is erased."""
    unit.execute(sa.delete(jobs).where(jobs.c.tenant == tenant, jobs.c.stream == stream))
