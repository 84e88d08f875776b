"""API keys: `pctx_ID_SECRET`. The id finds the row; of the secret only a hash is kept.

The secret is 256 random bits, so nobody can guess it from its hash, however fast that is. The hash is keyed by the id:
a row that is copied under another id opens nothing.
"""

import base64
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Any

from domain.errors import InvalidRequest
from workers.access import scopes as allowed
from workers.clock import Clock, format_time
from workers.store import EVERY, Database, acts, keys
from workers.store.keys import KeyRow

Json = dict[str, Any]

DAY = 86_400_000_000
_TOKEN = re.compile(r"pctx_([a-z2-7]{16})_([a-z2-7]{52})", re.ASCII)
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def create(
    database: Database, clock: Clock, tenant: str, name: str, scopes: Iterable[str], days: int | None = None
) -> tuple[KeyRow, str]:
    """The row, and the key itself: this is the only time that anyone sees it."""
    if not _TENANT.fullmatch(tenant):
        raise InvalidRequest("tenant: 1 to 64 letters, digits, dots, dashes and underscores.", path="tenant")
    if not name.isprintable() or not 1 <= len(name) <= 200:
        raise InvalidRequest("name: 1 to 200 printable characters.", path="name")
    now = clock.now()
    key_id, secret = _random(10), _random(32)
    expires = None if days is None else now + days * DAY
    row = KeyRow(tenant, key_id, name, allowed.parse(scopes), hashed(key_id, secret), now, expires, None)
    with database.write(tenant) as unit:
        keys.add(unit, row)
        acts.note(unit, tenant, now, acts.OPERATOR, "key.created", {"key": key_id, "scopes": list(row.scopes)})
    return row, f"pctx_{key_id}_{secret}"


def listing(database: Database, tenant: str | None = None) -> list[KeyRow]:
    with database.read(EVERY) as unit:
        return keys.listing(unit, tenant)


def revoke(database: Database, clock: Clock, key_id: str) -> KeyRow:
    """Raises InvalidRequest if there is no such key. A key that is revoked already stays so."""
    with database.read(EVERY) as unit:
        row = keys.find(unit, key_id)
    if row is None:
        raise InvalidRequest(f"No key {key_id!r}; `python -m workers keys list` tells which there are.", path="key")
    with database.write(row.tenant) as unit:
        if keys.revoke(unit, row.tenant, row.id, clock.now()):
            acts.note(unit, row.tenant, clock.now(), acts.OPERATOR, "key.revoked", {"key": row.id})
    return row


def find(database: Database, token: str) -> KeyRow | None:
    """The row of a key that somebody shows; None if there is none or the secret is not its."""
    parsed = _TOKEN.fullmatch(token)
    if parsed is None:
        return None
    key_id, secret = parsed.groups()
    with database.read(EVERY) as unit:
        row = keys.find(unit, key_id)
    return row if row is not None and hmac.compare_digest(row.hash, hashed(key_id, secret)) else None


def hashed(key_id: str, secret: str) -> bytes:
    return hmac.digest(key_id.encode(), secret.encode(), "sha256")


def in_words(row: KeyRow, now: int) -> Json:
    """A key as lists tell it."""
    state = "revoked" if row.revoked_at is not None else "in force" if row.in_force(now) else "expired"
    return {
        "id": row.id, "tenant": row.tenant, "name": row.name, "scopes": list(row.scopes), "state": state,
        "created_at": format_time(row.created_at), "expires_at": format_time(row.expires_at),
        "revoked_at": format_time(row.revoked_at),
    }  # fmt: skip


def _random(length: int) -> str:
    return base64.b32encode(secrets.token_bytes(length)).decode().rstrip("=").lower()
