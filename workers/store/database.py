"""Connections and transactions: one write unit or one read unit at a time, on SQLite and on PostgreSQL.

Each unit is of one tenant, and PostgreSQL shows it no other's rows (`workers.store.walls`).

A write unit on SQLite begins with BEGIN IMMEDIATE: a deferred one that reads first fails at once with SQLITE_BUSY when
another process wrote meanwhile, whatever the busy timeout. A read unit sees one snapshot.
"""

import contextlib
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.dialects import postgresql, sqlite

from domain.errors import InvalidRequest, StoreUnavailable
from workers.store import files
from workers.store import postgresql as server
from workers.store.sealing import Sealing

DialectName = Literal["sqlite", "postgresql"]

EVERY = "*"
"""Stands for all tenants in what looks for work or checks the store; it is no tenant's name. On PostgreSQL such a unit
sees which streams there are and what work waits, never what anyone wrote."""

Params = Mapping[str, Any]

_DIALECTS: Mapping[DialectName, Callable[[], sa.Dialect]] = {
    "sqlite": lambda: sqlite.dialect(paramstyle="named"),
    "postgresql": lambda: postgresql.psycopg.dialect(),  # type: ignore[no-untyped-call]
}


class Prepared:
    """A statement that runs often: Core writes its SQL once per dialect, then the driver runs it.

    Core's own execution costs more than the statement itself on SQLite, and the append runs four of them.
    """

    def __init__(self, build: Callable[[DialectName], sa.ClauseElement]) -> None:
        self._build = build
        self._made: dict[DialectName, tuple[str, Params]] = {}

    def sql(self, dialect: DialectName) -> tuple[str, Params]:
        """The SQL, and the values of the literals in it, which Core makes parameters of."""
        found = self._made.get(dialect)
        if found is None:
            compiled: Any = self._build(dialect).compile(dialect=_dialect(dialect))
            literals = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}
            found = self._made[dialect] = str(compiled), literals
        return found


def joined(dialect: DialectName, left: str, table: str, name: str, on: str, *, outer: bool = False) -> str:
    """`left` with the rows of `table` (as `name`) that fit each of its rows, looked up one by one in an index.

    The planners are not left a choice: on a table that it has no statistics of yet, PostgreSQL would rather go through
    all of a tenant's rows.
    """
    kind = "LEFT" if outer else "CROSS"
    if dialect == "sqlite":
        return f"{left} {kind} JOIN {table} AS {name} ON {on}"
    found = f"LATERAL (SELECT {name}.* FROM {table} AS {name} WHERE {on} OFFSET 0) AS {name}"
    return f"{left} {kind} JOIN {found}{' ON true' if outer else ''}"


def given(dialect: DialectName, fields: Sequence[str]) -> str:
    """Rows of whole numbers under the name `wanted`, from the parameter of that name: a JSON list of lists."""
    if dialect == "sqlite":
        columns = ", ".join(f"json_extract(value, '$[{place}]') AS \"{name}\"" for place, name in enumerate(fields))
        return f"(SELECT {columns} FROM json_each(:wanted)) AS wanted"
    columns = ", ".join(f'CAST(one.value->>{place} AS bigint) AS "{name}"' for place, name in enumerate(fields))
    # Behind OFFSET 0 they are plain columns: row-level security keeps casts, which might tell what is in a row, from
    # the indexes.
    return f"(SELECT {columns} FROM json_array_elements(CAST(:wanted AS json)) AS one(value) OFFSET 0) AS wanted"


class Bulk:
    """An INSERT of many rows at once, with what is to happen to rows that are there already.

    SQLite is quickest with a loop in the driver, PostgreSQL with one statement over an array for each column.
    """

    def __init__(
        self, table: sa.Table, shared: Sequence[str], own: Sequence[str], *, keys: Sequence[str] = (),
        replaced: Sequence[str] = (), keep: bool = False,
    ) -> None:  # fmt: skip
        """`shared` columns have one value for all rows, `own` ones a value each; `replaced` columns of a row with
        the same `keys` are overwritten; `keep` leaves such a row as it is."""
        self._table, self._shared, self._own = table, tuple(shared), tuple(own)
        self._keys, self._replaced, self._keep = tuple(keys), tuple(replaced), keep
        self._sql: dict[DialectName, str] = {}

    def run(self, unit: "Unit", shared: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
        """`shared` and each of `rows` hold their values in the order of the columns' names."""
        if not rows:
            return
        sql = self._sql.get(unit.dialect) or self._sql.setdefault(unit.dialect, self._build(unit.dialect))
        if unit.dialect == "sqlite":
            unit.driver.executemany(sql, [(*shared, *row) for row in rows])
        else:
            columns = {f"c{place}": list(column) for place, column in enumerate(zip(*rows, strict=True))}
            unit.driver.execute(sql, {**columns, **{f"s{place}": value for place, value in enumerate(shared)}})

    def _build(self, dialect: DialectName) -> str:
        made = insert(self._table, dialect)
        names = (*self._shared, *self._own)
        if dialect == "sqlite":
            made = made.values({name: sa.bindparam(name) for name in names})
        else:
            made = made.from_select(names, self._arrays())
        if self._keep:
            made = made.on_conflict_do_nothing()
        elif self._keys:
            new = {name: made.excluded[name] for name in self._replaced}
            made = made.on_conflict_do_update(index_elements=list(self._keys), set_=new)
        if dialect == "postgresql":
            # Binary arrays: as text, bytes would take twice the room and long to escape.
            return re.sub(r"%\((c\d+)\)s", r"%(\1)b", str(made.compile(dialect=_dialect(dialect))))
        compiled: Any = made.compile(dialect=sqlite.dialect(paramstyle="named"))
        sql, order = str(compiled), {name: f"?{place}" for place, name in enumerate(names, 1)}
        return re.sub(r":(\w+)", lambda found: order[found[1]], sql)

    def _arrays(self) -> Any:
        types = {name: self._table.c[name].type for name in (*self._shared, *self._own)}
        arrays = [
            sa.bindparam(f"c{place}", type_=postgresql.ARRAY(types[name])) for place, name in enumerate(self._own)
        ]
        given = (
            sa.func.unnest(*arrays).table_valued(*(sa.column(name, types[name]) for name in self._own)).render_derived()
        )
        shared = [
            sa.cast(sa.bindparam(f"s{place}"), types[name]).label(name) for place, name in enumerate(self._shared)
        ]
        return sa.select(*shared, *(given.c[name] for name in self._own))


@cache
def _dialect(name: DialectName) -> sa.Dialect:
    return _DIALECTS[name]()


def insert(table: sa.Table, dialect: DialectName) -> Any:
    """An INSERT that knows ON CONFLICT; both dialects write it alike, in classes of their own."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


class Unit:
    """One transaction. `run` and `many` take prepared statements, `execute` any other."""

    __slots__ = ("connection", "dialect", "driver", "keys", "sealing")

    def __init__(self, connection: sa.Connection, dialect: DialectName, sealing: Sealing) -> None:
        self.connection = connection
        self.sealing = sealing
        self.keys: dict[tuple[str, bytes], Any] = {}
        self.dialect: DialectName = dialect
        self.driver: Any = connection.connection.dbapi_connection

    def run(self, statement: Prepared, params: Params) -> Any:
        """The driver's cursor after one run of the statement."""
        sql, literals = statement.sql(self.dialect)
        return self.driver.execute(sql, {**literals, **params} if literals else params)

    def fetch(self, statement: Prepared, params: Params) -> list[Any]:
        """All rows of one run, for many with bytes in them: PostgreSQL sends these as they are, not as text."""
        sql, literals = statement.sql(self.dialect)
        told: dict[str, Any] = {} if self.dialect == "sqlite" else {"binary": True}
        return list(self.driver.execute(sql, {**literals, **params}, **told).fetchall())

    def many(self, statement: Prepared, params: Sequence[Params]) -> None:
        sql, literals = statement.sql(self.dialect)
        if literals:
            params = [{**literals, **one} for one in params]
        if len(params) == 1:
            self.driver.execute(sql, params[0])
        elif params:
            self.driver.cursor().executemany(sql, params)

    def together(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, PostgreSQL gets the statements in one go and answers them at the end, or when one is fetched."""
        found: contextlib.AbstractContextManager[Any]
        found = contextlib.nullcontext() if self.dialect == "sqlite" else self.driver.pipeline()
        return found

    def execute(self, statement: sa.Executable, params: Any = None) -> Any:
        return self.connection.execute(statement, params)

    def now(self) -> int:
        """The database's clock in microseconds: what leases are compared with."""
        return int(self.run(_NOW, {}).fetchone()[0])


def now_sql(dialect: DialectName, plus: int = 0) -> Any:
    """The database's clock in microseconds, and so many more, inside a statement."""
    if dialect == "postgresql":
        return sa.literal_column(
            f"(CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) + {plus:d})", sa.BigInteger
        )
    return sa.literal_column(
        f"(CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + {plus:d})", sa.BigInteger
    )


_NOW = Prepared(lambda dialect: sa.select(now_sql(dialect)))


class Database:
    """The engines of one URL, made anew in each process: a connection must not be used across a fork."""

    def __init__(
        self, url: str, synchronous: str = "NORMAL", connections: int = 20, sealing: Sealing | None = None
    ) -> None:
        """`connections` is the most that a process opens at a time to PostgreSQL; further units wait for one."""
        self.url = sa.make_url(url)
        self.dialect: DialectName = _dialect_name(self.url)
        self.synchronous, self.connections = synchronous, connections
        self.sealing = sealing or Sealing()
        self._role: str | None = None
        self._pid = -1
        self._engines: tuple[sa.Engine, sa.Engine] | None = None
        self._local = threading.local()
        self._rows, self._counted_at = 0, 500.0
        self._outages: tuple[type[Exception], ...] = (exc.OperationalError, exc.InterfaceError)

    @contextmanager
    def write(self, tenant: str) -> Iterator[Unit]:
        """A unit of this tenant. Commits at the end, rolls back on any error."""
        with self._file_unit(0) if self.dialect == "sqlite" else self._server_unit(tenant, reading=False) as unit:
            yield unit

    @contextmanager
    def read(self, tenant: str) -> Iterator[Unit]:
        """A unit of this tenant that sees one state of the store throughout."""
        with self._file_unit(1) if self.dialect == "sqlite" else self._server_unit(tenant, reading=True) as unit:
            yield unit

    @contextmanager
    def _server_unit(self, tenant: str, *, reading: bool) -> Iterator[Unit]:
        with self._connection() as connection:
            try:
                with connection.begin():
                    if self._role is None:
                        self._role = server.role_of(connection)
                    unit = Unit(connection, self.dialect, self.sealing)
                    unit.driver.execute(server.begin(tenant, self._role, reading=reading))
                    yield unit
            except self._outages as error:
                # The driver's own errors pass SQLAlchemy by: the whole pool may be dead, so begin it anew.
                connection.invalidate()
                self.engines()[0].dispose()
                raise _unavailable(self.url, error) from error

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        try:
            connection = self.engines()[0].connect()
        except exc.TimeoutError:
            raise StoreUnavailable(
                f"All {self.connections} connections to the database are busy; try again, or give the process more with"
                " PROMPTCTX_DATABASE_CONNECTIONS."
            ) from None
        except exc.OperationalError as error:
            raise _unavailable(self.url, error) from error
        with connection:
            yield connection

    @contextmanager
    def _file_unit(self, which: int) -> Iterator[Unit]:
        """Begun and ended at the driver, for SQLAlchemy's own way costs as much as an insert; it joins when needed."""
        try:
            connection = self._held(which)
            driver: Any = connection.connection.dbapi_connection
            if driver.in_transaction:
                # A unit inside a unit of this thread has a connection of its own.
                with self.engines()[which].connect() as another, another.begin():
                    yield Unit(another, self.dialect, self.sealing)
                return
            driver.execute(_BEGIN[which])
            try:
                yield Unit(connection, self.dialect, self.sealing)
            except BaseException:
                _end(connection, driver, commit=False)
                raise
            _end(connection, driver, commit=True)
        except self._outages as error:
            raise _unavailable(self.url, error) from error

    def _held(self, which: int) -> sa.Connection:
        """This thread's own connection: checking one out costs as much as the insert, too."""
        held: dict[int, sa.Connection] | None = getattr(self._local, "held", None)
        if held is None or self._local.pid != os.getpid():
            held = self._local.held = {}
            self._local.pid = os.getpid()
        if which not in held or held[which].closed:
            held[which] = self.engines()[which].connect()
        return held[which]

    def grown(self, rows: int) -> None:
        """Take note of rows that were added. A young database is told to count what it holds.

        PostgreSQL does that by itself, after a minute; until then it takes every index for as good as any other.
        """
        if self.dialect != "postgresql":
            return
        self._rows += rows
        if self._rows >= self._counted_at:
            self._counted_at = self._rows * 2 + 500
            with contextlib.suppress(StoreUnavailable, exc.DBAPIError), self.write(EVERY) as unit:
                unit.execute(sa.select(sa.func.promptctx_count_rows()))

    def engines(self) -> tuple[sa.Engine, sa.Engine]:
        """The engine for writing and the one for reading, of this process."""
        if self._engines is None or self._pid != os.getpid():
            if self._engines is not None:
                for inherited in self._engines:
                    inherited.dispose(close=False)
            self._engines = self._create()
            self._pid = os.getpid()
            driver = self._engines[0].dialect.loaded_dbapi
            self._outages = (exc.OperationalError, exc.InterfaceError, driver.OperationalError)
        return self._engines

    def dispose(self) -> None:
        self._local = threading.local()
        if self._engines is not None and self._pid == os.getpid():
            for engine in self._engines:
                engine.dispose()
        self._engines = None

    def _create(self) -> tuple[sa.Engine, sa.Engine]:
        if self.dialect == "postgresql":
            engine = server.create(self.url, self.connections)
            return engine, engine
        return _sqlite(self.url, self.synchronous, _BEGIN[0]), _sqlite(self.url, self.synchronous, _BEGIN[1])


_BEGIN = ("BEGIN IMMEDIATE", "BEGIN")


def _end(connection: sa.Connection, driver: Any, *, commit: bool) -> None:
    joined = connection.get_transaction()
    if joined is not None:
        joined.commit() if commit else joined.rollback()
    elif driver.in_transaction:
        driver.commit() if commit else driver.rollback()


def _dialect_name(url: sa.URL) -> DialectName:
    name = url.get_backend_name()
    if name == "postgresql":
        return "postgresql"
    if name == "sqlite" and url.database and url.database != ":memory:":
        return "sqlite"
    raise InvalidRequest(
        f"No such store: {url.render_as_string()}; use sqlite:///FILE or postgresql+psycopg://…", path="database_url"
    )


def _unavailable(url: sa.URL, error: Exception) -> StoreUnavailable:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return StoreUnavailable(files.sentence(url, reason) or f"The database does not answer: {reason}.")


def _sqlite(url: sa.URL, synchronous: str, begin: str) -> sa.Engine:
    if url.database:
        Path(url.database).expanduser().parent.mkdir(parents=True, exist_ok=True)
    # Each unit ends with its own commit or rollback, so the pool need not send another. No thread waits for a
    # connection here: they queue for the write lock.
    engine = sa.create_engine(url, hide_parameters=True, pool_size=5, max_overflow=-1, pool_reset_on_return=None)
    pragmas = (
        "PRAGMA busy_timeout = 15000",
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {'FULL' if synchronous.upper() == 'FULL' else 'NORMAL'}",
        "PRAGMA cache_size = -65536",
        "PRAGMA wal_autocheckpoint = 4000",
        "PRAGMA journal_size_limit = 67108864",
        "PRAGMA temp_store = MEMORY",
    )

    @event.listens_for(engine, "connect")
    def connected(driver: Any, record: object) -> None:
        driver.isolation_level = None
        try:
            for pragma in pragmas:
                driver.execute(pragma)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise _unavailable(url, error) from None

    @event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        if not driver.in_transaction:
            driver.execute(begin)

    return engine
