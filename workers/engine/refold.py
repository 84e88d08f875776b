"""Refold: a stream is folded anew beside the live rows, then the pointer flips.

After a rollback or an erasure the projection does it, under its lease. A rebuild does it of its own accord, without the
lease until the last few events: the live rows go on meanwhile. Readers see the old generation whole until they see the
new one whole.
"""

from collections.abc import Callable, Sequence

from domain.history import effective
from domain.state import ContextState, lookups
from workers import faults
from workers.engine.deps import Deps
from workers.engine.folding import fold_into
from workers.engine.leases import Fenced, keep
from workers.store import Unit, log, models, streams
from workers.store.models import Checkpoint
from workers.store.work import Claim

CHUNK = 500

Progress = Callable[[int], None]
Guard = Callable[[Unit], object]
"""Raises inside the unit that writes when the builder may write no more."""


class Build:
    """The next generation of a stream's rows, growing beside the live one."""

    def __init__(self, deps: Deps, tenant: str, stream: int, live: Checkpoint, guard: Guard) -> None:
        self._deps, self._tenant, self._stream, self._guard = deps, tenant, stream, guard
        self._state = ContextState()
        self.seq = 0
        with deps.database.write(tenant) as unit:
            guard(unit)
            self.generation = models.build(unit, tenant, stream, live)
        faults.point("refold.began")

    def fold_history(self, progress: Progress | None = None) -> None:
        """Everything in force up to the head. Raises Parked on an event that cannot be folded."""
        with self._deps.database.read(self._tenant) as unit:
            row = streams.by_number(unit, self._tenant, self._stream)
            head = row.head if row else 0
            seqs = effective(log.headers(unit, self._tenant, self._stream, head))
        for at in range(0, len(seqs), CHUNK):
            self.fold_events(seqs[at : at + CHUNK])
            if progress is not None:
                progress(len(seqs[at : at + CHUNK]))
        self.seq = head

    def fold_events(self, seqs: Sequence[int], guard: Guard | None = None) -> None:
        tenant, stream, state = self._tenant, self._stream, self._state
        with self._deps.database.read(tenant) as unit:
            events = list(map(log.fact, log.at(unit, tenant, stream, seqs)))
            for grown in ("messages", "call_ids"):
                state.tables[grown].clear()
            models.look_up(unit, tenant, stream, self.generation, state.tables, lookups(events))
        dirty = fold_into(state, events)
        with self._deps.database.write(tenant) as unit:
            (guard or self._guard)(unit)
            models.save(unit, tenant, stream, self.generation, state, dirty)
        faults.point("refold.after_chunk")
        self.seq = seqs[-1]

    def flip(self, unit: Unit, live: Checkpoint) -> None:
        """Make this generation the live one, inside a unit that holds the stream's lease."""
        if not models.flip(unit, self._tenant, self._stream, live, self.generation, self.seq):
            raise Fenced

    def clear(self) -> None:
        """Delete the rows of all other generations."""
        with self._deps.database.write(self._tenant) as unit:
            models.drop_generation(unit, self._tenant, self._stream, other_than=self.generation)


def refold(deps: Deps, claimed: Claim, checkpoint: Checkpoint) -> None:
    """Build the next generation from the events in force, up to the stream's head, and make it the live one."""
    build = Build(deps, claimed.tenant, claimed.stream, checkpoint, lambda unit: keep(unit, claimed, checkpoint.seq))
    build.fold_history()
    faults.point("refold.before_flip")
    with deps.database.write(claimed.tenant) as unit:
        keep(unit, claimed, build.seq)
        build.flip(unit, checkpoint)
    faults.point("refold.flipped")
    build.clear()
