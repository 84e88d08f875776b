"""State: what a restarted agent needs to go on."""

from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from domain.masking import masked_value, masker
from domain.modes import SLOTS
from domain.slots import Facts, SlotItem, offered
from domain.state import ContextState
from domain.wording import WORDINGS
from workers.engine import contexts, requests
from workers.engine.contexts import Pins
from workers.engine.deps import Deps
from workers.engine.reading import session_row

Json = dict[str, Any]


def state(deps: Deps, tenant: str, session: str) -> Json:
    """The session as it is at its head, with everything appended so far."""
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        pinned = requests.pin(unit, home)
    states = contexts.states(deps, Pins(tenant, requests.read_body({}).request, pinned.heads, pinned.newest))
    own, subject, shared, *parents = states
    info = own.one("session")
    words = WORDINGS[(info and info.locale) or deps.locale]
    facts = Facts(own, subject, shared, tuple(parents), (), "", pinned.newest, words)
    told = {
        "session": session,
        "head": home.head,
        "seq": pinned.heads["session"]["seq"],
        "slots": {slot: [_item(item) for item in offered(slot, facts)] for slot in SLOTS},
        "plan": plain(own.one("plan")),
        "open_calls": [plain(row) for row in own.rows("open_calls") if not row.dead],
        "anchors": _anchors(own),
        "run": plain(next(reversed(own.rows("runs")), None)),
        "instruction": plain(own.one("instruction")),
    }
    masked = masked_value(told, masker(own))
    assert isinstance(masked, dict)
    return masked


def _item(item: SlotItem) -> Json:
    found: Json = {"key": item.key, "text": item.text, "events": list(item.events)}
    for name in ("score", "category"):
        if getattr(item, name) is not None:
            found[name] = getattr(item, name)
    return found


def _anchors(own: ContextState) -> Json:
    system, business = own.one("instruction"), own.one("business")
    return {
        name: {"event_id": row.event_id, "seq": row.seq, "version": row.version} if row else None
        for name, row in (("system", system), ("business", business))
    }


def plain(row: Any) -> Any:
    """A row as JSON."""
    if isinstance(row, BaseModel):
        return row.model_dump()
    if is_dataclass(row) and not isinstance(row, type):
        return {field.name: plain(getattr(row, field.name)) for field in fields(row)}
    if isinstance(row, dict):
        return {key: plain(value) for key, value in row.items()}
    if isinstance(row, list | tuple):
        return [plain(value) for value in row]
    return row
