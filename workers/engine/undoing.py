"""Rollbacks: what one would hide, and what it takes back of what its session wrote into shared memory."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.bounds import LARGEST
from domain.canonical import canonical_json, parse_json
from domain.errors import InvalidRequest
from domain.events import ContextRolledBack, Event, dump_payload, read_payload
from domain.history import effective
from domain.masking import Masker
from domain.timemachine import undoing
from domain.timemachine.undoing import Compensation
from workers.engine import display
from workers.engine.deps import Deps
from workers.engine.reading import session_row, subject_stream
from workers.store import Unit, log, snapshots, streams
from workers.store.log import NewEvent, StoredEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

SHARED = ("profile.", "block.", "memory.", "context.rolled_back")
OPENING = 80


@dataclass(frozen=True, slots=True)
class Target:
    """Where a rollback goes. `subject` and `tenant` are the seqs of those streams that the version had seen, if a
    version is named and can still be read."""

    to_seq: int
    to_version: int | None = None
    seen: tuple[tuple[str, int], ...] = ()


def target(unit: Unit, home: StreamRow, to_seq: int | None, to_version: int | None) -> Target:
    """Raises InvalidRequest when there is no such version or seq."""
    if to_version is None:
        if to_seq is None:
            raise InvalidRequest("Say where to roll back to: to_version or to_seq.", path="to_seq")
        return Target(to_seq)
    row = snapshots.by_version(unit, home.tenant, home.number, to_version)
    body = snapshots.body(unit, row) if row else None
    if body is None:
        if to_seq is None:
            raise InvalidRequest(f"to_version: no version {to_version} that can be read.", path="to_version")
        return Target(to_seq, to_version)
    inputs = body["inputs"]
    if to_seq is not None and to_seq != inputs["session"]["seq"]:
        return Target(to_seq)
    seen = tuple((inputs[name]["stream"], inputs[name]["seq"]) for name in ("subject", "tenant"))
    return Target(inputs["session"]["seq"], to_version, seen)


def taken_back(
    unit: Unit, home: StreamRow, stream_id: str, goal: Target, writing: Sequence[NewEvent] = ()
) -> Compensation:
    """What of the session's writes into a shared stream goes; `writing` are events on their way there."""
    also = [_event(one) for one in writing if _place(one) > goal.to_seq]
    row = streams.get(unit, home.tenant, stream_id)
    if row is None:
        return undoing.compensation(also, also)
    seen = dict(goal.seen).get(stream_id)
    wrote = [
        event
        for event in log.through(unit, home.tenant, row.number, home.stream_id, seen or 0)
        if event.kind.startswith(SHARED) and (seen is not None or _place(event) > goal.to_seq)
    ]
    if not wrote:
        return undoing.compensation(also, also)
    stored = log.since(unit, home.tenant, row.number, wrote[0].seq - 1)
    ours = [*map(log.fact, wrote), *also]
    if log.refolds(unit, home.tenant, row.number):
        in_force = set(effective(log.headers(unit, home.tenant, row.number, log.NO_END)))
        stored = [event for event in stored if event.seq in in_force]
    return undoing.compensation(ours, [*map(log.fact, stored), *also])


def _place(event: StoredEvent | NewEvent) -> int:
    """The session's seq when the event came through it."""
    return int((event.origin or "@0").rpartition("@")[2])


def _event(one: NewEvent) -> Event:
    payload = read_payload(one.kind, one.schema_version, parse_json(one.payload))
    return Event(log.unpack_id(one.key), log.NO_END, one.kind, payload, 0)


def undo(stream_id: str, rollback: NewEvent, undone: Sequence[Event], origin: str) -> NewEvent:
    """The event that takes others back in a stream that sessions share; the same rollback gives the same one."""
    # What comes in the same batch has no seq yet, and so the largest there is.
    ids, first = tuple(event.event_id for event in undone), min(event.seq for event in undone)
    told = ContextRolledBack(to_seq=min(first - 1, LARGEST), undoes=ids, reason="a session was rolled back")
    return NewEvent(
        key=uuid.uuid5(uuid.UUID(bytes=rollback.key), stream_id).bytes,
        kind=told.kind,
        schema_version=told.schema_version,
        payload=canonical_json(dump_payload(told)),
        actor=rollback.actor,
        causation_id=log.unpack_id(rollback.key),
        origin=origin,
    )


def shared_streams(home: StreamRow, subject: str | None) -> tuple[str, str]:
    return subject_stream(home.name, subject), "tenant/shared"


# Dry run --------------------------------------------------------------------------------------------------------------


def plan(deps: Deps, tenant: str, session: str, to_seq: int | None, to_version: int | None, *, loosen: bool) -> Json:
    """What a rollback would do now, without doing it."""
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        goal = target(unit, home, to_seq, to_version)
        if not 0 <= goal.to_seq <= home.head:
            sentence = f"to_seq: the session is at seq {home.head}."
            raise InvalidRequest(sentence, path="to_seq", head=home.head)
        found = undoing.hidden(list(log.headers(unit, tenant, home.number, home.head)), goal.to_seq, loosen=loosen)
        first = min((*found.hides, *found.stays), default=home.head)
        events = {one.seq: log.fact(one) for one in log.since(unit, tenant, home.number, first - 1)}
        shared = [taken_back(unit, home, name, goal) for name in shared_streams(home, home.about.get("subject"))]
        mask = display.mask_of(unit, home, ())
        later = snapshots.rising(unit, tenant, home.number, 1, None, 1_000_000, None) if found.hides else []
    return {
        "session": session, "head": home.head, "to_seq": goal.to_seq, "to_version": goal.to_version,
        "hides": [_shown(events[seq], mask) for seq in found.hides if seq in events],
        "stays": [_shown(events[seq], mask) for seq in found.stays if seq in events], "returns": list(found.returns),
        "versions_after": [row.version for row in later if goal.to_version and row.version > goal.to_version],
        **told(shared, mask),
    }  # fmt: skip


def told(shared: Sequence[Compensation], mask: Masker) -> Json:
    """Compensations as they are shown, secrets masked."""
    undone = [event for one in shared for event in one.undone]
    conflicts = [conflict for one in shared for conflict in one.conflicts]
    return {
        "takes_back": [_shown(event, mask) for event in undone],
        "conflicts": [{**_shown(one.event, mask), "newer": _shown(one.newer, mask)} for one in conflicts],
    }


def _shown(event: Event, mask: Masker) -> Json:
    data = dump_payload(event.payload) if event.payload is not None else {}
    text = "" if not isinstance(data, dict) else _text(data)
    return {"seq": event.seq, "event_id": event.event_id, "kind": event.kind, "text": mask(text)[:OPENING]}


def _text(data: Json) -> str:
    for name in ("text", "content", "value", "role", "name", "key", "id"):
        value = data.get(name)
        if isinstance(value, list | tuple):
            value = " ".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
        if value:
            return str(value)
    return ""
