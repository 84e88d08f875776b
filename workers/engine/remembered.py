"""What is remembered of a subject or of a tenant, as it is shown: listed, searched, and traced through the log."""

from collections.abc import Sequence
from typing import Any

from domain.canonical import parse_json
from domain.errors import InvalidRequest, UnknownMemory, UnknownSession
from domain.events import Event, MemoryDecided, dump_payload
from domain.masking import masked_value, masker
from domain.memorising.current import in_force
from domain.memorising.deciding import REASONS
from domain.memorising.searching import search
from domain.memorising.tracing import MEMORY_KINDS, concerns
from domain.rows import Memory
from domain.state import ContextState
from workers.clock import format_time
from workers.engine.deps import Deps
from workers.engine.drafts import checked_name
from workers.engine.memorising import state_of
from workers.engine.reading import cursor, page_size, subject_stream
from workers.store import log, streams

Json = dict[str, Any]

SCOPES = ("subject", "tenant")
LONGEST_QUERY = 2_000
FORMAT = "promptctx-memory/1"
MOST_SOURCES = 50
"""Events that a memory was made from that are shown with it."""


def stream_name(subject: str, scope: str = "subject") -> str:
    """The stream that a subject's memories, or those that all of the tenant share, stand in."""
    checked_name(subject, "subject")
    if scope not in SCOPES:
        raise InvalidRequest(f"scope: one of {', '.join(SCOPES)}.", path="scope")
    return "tenant/shared" if scope == "tenant" else f"subject/{subject}"


def _stream(deps: Deps, tenant: str, subject: str, scope: str, session: str | None) -> str:
    """The same, or the session's own, which must be one of that subject's. Raises UnknownSession."""
    shared = stream_name(subject, scope)
    if session is None:
        return shared
    if scope != "subject":
        raise InvalidRequest(
            "session: what a session keeps to itself is shared by nobody; leave scope out.", path="session"
        )
    name = f"session/{checked_name(session, 'session')}"
    with deps.database.read(tenant) as unit:
        row = streams.get(unit, tenant, name)
    if row is None or subject_stream(session, row.about.get("subject")) != shared:
        raise UnknownSession(f"No session {session!r} of {subject!r}.", session=session)
    return name


def listing(
    deps: Deps, tenant: str, subject: str, scope: str, query: str | None, limit: int, after: str | None, *,
    closed: bool, session: str | None = None,
) -> Json:  # fmt: skip
    """Memories, the newest first; those that answer a query, the best first and each with its score explained."""
    state, head = state_of(deps, tenant, _stream(deps, tenant, subject, scope, session))
    scope = "session" if session is not None else scope
    size, now = page_size(limit), deps.clock.now()
    if query is not None:
        found = [shown(one.memory, now, explained=one.explained()) for one in _search(query, state, now)]
        return _masked({"subject": subject, "scope": scope, "memories": found[:size], "head": head, "next": None})
    below = cursor(after)
    rows = [row for row in reversed(state.rows("memories")) if below is None or row.seq < below]
    rows = [row for row in rows if closed or in_force(row, now)]
    more = str(rows[size - 1].seq) if len(rows) > size else None
    told = [shown(row, now) for row in rows[:size]]
    return _masked({"subject": subject, "scope": scope, "memories": told, "head": head, "next": more})


def _search(query: str, state: ContextState, now: int) -> Sequence[Any]:
    if not query.strip() or len(query) > LONGEST_QUERY:
        raise InvalidRequest(f"query: 1 to {LONGEST_QUERY} characters.", path="query")
    return search(query, state.rows("memories"), now)


def shown(memory: Memory, now: int, **more: Any) -> Json:
    return {
        "id": memory.id, "text": memory.text, "scope": memory.scope, "category": memory.category,
        "memory_kind": memory.memory_kind, "importance": memory.importance, "tags": list(memory.tags),
        "subject": memory.subject, "predicate": memory.predicate, "object": memory.object,
        "valid_from": memory.valid_from, "valid_to": memory.valid_to, "current": in_force(memory, now),
        "closed_by": memory.closed_by, "recorded_at": format_time(memory.recorded_at), "event_id": memory.event_id,
        "seq": memory.seq, "derived_from": list(memory.derived_from), **more,
    }  # fmt: skip


def one(deps: Deps, tenant: str, subject: str, memory: str, scope: str, session: str | None = None) -> Json:
    """A memory with all that ever happened to it, oldest first, and the events that it was made from."""
    name = _stream(deps, tenant, subject, scope, session)
    state, _ = state_of(deps, tenant, name)
    row: Memory | None = state.tables["memories"].get(memory)
    with deps.database.read(tenant) as unit:
        stream = streams.get(unit, tenant, name)
        stored = log.of_kinds(unit, tenant, stream.number, MEMORY_KINDS) if stream else []
        about = [event for event in map(log.fact, stored) if concerns(event.payload, memory)]
        ids = list(dict.fromkeys(source for event in about for source in _sources(event)))[:MOST_SOURCES]
        sources = [_source(*found) for found in log.wherever(unit, tenant, ids)]
    if not about:
        raise UnknownMemory(f"No memory {memory!r} of {subject!r}; `promptctx memory` lists them.", memory=memory)
    told = {"subject": subject, "memory": shown(row, deps.clock.now()) if row else None}
    return _masked({**told, "history": list(map(_event, about)), "sources": sources})


def _sources(event: Event) -> list[str]:
    named = list(getattr(event.payload, "derived_from", ()))
    return [*named, *([event.causation_id] if event.causation_id else [])]


def _source(stream_id: str, stored: log.StoredEvent) -> Json:
    payload = parse_json(stored.payload) if stored.payload is not None else None
    return {
        "event_id": stored.event_id, "stream": stream_id, "seq": stored.seq, "kind": stored.kind,
        "recorded_at": format_time(stored.recorded_at), "payload": payload,
    }  # fmt: skip


def _event(event: Event) -> Json:
    if isinstance(event.payload, MemoryDecided):
        return {"kind": event.kind, **decided(event)}
    told = dump_payload(event.payload) if event.payload is not None else {}
    return {
        "kind": event.kind, "event_id": event.event_id, "seq": event.seq, "at": format_time(event.recorded_at),
        "actor": event.actor, "causation_id": event.causation_id, **{k: told[k] for k in _TOLD if k in told},
    }  # fmt: skip


_TOLD = ("text", "reason", "supersedes", "object", "valid_from", "valid_to", "derived_from")


def decided(event: Event) -> Json:
    """A decision as it is shown, with its reason as a sentence."""
    told = event.payload
    assert isinstance(told, MemoryDecided)
    return {
        "event_id": event.event_id, "seq": event.seq, "at": format_time(event.recorded_at), "act": told.act,
        "reason": told.reason, "sentence": REASONS.get(told.reason, told.reason), "text": told.text,
        "before": told.before, "memory": told.memory_id, "about": told.about, "method": told.method,
        "derived_from": list(told.derived_from),
    }  # fmt: skip


def export(deps: Deps, tenant: str, subject: str) -> Json:
    """All that is kept of a subject, closed memories too, as it can be imported elsewhere. Secrets are masked."""
    state, head = state_of(deps, tenant, stream_name(subject))
    now = deps.clock.now()
    return _masked(
        {
            "format": FORMAT, "subject": subject, "head": head,
            "memories": [shown(row, now) for row in state.rows("memories")],
            "profile": [
                {"key": row.key, "value": row.value, "category": row.category} for row in state.rows("profile")
            ],
            "blocks": [
                {"label": row.label, "text": row.text, "limit": row.limit, "read_only": row.read_only}
                for row in state.rows("blocks")
            ],
        }
    )  # fmt: skip


def _masked(told: Json) -> Json:
    masked = masked_value(told, masker(ContextState()))
    assert isinstance(masked, dict)
    return masked
