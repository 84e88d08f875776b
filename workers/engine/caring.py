"""Care for what is remembered: consolidation, forgetting, undoing and importing, each by events that name their change.

Nobody waits for a session here: what is written goes to the stream of the subject, or to that of the tenant.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from domain.errors import InvalidRequest, PayloadTooLarge, UnknownMemory
from domain.events import BlockDefined, ContextRolledBack, MemoryRecorded, MemoryRetracted, Payload, ProfileSet
from domain.history import effective
from domain.masking import masking
from domain.memorising.caring import Step, carried_out, plan
from domain.memorising.current import in_force
from domain.memorising.deciding import Candidate, Method, decide_all, payloads
from domain.state import ContextState
from domain.timemachine.undoing import Compensation, compensation
from workers.engine.deps import Deps
from workers.engine.memorising import append_to, event_key, new_event, state_of
from workers.engine.remembered import FORMAT, shown, stream_name
from workers.engine.undoing import SHARED, told
from workers.store import Unit, log
from workers.store.log import NewEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

P = TypeVar("P", bound=Payload)

MOST = 10_000
"""Memories that one import may hold."""

IMPORT = Method("import")


def care(deps: Deps, tenant: str, subject: str, scope: str, *, dry_run: bool) -> Json:
    """Merge what says the same and end what is over; `dry_run` tells what that would be."""
    name = stream_name(subject, scope)
    if dry_run:
        state, _ = state_of(deps, tenant, name)
        steps = plan(state.rows("memories"), deps.clock.now(), deps.lifetimes)
        return {"subject": subject, "dry_run": True, "change": None, "steps": _steps(deps, steps)}
    change, steps = care_for(deps, tenant, name)
    return {"subject": subject, "dry_run": False, "change": change, "steps": _steps(deps, steps)}


def care_for(deps: Deps, tenant: str, name: str) -> tuple[str | None, list[Step]]:
    """Carry out what is to be done for a stream; the change by which it can be undone, and what it was."""
    done: list[Step] = []
    changes: list[str] = []

    def make(unit: Unit, row: StreamRow, state: ContextState) -> list[NewEvent]:
        done[:] = plan(state.rows("memories"), deps.clock.now(), deps.lifetimes)
        changes[:] = [str(event_key(f"care/{name}/{row.head}"))]
        made = []
        for place, step in enumerate(done):
            key = event_key(f"{changes[0]}/{place}")
            made.append(new_event(carried_out(step, str(key)), key, correlation_id=changes[0]))
        return made

    append_to(deps, tenant, name, make)
    return (changes[0], done) if done else (None, [])


def _steps(deps: Deps, steps: Sequence[Step]) -> list[Json]:
    now = deps.clock.now()
    return [
        {"act": step.act, "reason": step.reason, "memories": [shown(one, now) for one in step.memories]}
        for step in steps
    ]


def forget(deps: Deps, tenant: str, subject: str, memory: str, scope: str, reason: str, actor: str | None) -> Json:
    """End a memory. It stays in the log, and `undo` brings it back; to erase what it says, redact its event."""
    name = stream_name(subject, scope)
    found: list[bool] = []

    def make(unit: Unit, row: StreamRow, state: ContextState) -> list[NewEvent]:
        held = state.tables["memories"].get(memory)
        found[:] = [held is not None]
        if held is None or not in_force(held, deps.clock.now()):
            return []
        told = MemoryRetracted(id=memory, scope="tenant" if scope == "tenant" else "subject", reason=reason)
        key = event_key(f"forget/{name}/{row.head}")
        return [new_event(told, key, correlation_id=str(key), actor=actor or "operator")]

    made = append_to(deps, tenant, name, make)
    if not found[0]:
        raise UnknownMemory(f"No memory {memory!r} of {subject!r}; `promptctx memory` lists them.", memory=memory)
    return {"subject": subject, "memory": memory, "change": log.unpack_id(made[0].key) if made else None}


def undo(deps: Deps, tenant: str, subject: str, scope: str, change: str) -> Json:
    """Take a change back: what `care`, `forget` or an import did, or any one event of the stream by its id. What a
    newer event is about stays as that says, and is told as a conflict."""
    name = stream_name(subject, scope)
    found: list[Compensation] = []

    def make(unit: Unit, row: StreamRow, state: ContextState) -> list[NewEvent]:
        found[:] = [_taken_back(unit, row, change)]
        undone = found[0].undone
        if not undone:
            return []
        ids, first = tuple(event.event_id for event in undone), min(event.seq for event in undone)
        payload = ContextRolledBack(to_seq=first - 1, undoes=ids, reason=f"undo of {change}")
        key = event_key(f"undo/{name}/{row.head}")
        return [new_event(payload, key, correlation_id=str(key), actor="operator")]

    made = append_to(deps, tenant, name, make)
    return {"subject": subject, "change": log.unpack_id(made[0].key) if made else None, **told(found, masking(()))}


def _taken_back(unit: Unit, row: StreamRow, change: str) -> Compensation:
    in_force = set(effective(log.headers(unit, row.tenant, row.number, log.NO_END)))
    stored = [one for one in log.since(unit, row.tenant, row.number, 0) if one.seq in in_force]
    events = [log.fact(one) for one in stored if one.kind.startswith(SHARED)]
    wrote = [event for event in events if change in (event.event_id, event.correlation_id)]
    return compensation(wrote, events)


# Import ---------------------------------------------------------------------------------------------------------------


def restore(deps: Deps, tenant: str, subject: str, data: Mapping[str, Any]) -> Json:
    """What an export holds and is current there, decided about one by one; the same again changes nothing."""
    name = stream_name(subject)
    candidates = list(_candidates(data))
    others = _others(data)
    told: list[Json] = []
    changes: list[str] = []

    def make(unit: Unit, row: StreamRow, state: ContextState) -> list[NewEvent]:
        told.clear()
        # Of where it stands, not of what it holds: what was undone may be imported again.
        changes[:] = [change := str(event_key(f"import/{name}/{row.head}"))]
        made: list[NewEvent] = []
        named = [(one, str(event_key(f"{change}/{place}"))) for place, one in enumerate(candidates)]
        for decision, memory_id in decide_all(state.rows("memories"), named, deps.clock.now()):
            about = decision.about.id if decision.about else None
            told.append({"act": decision.act, "reason": decision.reason, "text": decision.candidate.text,
                         "memory": memory_id if decision.act in ("ADD", "UPDATE") else about})  # fmt: skip
            if decision.act != "NONE":
                made += [_imported(one, memory_id, change) for one in payloads(decision, memory_id, IMPORT)]
        for place, other in enumerate(others):
            if not _held(state, other):
                made.append(_imported(other, f"{change}/other/{place}", change))
        _check_sizes(made, deps.payload_limit)
        return made

    made = append_to(deps, tenant, name, make)
    return {"subject": subject, "change": changes[0] if made else None, "events": len(made), "decisions": told}


def _check_sizes(made: Sequence[NewEvent], limit: int) -> None:
    if size := max((len(one.payload) for one in made if len(one.payload) > limit), default=0):
        raise PayloadTooLarge(f"A memory of {size} bytes is over the limit of {limit}.", size=size, limit=limit)


def _imported(payload: Payload, name: str, change: str) -> NewEvent:
    return new_event(payload, event_key(f"{name}/{payload.kind}/import"), correlation_id=change, actor="importer")


_FIELDS = frozenset(MemoryRecorded.model_fields) - {"supersedes", "scope"}


def _candidates(data: Mapping[str, Any]) -> Sequence[Candidate]:
    if data.get("format") != FORMAT:
        raise InvalidRequest(f"format: an export of memories says {FORMAT!r}.", path="format")
    rows = data.get("memories")
    if not isinstance(rows, list) or len(rows) > MOST:
        raise InvalidRequest(f"memories: a list of at most {MOST}.", path="memories")
    found = []
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidRequest(f"memories.{place}: an object.", path=f"memories.{place}")
        if row.get("current", True) is True:
            read = _read(MemoryRecorded, {key: row[key] for key in row if key in _FIELDS}, f"memories.{place}")
            fields = read.model_dump(exclude={"id", "supersedes", "scope"})
            found.append(Candidate(**fields))
    return found


def _others(data: Mapping[str, Any]) -> list[Payload]:
    made: list[Payload] = []
    for name, model in (("profile", ProfileSet), ("blocks", BlockDefined)):
        rows = data.get(name, [])
        if not isinstance(rows, list) or len(rows) > MOST:
            raise InvalidRequest(f"{name}: a list of at most {MOST}.", path=name)
        made += [_read(model, row, f"{name}.{place}") for place, row in enumerate(rows)]
    return made


def _read(model: type[P], row: Any, path: str) -> P:
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join((path, *map(str, first["loc"])))
        raise InvalidRequest(f"{where}: {first['msg']}.", path=where) from None


def _held(state: ContextState, other: Payload) -> bool:
    """Whether the subject has it already; a block that is read-only stays as it is."""
    if isinstance(other, BlockDefined):
        block = state.tables["blocks"].get(other.label)
        return block is not None and (block.read_only or block.text == other.text)
    field = state.tables["profile"].get(other.key) if isinstance(other, ProfileSet) else None
    return field is not None and isinstance(other, ProfileSet) and field.value == other.value


def is_change(name: object) -> bool:
    try:
        return isinstance(name, str) and bool(uuid.UUID(name))
    except ValueError:
        return False
