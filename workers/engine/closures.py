"""Closures: what an erasure takes along, found in the streams that derivatives of a session's events can stand in."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from domain.canonical import canonical_json
from domain.errors import InvalidEvent
from domain.events import PAYLOADS, AnyPayload, EventRedacted
from domain.lineage import DERIVED_KINDS, Placed, derivatives
from workers.engine import forking
from workers.engine.prompts import NAMESPACE
from workers.engine.reading import subject_stream
from workers.store import Unit, log, passages, snapshots, streams
from workers.store.log import Known, NewEvent
from workers.store.streams import StreamRow

AGAIN = "send the same `event.redacted` again: it erases what is left"
FINISH = "run `python -m workers erase --tenant TENANT SUBJECT` again: it finishes what was begun"
REBUILD = "run `python -m workers rebuild`: it forgets what nothing is left of"
REASON = "made from what was erased"


@dataclass(frozen=True, slots=True)
class Erased:
    """An event that is being erased: where it stands, and the redaction that says so."""

    stream: str
    number: int
    key: bytes
    seq: int
    redaction: str


@dataclass(frozen=True, slots=True)
class TakenAlong:
    """A derivative, and the redaction that goes into its stream."""

    erased: Erased
    redaction: NewEvent


def erased(unit: Unit, home: StreamRow, known: Known, told: EventRedacted, redaction: str) -> Erased:
    """What a redaction sent through the session of `home` erases."""
    if told.upto is not None:
        raise InvalidEvent("payload.upto: only `python -m workers erase` erases all of a stream.", path="payload.upto")
    row = home if known.stream_id == home.stream_id else streams.get(unit, home.tenant, known.stream_id)
    assert row is not None
    return Erased(row.stream_id, row.number, log.pack_id(told.event_id), known.seq, redaction)


def taken_along(unit: Unit, home: StreamRow, subject: str | None, gone: Sequence[Erased]) -> list[TakenAlong]:
    """Every event that lineage reaches from what is erased, and that is not erased yet."""
    if not gone:
        return []
    forks = {name: seq for one in gone for name, _, seq in log.holders(unit, home.tenant, one.key)}
    own = (home.stream_id, subject_stream(home.name, subject), "tenant/shared", *(one.stream for one in gone))
    rows = [row for name in dict.fromkeys((*own, *sorted(forks))) if (row := streams.get(unit, home.tenant, name))]
    candidates = [
        Placed(row.stream_id, log.fact(stored))
        for row in rows
        if not row.stream_id.startswith("audit/")
        for stored in log.of_kinds(unit, home.tenant, row.number, DERIVED_KINDS)
    ]
    roots = [root for one in gone for root in _roots(unit, one, rows)]
    origin = f"{home.stream_id}@{home.head}"
    numbers = {row.stream_id: row.number for row in rows}
    first: dict[str, Placed] = {}
    for one in derivatives(roots, candidates):
        if one.event.kind != "document.attached":
            # A fork's copy goes with the event that it is a copy of.
            first.setdefault(one.event.event_id, one)
    return [_taken(one, numbers[one.stream], gone[-1].redaction, origin) for one in first.values()]


def _roots(unit: Unit, one: Erased, rows: Sequence[StreamRow]) -> Iterator[Placed]:
    """What is erased, wherever it stands."""
    for row in rows:
        for stored in log.under(unit, row.tenant, row.number, [one.key]):
            yield Placed(row.stream_id, log.fact(stored))


def _taken(one: Placed, number: int, cause: str, origin: str) -> TakenAlong:
    key = uuid.uuid5(NAMESPACE, f"{cause}/{one.stream}/{one.event.event_id}")
    redaction = NewEvent(
        key=key.bytes,
        kind=EventRedacted.kind,
        schema_version=EventRedacted.schema_version,
        payload=canonical_json({"event_id": one.event.event_id, "reason": REASON}),
        causation_id=cause,
        origin=None if one.stream == origin.rpartition("@")[0] else origin,
    )
    packed = log.pack_id(one.event.event_id)
    return TakenAlong(Erased(one.stream, number, packed, one.event.seq, str(key)), redaction)


_DERIVED = frozenset(model for model in PAYLOADS.values() if "derived_from" in model.model_fields)
"""Asking the class first: a model takes long to say that it has no such field."""


def refuse_erased_sources(unit: Unit, home: StreamRow, payload: AnyPayload) -> None:
    """What is made from an erased event does not come in: whoever made it had read it before."""
    if type(payload) not in _DERIVED:
        return
    named = [name for name in getattr(payload, "derived_from", ()) if _is_id(name)]
    if any(gone for _, _, gone in log.payloads(unit, home.tenant, home.number, named)):
        path = "payload.derived_from"
        raise InvalidEvent(f"{path}: names an event that was erased; make it anew from what is left.", path=path)


def _is_id(name: str) -> bool:
    try:
        return bool(log.pack_id(name))
    except ValueError:
        return False


def _erased_before(unit: Unit, fork: StreamRow) -> set[str]:
    """What was erased in the streams that a fork was copied from: one made later copies the gap, not the redaction."""
    found: set[str] = set()
    seen = {fork.stream_id}
    while (name := forking.original(unit, fork)) and name not in seen and (row := streams.get(unit, fork.tenant, name)):
        told = (log.fact(stored).payload for stored in log.of_kinds(unit, row.tenant, row.number, {EventRedacted.kind}))
        found |= {one.event_id for one in told if isinstance(one, EventRedacted)}
        seen.add(name)
        fork = row
    return found


def unerased(unit: Unit, row: StreamRow) -> Iterator[tuple[str, str]]:
    """What of a stream should be gone and is not, or the other way round: (problem, what to do)."""
    told = [log.fact(stored).payload for stored in log.of_kinds(unit, row.tenant, row.number, {EventRedacted.kind})]
    said = [one for one in told if isinstance(one, EventRedacted)]
    redacted = {one.event_id for one in said if one.upto is None}
    emptied = max((one.upto or 0 for one in said), default=0)
    held = {log.unpack_id(key): (seq, gone) for seq, key, gone in log.payloads(unit, row.tenant, row.number, redacted)}
    for event_id in sorted(redacted):
        seq, gone = held.get(event_id, (0, True))
        if seq and not gone:
            yield f"seq {seq} was redacted, but what it said is still there", AGAIN
    empty = log.empty(unit, row.tenant, row.number)
    if sum(seq <= emptied for seq, _ in empty) < emptied:
        yield f"everything up to seq {emptied} was erased, but not all of it is gone", FINISH
    missing = {log.unpack_id(key): seq for seq, key in empty if seq > emptied and log.unpack_id(key) not in redacted}
    lost = sorted(missing[name] for name in missing.keys() - (_erased_before(unit, row) if missing else set()))
    if lost:
        yield (
            f"what seq {', '.join(map(str, lost[:10]))} said is gone, and no redaction tells of it",
            "restore the payloads from a backup; the digests are still right",
        )
    kept = passages.left_over(unit, row.tenant, row.number)
    if kept:
        yield f"seq {', '.join(map(str, kept[:10]))} was erased, but recall still keeps something of it", REBUILD
    for prompt in snapshots.showing(unit, row, redacted):
        yield f"prompt {prompt} shows something that was redacted", AGAIN
