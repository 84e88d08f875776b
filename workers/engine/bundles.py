"""Bundles: a session up to some version as one file, to be attached to a bug report and imported elsewhere.

One canonical JSON value per line: a head, the streams with their events, the documents that these tell of, the prompts,
and the SHA-256 over all lines before. Secrets are masked. An import checks every hash and takes all of it or nothing.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from domain.canonical import canonical_json, content_hash, parse_json
from domain.digests import payload_hash
from domain.errors import InvalidRequest
from domain.masking import MASK, Masker, masked_value, masker
from workers.engine import bundled_documents, prompts, replay
from workers.engine.bundle_lines import DocumentLine, EventLine, Head, PromptLine, StreamLine, check
from workers.engine.deps import Deps
from workers.engine.folds import fold_at
from workers.engine.reading import owner, session_row, subject_stream
from workers.store import Unit, acts, log, snapshots, streams, work
from workers.store.log import StoredEvent
from workers.store.snapshots import SnapshotRow
from workers.store.streams import StreamRow

Json = dict[str, Any]

FORMAT = "promptctx-bundle"
VERSION = 1
PAGE = 500
ENVELOPE = ("schema_version", "recorded_at", "occurred_at", "actor", "run_id", "causation_id", "correlation_id",
            "origin")  # fmt: skip


def of_prompt(deps: Deps, tenant: str, prompt_id: str) -> Iterator[bytes]:
    """All that a prompt was made from, and the versions before it."""
    row, session, body = prompts.find(deps, tenant, prompt_id)
    inputs = body["inputs"]
    heads = {head["stream"]: head["seq"] for head in _read(inputs)}
    return _sealed(_lines(deps, tenant, session, heads, row.version, row.id))


def of_session(deps: Deps, tenant: str, session: str) -> Iterator[bytes]:
    """All of a session, with every version."""
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        names = [
            home.stream_id,
            f"audit/{session}",
            "tenant/shared",
            subject_stream(session, home.about.get("subject")),
        ]
        rows = [streams.get(unit, tenant, name) for name in names]
        heads = {row.stream_id: row.head for row in rows if row is not None}
    for row in replay.rows_of(deps, tenant, session):
        with deps.database.read(tenant) as unit:
            body = snapshots.body(unit, row)
        for head in _read(body["inputs"]) if body else ():
            heads[head["stream"]] = max(heads.get(head["stream"], 0), head["seq"])
    return _sealed(_lines(deps, tenant, session, heads, home.version, None))


def _read(inputs: Json) -> list[Json]:
    return [inputs["session"], inputs["subject"], inputs["tenant"], *inputs["parents"]]


def _sealed(lines: Iterable[Json]) -> Iterator[bytes]:
    digest, count = hashlib.sha256(), 0
    for line in lines:
        data = canonical_json(line) + b"\n"
        digest.update(data)
        count += 1
        yield data
    yield canonical_json({"sha256": digest.hexdigest(), "lines": count}) + b"\n"


def _lines(
    deps: Deps, tenant: str, session: str, heads: Mapping[str, int], upto: int, prompt: str | None
) -> Iterator[Json]:
    with deps.database.read(tenant) as unit:
        rows = [row for name in sorted(heads) if (row := streams.get(unit, tenant, name)) is not None]
    head = {"format": FORMAT, "version": VERSION, "session": session, "prompt": prompt, "versions": upto}
    yield {**head, "streams": {row.stream_id: heads[row.stream_id] for row in rows}}
    masks = {row.stream_id: _masker(deps, tenant, row) for row in rows}
    for row in rows:
        mask = masks[row.stream_id]
        yield {"stream": row.stream_id, "about": dict(row.about), "head": heads[row.stream_id]}
        for event in _events(deps, row, heads[row.stream_id]):
            yield {"event": _shown(event, mask)}
    sessions = [row for row in rows if row.stream_id.startswith("session/")]
    yield from bundled_documents.lines(deps, ((row, heads[row.stream_id], masks[row.stream_id]) for row in sessions))
    for snapshot in replay.rows_of(deps, tenant, session):
        if snapshot.version <= upto and (made := _snapshot(deps, tenant, snapshot, masks[f"session/{session}"])):
            yield {"prompt": made}


def _masker(deps: Deps, tenant: str, row: StreamRow) -> Masker:
    """What a session marked as secret, at any time of it."""
    with deps.database.read(tenant) as unit:
        return masker(fold_at(deps, unit, tenant, row.number, row.head))


def _events(deps: Deps, row: StreamRow, upto: int) -> Iterator[StoredEvent]:
    at = 0
    while at < upto:
        with deps.database.read(row.tenant) as unit:
            page = log.after(unit, row.tenant, row.number, at, PAGE, upto=upto)
        if not page:
            return
        yield from page
        at = page[-1].seq


def _shown(event: StoredEvent, mask: Masker) -> Json:
    found: Json = {"event_id": event.event_id, "seq": event.seq, "kind": event.kind}
    found |= {name: value for name in ENVELOPE if (value := getattr(event, name)) is not None}
    if event.payload is None or event.salt is None:
        return {**found, "payload_hash": event.payload_hash.hex()}
    data = parse_json(event.payload)
    told = masked_value(_without_secrets(event.kind, data), mask)
    hashed = event.payload_hash if told == data else payload_hash(event.salt, canonical_json(told))
    return {**found, "payload": told, "salt": event.salt.hex(), "payload_hash": hashed.hex()}


def _without_secrets(kind: str, data: Any) -> Any:
    values = data.get("values") if kind == "tool.environment" and isinstance(data, dict) else None
    if not isinstance(values, dict):
        return data
    shown = {
        name: {**one, "value": MASK} if isinstance(one, dict) and one.get("secret") else one
        for name, one in values.items()
    }
    return {**data, "values": shown}


def _snapshot(deps: Deps, tenant: str, row: SnapshotRow, mask: Masker) -> Json | None:
    """As it is stored, but for what its sources answered: that is masked only when it is rendered."""
    with deps.database.read(tenant) as unit:
        body, layout = snapshots.body(unit, row), snapshots.layout(unit, tenant, row.stream, row.id)
    if body is None:
        return None
    inputs = {**body["inputs"], "sources": masked_value(body["inputs"]["sources"], mask)}
    body = {**body, "inputs": inputs}
    told = ("id", "version", "parent", "view", "about", "content_hash", "created_at")
    return {**{name: getattr(row, name) for name in told}, "layout": layout, "body": body}


# Import ---------------------------------------------------------------------------------------------------------------


def restore(deps: Deps, tenant: str, lines: Iterable[bytes], by: str = acts.OPERATOR) -> Json:
    """Import a bundle; the same one again changes nothing. Raises InvalidRequest naming what does not fit."""
    values = list(_checked(lines))
    head, rest = values[0], values[1:]
    texts = _documents(rest)
    counts = {"streams": 0, "events": 0, "documents": 0, "prompts": 0}
    stream: list[Json] = []
    with deps.database.write(tenant) as unit:
        for value in [*rest, {"prompt": None}]:
            if "event" in value and stream:
                stream.append(value["event"])
                continue
            if stream:
                events, held = _restore_stream(deps, unit, tenant, stream, texts)
                counts["streams"] += 1
                counts["events"] += events
                counts["documents"] += held
                stream = []
            if "stream" in value:
                stream = [value]
            elif value.get("prompt"):
                counts["prompts"] += _restore_prompt(unit, tenant, head["session"], value["prompt"])
        if counts["events"] or counts["prompts"]:
            acts.note(unit, tenant, deps.clock.now(), by, "bundle.restored", {"session": head["session"], **counts})
    for name in head["streams"]:
        _ring(deps, tenant, name)
    return {"session": head["session"], "prompt": head["prompt"], **counts}


def _documents(values: Iterable[Json]) -> dict[str, str]:
    """The texts by hash."""
    found = (value["document"] for value in values if value.get("document"))
    return {one["hash"]: one["text"] for one in found}


def _ring(deps: Deps, tenant: str, name: str) -> None:
    with deps.database.read(tenant) as unit:
        row = streams.get(unit, tenant, name)
    if row is not None and not name.startswith("audit/"):
        deps.dispatcher.ring(tenant, row.number, "project")


def _checked(lines: Iterable[bytes]) -> Iterator[Json]:
    digest, count, last = hashlib.sha256(), 0, None
    for line in lines:
        if last is not None:
            raise InvalidRequest("The bundle goes on behind its seal.", path="bundle")
        try:
            value = parse_json(line)
        except (ValueError, RecursionError):
            raise InvalidRequest(f"Line {count + 1} of the bundle is no JSON.", path=f"line {count + 1}") from None
        if not isinstance(value, dict) or (count == 0 and value.get("format") != FORMAT):
            raise InvalidRequest("This is no bundle of promptctx.", path="line 1")
        if count == 0 and value.get("version") != VERSION:
            raise InvalidRequest(
                f"A bundle of version {value.get('version')}; this server reads {VERSION}.", path="version"
            )
        if "sha256" in value:
            last = value
            continue
        _check(value, count + 1)
        digest.update(line if line.endswith(b"\n") else line + b"\n")
        count += 1
        yield value
    if last is None or last != {"sha256": digest.hexdigest(), "lines": count}:
        raise InvalidRequest("The bundle's hash does not fit its content: it was cut off or changed.", path="sha256")


def _check(value: Json, number: int) -> None:
    """What a line must hold by its kind; those of kinds that a later release may add are passed over."""
    if number == 1:
        check(Head, value, number)
    elif "event" in value:
        check(EventLine, value["event"], number)
    elif "stream" in value:
        check(StreamLine, value, number)
    elif value.get("document") is not None:
        check(DocumentLine, value["document"], number)
        bundled_documents.check(value["document"], number)
    elif value.get("prompt") is not None:
        check(PromptLine, value["prompt"], number)


def _restore_stream(
    deps: Deps, unit: Unit, tenant: str, found: list[Json], texts: Mapping[str, str]
) -> tuple[int, int]:
    """How many events and documents of it are new."""
    head, events = found[0], [_event(one) for one in found[1:]]
    name = str(head["stream"])
    if len({one.key for one in events}) < len(events):
        raise InvalidRequest(f"An event occurs twice in the stream {name!r}.", path="event")
    kind, _, rest = name.partition("/")
    if kind not in ("session", "subject", "tenant", "audit") or not rest or "/" in rest:
        raise InvalidRequest(f"No stream of a session is called {name!r}.", path="stream")
    row = streams.lock(unit, tenant, name, deps.clock.now())
    there = log.after(unit, tenant, row.number, 0, len(events)) if row.head else []
    if there:
        same = [(one.key, one.payload_hash) for one in there] == [(one.key, one.payload_hash) for one in events]
        if not same:
            sentence = (
                f"The stream {name!r} is here already, with other events: import the bundle into an empty server."
            )
            raise InvalidRequest(sentence, path="stream")
        return 0, 0
    if not events:
        return 0, 0
    home = streams.get(unit, tenant, f"session/{rest}") if kind == "audit" else None
    subject = (home.about if home else head["about"]).get("subject")
    digest = log.restore(unit, row, events, owner(name, subject))
    streams.move(unit, row, len(events), digest, head["about"], events[-1].recorded_at)
    if kind != "audit":
        work.want(unit, tenant, row.number, "project", len(events))
    return len(events), bundled_documents.restore(unit, row, events, texts) if kind == "session" else 0


def _event(told: Json) -> StoredEvent:
    try:
        payload = canonical_json(told["payload"]) if "payload" in told else None
        salt = bytes.fromhex(told["salt"]) if "salt" in told else None
        more: Any = {name: told.get(name) for name in ENVELOPE}
        event = StoredEvent(
            seq=told["seq"], key=log.pack_id(told["event_id"]), kind=told["kind"], payload=payload, salt=salt,
            payload_hash=bytes.fromhex(told["payload_hash"]), digest=b"",
            **more,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest("An event of the bundle lacks something or is malformed.", path="event") from None
    if payload is not None and payload_hash(salt or b"", payload) != event.payload_hash:
        raise InvalidRequest(f"The event at seq {event.seq} is not the one that was hashed.", path=f"event {event.seq}")
    return event


def _restore_prompt(unit: Unit, tenant: str, session: str, told: Json) -> int:
    home = session_row(unit, tenant, session)
    if snapshots.get(unit, tenant, told["id"]) is not None:
        return 0
    if snapshots.by_version(unit, tenant, home.number, told["version"]) is not None:
        raise InvalidRequest(f"There is another prompt of version {told['version']} here.", path="prompt")
    if "payload" in told["body"] and content_hash(told["body"]["payload"]) != told["content_hash"]:
        raise InvalidRequest(f"Version {told['version']} is not the one that was hashed.", path="prompt")
    names = ("id", "version", "parent", "view", "about", "content_hash", "created_at")
    row = SnapshotRow(tenant=tenant, stream=home.number, redacted_at=None, **{name: told[name] for name in names})
    try:
        content = snapshots.packed((row.tenant, row.stream), told["layout"], told["body"], {})
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest(
            f"Version {row.version} of the bundle has no report of its units.", path="prompt"
        ) from None
    snapshots.put(unit, row, None, content)
    streams.raise_version(unit, home, row.version)
    return 1
