"""Forks: a new session that begins as another one was at some seq, number for number.

The events are copied, with their ids and times. Nothing is shared that one of the two could change under the other; an
erasure finds the copies by their ids.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from domain.canonical import canonical_json, parse_json
from domain.errors import InvalidEvent, UnknownSession
from domain.events import EventRedacted, SessionForked, dump_payload
from workers.engine.reading import owner, subject_stream
from workers.store import Unit, documents, log, streams, work
from workers.store.log import NewEvent, StoredEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

PAGE = 1000
ABOUT = ("subject", "parent", "mode", "model", "locale", "title", "source")


@dataclass(frozen=True, slots=True)
class Forked:
    """The child's row as it is now, and the streams that are to be projected."""

    home: StreamRow
    moved: tuple[int, ...]


def fork(unit: Unit, child: StreamRow, told: SessionForked) -> Forked:
    """Copy the parent's events up to `at_seq` into the child, which is empty and locked. Raises InvalidEvent and
    UnknownSession."""
    parent = _parent(unit, child, told)
    found = _events(unit, parent, told.at_seq)
    home = _copied(unit, child, found, {})
    about = _about(unit, home, {"forked_from": parent.name, "forked_at": told.at_seq})
    home = _moved(unit, home, home.head, home.digest, about)
    documents.copy(unit, child.tenant, parent.number, child.number, told.at_seq)
    moved = [home.number]
    if "subject" not in about and (private := _private(unit, parent, home, told.at_seq)):
        moved.append(private)
    return Forked(home, tuple(moved))


def erased_too(event_id: str, stream_id: str) -> NewEvent:
    """What a fork's log says when the original of one of its events was erased. Sent again it is the same event."""
    told = EventRedacted(event_id=event_id, reason="a copy of what was erased")
    key = uuid.uuid5(uuid.UUID(event_id), f"erased in {stream_id}").bytes
    return NewEvent(key, told.kind, told.schema_version, canonical_json(dump_payload(told)))


def original(unit: Unit, copy: StreamRow) -> str | None:
    """The stream that a fork's session, or its private subject, was copied from; None of what is no copy."""
    private = subject_stream("", None)
    if not copy.stream_id.startswith(private):
        parent = copy.about.get("forked_from")
        return f"session/{parent}" if parent else None
    home = streams.get(unit, copy.tenant, f"session/{copy.stream_id.removeprefix(private)}")
    parent = home.about.get("forked_from") if home else None
    return subject_stream(parent, None) if parent else None


def _parent(unit: Unit, child: StreamRow, told: SessionForked) -> StreamRow:
    if child.head:
        raise InvalidEvent("session.forked: a fork begins a session; this one has events already.", path="kind")
    parent = streams.get(unit, child.tenant, f"session/{told.parent}")
    if parent is None:
        raise UnknownSession(f"No session {told.parent!r} to fork.", session=told.parent)
    if told.at_seq > parent.head:
        sentence = f"payload.at_seq: the session {told.parent!r} is at seq {parent.head}, not yet at {told.at_seq}."
        raise InvalidEvent(sentence, path="payload.at_seq", head=parent.head)
    return parent


def _events(unit: Unit, row: StreamRow, upto: int) -> Iterator[StoredEvent]:
    at = 0
    while at < upto and (page := log.after(unit, row.tenant, row.number, at, PAGE, upto=upto)):
        yield from page
        at = page[-1].seq


def _copied(unit: Unit, row: StreamRow, events: Iterator[StoredEvent], about: Json) -> StreamRow:
    """The stream with these events behind its head, chained anew."""
    page: list[StoredEvent] = []
    for event in events:
        page.append(event)
        if len(page) == PAGE:
            row, page = _restored(unit, row, page, about), []
    return _restored(unit, row, page, about) if page else row


def _restored(unit: Unit, row: StreamRow, page: list[StoredEvent], about: Json) -> StreamRow:
    digest = log.restore(unit, row, page, owner(row.stream_id, about.get("subject")))
    return _moved(unit, row, row.head + len(page), digest, about, page[-1].recorded_at)


def _moved(unit: Unit, row: StreamRow, head: int, digest: bytes, about: Json, at: int | None = None) -> StreamRow:
    when = max(row.updated_at if row.head else 0, at or row.updated_at)
    streams.move(unit, row, head, digest, about, when)
    return replace(row, head=head, digest=digest, about=about, updated_at=when)


def _about(unit: Unit, home: StreamRow, more: Json) -> Json:
    """What the copied events say of the session: the parent's own row may have moved on since."""
    about: Json = {}
    for header in log.of_kind(unit, home.tenant, home.number, "session.started"):
        data = parse_json(header.payload) if header.payload is not None else {}
        about |= {name: data[name] for name in ABOUT if data.get(name) is not None}
    return {**about, **more}


def _private(unit: Unit, parent: StreamRow, home: StreamRow, at_seq: int) -> int | None:
    """A session without a subject has a private one, which is part of it."""
    old = streams.get(unit, parent.tenant, subject_stream(parent.name, None))
    if old is None or not old.head:
        return None
    row = streams.lock(unit, home.tenant, subject_stream(home.name, None), home.updated_at)
    row = _copied(unit, row, _reborn(unit, old, home, at_seq), {})
    work.want(unit, row.tenant, row.number, "project", row.head)
    return row.number


def _reborn(unit: Unit, old: StreamRow, home: StreamRow, at_seq: int) -> Iterator[StoredEvent]:
    """What came through the parent up to the fork, as if it had come through the child."""
    for event in _events(unit, old, old.head):
        seq = int((event.origin or "@0").rpartition("@")[2])
        if seq > at_seq:
            return
        yield replace(event, origin=f"{home.stream_id}@{seq}")
