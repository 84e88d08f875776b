"""Replay: fold the log to what a snapshot was made of, compile again, compare. It writes nothing and asks nobody."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from domain.canonical import content_hash
from domain.errors import InvalidRequest, PromptctxError, SnapshotRedacted
from domain.timemachine.causes import Because
from domain.timemachine.diffing import changed_events, diff
from domain.timemachine.sides import Side
from domain.timemachine.verdicts import Findings, cause, first_difference, first_segment
from workers import tracing
from workers.engine import prompts, recompile, sides
from workers.engine.deps import Deps
from workers.engine.reading import cursor, page_size, session_row
from workers.engine.recompile import Again, Changes
from workers.store import Unit, log, snapshots, streams
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]

WHAT_IF = "what-if"


def replay(deps: Deps, tenant: str, prompt_id: str) -> Json:
    """Whether the same inputs give the same bytes; if not, where they first differ and why."""
    row, session, body = prompts.find(deps, tenant, prompt_id)
    return _verdict(deps, tenant, session, row, body)


def replay_all(
    deps: Deps, tenant: str, session: str | None, first: int, last: int | None, limit: int, after: str | None
) -> Json:
    """A page of verdicts: the versions of one session from `first` to `last`, or of all sessions. `next` goes on."""
    size = page_size(limit)
    with deps.database.read(tenant) as unit:
        stream = session_row(unit, tenant, session).number if session is not None else None
        rows = snapshots.rising(unit, tenant, stream, first, last, size + 1, _mark(after))
    verdicts = [_told(deps, tenant, row) for row in rows[:size]]
    counts = {name: sum(one["verdict"] == name for one in verdicts) for name in ("identical", "different", "redacted")}
    end = rows[size - 1] if len(rows) > size else None
    return {"verdicts": verdicts, **counts, "next": f"{end.stream}.{end.version}" if end else None}


def _mark(after: str | None) -> tuple[int, int] | None:
    if not after:
        return None
    stream, _, version = after.partition(".")
    found = cursor(stream), cursor(version)
    if found[0] is None or found[1] is None:
        raise InvalidRequest("after: pass on the `next` of the page before.", path="after")
    return found[0], found[1]


def _told(deps: Deps, tenant: str, row: SnapshotRow) -> Json:
    try:
        row, session, body = prompts.find(deps, tenant, row.id)
    except SnapshotRedacted as erased:
        with deps.database.read(tenant) as unit:
            home = streams.by_number(unit, tenant, row.stream)
        told = {"prompt": row.id, "session": home.name if home else None, "version": row.version}
        return {**told, "verdict": "redacted", "identical": None, "cause": erased.message}
    return _verdict(deps, tenant, session, row, body)


def _verdict(deps: Deps, tenant: str, session: str, row: SnapshotRow, body: Json) -> Json:
    with tracing.span("replay", tenant=tenant, session=session, prompt=row.id, version=row.version) as span:
        found = _compared(deps, tenant, session, row, body)
        span.tell(verdict=found["verdict"])
    return found


def _compared(deps: Deps, tenant: str, session: str, row: SnapshotRow, body: Json) -> Json:
    made: Again | None = None
    try:
        made = recompile.recorded(deps, tenant, row, body)
        payload = made.prompt.payload
    except PromptctxError as failed:
        payload = {"error": {"code": failed.code, "message": failed.message}}
    hashed = content_hash(payload)
    same = hashed == row.content_hash
    info = made.loaded.context.session.one("session") if made else None
    then = sides.conditions(body)
    now = sides.conditions_now(deps, body, body["request"].get("model") or (info.model if info else None))
    told = {
        "prompt": row.id, "session": session, "version": row.version,
        "verdict": "identical" if same else "different", "identical": same,
        "content_hash": row.content_hash, "replayed_hash": hashed,
        "first_difference": None, "cause": None, "because": None, "changes": [],
        "changed_since": then.changes(now),
    }  # fmt: skip
    return told if same else {**told, **_difference(deps, tenant, row, body, made, payload)}


def _difference(deps: Deps, tenant: str, row: SnapshotRow, body: Json, made: Again | None, payload: Json) -> Json:
    """What a replay that gave other bytes tells: the place, the cause, and the diff by segments."""
    old, place = sides.stored(row, body), first_difference(body["payload"], payload) or {}
    new = sides.again("replay", body, made) if made else None
    changes, zones = _diffed(deps, tenant, body, old, new) if new else ([], [])
    if new and (found := first_segment(old.segments, new.segments)):
        place |= found
    with deps.database.read(tenant) as unit:
        erased = _erased(unit, tenant, row, body["inputs"])
    tampered = content_hash(body["payload"]) != row.content_hash
    why = cause(Findings(erased, tampered, _changed(body, new), zones))
    return {"first_difference": place or None, "cause": why["text"], "because": why, "changes": changes}


def _diffed(deps: Deps, tenant: str, body: Json, old: Side, new: Side) -> tuple[list[Json], Sequence[str]]:
    with deps.database.read(tenant) as unit:
        told = sides.chronicle(unit, tenant, [body], changed_events(old, new))
    found = diff(old, new, Because(old, new, told))["changes"]
    return found, list(dict.fromkeys(one["zone"] for one in found))


def _changed(body: Json, new: Side | None) -> list[Json]:
    """Conditions that cannot have been those of the stored prompt, though its record names them."""
    then = sides.conditions(body)
    if new is None:
        return []
    pairs = (("compiler", then.compiler, new.compiler), ("schema", then.schema, new.schema),
             ("tokenizer", then.tokenizer, new.tokenizer))  # fmt: skip
    found = [{"what": what, "then": old, "now": now} for what, old, now in pairs if old != now]
    hashes = body["inputs"].get("hashes", {})
    for what, now in (("config", then.config), ("sources", then.sources)):
        if what in hashes and hashes[what] != now:
            found.append({"what": what, "then": hashes[what], "now": now})
    return found


def _erased(unit: Unit, tenant: str, row: SnapshotRow, inputs: Json) -> bool:
    parent = inputs["parent_layout"]
    if parent and snapshots.layout(unit, tenant, row.stream, parent) is None:
        return True
    for head in (inputs["session"], inputs["subject"], inputs["tenant"], *inputs["parents"]):
        found = streams.get(unit, tenant, head["stream"])
        if found and log.erases(unit, tenant, found.number, after=head["seq"]):
            return True
    return False


# What if --------------------------------------------------------------------------------------------------------------


def what_if(deps: Deps, tenant: str, prompt_id: str, changes: Changes) -> Json:
    """The prompt as another request or schema would have made it at the same heads, and how it differs."""
    row, session, body = prompts.find(deps, tenant, prompt_id)
    made = recompile.changed(deps, tenant, row, body, changes)
    old, new = sides.stored(row, body), sides.again(WHAT_IF, body, made)
    with deps.database.read(tenant) as unit:
        told = sides.chronicle(unit, tenant, [body], changed_events(old, new))
    return {
        "prompt": row.id, "session": session, "version": row.version,
        "set": dict(changes.request), "schema": dict(changes.schema),
        "identical": made.prompt.content_hash == row.content_hash,
        "would": {
            "mode": made.prompt.mode, "model": made.prompt.model, "format": made.request.format,
            "tokens": made.prompt.tokens, "budget": made.prompt.budget, "content_hash": made.prompt.content_hash,
            "payload": made.prompt.payload, "report": made.prompt.report,
        },
        "diff": diff(old, new, Because(old, new, told)),
    }  # fmt: skip


def rows_of(deps: Deps, tenant: str, session: str) -> Iterator[SnapshotRow]:
    """All versions of a session, oldest first."""
    return chain.from_iterable(pages_of(deps, tenant, session))


def pages_of(deps: Deps, tenant: str, session: str, size: int = 200) -> Iterator[list[SnapshotRow]]:
    after: tuple[int, int] | None = None
    while True:
        with deps.database.read(tenant) as unit:
            stream = session_row(unit, tenant, session).number
            rows = snapshots.rising(unit, tenant, stream, 1, None, size, after)
        yield rows
        if len(rows) < size:
            return
        after = rows[-1].stream, rows[-1].version
