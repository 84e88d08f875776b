"""Append: one transaction that numbers the events, chains them, and asks for the work they cause."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from domain.errors import ConcurrencyConflict, EventConflict, Forbidden, InvalidEvent, StoreUnavailable
from domain.events import ContextRolledBack, EventRedacted, SessionForked, SessionStarted
from workers import faults, tracing
from workers.engine import closures, display, dumping, forking, guards, undoing
from workers.engine.closures import Erased
from workers.engine.deps import Deps
from workers.engine.drafts import Incoming, checked_name, checked_new, read_drafts
from workers.engine.reading import owner, subject_stream
from workers.store import Unit, acts, documents, log, snapshots, streams, work
from workers.store.log import Known, NewEvent
from workers.store.streams import StreamRow

Json = dict[str, Any]

_NO_RECEIPT = -1
"""The place among the receipts of an event that the caller did not send."""

MOVED = 20
"""Times that an append which had to look at the state first begins anew because the session moved meanwhile."""


def append(
    deps: Deps,
    tenant: str,
    session: str,
    wire: Sequence[Any],
    expected_seq: int | None = None,
    may_loosen: bool = True,
    *,
    by: str = acts.OPERATOR,
    trusted: bool = False,
) -> Json:
    """The receipts of the events, in order. All of them are in the log afterwards, or none. `by` is who may answer for
    what loosens rules or erases."""
    checked_name(session, "session")
    with tracing.span("append", tenant=tenant, session=session, events=len(wire)) as span:
        incoming = read_drafts(wire, deps.payload_limit, trusted=trusted)
        told = _append(deps, _Call(tenant, session, incoming, expected_seq, may_loosen, by))
        span.tell(head=told["head"])
    return told


@dataclass(frozen=True, slots=True)
class _Call:
    tenant: str
    session: str
    incoming: Sequence[Incoming]
    expected: int | None
    may_loosen: bool
    by: str


def _append(deps: Deps, call: _Call) -> Json:
    tenant = call.tenant
    for _ in range(MOVED):
        look = guards.check(deps, tenant, call.session, call.incoming, call.may_loosen)
        try:
            batch = _write(deps, call, look)
        except _Moved:
            continue
        for stream in batch.moved:
            deps.dispatcher.ring(tenant, stream, "project")
        faults.point("append.rung")
        dumping.forget_files(deps, tenant, batch.forgotten)
        batch.warn(look)
        return {"session": call.session, "head": batch.head, "events": batch.receipts}
    raise StoreUnavailable("The session moves faster than its rules can be checked; try again.")


NAMED = 100
"""Events that the account of an act names; it counts all."""


class _Moved(Exception):
    """What was checked is not what the event would meet."""


def _write(deps: Deps, call: _Call, look: guards.Look) -> "_Batch":
    faults.point("append.began")
    with deps.database.write(call.tenant) as unit:
        batch = _Batch(unit, call.tenant, call.session, deps.clock.now(), call.may_loosen)
        if batch.sort(call.incoming, call.expected) and look.seq is not None and look.seq != batch.began:
            raise _Moved
        batch.write()
        erased = [log.unpack_id(one.key) for one in batch.erased]
        for act, events in (("rules.loosened", look.loosening), ("events.erased", erased)):
            if events:
                about = {"session": call.session, "events": events[:NAMED], "count": len(events)}
                acts.note(unit, call.tenant, batch.now, call.by, act, about)
    faults.point("append.committed")
    deps.database.grown(len(batch.receipts))
    return batch


@dataclass(slots=True)
class _Target:
    """The events that go to one stream, with their places among the receipts."""

    events: list[NewEvent] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class _Batch:
    """The events of one call inside one write unit. Locks the session's row first, then the others by name."""

    def __init__(self, unit: Unit, tenant: str, session: str, now: int, may_loosen: bool) -> None:
        self.unit, self.tenant, self.session, self.now, self.may_loosen = unit, tenant, session, now, may_loosen
        self.home = streams.lock(unit, tenant, f"session/{session}", now)
        faults.point("append.locked")
        self.about: Mapping[str, Any] = self.home.about
        self.head = self.home.head
        if not self.head:
            checked_new(session)
        self.receipts: list[Json] = []
        self.moved: list[int] = []
        self.began = self.home.head
        self.erased: list[Erased] = []
        self.forgotten: list[str] = []
        self._targets: dict[str, _Target] = {}
        self._last: str | None = None
        self._echoes: list[tuple[int, int]] = []

    def sort(self, incoming: Sequence[Incoming], expected_seq: int | None) -> bool:
        """Tell new events from known ones, and give each its stream; whether any is new."""
        known = self._known(incoming)
        seen: dict[bytes, tuple[Incoming, int]] = {}
        for one in incoming:
            key = one.event.key
            if key in known:
                self.receipts.append(_repeated(one, known[key]))
            elif key in seen:
                self._twice(one, *seen[key])
            else:
                seen[key] = (one, len(self.receipts))
                closures.refuse_erased_sources(self.unit, self.home, one.payload)
                self._take(one, known)
        if seen and expected_seq is not None and expected_seq != self.began:
            raise ConcurrencyConflict(
                f"The session is at seq {self.began}, not at {expected_seq}; read what came and decide anew.",
                head=self.began, expected=expected_seq,
            )  # fmt: skip
        return bool(seen)

    def write(self) -> None:
        self._take_along()
        names = sorted(self._targets, key=lambda name: (name != self.home.stream_id, name))
        rows = [self.home if name == self.home.stream_id else self._open(name) for name in names]
        with self.unit.together():
            moved = [self._write(row, self._targets[row.stream_id]) for row in rows]
            self._want(rows)
        _check(moved)
        for place, first in self._echoes:
            self.receipts[place]["seq"] = self.receipts[first]["seq"]
        for erased in self.erased:
            log.erase(self.unit, self.tenant, erased.stream, erased.key)
            documents.drop(self.unit, self.tenant, erased.number, erased.seq)
            seq = erased.seq if erased.stream.startswith("session/") else None
            event_id = log.unpack_id(erased.key)
            self.forgotten += snapshots.erase_with(self.unit, self.tenant, erased.number, event_id, seq, self.now)
            self._erase_copies(erased.stream, erased.key)

    def _want(self, rows: Sequence[StreamRow]) -> None:
        for row in rows:
            if not row.stream_id.startswith("audit/"):
                head = row.head + len(self._targets[row.stream_id].events)
                work.want(self.unit, self.tenant, row.number, "project", head)
                self.moved.append(row.number)
        faults.point("append.after_work")

    def warn(self, look: guards.Look) -> None:
        """Tell with the receipts what was taken and hardly meant. What the log had already was told of before."""
        for receipt in self.receipts:
            told = look.warnings.get(receipt["event_id"])
            if told and not receipt["duplicate"]:
                receipt["warnings"] = told

    def _take_along(self) -> None:
        """What was made from what is erased goes too, each by a redaction of its own in the stream where it stands."""
        for found in closures.taken_along(self.unit, self.home, self.about.get("subject"), self.erased):
            target = self._targets.setdefault(found.erased.stream, _Target())
            target.events.append(found.redaction)
            target.places.append(_NO_RECEIPT)
            self.head += found.erased.stream == self.home.stream_id
            self.erased.append(found.erased)

    def _open(self, name: str) -> StreamRow:
        return streams.lock(self.unit, self.tenant, name, self.now)

    def _known(self, incoming: Sequence[Incoming]) -> dict[bytes, Known]:
        """What the log holds already under these ids, in any of the streams that this session's events go to."""
        held = subject_stream(self.session, self.about.get("subject"))
        told = {one.payload.subject for one in incoming if type(one.payload) is SessionStarted and one.payload.subject}
        subjects = sorted({held, *(subject_stream(self.session, name) for name in told)}) if told else [held]
        names = [self.home.stream_id, f"audit/{self.session}", *subjects, "tenant/shared"]
        keys = [one.event.key for one in incoming]
        keys += [one.redacts for one in incoming if one.redacts]
        return log.known(self.unit, self.tenant, names, keys)

    def _take(self, one: Incoming, known: Mapping[bytes, Known]) -> None:
        name = self._stream(one)
        event = one.event
        if one.redacts:
            erased = known.get(one.redacts)
            if erased is None:
                raise InvalidEvent("payload.event_id: no such event in this session.", path="payload.event_id")
            if erased.kind in ("context.rolled_back", "event.redacted"):
                sentence = f"payload.event_id: a {erased.kind} event cannot be erased: that would undo it."
                raise InvalidEvent(sentence, path="payload.event_id")
            if one.event.actor not in guards.TRUSTED_ACTORS:
                raise Forbidden("Erasing is for people: no agent, tool or importer may do it.", kind=one.event.kind)
            if erased.kind in ("constraint.set", "instruction.set") and guards.is_bound(one, self.may_loosen):
                raise Forbidden(f"Erasing a {erased.kind} event loosens the rules; that needs the scope `policy`.")
            # It stands in the stream of what it erases: the fold of that stream must meet it.
            name = erased.stream_id
            assert isinstance(one.payload, EventRedacted)
            self.erased.append(closures.erased(self.unit, self.home, erased, one.payload, one.event_id))
        if type(one.payload) is SessionForked:
            self._fork(one.payload)
        if name != self.home.stream_id:
            event = replace(
                event,
                origin=f"{self.home.stream_id}@{self.head}",
                causation_id=event.causation_id or self._cause(),
            )
        else:
            self.head += 1
            self._last = one.event_id
            if type(one.payload) is SessionStarted:
                self.about = {**self.about, **_about(one.payload)}
        target = self._targets.setdefault(name, _Target())
        target.events.append(event)
        target.places.append(len(self.receipts))
        self.receipts.append({"event_id": one.event_id, "seq": 0, "stream": name.split("/", 1)[0], "duplicate": False})
        if type(one.payload) is ContextRolledBack:
            self._take_back(one, one.payload)

    def _fork(self, told: SessionForked) -> None:
        """The session begins as its parent was."""
        forked = forking.fork(self.unit, self.home, told)
        self.home, self.about, self.head = forked.home, forked.home.about, forked.home.head
        self.moved += forked.moved

    def _take_back(self, one: Incoming, told: ContextRolledBack) -> None:
        """A rollback takes back what its session wrote into shared memory since, unless that is to be kept."""
        if told.undoes:
            raise InvalidEvent("payload.undoes: the server fills this in.", path="payload.undoes")
        if told.scope == "memory_kept":
            return
        goal = undoing.target(self.unit, self.home, told.to_seq, told.to_version)
        shared = []
        for name in undoing.shared_streams(self.home, self.about.get("subject")):
            target = self._targets.get(name) or _Target()
            found = undoing.taken_back(self.unit, self.home, name, goal, target.events)
            shared.append(found)
            if found.undone:
                made = undoing.undo(name, one.event, found.gone, f"{self.home.stream_id}@{self.head}")
                target.events.append(made)
                target.places.append(_NO_RECEIPT)
                self._targets[name] = target
        self.receipts[-1] |= undoing.told(shared, display.mask_of(self.unit, self.home, ()))

    def _erase_copies(self, name: str, key: bytes) -> None:
        """Forks hold copies of what is erased: they go with it, and each fork's log says so."""
        for stream_id, number, seq in log.holders(self.unit, self.tenant, key):
            if stream_id != name and not stream_id.startswith("audit/"):
                event_id = log.unpack_id(key)
                log.erase(self.unit, self.tenant, stream_id, key)
                self.forgotten += snapshots.erase_with(self.unit, self.tenant, number, event_id, seq, self.now)
                row = self._open(stream_id)
                _check([self._write(row, _Target([forking.erased_too(event_id, stream_id)], [_NO_RECEIPT]))])
                work.want(self.unit, self.tenant, number, "project", row.head + 1)
                self.moved.append(number)

    def _stream(self, one: Incoming) -> str:
        if one.place == "session":
            return self.home.stream_id
        if one.place == "subject":
            return subject_stream(self.session, self.about.get("subject"))
        return "tenant/shared" if one.place == "tenant" else f"audit/{self.session}"

    def _cause(self) -> str | None:
        """The session's newest event so far: what a routed event follows from when the caller names nothing else."""
        if self._last is None and self.head:
            found = log.at(self.unit, self.tenant, self.home.number, [self.head])
            self._last = found[0].event_id if found else None
        return self._last

    def _twice(self, one: Incoming, first: Incoming, place: int) -> None:
        if (one.event.kind, one.event.payload) != (first.event.kind, first.event.payload):
            raise _conflict(one)
        self._echoes.append((len(self.receipts), place))
        self.receipts.append({**self.receipts[place], "duplicate": True})

    def _write(self, row: StreamRow, target: _Target) -> Any:
        """What `_check` asks whether the head has moved."""
        at = max(self.now, row.updated_at)
        digest = log.write(self.unit, row, target.events, at, self._owner(row))
        faults.point("append.after_events")
        for seq, place in enumerate(target.places, row.head + 1):
            if place != _NO_RECEIPT:
                self.receipts[place]["seq"] = seq
        about = self.about if row.stream_id == self.home.stream_id else row.about
        moved = streams.moved(self.unit, row, row.head + len(target.events), digest, about, at)
        faults.point("append.after_head")
        return moved

    def _owner(self, row: StreamRow) -> str | None:
        """Whose payloads they are: what is written to a fork is the fork's."""
        about = self.about if row.name == self.home.name else row.about
        return owner(row.stream_id, about.get("subject"))


def _check(moved: Sequence[Any]) -> None:
    if any(one.rowcount != 1 for one in moved):
        raise StoreUnavailable("The stream's head moved under its lock; try again.")


def _about(told: SessionStarted) -> Json:
    names = ("subject", "parent", "mode", "model", "locale", "title", "source")
    return {name: getattr(told, name) for name in names if getattr(told, name) is not None}


def _repeated(one: Incoming, known: Known) -> Json:
    """The receipt of an event that the log holds already. What was erased stays erased, whatever comes again."""
    receipt: Json = {
        "event_id": one.event_id, "seq": known.seq, "stream": known.stream_id.split("/", 1)[0], "duplicate": True,
    }  # fmt: skip
    if known.payload is None:
        return {**receipt, "redacted": True}
    same = (known.kind, known.schema_version, known.payload)
    if same != (one.event.kind, one.event.schema_version, one.event.payload):
        raise _conflict(one)
    return receipt


def _conflict(one: Incoming) -> EventConflict:
    return EventConflict(
        f"The event id {one.event_id} came before with other content; a new fact needs a new id.",
        event_id=one.event_id,
    )  # fmt: skip
