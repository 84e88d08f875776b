"""API keys as rows: never the key itself, only the hash of its secret part."""

from dataclasses import dataclass

import sqlalchemy as sa

from workers.store.database import Unit
from workers.store.tables import api_keys


@dataclass(frozen=True, slots=True)
class KeyRow:
    """Times are UTC microseconds; `scopes` are in order."""

    tenant: str
    id: str
    name: str
    scopes: tuple[str, ...]
    hash: bytes
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def in_force(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def _row(found: sa.Row[tuple[object, ...]]) -> KeyRow:
    told = found._asdict()
    return KeyRow(**{**told, "scopes": tuple(told["scopes"].split())})


def add(unit: Unit, row: KeyRow) -> None:
    values = {name: getattr(row, name) for name in KeyRow.__slots__}
    unit.execute(sa.insert(api_keys).values({**values, "scopes": " ".join(row.scopes)}))


def find(unit: Unit, key_id: str) -> KeyRow | None:
    """The key of this id, whose ever it is: in a unit of every tenant, for the tenant is what is asked."""
    found = unit.execute(sa.select(api_keys).where(api_keys.c.id == key_id)).first()
    return _row(found) if found else None


def listing(unit: Unit, tenant: str | None = None) -> list[KeyRow]:
    """Oldest first; of all tenants when none is named."""
    query = sa.select(api_keys).order_by(api_keys.c.tenant, api_keys.c.created_at, api_keys.c.id)
    if tenant is not None:
        query = query.where(api_keys.c.tenant == tenant)
    return [_row(found) for found in unit.execute(query)]


def revoke(unit: Unit, tenant: str, key_id: str, now: int) -> bool:
    """False if it was revoked before."""
    mine = (api_keys.c.tenant == tenant, api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    return bool(unit.execute(sa.update(api_keys).where(*mine).values(revoked_at=now)).rowcount)


def any_in_force(unit: Unit, now: int) -> bool:
    unexpired = sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now)
    query = sa.select(api_keys.c.id).where(api_keys.c.revoked_at.is_(None), unexpired).limit(1)
    return unit.execute(query).first() is not None
