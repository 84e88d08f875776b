"""Refold: after a rollback or an erasure the stream is folded anew beside the live rows, then the pointer flips.

Readers see the old generation whole until they see the new one whole.
"""

from collections.abc import Sequence

from domain.history import effective
from domain.state import ContextState, lookups
from workers import faults
from workers.engine.deps import Deps
from workers.engine.folding import fold_into
from workers.engine.leases import Fenced, keep
from workers.store import log, models, streams
from workers.store.models import Checkpoint
from workers.store.work import Claim

CHUNK = 500


def refold(deps: Deps, claimed: Claim, checkpoint: Checkpoint) -> None:
    """Build the next generation from the events in force, up to the stream's head, and make it the live one."""
    tenant, stream = claimed.tenant, claimed.stream
    with deps.database.read(claimed.tenant) as unit:
        row = streams.by_number(unit, tenant, stream)
        head = row.head if row else checkpoint.seq
        seqs = effective(log.headers(unit, tenant, stream, head))
    generation = checkpoint.generation + 1
    with deps.database.write(claimed.tenant) as unit:
        # What an interrupted refold left behind is of no use: the history may have changed again since.
        models.drop_generation(unit, tenant, stream, other_than=checkpoint.generation)
        models.begin(unit, tenant, stream)
        keep(unit, claimed, checkpoint.seq)
    faults.point("refold.began")
    state = ContextState()
    for at in range(0, len(seqs), CHUNK):
        state = _fold_chunk(deps, claimed, checkpoint, generation, seqs[at : at + CHUNK], state)
    faults.point("refold.before_flip")
    with deps.database.write(claimed.tenant) as unit:
        keep(unit, claimed, head)
        if not models.flip(unit, tenant, stream, checkpoint, generation, head):
            raise Fenced
    faults.point("refold.flipped")
    with deps.database.write(claimed.tenant) as unit:
        models.drop_generation(unit, tenant, stream, other_than=generation)


def _fold_chunk(
    deps: Deps, claimed: Claim, checkpoint: Checkpoint, generation: int, seqs: Sequence[int], state: ContextState
) -> ContextState:
    tenant, stream = claimed.tenant, claimed.stream
    with deps.database.read(claimed.tenant) as unit:
        events = list(map(log.fact, log.at(unit, tenant, stream, seqs)))
        for grown in ("messages", "call_ids"):
            state.tables[grown].clear()
        models.look_up(unit, tenant, stream, generation, state.tables, lookups(events))
    dirty = fold_into(state, events)
    with deps.database.write(claimed.tenant) as unit:
        keep(unit, claimed, checkpoint.seq)
        models.save(unit, tenant, stream, generation, state, dirty)
    faults.point("refold.after_chunk")
    return state
