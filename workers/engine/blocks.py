"""Core blocks at the door: an edit that could not be carried out is refused with the reason, not skipped later."""

from collections.abc import Sequence

from domain.errors import Forbidden, InvalidEvent
from domain.events import BlockDefined, BlockEdited, SessionStarted
from domain.state import ContextState, changes
from workers.engine.deps import Deps
from workers.engine.drafts import Incoming
from workers.engine.memorising import state_of
from workers.engine.reading import subject_stream
from workers.store import log, streams


def check(deps: Deps, tenant: str, session: str, incoming: Sequence[Incoming], bound: Sequence[bool]) -> None:
    """`bound` says of each event whether it may not loosen rules. Raises InvalidEvent and Forbidden."""
    told = [place for place, one in enumerate(incoming) if isinstance(one.payload, BlockDefined | BlockEdited)]
    if not told:
        return
    with deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, f"session/{session}")
        subject = home.about.get("subject") if home else None
        said = [one.payload.subject for one in incoming if isinstance(one.payload, SessionStarted)]
        name = subject_stream(session, next((one for one in reversed(said) if one), subject))
        known = log.known(unit, tenant, [name], [incoming[place].event.key for place in told])
    state, seq = state_of(deps, tenant, name)
    for place in told:
        one = incoming[place]
        if one.event.key not in known:
            seq += 1
            _check(state, one.payload, bound=bound[place])
            state.apply(changes(state, one.as_fact(seq)))


def _check(state: ContextState, told: object, *, bound: bool) -> None:
    assert isinstance(told, BlockDefined | BlockEdited)
    held = state.tables["blocks"].get(told.label)
    if isinstance(told, BlockEdited) and held is None:
        sentence = f"payload.label: there is no block {told.label!r}; block.defined makes one."
        raise InvalidEvent(sentence, path="payload.label", blocks=sorted(state.tables["blocks"]))
    if held is not None and held.read_only and (isinstance(told, BlockEdited) or bound):
        raise Forbidden(
            f"The block {told.label!r} is read-only; to change it, define it anew with the scope `policy`.",
            label=told.label,
        )
    limit = told.limit if isinstance(told, BlockDefined) else held.limit if held else 0
    if len(told.text) > limit:
        raise InvalidEvent(
            f"payload.text: the block {told.label!r} would have {len(told.text)} characters, its limit is {limit}: "
            "make it shorter.",
            path="payload.text", label=told.label, limit=limit, size=len(told.text),
        )  # fmt: skip
