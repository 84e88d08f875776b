"""Reading the log: the events of a stream as they go on the wire, and the lists of sessions."""

from typing import Any

from domain.canonical import parse_json
from domain.errors import InvalidRequest, UnknownSession
from workers.clock import format_time
from workers.engine import display
from workers.engine.deps import Deps
from workers.engine.drafts import checked_name
from workers.store import Unit, log, streams
from workers.store.log import StoredEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

MAX_PAGE = 1000
SEARCHED = 5000
"""Sessions that one search looks through."""

TOLD = ("subject", "mode", "model", "title", "source")
PLACES = ("session", "subject", "tenant", "audit")


def session_row(unit: Unit, tenant: str, session: str) -> StreamRow:
    """The session's stream. Raises UnknownSession, and InvalidRequest on a name that can't be one."""
    row = streams.get(unit, tenant, f"session/{checked_name(session, 'session')}")
    if row is None:
        raise UnknownSession(f"No session {session!r}; its first event makes it.", session=session)
    return row


def subject_stream(session: str, subject: str | None) -> str:
    """A session without a subject has a private one."""
    return f"subject/{subject or f'session:{session}'}"


def owner(stream_id: str, subject: str | None) -> str | None:
    """The subject that a stream belongs to, of a session by its subject; None of what a tenant shares."""
    kind, _, name = stream_id.partition("/")
    if kind == "tenant":
        return None
    return name if kind == "subject" else subject_stream(name, subject).removeprefix("subject/")


def related(unit: Unit, home: StreamRow, place: str) -> StreamRow | None:
    """One of the streams that a session's events go to; None while it holds nothing."""
    if place == "session":
        return home
    names = {
        "subject": subject_stream(home.name, home.about.get("subject")),
        "tenant": "tenant/shared",
        "audit": f"audit/{home.name}",
    }
    if place not in names:
        raise InvalidRequest(f"stream: one of {', '.join(PLACES)}.", path="stream")
    return streams.get(unit, home.tenant, names[place])


def events(deps: Deps, tenant: str, session: str, stream: str, after: int, limit: int, *, reveal: bool = False) -> Json:
    """A page of a stream; `next` is what `after` must be for the one that follows. Secrets are masked."""
    size = page_size(limit)
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        row = related(unit, home, stream)
        found = log.after(unit, tenant, row.number, max(0, after), size) if row else []
        mask = display.mask_of(unit, home, found) if found and not reveal else None
    head = row.head if row else 0
    last = found[-1].seq if found else head
    told = [shown(event) if mask is None else display.masked_event(shown(event), mask) for event in found]
    return {"events": told, "head": head, "next": last if last < head else None}


def shown(event: StoredEvent) -> Json:
    return {
        "event_id": event.event_id,
        "seq": event.seq,
        "kind": event.kind,
        "schema_version": event.schema_version,
        "payload": None if event.payload is None else parse_json(event.payload),
        "occurred_at": format_time(event.occurred_at),
        "recorded_at": format_time(event.recorded_at),
        "actor": event.actor,
        "run_id": event.run_id,
        "causation_id": event.causation_id,
        "correlation_id": event.correlation_id or event.origin,
        "digest": event.digest.hex(),
        "redacted": event.payload is None,
    }


def sessions(deps: Deps, tenant: str, limit: int, after: str | None, q: str = "", mode: str = "") -> Json:
    """Newest first; `next` is an opaque cursor. A search looks at so many sessions in one call and no more: a page may
    hold fewer than asked, even none, and there is still a next one."""
    size = page_size(limit)
    most = SEARCHED if q or mode else size
    with deps.database.read(tenant) as unit:
        rows = streams.listing(unit, tenant, "session", most + 1, cursor(after))
    found = [row for row in rows[:most] if _is_sought(row, q.casefold(), mode)]
    end = found[size - 1] if len(found) > size else rows[most - 1] if len(rows) > most else None
    return {"sessions": list(map(_listed, found[:size])), "next": str(end.number) if end else None}


def session(deps: Deps, tenant: str, name: str) -> Json:
    """One of them. Raises UnknownSession."""
    with deps.database.read(tenant) as unit:
        return _listed(session_row(unit, tenant, name))


def _is_sought(row: StreamRow, text: str, mode: str) -> bool:
    if mode and row.about.get("mode") != mode:
        return False
    return not text or any(text in str(told or "").casefold() for told in (row.name, *map(row.about.get, TOLD)))


def _listed(row: StreamRow) -> Json:
    return {
        "id": row.name,
        **{name: row.about.get(name) for name in TOLD},
        "head": row.head,
        "prompts": row.version,
        "created_at": format_time(row.created_at),
        "updated_at": format_time(row.updated_at),
    }


def page_size(limit: int) -> int:
    if limit < 1:
        raise InvalidRequest("limit: at least 1.", path="limit")
    return min(limit, MAX_PAGE)


def cursor(after: str | None) -> int | None:
    """A cursor of ours: a plain number."""
    if after is None or after == "":
        return None
    if not after.isascii() or not after.isdigit() or len(after) > 18:
        raise InvalidRequest("after: pass on the `next` of the page before.", path="after")
    return int(after)
