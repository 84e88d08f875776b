"""Erasing a subject: all that its sessions, its profile and its memory ever said, and every prompt that showed it.

Each stream says so with one `event.redacted` that empties it up to its head: that is the moment of the erasure, and
what was stored goes right after it, in pieces. A session that was the subject's for a while goes whole, whoever has it
now: what came later in it was said with the subject's words in view. Interrupted, it is taken up by asking again; asked
again later, it erases what came since. The chains still verify, and the same events sent again store nothing.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from domain.canonical import canonical_json
from domain.errors import InvalidRequest
from domain.events import EventRedacted
from workers.clock import format_time
from workers.engine import dumping
from workers.engine.deps import Deps
from workers.engine.drafts import checked_name
from workers.engine.owners import Spell, spells
from workers.engine.project import catch_up
from workers.engine.prompts import NAMESPACE
from workers.engine.reading import subject_stream
from workers.engine.walking import Progress
from workers.store import Unit, acts, documents, erasures, jobs, log, snapshots, streams, subject_keys, work
from workers.store.log import NewEvent, StoredEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

PIECE = 20_000
"""Events whose payloads go in one transaction."""


@dataclass(frozen=True, slots=True)
class _Session:
    """A session that is erased, with the spells of its subjects."""

    row: StreamRow
    spells: Sequence[Spell]


def erase(
    deps: Deps, tenant: str, subject: str, reason: str = "", progress: Progress | None = None, *, dry_run: bool = False
) -> Json:
    """What was erased, or would be. Raises InvalidRequest when there is nothing of that subject."""
    checked_name(subject, "subject")
    with deps.database.read(tenant) as unit:
        sessions = _sessions(unit, tenant, subject)
        rows = list(_streams(unit, tenant, subject, sessions))
    if not rows:
        raise InvalidRequest(f"Nothing is known of the subject {subject!r} in tenant {tenant!r}.", subject=subject)
    told: Json = {
        "tenant": tenant, "subject": subject, "sessions": sorted(one.row.name for one in sessions),
        "streams": len(rows), "events": sum(row.head for row in rows), "prompts": sum(row.version for row in rows),
        "dry_run": dry_run,
    }  # fmt: skip
    if dry_run:
        return told
    with deps.database.write(tenant) as unit:
        # Interrupted, it will need what the log can tell no longer then.
        whose = {one.row.name: [astuple(spell) for spell in one.spells] for one in sessions}
        name = erasures.begin(unit, tenant, subject, reason, {**told, "spells": whose}, deps.clock.now())
        about = {"erasure": name, "events": told["events"], "prompts": told["prompts"]}
        acts.note(unit, tenant, deps.clock.now(), acts.OPERATOR, "subject.erased", about)
        # First of all: copies and backups of what was sealed are unreadable from here on, whatever happens next.
        subject_keys.delete(unit, tenant, {subject, *(f"session:{one.row.name}" for one in sessions)})
    for row in rows:
        dumping.forget_files(deps, tenant, _stream(deps, row, name, reason))
        _payloads(deps, row, progress, told["events"])
    told["elsewhere"] = _elsewhere(deps, subject, sessions, rows, name)
    for row in rows:
        if not row.stream_id.startswith("audit/"):
            with deps.database.read(tenant) as unit:
                head = streams.head(unit, tenant, row.number)
            catch_up(deps, tenant, row.number, head)
    deps.states.forget()
    deps.folds.forget()
    deps.shelves.forget()
    with deps.database.write(tenant) as unit:
        erasures.finish(unit, tenant, name, told, deps.clock.now())
    return told


def listing(deps: Deps, tenant: str) -> list[Json]:
    """Erasures so far: what has to be erased again after a restore of an older backup."""
    with deps.database.read(tenant) as unit:
        found = erasures.listing(unit, tenant)
    return [
        {
            "tenant": one.tenant, "subject": one.subject, "reason": one.reason,
            "started_at": format_time(one.started_at), "finished_at": format_time(one.finished_at),
        }
        for one in found
    ]  # fmt: skip


def _sessions(unit: Unit, tenant: str, subject: str) -> list[_Session]:
    """The sessions that are the subject's or were, and forks of them whosever they are: a fork holds copies."""
    every: list[StreamRow] = []
    below: int | None = None
    while page := streams.listing(unit, tenant, "session", 1000, below):
        every += page
        below = page[-1].number
    stream, started = subject_stream("", subject), log.started(unit, tenant)
    begun = erasures.unfinished(unit, tenant, subject).get("spells", {})
    found: dict[str, _Session] = {}
    for row in sorted(every, key=lambda row: row.number):
        before = [Spell(*spell) for spell in begun.get(row.name, ())]
        one = _Session(row, [*before, *spells(row.name, started.get(row.number, ()))])
        held = {subject_stream(row.name, row.about.get("subject")), *(spell.stream for spell in one.spells)}
        if stream in held or row.about.get("forked_from") in found:
            found[row.name] = one
    return list(found.values())


def _streams(unit: Unit, tenant: str, subject: str, sessions: list[_Session]) -> Iterator[StreamRow]:
    names = [subject_stream("", subject)]
    for one in sessions:
        names += [one.row.stream_id, f"audit/{one.row.name}", subject_stream(one.row.name, None)]
    found = (streams.get(unit, tenant, name) for name in dict.fromkeys(names))
    yield from (row for row in found if row is not None)


def _stream(deps: Deps, row: StreamRow, name: str, reason: str) -> list[str]:
    """Say in the stream that all of it is erased, and take away what was made of it; the prompts that went."""
    now, gone = deps.clock.now(), []
    with deps.database.write(row.tenant) as unit:
        row = streams.lock(unit, row.tenant, row.stream_id, now)
        if row.head:
            first = log.at(unit, row.tenant, row.number, [1])[0].event_id
            row = _append(unit, row, name, EventRedacted(event_id=first, reason=reason, upto=row.head), now)
        if row.stream_id.startswith("session/"):
            gone = snapshots.erase_all(unit, row.tenant, row.number, now)
            jobs.forget(unit, row.tenant, row.number)
            documents.drop(unit, row.tenant, row.number)
    return gone


def _append(unit: Unit, row: StreamRow, name: str, payload: EventRedacted, now: int) -> StreamRow:
    body = canonical_json(payload.model_dump(exclude_defaults=True))
    key = uuid.uuid5(NAMESPACE, f"{name}/{row.stream_id}/{row.head}")
    event = NewEvent(key.bytes, payload.kind, payload.schema_version, body, actor="operator")
    at = max(now, row.updated_at)
    digest = log.write(unit, row, [event], at)
    # A title may say as much as a message.
    about = {key: value for key, value in row.about.items() if key not in ("title", "source")}
    streams.move(unit, row, row.head + 1, digest, about, at)
    if not row.stream_id.startswith("audit/"):
        work.want(unit, row.tenant, row.number, "project", row.head + 1)
    return replace(row, head=row.head + 1, digest=digest, about=about)


def _payloads(deps: Deps, row: StreamRow, progress: Progress | None, total: int) -> None:
    for at in range(0, row.head, PIECE):
        upto = min(row.head, at + PIECE)
        with deps.database.write(row.tenant) as unit:
            log.erase_between(unit, row.tenant, row.number, at, upto)
        if progress is not None:
            progress(upto - at, total)


def _elsewhere(deps: Deps, subject: str, sessions: list[_Session], rows: list[StreamRow], name: str) -> Json:
    """What came through these sessions into memory that others share, and prompts of other sessions."""
    now, tenant = deps.clock.now(), rows[0].tenant
    others = {spell.stream for one in sessions for spell in one.spells} - {row.stream_id for row in rows}
    count, ids, grown, gone = 0, set[str](), list[StreamRow](), list[str]()
    with deps.database.write(tenant) as unit:
        for stream in sorted({*others, "tenant/shared"}):
            shared = streams.lock(unit, tenant, stream, now)
            came = log.came_through(unit, tenant, shared.number, {one.row.stream_id for one in sessions})
            if stream in others:
                came = _theirs(unit, subject, sessions, came)
            for one in came:
                shared = _append(unit, shared, name, EventRedacted(event_id=one.event_id, reason="its subject"), now)
                log.erase_between(unit, tenant, shared.number, one.seq - 1, one.seq)
            grown += [shared] if came else []
            count, ids = count + len(came), ids | {one.event_id for one in came}
        for row in rows:
            ids |= log.ids(unit, tenant, row.number, row.head)
        gone += _prompts(unit, tenant, {row.number for row in rows}, ids, now)
    dumping.forget_files(deps, tenant, gone)
    for row in grown:
        catch_up(deps, tenant, row.number, row.head)
    return {"events": count, "prompts": len(gone)}


def _theirs(unit: Unit, subject: str, sessions: list[_Session], came: list[StoredEvent]) -> list[StoredEvent]:
    """Of what came into another subject's memory that which was made from what this one said."""
    stream = subject_stream("", subject)
    mine = {one.row.stream_id: [spell for spell in one.spells if spell.stream == stream] for one in sessions}
    said = {
        event_id
        for one in sessions
        for spell in mine[one.row.stream_id]
        for event_id in log.ids(unit, one.row.tenant, one.row.number, spell.last, spell.first - 1)
    }

    def is_theirs(event: StoredEvent) -> bool:
        session, _, seq = (event.origin or "").rpartition("@")
        sources = getattr(log.fact(event).payload, "derived_from", ())
        return any(int(seq) in spell for spell in mine[session]) or not said.isdisjoint(sources)

    return [one for one in came if is_theirs(one)]


def _prompts(unit: Unit, tenant: str, done: set[int], ids: set[str], now: int) -> Iterator[str]:
    """Prompts of other sessions that show something of this subject, as those of its sub-agents do."""
    below: int | None = None
    while page := streams.listing(unit, tenant, "session", 1000, below):
        below = page[-1].number
        for row in page:
            if row.number not in done and (found := snapshots.showing(unit, row, ids)):
                snapshots.erase_these(unit, tenant, row.number, found, now)
                yield from found
