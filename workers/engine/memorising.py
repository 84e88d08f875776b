"""Memorising: what is decided about memories is written as events, in the light of what is held when it is written.

Events that are written here stand in the stream of a memory's scope with the event that caused them. Their ids follow
from what they were made from, so that whoever comes second finds them there and writes nothing.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from domain.canonical import canonical_json
from domain.errors import StoreUnavailable
from domain.events import Payload, Scope, dump_payload
from domain.history import effective
from domain.memorising.deciding import RULES, Candidate, Decision, Method, decide, decide_all, payloads
from domain.memorising.noticing import notices
from domain.rows import Memory
from domain.state import ContextState
from workers import faults
from workers.engine.deps import Deps
from workers.engine.leases import Outcome, keep, settle
from workers.engine.project import catch_up
from workers.engine.prompts import NAMESPACE
from workers.engine.reading import owner, subject_stream
from workers.store import Unit, log, models, streams, work
from workers.store.log import NewEvent
from workers.store.streams import StreamRow
from workers.store.work import Claim

BATCH = 200
MOVED = 20
"""Times that a writer begins anew because the stream moved meanwhile."""

ACTOR = "memory"

Choose = Callable[[Sequence[Memory], Candidate, int], Decision]
Make = Callable[[Unit, StreamRow, ContextState], Sequence[NewEvent]]


@dataclass(frozen=True, slots=True)
class Told:
    """A candidate, and the seq of the session's event that it was told in."""

    candidate: Candidate
    seq: int


@dataclass(frozen=True, slots=True)
class Written:
    """A decision that was carried out, with the ids of its events."""

    decision: Decision
    memory_id: str
    events: tuple[str, ...]


def memorise(
    deps: Deps, tenant: str, session: str, told: Sequence[Told], by: Method = RULES, choose: Choose = decide
) -> list[Written]:
    """Decide about candidates of a session and write down what was decided; those that it was written about before, or
    whose source was taken back or erased, are left out. `choose` may heed what a model proposed."""
    found: list[Written] = []
    for scope in ("session", "subject", "tenant"):
        chosen = [one for one in told if one.candidate.scope == scope]
        if chosen:
            found += _memorise(deps, tenant, session, scope, chosen, by, choose)
    return found


def _memorise(
    deps: Deps, tenant: str, session: str, scope: Scope, told: Sequence[Told], by: Method, choose: Choose
) -> list[Written]:
    written: list[Written] = []

    def make(unit: Unit, home: StreamRow, state: ContextState) -> list[NewEvent]:
        written.clear()
        name = _stream(home, scope)
        new = _new(unit, home, name, told, by)
        events: list[NewEvent] = []
        at = deps.clock.now()
        seqs = {memory_id: one.seq for one, memory_id in new}
        candidates = [(one.candidate, memory_id) for one, memory_id in new]
        for decision, memory_id in decide_all(state.rows("memories"), candidates, at, choose):
            made = [
                _event(payload, f"{memory_id}/{payload.kind}", decision, home, name, seqs[memory_id])
                for payload in payloads(decision, memory_id, by)
            ]
            events += made
            written.append(Written(decision, memory_id, tuple(log.unpack_id(one.key) for one in made)))
        return events

    with deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, f"session/{session}")
    if home is not None:
        append_to(deps, tenant, _stream(home, scope), make, home.stream_id)
    return written


def _stream(home: StreamRow, scope: Scope) -> str:
    names = {"session": home.stream_id, "tenant": "tenant/shared"}
    return names.get(scope) or subject_stream(home.name, home.about.get("subject"))


def _new(unit: Unit, home: StreamRow, name: str, told: Sequence[Told], by: Method) -> list[tuple[Told, str]]:
    """The candidates that are to be decided, each with the id that its memory would have."""
    places: dict[str, int] = {}
    named: list[tuple[Told, str]] = []
    for one in told:
        source = "/".join(one.candidate.derived_from)
        place = places[source] = places.get(source, 0) + 1
        named.append((one, str(uuid.uuid5(NAMESPACE, f"memory/{name}/{by.name}/{source}/{place}"))))
    keys = {memory_id: event_key(f"{memory_id}/memory.decided").bytes for _, memory_id in named}
    known = log.known(unit, home.tenant, [name], list(keys.values()))
    gone = _out_of_force(unit, home)
    return [(one, memory_id) for one, memory_id in named if keys[memory_id] not in known and one.seq not in gone]


def _out_of_force(unit: Unit, home: StreamRow) -> set[int]:
    """The seqs of a session that were taken back or erased by now."""
    if not log.refolds(unit, home.tenant, home.number):
        return set()
    in_force = effective(log.headers(unit, home.tenant, home.number, log.NO_END))
    return set(range(1, home.head + 1)) - set(in_force)


def event_key(name: str) -> uuid.UUID:
    return uuid.uuid5(NAMESPACE, f"memory/{name}")


def _event(
    payload: Payload, name: str, decision: Decision, home: StreamRow, stream: str, seq: int
) -> NewEvent:  # fmt: skip
    sources = decision.candidate.derived_from
    event = new_event(payload, event_key(name), causation_id=sources[0] if sources else None)
    return event if stream == home.stream_id else replace(event, origin=f"{home.stream_id}@{seq}")


def new_event(
    payload: Payload, key: uuid.UUID, *, causation_id: str | None = None, correlation_id: str | None = None,
    actor: str = ACTOR,
) -> NewEvent:  # fmt: skip
    return NewEvent(
        key.bytes, payload.kind, payload.schema_version, canonical_json(dump_payload(payload)), actor=actor,
        causation_id=causation_id, correlation_id=correlation_id,
    )  # fmt: skip


# Writing --------------------------------------------------------------------------------------------------------------


def append_to(deps: Deps, tenant: str, name: str, make: Make, session: str | None = None) -> list[NewEvent]:
    """Append to a stream what `make` makes of its state, which is that at its head. `make` is given the row of the
    `session` that it is for, locked first as every append does, else that of the stream; it may be called again."""
    for _ in range(MOVED):
        state, head = state_of(deps, tenant, name)
        with deps.database.write(tenant) as unit:
            now = deps.clock.now()
            home = streams.lock(unit, tenant, session or name, now)
            row = home if session in (None, name) else streams.lock(unit, tenant, name, now)
            new = list(make(unit, home, state)) if row.head == head else None
            if new:
                _append(unit, row, new, max(now, row.updated_at))
            faults.point("memorise.before_commit")
        if new is not None:
            if new:
                deps.database.grown(len(new))
                deps.dispatcher.ring(tenant, row.number, "project")
            return new
    raise StoreUnavailable("The memory moves faster than it can be decided about; try again.")


def _append(unit: Unit, row: StreamRow, new: Sequence[NewEvent], at: int) -> None:
    head = row.head + len(new)
    digest = log.write(unit, row, new, at, owner(row.stream_id, row.about.get("subject")))
    if not streams.move(unit, row, head, digest, row.about, at):
        raise StoreUnavailable("The stream's head moved under its lock; try again.")
    work.want(unit, row.tenant, row.number, "project", head)


def state_of(deps: Deps, tenant: str, name: str) -> tuple[ContextState, int]:
    """The small tables of a stream at its head, and that head."""
    while True:
        with deps.database.read(tenant) as unit:
            row = streams.get(unit, tenant, name)
        if row is None or not row.head:
            return ContextState(), 0
        catch_up(deps, tenant, row.number, row.head)
        with deps.database.read(tenant) as unit:
            checkpoint = models.checkpoint(unit, tenant, row.number)
            if checkpoint.seq == row.head:
                return models.load(unit, tenant, row.number, checkpoint.generation), row.head


# By rules -------------------------------------------------------------------------------------------------------------


def remember(deps: Deps, claimed: Claim, session: str) -> Outcome:
    """What the events of a session tell since it was last looked at, by rules."""
    tools: dict[str, str] = {}
    done = claimed.done_seq
    while True:
        with deps.database.read(claimed.tenant) as unit:
            # To the head, whatever was wanted: while the row waited, more came that it was not told of.
            stored = log.after(unit, claimed.tenant, claimed.stream, done, BATCH)
        events = list(map(log.fact, stored))
        for event in events:
            tools |= {call.id: call.name for call in getattr(event.payload, "tool_calls", ())}
        told = [Told(one, event.seq) for event in events for one in notices(event, deps.memory_rules, tools)]
        if told:
            memorise(deps, claimed.tenant, session, told)
        done = events[-1].seq if events else done
        last = len(events) < BATCH
        with deps.database.write(claimed.tenant) as unit:
            outcome = (settle if last else keep)(unit, claimed, max(done, claimed.wanted_seq) if last else done)
        if last:
            return outcome
