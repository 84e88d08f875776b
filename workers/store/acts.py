"""What administrators did, for whoever has to account for it: rows that are only ever added."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
import uuid_utils

from domain.canonical import canonical_json, parse_json
from workers.store.database import Unit
from workers.store.tables import admin_acts

OPERATOR = "operator"
"""Whoever works at the command line of the server, or at a server that asks for no key."""


def note(unit: Unit, tenant: str, at: int, by: str, act: str, about: Mapping[str, Any]) -> None:
    """Inside the unit that does it, so that neither is there without the other. `by` is a key's id, or `operator`."""
    row = {"tenant": tenant, "id": str(uuid_utils.uuid7()), "at": at, "by": by, "act": act}
    unit.execute(sa.insert(admin_acts).values({**row, "about": canonical_json(dict(about))}))


def listing(unit: Unit, tenant: str | None, limit: int) -> list[dict[str, Any]]:
    """Newest first; of all tenants when none is named."""
    query = sa.select(admin_acts).order_by(admin_acts.c.at.desc(), admin_acts.c.id.desc()).limit(limit)
    if tenant is not None:
        query = query.where(admin_acts.c.tenant == tenant)
    return [{**found, "about": parse_json(found["about"])} for found in unit.execute(query).mappings()]
