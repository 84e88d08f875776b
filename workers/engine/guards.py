"""What an append may not do in the state it meets: loosen rules without the right to, pin or rule beyond the limits.
What it may do and hardly meant is told as a warning.

Most appends need no look at the state, and take none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.appending import says_nothing, warnings
from domain.errors import Forbidden, InvalidEvent, StoreUnavailable, Timeout, TooManyPins, TooManyRules
from domain.events import (
    AnyPayload,
    BlockDefined,
    BlockEdited,
    ConstraintRemoved,
    ConstraintSet,
    ContextRolledBack,
    InstructionSet,
    MessagePinned,
    MessageUnpinned,
    SessionForked,
    SessionStarted,
    ToolRemoved,
)
from domain.reducers import MAX_PINS, loosens
from domain.rows import Lookups
from domain.state import ContextState, changes, lookups
from workers.engine import blocks, project
from workers.engine.deps import Deps
from workers.engine.drafts import Incoming
from workers.store import log, models, streams

TRUSTED_ACTORS = frozenset({None, "user", "operator", "developer", "admin"})
"""Through any other an injected text could speak, whatever it calls itself: they never loosen rules."""

_RULES = (ConstraintRemoved, ConstraintSet, InstructionSet, ContextRolledBack, SessionStarted)
_LOOKED_AT = (MessagePinned, SessionForked)
_TAKES_AWAY = (ConstraintRemoved, InstructionSet, MessageUnpinned, ToolRemoved)
_WATCHED = frozenset({*_RULES, *_LOOKED_AT, *_TAKES_AWAY, BlockDefined, BlockEdited})
"""What any of the checks below is about."""


@dataclass(frozen=True, slots=True)
class Look:
    """The session's seq that an append was checked at, None if it need not stay there; the ids of the events in it that
    loosen the rules, with the right to: an administrator's act, to be written down; and warnings by the event's id."""

    seq: int | None = None
    loosening: tuple[str, ...] = ()
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)


def check(deps: Deps, tenant: str, session: str, incoming: Sequence[Incoming], may_loosen: bool) -> Look:
    """Raises InvalidEvent, Forbidden, TooManyPins, TooManyRules."""
    if _WATCHED.isdisjoint([type(one.payload) for one in incoming]):
        return Look(warnings=_without_state(incoming))
    blocks.check(deps, tenant, session, incoming, [is_bound(one, may_loosen) for one in incoming])
    binding = any(_needs_look(one, may_loosen) for one in incoming)
    if not binding and not any(_is_judged(one.payload) for one in incoming):
        return Look(warnings=_without_state(incoming))
    with deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, f"session/{session}")
        known = log.known(unit, tenant, [f"session/{session}"], [one.event.key for one in incoming])
    new = [one for one in incoming if one.event.key not in known and one.place == "session"]
    _check_fork(new)
    head = home.head if home else 0
    events = [one.as_fact(head + place) for place, one in enumerate(new, 1)]
    state, seq, loosening, told = ContextState(), 0, [], {}
    if home is not None:
        try:
            project.catch_up(deps, tenant, home.number, head)
        except (StoreUnavailable, Timeout):
            if binding:
                raise
            return Look(None, tuple(one.event_id for one in new if _could_loosen(one.payload)))
        state, seq = _state(deps, tenant, home.number, lookups(events))
    for one, event in zip(new, events, strict=True):
        loosening += [one.event_id] * _check(state, one, may_loosen)
        _check_size(state, one, deps.rule_limit)
        told[one.event_id] = list(warnings(state.tables, one.payload))
        state.apply(changes(state, event))
    return Look(seq if binding else None, tuple(loosening), told)


def _without_state(incoming: Sequence[Incoming]) -> dict[str, list[str]]:
    blank = [one for one in incoming if says_nothing(one.payload)]
    tables = ContextState().tables if blank else {}
    return {one.event_id: list(warnings(tables, one.payload)) for one in blank}


def _is_judged(payload: AnyPayload) -> bool:
    return _could_loosen(payload) or isinstance(payload, _TAKES_AWAY)


def _could_loosen(payload: AnyPayload) -> bool:
    """Whether it may loosen rules in some state, and so is looked at even if it is allowed to."""
    if isinstance(payload, ContextRolledBack):
        return payload.loosen
    if isinstance(payload, SessionStarted):
        return payload.subject is not None
    return isinstance(payload, ConstraintRemoved | ConstraintSet | InstructionSet)


def _check_fork(new: Sequence[Incoming]) -> None:
    """What comes with a fork meets the parent's rules, which are not there yet to be held against it."""
    if any(isinstance(one.payload, SessionForked) for one in new):
        for one in new:
            if not isinstance(one.payload, SessionForked | SessionStarted):
                sentence = (
                    f"{one.event.kind}: with session.forked goes nothing but session.started; send it afterwards."
                )
                raise InvalidEvent(sentence, path="kind")


def _needs_look(one: Incoming, may_loosen: bool) -> bool:
    payload = one.payload
    adds = isinstance(payload, ConstraintSet) and payload.level == "block"
    return adds or isinstance(payload, _LOOKED_AT) or (is_bound(one, may_loosen) and isinstance(payload, _RULES))


def is_bound(one: Incoming, may_loosen: bool) -> bool:
    """Whether an event may not loosen rules: for want of the scope, or because an injected text could speak in it."""
    return not may_loosen or one.event.actor not in TRUSTED_ACTORS


def _check(state: ContextState, one: Incoming, may_loosen: bool) -> bool:
    """Whether it loosens the rules, and may."""
    payload = one.payload
    loosening = (isinstance(payload, ContextRolledBack) and payload.loosen) or loosens(state.tables, payload)
    if loosening and is_bound(one, may_loosen):
        raise Forbidden(
            f"{one.event.kind} would loosen the rules; that needs the scope `policy`, which agents and tools never"
            " have.",
            kind=one.event.kind,
        )
    pins = state.tables["pins"]
    if isinstance(payload, MessagePinned) and payload.event_id not in pins and len(pins) >= MAX_PINS:
        raise TooManyPins(
            f"{MAX_PINS} messages are pinned already; unpin one first.", limit=MAX_PINS, pinned=sorted(pins)
        )
    return loosening


def _check_size(state: ContextState, one: Incoming, limit: int) -> None:
    """`block` constraints are in every prompt: without a limit, whoever may add them could leave no room for more."""
    told = one.payload
    if not isinstance(told, ConstraintSet) or told.level != "block":
        return
    held = state.tables["constraints"]
    others = sum(len(row.text) for key, row in held.items() if row.level == "block" and key != told.id)
    before = held[told.id].text if told.id in held else ""
    if others + len(told.text) > limit and len(told.text) > len(before):
        raise TooManyRules(
            f"The `block` constraints of this session would have {others + len(told.text)} characters, {limit} are"
            " allowed: make them shorter, or set them as `warn`; the setting is PROMPTCTX_RULE_LIMIT.",
            limit=limit, size=others + len(told.text),
        )  # fmt: skip


def _state(deps: Deps, tenant: str, stream: int, wanted: Lookups) -> tuple[ContextState, int]:
    with deps.database.read(tenant) as unit:
        checkpoint = models.checkpoint(unit, tenant, stream)
        return models.load(unit, tenant, stream, checkpoint.generation, wanted), checkpoint.seq
