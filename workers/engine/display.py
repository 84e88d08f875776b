"""What people are shown of a log: marked secrets and known key formats are masked. The log keeps them."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from domain.canonical import parse_json
from domain.masking import MASK, Masker, masked_value, masking
from workers.store import Unit, log, models
from workers.store.log import StoredEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

TAIL = 1000
"""Events behind the checkpoint that are looked through for marks of secrets: what is not projected yet."""

_MARKING = "tool.environment"


def mask_of(unit: Unit, home: StreamRow, page: Sequence[StoredEvent]) -> Masker:
    """Masks what is marked as a secret in the session, in what is not projected yet, and in the page itself."""
    checkpoint = models.checkpoint(unit, home.tenant, home.number)
    rows = models.named(unit, home.tenant, home.number, checkpoint.generation, "environment")
    secrets = [row.value for row in rows.values() if row.secret]
    tail = log.after(unit, home.tenant, home.number, checkpoint.seq, TAIL) if home.head > checkpoint.seq else []
    return masking([*secrets, *_marked_in(tail), *_marked_in(page)])


def masked_event(event: Json, mask: Masker) -> Json:
    """An event as the API tells it, masked; also values that a mask could not find in a text."""
    payload = event["payload"]
    if event["kind"] == _MARKING and isinstance(payload, dict):
        payload = {**payload, "values": {key: _value(one) for key, one in payload.get("values", {}).items()}}
    return {**event, "payload": masked_value(payload, mask)}


def _value(one: Any) -> Any:
    return {**one, "value": MASK} if isinstance(one, dict) and one.get("secret") else one


def _marked_in(events: Sequence[StoredEvent]) -> Iterator[JsonValue]:
    for event in events:
        if event.kind == _MARKING and event.payload is not None:
            values = parse_json(event.payload).get("values", {})
            yield from (one.get("value") for one in values.values() if isinstance(one, dict) and one.get("secret"))
