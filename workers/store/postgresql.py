"""PostgreSQL: how an engine is made, and how a unit begins. All that a unit sets ends with its transaction, and nothing
is prepared on the server, so that a pooler in transaction mode may stand in between."""

import sqlalchemy as sa
from psycopg import sql

APPLICATION_ROLE = "promptctx_app"
"""Owns nothing and is bound by every wall; units take it on whoever logged in, if that role may."""

TENANT_SETTING = "promptctx.tenant"

_LOCK_WAIT, _IDLE = "30s", "60s"
"""How long a unit waits for a lock, and how long a client that hangs inside a transaction may hold its own."""


def create(url: sa.URL, connections: int) -> sa.Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    kept = min(connections, 5)
    return sa.create_engine(
        url,
        # An error's text may end up in a log line.
        hide_parameters=True,
        # Units send their own BEGIN, together with what they set: one trip instead of three.
        isolation_level="AUTOCOMMIT",
        pool_size=kept,
        max_overflow=connections - kept,
        pool_timeout=15,
        pool_recycle=1800,
        use_native_hstore=False,
        connect_args={"connect_timeout": 5, "application_name": "promptctx", "prepare_threshold": None},
    )


def begin(tenant: str, role: str | None, *, reading: bool) -> str:
    """The statements that begin a unit."""
    isolation = "REPEATABLE READ READ ONLY" if reading else "READ COMMITTED"
    taken_on = f"SET LOCAL ROLE {role}; " if role else ""
    settings = ((TENANT_SETTING, tenant), ("lock_timeout", _LOCK_WAIT), ("idle_in_transaction_session_timeout", _IDLE))
    told = ", ".join(f"set_config('{name}', {sql.Literal(value).as_string()}, true)" for name, value in settings)
    return f"BEGIN ISOLATION LEVEL {isolation}; {taken_on}SELECT {told}"


_MAY_TAKE_ON = sa.text(
    """SELECT to_regclass('events') IS NOT NULL, (
        SELECT has_table_privilege(app.oid, to_regclass('events'), 'SELECT') FROM pg_roles AS app
        WHERE app.rolname = :role AND pg_has_role(current_user, app.oid, 'MEMBER'))"""
)


def role_of(connection: sa.Connection) -> str | None:
    """The application role, or nothing if whoever logged in may not take it on; None while there are no tables yet."""
    migrated, may = connection.execute(_MAY_TAKE_ON, {"role": APPLICATION_ROLE}).one()
    if not migrated:
        return None
    return APPLICATION_ROLE if may else ""
