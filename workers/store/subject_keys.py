"""The keys of subjects, and what is sealed with them. A key that is gone makes all that it sealed unreadable."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from workers.store import sealing
from workers.store.database import Prepared, Unit, insert, now_sql
from workers.store.tables import events, subject_keys

_MINE = (subject_keys.c.tenant == bindparam("of_tenant"), subject_keys.c.subject == bindparam("of_subject"))
# Held until the unit ends: an erasure waits, so that nothing is sealed with a key that is gone by then.
_HOLD = Prepared(
    lambda dialect: sa.select(subject_keys.c.id, subject_keys.c.sealed).where(*_MINE).with_for_update(read=True)
)
_NAMED = Prepared(
    lambda dialect: sa.select(subject_keys.c.sealed).where(
        subject_keys.c.tenant == bindparam("of_tenant"), subject_keys.c.id == bindparam("of_id")
    )
)
_NEW = Prepared(
    lambda dialect: (
        insert(subject_keys, dialect)
        .values(
            tenant=bindparam("of_tenant"), id=bindparam("of_id"), subject=bindparam("of_subject"),
            sealed=bindparam("held"), created_at=now_sql(dialect),
        )
        .on_conflict_do_nothing()
    )
)  # fmt: skip


def of(unit: Unit, tenant: str, subject: str) -> tuple[bytes, Any]:
    """The subject's key with its id, made if there is none, held until the end of the unit."""
    mine = {"of_tenant": tenant, "of_subject": subject}
    found = unit.run(_HOLD, mine).fetchone()
    while found is None:
        name, held = unit.sealing.new()
        unit.run(_NEW, {**mine, "of_id": name, "held": held})
        found = unit.run(_HOLD, mine).fetchone()
    name = bytes(found[0])
    key = unit.keys[tenant, name] = unit.sealing.key(name, bytes(found[1]))
    return name, key


def opened(unit: Unit, tenant: str, stored: bytes | None) -> tuple[bytes | None, bytes | None]:
    """The salt, where it was sealed along, and the payload: both None when the key is gone."""
    if stored is None or stored[:1] != sealing.MARK:
        return None, stored
    key = named(unit, tenant, sealing.key_name(stored))
    return (None, None) if key is None else sealing.unseal(key, stored)


def named(unit: Unit, tenant: str, name: bytes) -> Any:
    """The key of this id; None when it is gone."""
    if (tenant, name) not in unit.keys:
        found = unit.run(_NAMED, {"of_tenant": tenant, "of_id": name}).fetchone()
        unit.keys[tenant, name] = unit.sealing.key(name, bytes(found[0])) if found else None
    return unit.keys[tenant, name]


def payload(unit: Unit, tenant: str, stored: bytes | None) -> bytes | None:
    return opened(unit, tenant, stored)[1]


def delete(unit: Unit, tenant: str, subjects: Collection[str]) -> None:
    """From now on nobody can read what was sealed for them, wherever there is a copy of it."""
    unit.execute(
        sa.delete(subject_keys).where(subject_keys.c.tenant == tenant, subject_keys.c.subject.in_(sorted(subjects)))
    )


def lost(unit: Unit, tenant: str, stream: int) -> list[int]:
    """The seqs of events that are sealed with a key which is not there."""
    held = sa.select(subject_keys.c.id).where(subject_keys.c.tenant == tenant)
    query = sa.select(events.c.seq).where(
        events.c.tenant == tenant,
        events.c.stream == stream,
        sa.func.substr(events.c.payload, 1, 1) == sealing.MARK,
        sa.func.substr(events.c.payload, len(sealing.MARK) + 1, sealing.ID_BYTES).not_in(held),
    )
    return list(unit.execute(query.order_by(events.c.seq)).scalars())
