"""References: what left the window comes back by its number. `e42` is the event at seq 42, anything else a document.

The slice is read when the event is appended and stored in it, so that a replay reads the log alone.
"""

import re
from collections.abc import Sequence
from typing import Any

from domain.errors import InvalidEvent, UnknownDocument, UnknownSession
from domain.events import AssistantOutput, Event, ReferenceExpanded, TextPart, ToolResult, UserInput
from workers.engine import documents
from workers.engine.deps import Deps
from workers.store import log, streams

_OF_EVENT = re.compile(r"e([1-9][0-9]{0,14})")


def filled(deps: Deps, tenant: str, session: str, wire: Sequence[Any]) -> Sequence[Any]:
    """The events as they came, each `reference.expanded` without content with the slice that it asks for."""
    if not isinstance(wire, list | tuple) or not any(map(_asks, wire)):
        return wire
    return [
        {**one, "payload": _with_slice(deps, tenant, session, one["payload"])} if _asks(one) else one for one in wire
    ]


def _asks(one: Any) -> bool:
    if not isinstance(one, dict) or one.get("kind") != ReferenceExpanded.kind:
        return False
    payload = one.get("payload")
    return isinstance(payload, dict) and isinstance(payload.get("reference_id"), str) and not payload.get("content")


def _with_slice(deps: Deps, tenant: str, session: str, payload: dict[str, Any]) -> dict[str, Any]:
    start, end = payload.get("start", 0), payload.get("end")
    if type(start) is not int or start < 0 or (end is not None and (type(end) is not int or end < start)):
        raise InvalidEvent("payload.start: character offsets, from 0 on and in order.", path="payload.start")
    return {**payload, "content": expand(deps, tenant, session, payload["reference_id"], start, end)}


def expand(deps: Deps, tenant: str, session: str, reference_id: str, start: int = 0, end: int | None = None) -> str:
    """A slice by characters of what a reference stands for. Raises InvalidEvent naming the reference."""
    try:
        text = _event_text(deps, tenant, session, reference_id)
        if text is None:
            return documents.get(deps, tenant, session, reference_id, start, end)
        return text[start:end]
    except (UnknownDocument, UnknownSession):
        sentence = f"payload.reference_id: {_why_not(deps, tenant, session, reference_id)}"
        raise InvalidEvent(sentence, path="payload.reference_id") from None


def _why_not(deps: Deps, tenant: str, session: str, reference_id: str) -> str:
    """What became of a reference that cannot be expanded: its user may have seen it when it still could."""
    found, name = _event(deps, tenant, session, reference_id), repr(reference_id[:80])
    if found is None:
        return f"nothing stands under {name} in this session; expand one that a prompt of it names."
    if found.redacted:
        return f"what stood under {name} was erased from the log for good; go on without it."
    return f"{name} is the event {found.kind}, which has no text; only messages and documents can be expanded."


def _event_text(deps: Deps, tenant: str, session: str, reference_id: str) -> str | None:
    """The text of a message by its seq; None for what is no number of a message."""
    found = _event(deps, tenant, session, reference_id)
    payload = found.payload if found else None
    if not isinstance(payload, ToolResult | UserInput | AssistantOutput):
        return None
    return "\n".join(part.text for part in payload.content if isinstance(part, TextPart))


def _event(deps: Deps, tenant: str, session: str, reference_id: str) -> Event | None:
    found = _OF_EVENT.fullmatch(reference_id)
    if found is None:
        return None
    with deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, f"session/{session}")
        stored = log.at(unit, tenant, home.number, [int(found[1])]) if home else ()
    return log.fact(stored[0]) if stored else None
