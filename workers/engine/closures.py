"""Closures: what an erasure takes along, found in the streams that derivatives of a session's events can stand in."""

from collections.abc import Collection, Iterator, Sequence

from domain.events import EventRedacted
from domain.lineage import DERIVED_KINDS, Placed, derivatives
from workers.store import Unit, log, snapshots, streams
from workers.store.streams import StreamRow

AGAIN = "send the same `event.redacted` again: it erases what is left"


def reached(unit: Unit, tenant: str, erased: Collection[Placed], names: Sequence[str]) -> list[Placed]:
    """The events of these streams that lineage reaches from `erased`, and that are not erased yet."""
    rows = (streams.get(unit, tenant, name) for name in names)
    candidates = [
        Placed(row.stream_id, log.fact(stored))
        for row in rows
        if row is not None
        for stored in log.of_kinds(unit, tenant, row.number, DERIVED_KINDS)
    ]
    return [one for one in derivatives(erased, candidates) if one.event.kind != "document.attached"]


def unerased(unit: Unit, row: StreamRow) -> Iterator[tuple[str, str]]:
    """What of a stream should be gone and is not, or the other way round: (problem, what to do)."""
    told = [log.fact(stored).payload for stored in log.of_kinds(unit, row.tenant, row.number, {EventRedacted.kind})]
    redacted = {one.event_id: one for one in told if isinstance(one, EventRedacted)}
    held = {log.unpack_id(key): (seq, gone) for seq, key, gone in log.payloads(unit, row.tenant, row.number, redacted)}
    for event_id in redacted:
        seq, gone = held.get(event_id, (0, True))
        if seq and not gone:
            yield f"seq {seq} was redacted, but what it said is still there", AGAIN
    lost = [seq for seq, key in log.empty(unit, row.tenant, row.number) if log.unpack_id(key) not in redacted]
    if lost:
        yield (
            f"what seq {', '.join(map(str, lost[:10]))} said is gone, and no redaction tells of it",
            "restore the payloads from a backup; the digests are still right",
        )
    for prompt in snapshots.showing(unit, row, redacted):
        yield f"prompt {prompt} shows something that was redacted", AGAIN
