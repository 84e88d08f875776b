"""The account of erasures: who was erased and when, and whether it came to its end."""

import uuid
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from domain.canonical import canonical_json, parse_json
from workers.store.database import Unit
from workers.store.tables import erasures

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Erasure:
    tenant: str
    id: str
    subject: str
    reason: str
    started_at: int
    finished_at: int | None
    told: Json | None


_COLUMNS = (
    erasures.c.tenant, erasures.c.id, erasures.c.subject, erasures.c.reason, erasures.c.started_at,
    erasures.c.finished_at, erasures.c.told,
)  # fmt: skip


def listing(unit: Unit, tenant: str) -> list[Erasure]:
    """All of a tenant's, the oldest first."""
    query = sa.select(*_COLUMNS).where(erasures.c.tenant == tenant).order_by(erasures.c.started_at)
    return [
        Erasure(row[0], row[1], row[2], parse_json(row[3]), row[4], row[5], parse_json(row[6]) if row[6] else None)
        for row in unit.execute(query)
    ]


def unfinished(unit: Unit, tenant: str, subject: str) -> Json:
    """What an erasure of this subject that was interrupted had set out to erase."""
    open_ones = (erasures.c.tenant == tenant, erasures.c.subject == subject, erasures.c.finished_at.is_(None))
    found = unit.execute(sa.select(erasures.c.told).where(*open_ones)).scalar()
    return parse_json(found) if found else {}


def begin(unit: Unit, tenant: str, subject: str, reason: str, told: Json, now: int) -> str:
    """Note that an erasure of `told` begins; one that was interrupted is taken up again."""
    open_ones = (erasures.c.tenant == tenant, erasures.c.subject == subject, erasures.c.finished_at.is_(None))
    found = unit.execute(sa.select(erasures.c.id).where(*open_ones)).scalar()
    if found is not None:
        return str(found)
    name = str(uuid.uuid4())
    row = {"tenant": tenant, "id": name, "subject": subject, "reason": canonical_json(reason), "started_at": now}
    unit.execute(sa.insert(erasures).values({**row, "told": canonical_json(told)}))
    return name


def finish(unit: Unit, tenant: str, name: str, told: Json, now: int) -> None:
    mine = (erasures.c.tenant == tenant, erasures.c.id == name)
    unit.execute(sa.update(erasures).where(*mine).values(finished_at=now, told=canonical_json(told)))
