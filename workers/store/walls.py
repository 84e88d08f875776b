"""The walls between tenants on PostgreSQL: row-level security on every table, and a role that owns none of them.

Each transaction names its tenant (`workers.store.postgresql.begin`), and no statement in it, whatever it says, sees or
writes another tenant's rows. A transaction that names none sees nothing.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from workers.store.database import EVERY
from workers.store.postgresql import APPLICATION_ROLE, TENANT_SETTING
from workers.store.tables import metadata

Json = dict[str, Any]

_NAMED = f"current_setting('{TENANT_SETTING}', true)"
_ALL = "SELECT, INSERT, UPDATE, DELETE"

ROLE_SQL = f"CREATE ROLE {APPLICATION_ROLE} NOLOGIN"
"""What a database administrator runs once where `migrate` may not; then the grant of it to whoever logs in."""


def build(connection: sa.Connection) -> None:
    """Put up what is missing. Whoever may not make the role leaves it out, and `findings` tells."""
    _make_role(connection)
    if _missing(connection):
        for statement in _statements(with_role=_role_is_there(connection)):
            connection.exec_driver_sql(statement)


def lower(connection: sa.Connection) -> None:
    """Let the owner see all rows for the length of a migration; `build` puts it right in the same transaction."""
    for name in _secured(connection):
        connection.exec_driver_sql(f"ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY")


def findings(connection: sa.Connection) -> Json:
    """Whether row-level security is in force for who asks, as which role, and what to do if it is not."""
    missing = _missing(connection)
    role, above = connection.execute(_WHO).one()
    in_force = not missing and not above
    found: Json = {"in_force": in_force, "role": role}
    if missing:
        found["problem"] = (
            f"Row-level security is not complete ({missing[0]}): run `python -m workers migrate` as the owner of the"
            " tables."
        )
    elif above:
        found["problem"] = (
            f"Row-level security does not bind {role}, which is above it: let an administrator run `{ROLE_SQL}; GRANT"
            f" {APPLICATION_ROLE} TO {role}`, then `python -m workers migrate`."
        )
    return found


_WHO = sa.text("SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")


def _make_role(connection: sa.Connection) -> None:
    """Roles belong to the whole server: another database's migration may be making it just now."""
    for _ in range(2):
        if not _role_is_there(connection):
            _try(connection, ROLE_SQL)
    if _role_is_there(connection) and not _is_member(connection):
        _try(connection, f"GRANT {APPLICATION_ROLE} TO CURRENT_USER")


def _try(connection: sa.Connection, statement: str) -> None:
    with contextlib.suppress(DBAPIError), connection.begin_nested():
        connection.exec_driver_sql(statement)


def _role_is_there(connection: sa.Connection) -> bool:
    asked = sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :role")
    return bool(connection.execute(asked, {"role": APPLICATION_ROLE}).scalar())


def _is_member(connection: sa.Connection) -> bool:
    asked = sa.text("SELECT pg_has_role(current_user, :role, 'MEMBER')")
    return bool(connection.execute(asked, {"role": APPLICATION_ROLE}).scalar())


def _policies(table: sa.Table) -> Iterator[tuple[str, str]]:
    """Names and definitions."""
    mine = f"tenant = {_NAMED}"
    yield "of_tenant", f"USING ({mine}) WITH CHECK ({mine})"
    for verb in table.info.get("across", ()):
        yield f"across_tenants_{verb.lower()}", f"FOR {verb} USING ({_NAMED} = '{EVERY}')"


def _statements(*, with_role: bool) -> Iterator[str]:
    for table in metadata.sorted_tables:
        yield f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        for name, definition in _policies(table):
            yield f"DROP POLICY IF EXISTS {name} ON {table.name}"
            yield f"CREATE POLICY {name} ON {table.name} {definition}"
        if with_role:
            yield f"REVOKE ALL ON {table.name} FROM {APPLICATION_ROLE}"
            yield f"GRANT {table.info.get('may', _ALL)} ON {table.name} TO {APPLICATION_ROLE}"
    if with_role:
        yield f"GRANT SELECT ON alembic_version TO {APPLICATION_ROLE}"


_STANDING = sa.text(
    """SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
        ARRAY(SELECT polname::text FROM pg_policy WHERE polrelid = c.oid),
        CASE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = :role)
            THEN NOT has_table_privilege(:role, c.oid, 'SELECT') ELSE false END
    FROM pg_class AS c WHERE c.oid = ANY (SELECT to_regclass(name) FROM unnest(CAST(:names AS text[])) AS name)"""
)


def _missing(connection: sa.Connection) -> list[str]:
    """What is not as it should be, a few words each."""
    names = [table.name for table in metadata.sorted_tables]
    found = connection.execute(_STANDING, {"names": names, "role": APPLICATION_ROLE})
    standing = {name: (secured, set(policies), shut) for name, secured, policies, shut in found}
    missing: list[str] = []
    for table in metadata.sorted_tables:
        secured, policies, shut = standing.get(table.name, (False, set(), False))
        if not secured or not {name for name, _ in _policies(table)} <= policies:
            missing.append(f"{table.name} has no walls")
        elif shut:
            missing.append(f"{APPLICATION_ROLE} may not read {table.name}")
    return missing


def _secured(connection: sa.Connection) -> list[str]:
    asked = sa.text(
        "SELECT oid::regclass::text FROM pg_class WHERE relforcerowsecurity AND relnamespace ="
        " current_schema()::regnamespace"
    )
    return list(connection.execute(asked).scalars())
