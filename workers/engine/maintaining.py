"""Maintenance: of a session's log what is worth remembering, of a subject's memory the care for it."""

from workers.engine import caring, memorising
from workers.engine.deps import Deps
from workers.engine.leases import Outcome, settle, under
from workers.store import streams, work
from workers.store.work import Claim


def maintain(deps: Deps, tenant: str, stream: int) -> Outcome:
    """Claim what is to be done for the memory of a stream, and do it."""
    with deps.database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, stream, "maintenance", lease=deps.lease)
        row = streams.by_number(unit, tenant, stream)
    if claimed is None or row is None:
        return Outcome.IDLE
    kind, _, name = row.stream_id.partition("/")

    def body(deps: Deps, claimed: Claim) -> Outcome:
        return memorising.remember(deps, claimed, name) if kind == "session" else _care(deps, claimed, row.stream_id)

    outcome = under(deps, claimed, body)
    if outcome is Outcome.MORE:
        deps.dispatcher.ring(tenant, stream, "maintenance")
    return outcome


def _care(deps: Deps, claimed: Claim, name: str) -> Outcome:
    caring.care_for(deps, claimed.tenant, name)
    with deps.database.write(claimed.tenant) as unit:
        return settle(unit, claimed, claimed.wanted_seq)
