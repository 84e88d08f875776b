"""What was asked of models, and what that cost: rows that are only ever added."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
import uuid_utils
from sqlalchemy import func

from workers.store.database import Unit
from workers.store.tables import model_calls

ANSWERED = "answered"


def note(unit: Unit, tenant: str, stream: int, at: int, call: Mapping[str, Any]) -> None:
    """`call` has task, model, outcome, tokens_in and tokens_out."""
    row = {"tenant": tenant, "stream": stream, "id": str(uuid_utils.uuid7()), "at": at}
    unit.execute(sa.insert(model_calls).values({**row, **call}))


def totals(unit: Unit, tenant: str, stream: int | None = None) -> dict[str, Any]:
    """Calls, tokens, and how many failed by reason: of one stream, or of a tenant."""
    mine = model_calls.c.tenant == tenant
    if stream is not None:
        mine = sa.and_(mine, model_calls.c.stream == stream)
    columns = (func.count(), func.sum(model_calls.c.tokens_in), func.sum(model_calls.c.tokens_out))
    outcome = model_calls.c.outcome
    rows = unit.execute(sa.select(outcome, *columns).where(mine).group_by(outcome).order_by(outcome)).all()
    return {
        "calls": sum(int(row[1]) for row in rows),
        "tokens_in": sum(int(row[2]) for row in rows),
        "tokens_out": sum(int(row[3]) for row in rows),
        "failed": {row[0]: int(row[1]) for row in rows if row[0] != ANSWERED},
    }
