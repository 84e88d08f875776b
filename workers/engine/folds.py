"""States at any seq, folded from the log. The newest of each stream is kept, for the next request is a little later."""

from collections.abc import Iterator

from domain.events import Event
from domain.history import effective
from domain.state import ContextState, fold
from workers.engine.deps import Deps
from workers.store import Unit, log

PAGE = 1000


def fold_at(deps: Deps, unit: Unit, tenant: str, stream: int, seq: int) -> ContextState:
    """The state of a stream at `seq`. The caller must not change it."""
    before, state = deps.folds.get(tenant, stream) or (0, ContextState())
    # Also what comes after `seq` counts: an erasure there took away what the kept state still has.
    if before > seq or log.refolds(unit, tenant, stream, after=before):
        state = fold_log(unit, tenant, stream, seq)
    elif before < seq:
        state = fold(_facts(unit, tenant, stream, before, seq), state)
    deps.folds.put(tenant, stream, seq, state)
    return state


def fold_log(unit: Unit, tenant: str, stream: int, upto: int) -> ContextState:
    """The state that the log folds to from its first event, rollbacks and erasures resolved."""
    if not log.refolds(unit, tenant, stream, upto):
        return fold(_facts(unit, tenant, stream, 0, upto))
    in_force = set(effective(log.headers(unit, tenant, stream, upto)))
    return fold(event for event in _facts(unit, tenant, stream, 0, upto) if event.seq in in_force)


def _facts(unit: Unit, tenant: str, stream: int, after: int, upto: int) -> Iterator[Event]:
    at = after
    while found := log.after(unit, tenant, stream, at, PAGE, upto=upto):
        yield from map(log.fact, found)
        at = found[-1].seq
