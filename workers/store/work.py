"""Work rows: one per stream and kind, updated in place. They are the queue and the outbox.

`due_at` says when anyone may claim: at once, when a lease ends, or after a pause. `lease_no` is the fencing number: a
worker that wakes after its lease finds a higher one and writes nothing.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, case, func

from domain.canonical import canonical_json, parse_json
from workers.store.database import DialectName, Prepared, Unit, insert
from workers.store.tables import streams, work

LEASE = 60_000_000
"""Microseconds that a claim holds; a handler yields long before."""

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
        wanted_seq=bindparam("wanted"), done_seq=0, lease_no=0, leased=0, due_at=bindparam("due"), attempts=0,
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
    """Ask for the stream to be worked on up to `seq`. Coalesces: a thousand appends make one row.

    A new row is due from the beginning of time: that is now on any clock.
    """
    unit.run(_WANT, {"of_tenant": tenant, "of_stream": stream, "of_kind": kind, "wanted": seq, "due": 0})


def want_next(unit: Unit, tenant: str, stream: int, kind: str) -> int:
    """Ask for one item more and return its number: the counter of a session's compile jobs."""
    unit.run(_WANT, {"of_tenant": tenant, "of_stream": stream, "of_kind": kind, "wanted": 0, "due": 0})
    due = case((work.c.parked_at.is_(None), func.coalesce(work.c.due_at, 0)), else_=None)
    found = unit.execute(
        sa.update(work)
        .where(*_mine())
        .values(wanted_seq=work.c.wanted_seq + 1, due_at=due)
        .returning(work.c.wanted_seq),
        {"of_tenant": tenant, "of_stream": stream, "of_kind": kind},
    )
    return int(found.scalar_one())


def _claim(dialect: DialectName) -> sa.ClauseElement:
    key = (work.c.tenant, work.c.stream, work.c.kind)
    ready = sa.select(*key).where(
        *_mine(work.c.parked_at.is_(None), work.c.wanted_seq > work.c.done_seq, work.c.due_at <= bindparam("due"))
    )
    return (
        sa.update(work)
        .where(sa.tuple_(*key).in_(ready.with_for_update(skip_locked=True)))
        .values(lease_no=work.c.lease_no + 1, leased=1, attempts=work.c.attempts + 1, due_at=bindparam("until"))
        .returning(work.c.lease_no, work.c.wanted_seq, work.c.done_seq, work.c.attempts)
    )


_CLAIM = Prepared(_claim)


def claim(unit: Unit, tenant: str, stream: int, kind: str, *, steal: bool = False) -> Claim | None:
    """The lease on a due row; None when there is nothing to do or somebody else is at it.

    `steal` takes it from whoever holds it: they are fenced out and find that at their next write.
    """
    now = unit.now()
    key = {"of_tenant": tenant, "of_stream": stream, "of_kind": kind}
    params = {**key, "due": _NEVER if steal else now, "until": now + LEASE}
    found = unit.run(_CLAIM, params).fetchone()
    return Claim(tenant, stream, kind, *found) if found else None


_NEVER = 2**62


def _held(more: dict[str, Any]) -> sa.ClauseElement:
    return sa.update(work).where(*_mine(work.c.lease_no == bindparam("lease"))).values(more)


_KEEP = Prepared(lambda dialect: _held({"done_seq": bindparam("done"), "due_at": bindparam("until")}))
_SETTLE = Prepared(
    lambda dialect: _held(
        {
            "done_seq": bindparam("done"),
            "leased": 0,
            "attempts": 0,
            "last_error": None,
            "due_at": case((work.c.wanted_seq > bindparam("done"), 0), else_=None),
        }
    )
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
        "of_tenant": claimed.tenant, "of_stream": claimed.stream, "of_kind": claimed.kind, "lease": claimed.lease_no,
    }  # fmt: skip


def keep(unit: Unit, claimed: Claim, done: int) -> bool:
    """Note progress and hold the lease on; false if the lease was lost, and then nothing may be written."""
    params = {**_lease(claimed), "done": done, "until": unit.now() + LEASE}
    return bool(unit.run(_KEEP, params).rowcount == 1)


def settle(unit: Unit, claimed: Claim, done: int) -> bool:
    """Note progress and let the lease go; the row is due again at once if more was wanted meanwhile."""
    return bool(unit.run(_SETTLE, {**_lease(claimed), "done": done}).rowcount == 1)


def fail(unit: Unit, claimed: Claim, error: dict[str, Any], *, park: bool) -> bool:
    """Record what went wrong; come back after a pause that doubles, or park for a person to look at."""
    now = unit.now()
    pause = min(60_000_000, 500_000 * 2 ** min(claimed.attempts, 10))
    params = {
        **_lease(claimed), "error": canonical_json(error), "again": None if park else now + pause,
        "parked": now if park else None,
    }  # fmt: skip
    return bool(unit.run(_FAIL, params).rowcount == 1)


def due(unit: Unit, limit: int) -> list[Due]:
    """Rows that anyone may claim now, the longest waiting first."""
    query = (
        sa.select(work.c.tenant, work.c.stream, streams.c.stream_id, work.c.kind)
        .join(streams, streams.c.number == work.c.stream)
        .where(work.c.due_at <= unit.now(), work.c.parked_at.is_(None))
        .order_by(work.c.due_at)
        .limit(limit)
    )
    return [Due(*found) for found in unit.execute(query)]


def status(unit: Unit, tenant: str, stream: int, kind: str) -> dict[str, Any] | None:
    """A work row as a person reads it."""
    query = sa.select(work).where(*_mine())
    found = unit.execute(query, {"of_tenant": tenant, "of_stream": stream, "of_kind": kind}).mappings().first()
    if found is None:
        return None
    error = parse_json(found["last_error"]) if found["last_error"] else None
    return {**found, "last_error": error, "parked": found["parked_at"] is not None}


def unpark(unit: Unit, tenant: str | None = None) -> int:
    """Make parked rows due again; how many there were."""
    statement = sa.update(work).where(work.c.parked_at.is_not(None))
    if tenant is not None:
        statement = statement.where(work.c.tenant == tenant)
    return int(unit.execute(statement.values(parked_at=None, attempts=0, due_at=0)).rowcount)


def overview(unit: Unit) -> dict[str, int]:
    """How much waits, how much is parked: what `health` tells."""
    waiting = func.count(case((work.c.due_at <= unit.now(), 1)))
    parked = func.count(work.c.parked_at)
    found = unit.execute(sa.select(waiting, parked).select_from(work)).one()
    return {"due": int(found[0]), "parked": int(found[1])}
