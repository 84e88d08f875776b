"""Work rows: one per stream and kind, updated in place. They are the queue and the outbox.

`due_at` says when anyone may claim: at once, when a lease ends, or after a pause. `lease_no` is the fencing number: a
worker that wakes after its lease finds a higher one and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, case, func

from domain.canonical import canonical_json, parse_json
from workers.store.database import DialectName, Prepared, Unit, insert, now_sql
from workers.store.tables import streams, work

KINDS = ("compile", "project", "summarize", "maintenance", "index")
"""Kinds of work, the most urgent first: whoever waits for a prompt waits for all that comes before it."""

LEASE = 60_000_000
"""Microseconds that a claim holds unless told otherwise; a handler yields long before."""

LONGEST_PAUSE = 60_000_000
"""Microseconds until work that failed is tried again, at the most."""

MAX_ATTEMPTS = 5
"""Claims without an end in between, crashes included, after which the row is parked."""


@dataclass(frozen=True, slots=True)
class Claim:
    tenant: str
    stream: int
    kind: str
    lease_no: int
    wanted_seq: int
    done_seq: int
    attempts: int
    lease: int


@dataclass(frozen=True, slots=True)
class Due:
    tenant: str
    stream: int
    stream_id: str
    kind: str


def _mine(*more: Any) -> tuple[Any, ...]:
    return (
        work.c.tenant == bindparam("of_tenant"),
        work.c.stream == bindparam("of_stream"),
        work.c.kind == bindparam("of_kind"),
        *more,
    )


def _greatest(dialect: DialectName, left: Any, right: Any) -> Any:
    return func.greatest(left, right) if dialect == "postgresql" else func.max(left, right)


def _want(dialect: DialectName) -> sa.ClauseElement:
    statement = insert(work, dialect).values(
        tenant=bindparam("of_tenant"), stream=bindparam("of_stream"), kind=bindparam("of_kind"),
        wanted_seq=bindparam("wanted"), done_seq=0, lease_no=0, leased=0, due_at=now_sql(dialect), attempts=0,
    )  # fmt: skip
    new = statement.excluded
    # A row that is leased or pausing keeps its time; a parked one stays parked, visibly.
    due = case((work.c.parked_at.is_(None), func.coalesce(work.c.due_at, new.due_at)), else_=None)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["tenant", "stream", "kind"],
        set_={"wanted_seq": _greatest(dialect, work.c.wanted_seq, new.wanted_seq), "due_at": due},
        # Whoever claims a row that waits already will go to the head anyway: no need to write it again.
        where=sa.or_(work.c.leased == 1, work.c.due_at.is_(None)),
    )


_WANT = Prepared(_want)


def want(unit: Unit, tenant: str, stream: int, kind: str, seq: int) -> None:
    """Ask for the stream to be worked on up to `seq`. Coalesces: a thousand appends make one row."""
    unit.run(_WANT, {"of_tenant": tenant, "of_stream": stream, "of_kind": kind, "wanted": seq})


def _want_later(dialect: DialectName) -> sa.ClauseElement:
    statement = insert(work, dialect).values(
        tenant=bindparam("of_tenant"), stream=bindparam("of_stream"), kind=bindparam("of_kind"),
        wanted_seq=bindparam("wanted"), done_seq=0, lease_no=0, leased=0,
        due_at=now_sql(dialect) + bindparam("pause"), attempts=0,
    )  # fmt: skip
    new = statement.excluded
    idle = sa.and_(work.c.parked_at.is_(None), work.c.leased == 0)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["tenant", "stream", "kind"],
        set_={
            "wanted_seq": _greatest(dialect, work.c.wanted_seq, new.wanted_seq),
            "due_at": case((idle, func.coalesce(work.c.due_at, new.due_at)), else_=work.c.due_at),
        },
    )


_WANT_LATER = Prepared(_want_later)


def want_later(unit: Unit, tenant: str, stream: int, kind: str, seq: int, pause: int) -> None:
    """Ask for the stream to be worked on up to `seq`, once `pause` µs have gone by; what waits keeps its time."""
    params = {"of_tenant": tenant, "of_stream": stream, "of_kind": kind, "wanted": seq, "pause": pause}
    unit.run(_WANT_LATER, params)


_NEXT = Prepared(
    lambda dialect: (
        sa.update(work)
        .where(*_mine())
        .values(
            wanted_seq=work.c.wanted_seq + 1,
            due_at=case((work.c.parked_at.is_(None), func.coalesce(work.c.due_at, now_sql(dialect))), else_=None),
        )
        .returning(work.c.wanted_seq)
    )
)


def want_next(unit: Unit, tenant: str, stream: int, kind: str) -> int:
    """Ask for one item more and return its number: the counter of a session's compile jobs."""
    key = {"of_tenant": tenant, "of_stream": stream, "of_kind": kind}
    found = unit.run(_NEXT, key).fetchone()
    if found is None:
        unit.run(_WANT, {**key, "wanted": 0})
        found = unit.run(_NEXT, key).fetchone()
    return int(found[0])


def _is_due(now: Any, ahead: Any = None) -> Any:
    """Due, or set for a time so far ahead that the clock must have gone back since."""
    odd = sa.and_(work.c.kind != "maintenance", work.c.due_at > now + bindparam("far"))
    due = work.c.due_at <= (now if ahead is None else now + ahead)
    return sa.and_(work.c.due_at.is_not(None), work.c.parked_at.is_(None), sa.or_(due, odd))


def _far(lease: int) -> int:
    return 2 * max(lease, LONGEST_PAUSE)


def _claim(dialect: DialectName) -> sa.ClauseElement:
    key = (work.c.tenant, work.c.stream, work.c.kind)
    # Only a lease is taken over early: a pause after a failure is there to be kept.
    ahead = case((work.c.leased == 1, bindparam("ahead")), else_=0)
    # Also a row of which all was done that it was told of: it waited while more came, and who held it died on the way.
    ready = sa.select(*key).where(*_mine(_is_due(now_sql(dialect), ahead)))
    return (
        sa.update(work)
        .where(sa.tuple_(*key).in_(ready.with_for_update(skip_locked=True)))
        .values(
            lease_no=work.c.lease_no + 1,
            leased=1,
            attempts=work.c.attempts + 1,
            due_at=now_sql(dialect) + bindparam("lease"),
        )
        .returning(work.c.lease_no, work.c.wanted_seq, work.c.done_seq, work.c.attempts)
    )


_CLAIM = Prepared(_claim)


def claim(
    unit: Unit, tenant: str, stream: int, kind: str, *, patience: int | None = None, lease: int = LEASE
) -> Claim | None:
    """The lease on a due row; None when there is nothing to do or somebody else is at it.

    With `patience` it is taken from a holder who has shown no progress for so many microseconds: they are fenced out
    and find that at their next write. Attempts are counted here, before anything is done, so that a crash counts.
    """
    params = {
        "of_tenant": tenant, "of_stream": stream, "of_kind": kind, "lease": lease, "far": _far(lease),
        "ahead": max(0, lease - patience) if patience is not None else 0,
    }  # fmt: skip
    found = unit.run(_CLAIM, params).fetchone()
    if found is None:
        return None
    lease_no, wanted, done, attempts = found
    return Claim(tenant, stream, kind, lease_no, wanted, done, attempts, lease)


def reopen(unit: Unit, tenant: str, stream: int, kind: str, seq: int) -> None:
    """Make the row due now, though all is done that was wanted or it was set for later: whoever claims it has something
    else to do there."""
    want(unit, tenant, stream, kind, seq)
    undone = case((work.c.done_seq >= work.c.wanted_seq, work.c.wanted_seq - 1), else_=work.c.done_seq)
    idle = _mine(work.c.leased == 0, work.c.parked_at.is_(None))
    again = sa.update(work).where(*idle).values(done_seq=undone, due_at=unit.now())
    unit.execute(again, {"of_tenant": tenant, "of_stream": stream, "of_kind": kind})


def _held(more: dict[str, Any]) -> sa.Update:
    return sa.update(work).where(*_mine(work.c.lease_no == bindparam("of_lease"))).values(more)


_KEEP = Prepared(
    lambda dialect: _held(
        {
            "done_seq": bindparam("done"),
            # Who gets further is not stuck, however often they are interrupted.
            "attempts": case((bindparam("done") > work.c.done_seq, 1), else_=work.c.attempts),
            "due_at": now_sql(dialect) + bindparam("lease"),
        }
    )
)
_SETTLE = Prepared(
    lambda dialect: _held(
        {
            "done_seq": bindparam("done"),
            "leased": 0,
            "attempts": 0,
            "last_error": None,
            "due_at": case((work.c.wanted_seq > bindparam("done"), now_sql(dialect)), else_=None),
        }
    ).returning(work.c.wanted_seq)
)
_FAIL = Prepared(
    lambda dialect: _held(
        {
            "leased": 0,
            "last_error": bindparam("error"),
            "due_at": bindparam("again"),
            "parked_at": bindparam("parked"),
        }
    )
)


def _lease(claimed: Claim) -> dict[str, Any]:
    return {
        "of_tenant": claimed.tenant, "of_stream": claimed.stream, "of_kind": claimed.kind, "of_lease": claimed.lease_no,
    }  # fmt: skip


def keep(unit: Unit, claimed: Claim, done: int) -> bool:
    """Note progress and hold the lease on; false if the lease was lost, and then nothing may be written."""
    return bool(unit.run(_KEEP, {**_lease(claimed), "done": done, "lease": claimed.lease}).rowcount == 1)


def settle(unit: Unit, claimed: Claim, done: int) -> int | None:
    """Note progress and let the lease go; what is wanted by now, None if the lease was lost.

    If that is more than was done the row is due again, and whoever settled must ring: the ring for it may have come
    while the row was leased, and led to nothing.
    """
    found = unit.run(_SETTLE, {**_lease(claimed), "done": done}).fetchone()
    return int(found[0]) if found else None


_POSTPONE = Prepared(
    lambda dialect: _held({"leased": 0, "attempts": 0, "due_at": now_sql(dialect) + bindparam("pause")})
)


def postpone(unit: Unit, claimed: Claim, pause: int) -> bool:
    """Let the lease go, and come back to what is left once `pause` µs have gone by; false if the lease was lost."""
    return bool(unit.run(_POSTPONE, {**_lease(claimed), "pause": pause}).rowcount == 1)


def fail(unit: Unit, claimed: Claim, error: dict[str, Any], *, park: bool) -> bool:
    """Record what went wrong; come back after a pause that doubles, or park for a person to look at."""
    now = unit.now()
    pause = min(LONGEST_PAUSE, 500_000 * 2 ** min(claimed.attempts, 10))
    params = {
        **_lease(claimed), "error": canonical_json(error), "again": None if park else now + pause,
        "parked": now if park else None,
    }  # fmt: skip
    return bool(unit.run(_FAIL, params).rowcount == 1)


def _due(dialect: DialectName) -> sa.ClauseElement:
    # The time is a parameter: no index is of use for a clock that is read for each row.
    return (
        sa.select(work.c.tenant, work.c.stream, streams.c.stream_id, work.c.kind)
        .join(streams, streams.c.number == work.c.stream)
        .where(work.c.kind == bindparam("of_kind"), _is_due(bindparam("now", type_=sa.BigInteger)))
        .order_by(work.c.due_at)
        .limit(bindparam("most"))
    )


_DUE = Prepared(_due)


def due(unit: Unit, limit: int, kinds: Sequence[str] = KINDS, *, lease: int = LEASE) -> list[Due]:
    """Rows that anyone may claim now: by urgency of their kind, and the longest waiting first."""
    found: list[Due] = []
    now = unit.now()
    for kind in kinds:
        params = {"of_kind": kind, "most": limit - len(found), "far": _far(lease), "now": now}
        found += [Due(*row) for row in unit.run(_DUE, params).fetchall()]
        if len(found) >= limit:
            break
    return found


def _pressing(dialect: DialectName) -> sa.ClauseElement:
    due = sa.and_(
        work.c.leased == 0, work.c.parked_at.is_(None), work.c.due_at <= bindparam("now", type_=sa.BigInteger)
    )
    return sa.select(work.c.kind).where(work.c.kind == bindparam("of_kind"), sa.or_(work.c.leased == 1, due)).limit(1)


_PRESSING = Prepared(_pressing)


def pressing(unit: Unit, kinds: Sequence[str]) -> bool:
    """Whether anything of these kinds, in any tenant, is due or being done."""
    now = unit.now()
    return any(unit.run(_PRESSING, {"of_kind": kind, "now": now}).fetchone() for kind in kinds)


def status(unit: Unit, tenant: str, stream: int, kind: str) -> dict[str, Any] | None:
    """A work row as a person reads it."""
    query = sa.select(work).where(*_mine())
    found = unit.execute(query, {"of_tenant": tenant, "of_stream": stream, "of_kind": kind}).mappings().first()
    if found is None:
        return None
    error = parse_json(found["last_error"]) if found["last_error"] else None
    return {**found, "last_error": error, "parked": found["parked_at"] is not None}


@dataclass(frozen=True, slots=True)
class Freed:
    tenant: str
    stream: int
    kind: str


def unpark(unit: Unit, tenant: str | None = None, stream: int | None = None) -> list[Freed]:
    """Make parked rows due again; which ones."""
    statement = sa.update(work).where(work.c.parked_at.is_not(None))
    if tenant is not None:
        statement = statement.where(work.c.tenant == tenant)
    if stream is not None:
        statement = statement.where(work.c.stream == stream)
    freed = statement.values(parked_at=None, attempts=0, due_at=unit.now())
    return [Freed(*row) for row in unit.execute(freed.returning(work.c.tenant, work.c.stream, work.c.kind))]


@dataclass(frozen=True, slots=True)
class Overview:
    """How many rows are due and how many are parked, and for how many seconds the oldest due one waits.

    `failing` counts those that failed and will be tried again, `open` all that is not done and not parked, under a
    lease or in a pause as well; `at_work` those that a worker has, by a lease that still holds.
    """

    due: int
    parked: int
    oldest_seconds: float
    open: int = 0
    failing: int = 0
    at_work: int = 0


def overview(unit: Unit, tenant: str | None = None) -> Overview:
    now = unit.now()
    # Nobody waits for an index: recall goes without what it does not hold yet.
    awaited = work.c.kind != "index"
    waits = case((sa.and_(awaited, work.c.due_at <= now), work.c.due_at))
    failing = case((work.c.parked_at.is_(None), work.c.last_error))
    # Care that is set for another day is no work that waits.
    today = sa.or_(work.c.kind != "maintenance", work.c.due_at <= now, work.c.leased == 1)
    open_ = case((sa.and_(awaited, today), work.c.due_at))
    held_now = case((sa.and_(awaited, work.c.leased == 1, work.c.due_at > now), work.c.due_at))
    columns = (
        func.count(waits), func.count(work.c.parked_at), func.min(waits), func.count(open_),
        func.count(failing), func.count(held_now),
    )  # fmt: skip
    query = sa.select(*columns).select_from(work)
    query = query.where(sa.or_(work.c.due_at.is_not(None), work.c.parked_at.is_not(None)))
    if tenant is not None:
        query = query.where(work.c.tenant == tenant)
    due, parked, oldest, held, failed, at_work = unit.execute(query).one()
    waited = (now - oldest) / 1_000_000 if oldest is not None else 0.0
    return Overview(int(due), int(parked), waited, int(held), int(failed), int(at_work))


def parked(unit: Unit, limit: int, tenant: str | None = None) -> list[dict[str, Any]]:
    """Parked rows with what stopped them, for a person to read."""
    query = (
        sa.select(work.c.tenant, streams.c.stream_id, work.c.kind, work.c.last_error, work.c.parked_at)
        .join(streams, streams.c.number == work.c.stream)
        .where(work.c.parked_at.is_not(None))
        .order_by(work.c.parked_at)
        .limit(limit)
    )
    if tenant is not None:
        query = query.where(work.c.tenant == tenant)
    return [
        {
            "tenant": row.tenant,
            "stream": row.stream_id,
            "kind": row.kind,
            "parked_at": row.parked_at,
            "error": parse_json(row.last_error or b"{}"),
        }
        for row in unit.execute(query)
    ]


def lag(unit: Unit) -> int:
    """Events that are in the log and not in the read-models yet, over all tenants."""
    behind = func.coalesce(func.sum(work.c.wanted_seq - work.c.done_seq), 0)
    query = sa.select(behind).where(work.c.kind == "project", work.c.wanted_seq > work.c.done_seq)
    return int(unit.execute(query).scalar_one())
