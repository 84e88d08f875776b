"""Events on their way in: from what a caller sent to what the log can store, or a refusal that names the field."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import uuid_utils

from domain.appending import refuse_empty
from domain.canonical import canonical_json
from domain.errors import InvalidEvent, InvalidRequest, PayloadTooLarge
from domain.events import (
    PAYLOADS,
    AnyPayload,
    Event,
    EventRedacted,
    SessionStarted,
    dump_payload,
    parse_payload,
    stream_of,
)  # fmt: skip
from workers.clock import parse_time
from workers.store.log import NewEvent, pack_id, unpack_id

Place = Literal["session", "subject", "tenant", "audit"]

MAX_NAME = 200
MAX_BATCH = 10_000

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch

_LIKE_A_PROMPT = re.compile("@[0-9]+\\Z").search
_UNFIT = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\udfff]").search
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]").search

_BARE = frozenset({"kind", "payload", "event_id", "schema_version"})
_KNOWN_FIELDS = frozenset(
    {
        "kind", "payload", "event_id", "schema_version", "occurred_at", "actor", "run_id", "causation_id",
        "correlation_id",
    }
)  # fmt: skip


@dataclass(slots=True)
class Incoming:
    """One event that a caller sent, checked."""

    event: NewEvent
    event_id: str
    payload: AnyPayload
    place: Place
    redacts: bytes | None = None

    def as_fact(self, seq: int) -> Event:
        """As the fold would meet it, were it written at that seq."""
        event = self.event
        run, cause = event.run_id, event.causation_id
        return Event(self.event_id, seq, event.kind, self.payload, 0, None, event.actor, run, cause)


def checked_name(name: object, what: str, error: type[InvalidEvent] | type[InvalidRequest] = InvalidRequest) -> str:
    """A name that may stand in keys and addresses: 1..200 characters, no control characters, no slash."""
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME and not _UNFIT(name):
        return name
    raise error(f"{what}: 1 to {MAX_NAME} characters, no control characters, no '/'.", path=what)


def checked_new(session: str) -> None:
    """Raises InvalidRequest for an id that no new session may have; sessions that have one already keep it."""
    if session in (".", ".."):
        raise InvalidRequest(
            f"session: a session cannot be called {session!r}: in an address that is a folder; choose another id.",
            path="session",
        )
    if _LIKE_A_PROMPT(session):
        raise InvalidRequest(
            f"session: {session!r} ends as SESSION@VERSION does, which names a prompt; choose an id that does not end"
            " in '@' and a number.",
            path="session",
        )


def is_uuid(name: object) -> bool:
    """Whether it is an id of ours: jobs and prompts are looked up by nothing else."""
    return isinstance(name, str) and _UUID(name) is not None


def read_drafts(wire: Sequence[Any], limit: int, *, trusted: bool = False) -> list[Incoming]:
    """All events of one call. `trusted` ones were made by the server and may be larger."""
    if not isinstance(wire, list | tuple) or not wire:
        raise InvalidEvent("events: send one event or a list of at least one.", path="events")
    if len(wire) > MAX_BATCH:
        raise InvalidEvent(f"events: at most {MAX_BATCH} in one call.", path="events")
    if len(wire) == 1:
        return [read_draft(wire[0], limit, trusted=trusted)]
    found = []
    for index, one in enumerate(wire):
        try:
            found.append(read_draft(one, limit, trusted=trusted))
        except (InvalidEvent, PayloadTooLarge) as error:
            details = {**error.details, "index": index}
            raise type(error)(f"events.{index}: {error.message}", **details) from None
    return found


def read_draft(wire: Any, limit: int, *, trusted: bool = False) -> Incoming:
    if type(wire) is not dict and not isinstance(wire, Mapping):
        raise InvalidEvent("An event is a JSON object with at least a `kind`.", path="event")
    if not wire.keys() <= _KNOWN_FIELDS:
        extra = min(map(str, wire.keys() - _KNOWN_FIELDS))
        raise InvalidEvent(f"{extra}: no such field of an event; content goes into `payload`.", path=extra)
    kind = _kind(wire.get("kind"))
    payload = _payload(kind, wire)
    refuse_empty(payload)
    body = _body(kind, payload, limit, trusted)
    key = _key(wire.get("event_id"), "event_id")
    event = NewEvent(key, kind, payload.schema_version, body)
    if not wire.keys() <= _BARE:
        _read_envelope(event, wire)
    redacts = _key(payload.event_id, "payload.event_id") if type(payload) is EventRedacted else None
    return Incoming(event, unpack_id(key), payload, stream_of(kind, payload), redacts)


def _read_envelope(event: NewEvent, wire: Mapping[str, Any]) -> None:
    causation = wire.get("causation_id")
    event.occurred_at = parse_time(wire.get("occurred_at"), "occurred_at")
    event.actor = _short(wire.get("actor"), "actor")
    event.run_id = _short(wire.get("run_id"), "run_id")
    event.causation_id = unpack_id(_key(causation, "causation_id")) if causation is not None else None
    event.correlation_id = _short(wire.get("correlation_id"), "correlation_id")


def _kind(kind: Any) -> str:
    if type(kind) is str and kind in PAYLOADS:
        return kind
    if not isinstance(kind, str):
        raise InvalidEvent("kind: every event names its kind, as in user.input.", path="kind")
    return checked_name(kind, "kind", InvalidEvent)


def _payload(kind: str, wire: Mapping[str, Any]) -> AnyPayload:
    version = wire.get("schema_version", 1)
    if type(version) is not int or not 1 <= version < 2**31:
        raise InvalidEvent("schema_version: a whole number from 1 on.", path="schema_version")
    try:
        payload = parse_payload(kind, version, wire.get("payload", {}))
    except InvalidEvent:
        if path := _not_finite(wire.get("payload"), "payload"):
            raise _no_number(kind, path) from None
        raise
    except RecursionError:
        raise _too_deep(kind) from None
    if type(payload) is SessionStarted:  # Asking by `isinstance`, a model takes as long as to validate a small one.
        for name in ("subject", "parent"):
            if getattr(payload, name) is not None:
                checked_name(getattr(payload, name), f"payload.{name}", InvalidEvent)
    return payload


def _body(kind: str, payload: AnyPayload, limit: int, trusted: bool) -> bytes:
    data = dump_payload(payload)
    try:
        body = canonical_json(data)
    except ValueError:
        raise _no_number(kind, _not_finite(data, "payload") or "payload") from None
    except TypeError:
        raise InvalidEvent(f"{kind}: payload: not a JSON value.", path="payload", kind=kind) from None
    except RecursionError:
        raise _too_deep(kind) from None
    if len(body) > limit and not trusted:
        raise PayloadTooLarge(
            f"{kind}: the payload has {len(body)} bytes, the limit is {limit}; upload long material as a document: "
            "`document(path_or_text)` of a session of the client, PUT /v1/sessions/{id}/documents/{doc} over HTTP.",
            size=len(body), limit=limit, kind=kind, upload="/v1/sessions/{id}/documents/{doc}",
        )  # fmt: skip
    return body


def _too_deep(kind: str) -> InvalidEvent:
    return InvalidEvent(f"{kind}: payload: nested too deeply.", path="payload", kind=kind)


def _no_number(kind: str, path: str) -> InvalidEvent:
    return InvalidEvent(f"{kind}: {path}: NaN and Infinity are not JSON; send null or a number.", path=path, kind=kind)


def _not_finite(data: Any, path: str) -> str | None:
    """The path of the first number that is no JSON."""
    if isinstance(data, float) and not math.isfinite(data):
        return path
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list | tuple) else ()
    return next((found for key, item in pairs if (found := _not_finite(item, f"{path}.{key}"))), None)


def _key(event_id: Any, path: str) -> bytes:
    if event_id is None:
        return uuid_utils.uuid7().bytes
    try:
        return pack_id(event_id)
    except (ValueError, AttributeError, TypeError):
        raise InvalidEvent(f"{path}: must be a UUID.", path=path) from None


def _short(value: Any, path: str) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= MAX_NAME and not _CONTROL(value)):
        return value
    raise InvalidEvent(f"{path}: at most {MAX_NAME} characters without control characters.", path=path)
