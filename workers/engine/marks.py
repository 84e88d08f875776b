"""Judgements on prompts: flags on the answers that came of them, labels on versions, and which version is active."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from domain.errors import UnknownSnapshot
from domain.events import OutputFlagged, SnapshotLabelled
from workers.clock import format_time
from workers.engine import prompts
from workers.engine.deps import Deps
from workers.engine.reading import session_row
from workers.store import Unit, log, snapshots, streams

Json = dict[str, Any]

ACTIVE = "active"


@dataclass(slots=True)
class Marks:
    """What was said of one prompt. Of flags the newest counts; `at` is when it was said."""

    verdict: str | None = None
    note: str = ""
    at: int = 0
    actor: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


def read(unit: Unit, tenant: str, audit: int | None = None) -> dict[str, Marks]:
    """By prompt, in the order in which each was last spoken of; of one session's audit stream, or of all."""
    found: dict[str, Marks] = {}
    for stored in log.marks(unit, tenant, audit):
        told = log.fact(stored).payload
        if not isinstance(told, OutputFlagged | SnapshotLabelled):
            continue
        mark = found.pop(told.snapshot_id, Marks())
        found[told.snapshot_id] = mark
        if isinstance(told, OutputFlagged):
            mark.verdict, mark.note, mark.at, mark.actor = told.verdict, told.note, stored.recorded_at, stored.actor
        else:
            mark.labels.pop(told.label, None)
            mark.labels[told.label] = told.note
    return found


def flagged(deps: Deps, tenant: str, verdict: str = "bad", session: str | None = None) -> Json:
    """The work list: prompts whose answers were flagged so, the newest flag first."""
    with deps.database.read(tenant) as unit:
        audit = _audit(unit, tenant, session) if session is not None else None
        if audit == 0:
            return {"flagged": []}
        chosen = [(name, mark) for name, mark in read(unit, tenant, audit).items() if mark.verdict == verdict]
        chosen.sort(key=lambda one: -one[1].at)
        rows = [_flag(unit, tenant, name, mark) for name, mark in chosen]
    return {"flagged": rows}


def _flag(unit: Unit, tenant: str, name: str, mark: Marks) -> Json:
    """One that names a prompt of another server, as an imported log may, is listed without its session."""
    row = snapshots.get(unit, tenant, name)
    home = streams.by_number(unit, tenant, row.stream) if row else None
    told: Json = {"prompt": name, "verdict": mark.verdict, "note": mark.note, "flagged_at": format_time(mark.at)}
    told |= {"by": mark.actor, "labels": list(mark.labels)}
    if row is None or home is None:
        return {**told, "session": None, "version": None}
    more = {key: row.about[key] for key in ("mode", "format", "model", "tokens", "budget")}
    return {**told, "session": home.name, "version": row.version, **more, "redacted": row.redacted_at is not None}


def labels(deps: Deps, tenant: str, session: str) -> Json:
    """The versions of a session that have labels or flags, in order."""
    with deps.database.read(tenant) as unit:
        found = read(unit, tenant, _audit(unit, tenant, session))
        rows = [(snapshots.get(unit, tenant, name), mark) for name, mark in found.items()]
    shown = [
        {"prompt": row.id, "version": row.version, "labels": mark.labels, "verdict": mark.verdict, "note": mark.note}
        for row, mark in rows
        if row is not None
    ]
    return {"session": session, "marked": sorted(shown, key=lambda one: one["version"])}


def active(deps: Deps, tenant: str, session: str, target: str | None = None) -> Json:
    """The prompt that agents get: the version labelled `active` last, else the newest; never one that was erased."""
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        found = read(unit, tenant, _audit(unit, tenant, session))
        marked = [(list(mark.labels), name) for name, mark in found.items() if ACTIVE in mark.labels]
        rows = _candidates(unit, tenant, home.number, (name for _, name in reversed(marked)))
    if not rows:
        raise UnknownSnapshot(f"No prompt of session {session!r} can be served.", session=session)
    return prompts.prompt(deps, tenant, rows[0], target)


def _candidates(unit: Unit, tenant: str, stream: int, named: Iterable[str]) -> list[str]:
    rows = [snapshots.get(unit, tenant, name) for name in named]
    found = [row.id for row in rows if row is not None and row.stream == stream and row.redacted_at is None]
    below: int | None = None
    while not found:
        page = snapshots.listing(unit, tenant, stream, 50, below)
        if not page:
            return []
        found = [row.id for row in page if row.redacted_at is None]
        below = page[-1].version
    return found


def _audit(unit: Unit, tenant: str, session: str) -> int:
    """The number of the session's audit stream; 0 while it has none."""
    row = streams.get(unit, tenant, f"audit/{session_row(unit, tenant, session).name}")
    return row.number if row else 0
