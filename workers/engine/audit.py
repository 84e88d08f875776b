"""The audit events of a compile: what was compiled, what was trimmed, which anchors moved."""

import uuid
from collections.abc import Iterable
from typing import Any, Literal

from domain.canonical import canonical_json
from domain.events import (
    AnchorMoved,
    ContextCompiled,
    ContextTrimmed,
    ContextTrimRolledBack,
    Payload,
    dump_payload,
)  # fmt: skip
from domain.snapshots import Layout, Prompt
from domain.state import ContextState
from workers.engine.reading import owner
from workers.store import Unit, log, snapshots, streams
from workers.store.log import NewEvent
from workers.store.snapshots import SnapshotRow
from workers.store.streams import StreamRow

ANCHORS: tuple[Literal["system", "business"], ...] = ("system", "business")
CUT = ("summarized", "referenced", "dropped")


def write_audit(
    unit: Unit,
    home: StreamRow,
    row: SnapshotRow,
    prompt: Prompt,
    session: ContextState,
    before: Layout | None,
    now: int,
) -> None:
    """Append to the session's audit stream; the ids follow from the snapshot's, so that a retry gives the same."""
    told = [*_compiled(row), *_trims(row, prompt, before), *_moves(unit, row, prompt, session)]
    origin = f"{home.stream_id}@{session.head}"
    audit = streams.lock(unit, home.tenant, f"audit/{home.name}", now)
    at = max(now, audit.updated_at)
    events = [_event(row, place, payload, origin) for place, payload in enumerate(told)]
    digest = log.write(unit, audit, events, at, owner(audit.stream_id, home.about.get("subject")))
    streams.move(unit, audit, audit.head + len(events), digest, audit.about, at)


def _event(row: SnapshotRow, place: int, payload: Payload, origin: str) -> NewEvent:
    return NewEvent(
        key=uuid.uuid5(uuid.UUID(row.id), str(place)).bytes,
        kind=payload.kind,
        schema_version=payload.schema_version,
        payload=canonical_json(dump_payload(payload)),
        actor="compiler",
        origin=origin,
    )


def _compiled(row: SnapshotRow) -> Iterable[Payload]:
    yield ContextCompiled(snapshot_id=row.id, version=row.version, content_hash=row.content_hash)


def _trims(row: SnapshotRow, prompt: Prompt, before: Layout | None) -> Iterable[Payload]:
    trim = prompt.report["trim"]
    for failed in trim["rolled_back"]:
        yield ContextTrimRolledBack(snapshot_id=row.id, strategy=failed["strategy"], failed_check=str(failed["failed"]))
    if prompt.layout.trims == (before.trims if before else 0):
        return
    carried = before.cut if before else 0
    cut = [unit for unit in prompt.report["units"] if unit["disposition"] in CUT and unit["from_seq"] >= carried]
    told = tuple(_unit(unit, trim["strategy"]) for unit in cut)
    yield ContextTrimmed(snapshot_id=row.id, units=told, rounds=len(trim["rolled_back"]) + 1)


def _unit(unit: dict[str, Any], strategy: str) -> dict[str, Any]:
    """What became of a unit: by which strategy, why, which events, and the tokens before and after."""
    told = {
        "strategy": "summary" if unit["disposition"] == "summarized" else unit.get("strategies", [strategy])[0],
        "reason": unit["reason"],
        "tokens": [unit["tokens"], unit.get("after", 0)],
    }
    # A range that was never looked into has no events to name.
    return (
        {**told, "events": unit["events"]} if "events" in unit else {**told, "seqs": [unit["from_seq"], unit["to_seq"]]}
    )


def _moves(unit: Unit, row: SnapshotRow, prompt: Prompt, session: ContextState) -> Iterable[Payload]:
    """Anchors that are not those of the session's snapshot before this one."""
    earlier = snapshots.before(unit, row.tenant, row.stream, row.version)
    old = earlier.about["anchors"] if earlier else (None, None)
    now = (session.one("instruction"), session.one("business"))
    for name, before, after, anchor in zip(ANCHORS, old, prompt.layout.anchors, now, strict=True):
        if before != after:
            version = anchor.version if anchor else 1
            reason = "first" if before is None else "gone" if after is None else "newer"
            yield AnchorMoved(anchor=name, from_event=before, to_event=after, version=version, reason=reason)
