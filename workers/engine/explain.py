"""Explaining prompts: diff, blame, why, bisect, provenance, and the versions of the instruction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from domain.errors import InvalidRequest, PromptctxError, SnapshotRedacted
from domain.events import MemoryRecorded, MemoryRevised
from domain.history import effective
from domain.memorising.tracing import MEMORY_KINDS, concerns, takes_the_place
from domain.timemachine import bisecting, instructions
from domain.timemachine.bisecting import Looked, Turn
from domain.timemachine.blaming import blame as blamed
from domain.timemachine.causes import Because
from domain.timemachine.diffing import changed_events
from domain.timemachine.diffing import diff as differences
from domain.timemachine.explaining import CONVERSATION
from domain.timemachine.explaining import why as verdict
from domain.timemachine.sides import Told
from domain.wording import WORDINGS
from workers.clock import format_time
from workers.engine import prompts, recompile, remembered, replay, sides
from workers.engine.deps import Deps
from workers.engine.drafts import is_uuid
from workers.engine.reading import session_row
from workers.engine.recompile import Changes
from workers.store import Unit, log, snapshots, streams
from workers.store.finding import Finder
from workers.store.packing import strings
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]

LONGEST_TEXT = 10_000


def diff(deps: Deps, tenant: str, before: str, after: str | None, changes: Changes) -> Json:
    """Of two prompts, of whatever sessions; or of one and what it would be with `changes`."""
    row, _, body = prompts.find(deps, tenant, before)
    other, _, later = prompts.find(deps, tenant, after) if after else (row, "", body)
    if changes:
        old = sides.stored(row, body)
        new = sides.again(replay.WHAT_IF, later, recompile.changed(deps, tenant, other, later, changes))
    else:
        old, new = sides.both(row, body, other, later)
    with deps.database.read(tenant) as unit:
        told = sides.chronicle(unit, tenant, [body, later], changed_events(old, new))
    return differences(old, new, Because(old, new, told))


def blame(deps: Deps, tenant: str, prompt: str, text: str | None) -> Json:
    """Each line of a prompt with the events that made it; only those with a text, if one is given."""
    row, session, body = prompts.find(deps, tenant, prompt)
    side = sides.stored(row, body)
    with deps.database.read(tenant) as unit:
        told = sides.chronicle(unit, tenant, [body], side.shown)
    return {"prompt": row.id, "session": session, "version": row.version, "lines": blamed(side, told, text)}


# Why ------------------------------------------------------------------------------------------------------------------


def why(deps: Deps, tenant: str, prompt: str, event: str, *, verify: bool = False) -> Json:
    """Where an event went in a prompt. It is named by id, by its seq in the session, or as `subject:12`. `verify` tries
    what would have kept it, and says the budget or setting with which it did."""
    row, session, body = prompts.find(deps, tenant, prompt)
    side = sides.stored(row, body)
    with deps.database.read(tenant) as unit:
        told, about = _named(unit, tenant, body, event)
        traced = _traced(unit, tenant, body, told)
        newer = _newer(unit, tenant, body, told) if traced is None else traced.newer
    found = verdict(told, side, newer).dump()
    if found["reason"] == "window" and "range" in found["numbers"]:
        found["decided_by"] = _decided(deps, tenant, session, body, told.seq)
    if verify and found["kept_by"]:
        found["verified"] = _verified(deps, tenant, row, body, told, found["kept_by"])
    if traced is not None:
        found["decisions"] = traced.decisions
    return {"prompt": row.id, "session": session, "version": row.version, "event": {**told.named(), **about}, **found}


@dataclass(frozen=True, slots=True)
class _Traced:
    """What became of a memory up to a prompt: what took its place, and what was decided about it."""

    newer: Sequence[Told]
    decisions: list[Json]


def _traced(unit: Unit, tenant: str, body: Json, told: Told) -> _Traced | None:
    if told.kind not in ("memory.recorded", "memory.revised") or told.stream not in body["inputs"]:
        return None
    head = body["inputs"][told.stream]
    row = streams.get(unit, tenant, head["stream"])
    if row is None:
        return None
    stored = [one for one in log.of_kinds(unit, tenant, row.number, MEMORY_KINDS) if one.seq <= head["seq"]]
    gone = sides.hidden(unit, tenant, row.number, head["seq"])
    events = [log.fact(one) for one in stored if one.seq not in gone]
    held = next((one.payload for one in events if one.event_id == told.event_id), None)
    if not isinstance(held, MemoryRecorded | MemoryRevised):
        return None
    later = [one for one in events if one.seq > told.seq and takes_the_place(one.payload, held)]
    newer = [Told(one.event_id, one.seq, told.stream, one.kind, held.id) for one in later]
    return _Traced(
        newer,
        [remembered.decided(one) for one in events if concerns(one.payload, held.id) and one.kind == "memory.decided"],
    )


def _named(unit: Unit, tenant: str, body: Json, event: str) -> tuple[Told, Json]:
    inputs = body["inputs"]
    heads = {name: inputs[name] for name in ("session", "subject", "tenant")}
    heads |= {sides.parent_name(place): head for place, head in enumerate(inputs["parents"])}
    place, _, number = event.rpartition(":")
    place = place or "session"
    for name, head in heads.items():
        row = streams.get(unit, tenant, head["stream"])
        if row is None or not (
            is_uuid(event) or (name == place and number.isascii() and number.isdigit() and len(number) < 16)
        ):
            continue
        keys, seq = ([log.pack_id(event)], 0) if is_uuid(event) else ([], int(number))
        found = list(log.named(unit, tenant, row.number, keys, seq - 1, seq, sides.MARKED))
        if found:
            gone = sides.hidden(unit, tenant, row.number, max(head["seq"], found[0].seq))
            return sides.told(found[0], name, gone), {"recorded_at": format_time(found[0].recorded_at)}
    sentence = f"No event {event!r} in what this prompt reads: name it by id, by seq, or as subject:12."
    raise InvalidRequest(sentence, path="event")


def _newer(unit: Unit, tenant: str, body: Json, told: Told) -> Sequence[Told]:
    """Events about the same thing after it, up to what the prompt saw."""
    if told.about is None and told.kind != "instruction.set":
        return ()
    name = told.kind.split(".")[0]
    found = sides.chronicle(unit, tenant, [body, {"inputs": _from(body["inputs"], told)}], ())
    return [
        one
        for one in found.ordered
        if one.stream == told.stream and one.seq > told.seq and one.gone is None
        and one.kind.split(".")[0] == name and one.about == told.about
    ]  # fmt: skip


def _from(inputs: Json, told: Told) -> Json:
    """The inputs with the event's stream at the event itself, so that all behind it is looked at."""
    if told.stream in ("session", "subject", "tenant"):
        return {**inputs, told.stream: {**inputs[told.stream], "seq": told.seq}}
    return inputs


def _decided(deps: Deps, tenant: str, session: str, body: Json, seq: int) -> Json | None:
    """The version that cut an event out, for one that later ones only carry as part of a range."""
    parent = body["inputs"]["parent_layout"]
    found: Json | None = None
    while parent:
        with deps.database.read(tenant) as unit:
            row = snapshots.get(unit, tenant, parent)
            held = snapshots.body(unit, row) if row else None
        if row is None or held is None:
            return found
        entry = next((one for one in held["report"]["units"] if one["from_seq"] <= seq <= one["to_seq"]), None)
        if entry is None or entry["disposition"] == "included":
            return found
        found = {"prompt": row.id, "version": row.version, "disposition": entry["disposition"]}
        if "events" in entry:
            return found
        parent = held["inputs"]["parent_layout"]
    return found


def _verified(deps: Deps, tenant: str, row: Any, body: Json, told: Told, kept_by: Json) -> Json | None:
    """What keeps it, tried: the settings of the report first, then larger ones."""
    for factor in (1, 1.1, 1.5, 2, 4):
        tried = {
            key: int(value * factor) if isinstance(value, int) and factor > 1 else value
            for key, value in kept_by.items()
        }
        try:
            made = recompile.changed(deps, tenant, row, body, Changes(tried))
        except PromptctxError:
            continue
        side = sides.again(replay.WHAT_IF, body, made)
        fates = [fate.disposition for fate in side.fates(told)]
        if "included" in fates or (not fates and told.event_id in side.shown):
            return {"set": tried, "tokens": made.prompt.tokens}
    return None


# Bisect ---------------------------------------------------------------------------------------------------------------


def bisect(deps: Deps, tenant: str, session: str, text: str) -> Json:
    """In which versions a text appeared and vanished, and what did it."""
    if not text or len(text) > LONGEST_TEXT:
        raise InvalidRequest(f"text: 1 to {LONGEST_TEXT} characters.", path="text")
    looked = list(_looked(deps, tenant, session, text))
    found = list(bisecting.turns(looked))
    appeared, vanished = bisecting.first(found)
    shown = [_turn(deps, tenant, one, text) for one in (appeared, vanished) if one is not None]
    return {
        "session": session, "text": text, "versions": len(looked),
        "appeared": next((one for one in shown if one["change"] == "appeared"), None),
        "vanished": next((one for one in shown if one["change"] == "vanished"), None),
        "turns": [_plain(one) for one in found],
    }  # fmt: skip


def _looked(deps: Deps, tenant: str, session: str, text: str) -> Iterator[Looked]:
    finder = Finder(text)
    for page in replay.pages_of(deps, tenant, session):
        with deps.database.read(tenant) as unit:
            found = finder.look(unit, tenant, page)
        for row in page:
            holds = found[row.id] if row.id in found else _holds(deps, tenant, row, text)
            yield Looked(row.id, row.version, row.view, holds)


def _holds(deps: Deps, tenant: str, row: SnapshotRow, text: str) -> bool | None:
    """Of a version that was pruned: it is made again. None when something that it showed was erased."""
    try:
        _, _, body = prompts.find(deps, tenant, row.id)
    except SnapshotRedacted:
        return None
    return any(text in one for one in strings(body["payload"]))


def _plain(turn: Turn) -> Json:
    change = "appeared" if turn.appeared else "vanished"
    return {"change": change, "prompt": turn.prompt, "version": turn.version, "view": turn.view, "before": turn.before}


def _turn(deps: Deps, tenant: str, turn: Turn, text: str) -> Json:
    """A turn with its cause: that of the change that holds the text, in the diff with the version before."""
    told = {**_plain(turn), "cause": None}
    if turn.before is None:
        rows = blame(deps, tenant, turn.prompt, text)["lines"]
        events = [event for row in rows for event in row["events"]]
        newest = max(events, key=lambda one: one["seq"], default=None)
        if newest:
            text = f"{newest['kind']} at seq {newest['seq']}, in the first version of its view"
            told["cause"] = {"by": "event", "event": newest, "text": text}
        return told
    for change in diff(deps, tenant, turn.before, turn.prompt, Changes())["changes"]:
        for line in change["lines"]:
            if text in (line["text"] if turn.appeared else line.get("before", line["text"])):
                return {**told, "segment": change["segment"], "cause": line.get("cause") or change["cause"]}
    return told


# Provenance -----------------------------------------------------------------------------------------------------------


def provenance(deps: Deps, tenant: str, prompt: str, line: int | None) -> Json:
    """The summaries of a prompt, line by line, down to the originals: which events each stands for, and their texts."""
    row, session, body = prompts.find(deps, tenant, prompt)
    side = sides.stored(row, body)
    with deps.database.read(tenant) as unit:
        told = sides.chronicle(unit, tenant, [body], side.shown)
        rows = [one for one in blamed(side, told) if one["zone"] == "summary" and one["events"]]
        chosen = [one for one in rows if line is None or one["line"] == line]
        originals = {event["event_id"]: event for one in chosen for event in one["events"]}
        texts = _originals(unit, tenant, body, originals)
    for one in chosen:
        one["originals"] = [{**event, **texts.get(event["event_id"], {})} for event in one.pop("events")]
    return {"prompt": row.id, "session": session, "version": row.version, "summaries": chosen}


def _originals(unit: Unit, tenant: str, body: Json, events: Json) -> dict[str, Json]:
    found: dict[str, Json] = {}
    home = streams.get(unit, tenant, body["inputs"]["session"]["stream"])
    seqs = [event["seq"] for event in events.values() if event["stream"] == "session"]
    for stored in log.at(unit, tenant, home.number, seqs) if home else ():
        payload = log.fact(stored).payload
        parts = getattr(payload, "content", ()) if stored.kind in CONVERSATION else ()
        text = "\n".join(part.text for part in parts if hasattr(part, "text"))
        made: Json = {"text": text, "redacted": stored.payload is None}
        if derived := getattr(payload, "derived_from", None):
            made["derived_from"] = list(derived)
        found[stored.event_id] = made
    return found


# Anchors --------------------------------------------------------------------------------------------------------------


def anchors(deps: Deps, tenant: str, session: str) -> Json:
    """Every instruction of the session with what it changed against the one in force before it."""
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        headers = list(log.headers(unit, tenant, home.number, home.head))
        seqs = [header.seq for header in headers if header.kind == "instruction.set"]
        events = list(map(log.fact, log.at(unit, tenant, home.number, seqs)))
    words = WORDINGS[home.about.get("locale") or deps.locale]
    rows = instructions.versions(events, frozenset(effective(headers)), words)
    return {
        "session": session,
        "anchors": [{**row, "recorded_at": format_time(row["recorded_at"])} for row in rows],
    }
