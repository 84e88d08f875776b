"""PostgreSQL's walls: whatever a statement says, it meets the rows of the transaction's tenant and no other's."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_histories import drain, event, said

from domain.errors import StoreUnavailable
from workers.doctor import examine
from workers.engine import Deps, Engine
from workers.settings import load_settings
from workers.store import EVERY, Database, migrate, postgresql, walls
from workers.store.tables import metadata

TABLES = [table.name for table in metadata.sorted_tables]
A, B = "tenant-a", "tenant-b"


@pytest.fixture(scope="module")
def walled_url(shared_postgres_url: str) -> str:
    """A database in which two tenants each have something in every table that a session fills."""
    migrate.upgrade(shared_postgres_url)
    database = Database(shared_postgres_url)
    engine = Engine(Deps(database))
    for tenant in (A, B):
        fill(engine, tenant)
    database.dispose()
    return shared_postgres_url


@pytest.fixture
def walled(walled_url: str) -> Iterator[Database]:
    database = Database(walled_url)
    yield database
    database.dispose()


def fill(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [event("session.started", subject="u"), said(f"of {tenant}"), said("more")])
    engine.append(tenant, "s", [event("profile.set", key="city", value=tenant)])
    engine.put_document(tenant, "s", "d", [f"text of {tenant}".encode()])
    engine.run_job(tenant, engine.request_prompt(tenant, "s", {})["id"])
    engine.note(tenant, "operator", "test")
    drain(engine)


CONDITIONS = [
    "true",
    "tenant IS NOT NULL",
    f"tenant = '{B}'",
    f"tenant <> '{A}'",
    f"tenant > '{A}'",
    "1=1 OR tenant = ''",
]
ORDERS = ["", "ORDER BY tenant DESC", "ORDER BY 1 LIMIT 5"]
SHAPES = [
    "SELECT tenant FROM {table} WHERE {condition} {order}",
    "SELECT x.tenant FROM {table} AS x, LATERAL (SELECT 1 FROM {other} LIMIT 1) AS y WHERE {condition}",
    "WITH x AS (SELECT * FROM {table}) SELECT tenant FROM x WHERE {condition} {order}",
    "SELECT tenant FROM {table} WHERE {condition} UNION SELECT tenant FROM {other} WHERE {condition}",
    "UPDATE {table} SET tenant = tenant WHERE {condition} RETURNING tenant",
    "DELETE FROM {table} WHERE {condition} RETURNING tenant",
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.sampled_from(SHAPES), table=st.sampled_from(TABLES), other=st.sampled_from(TABLES),
    condition=st.sampled_from(CONDITIONS), order=st.sampled_from(ORDERS),
)  # fmt: skip
def test_f68_no_statement_meets_another_tenants_rows(
    walled: Database, shape: str, table: str, other: str, condition: str, order: str
) -> None:
    sql = shape.format(table=table, other=other, condition=condition, order=order)
    found, refused = set(), ""
    with contextlib.closing(walled.engines()[0].connect()) as connection:
        connection.exec_driver_sql(postgresql.begin(A, postgresql.APPLICATION_ROLE, reading=False))
        try:
            found = {row[0] for row in connection.exec_driver_sql(sql)}
        except sa.exc.ProgrammingError as error:
            refused = str(error)
    assert found <= {A}
    assert not refused or "permission denied" in refused
    assert sql.startswith(("UPDATE", "DELETE")) or not refused


@pytest.mark.parametrize("table", TABLES)
def test_f68_a_row_of_another_tenant_cannot_be_written(walled: Database, table: str) -> None:
    """Not as a new row, and not by giving away one's own."""
    made = {"BIGINT": 9, "INTEGER": 9, "BLOB": b"x"}
    columns = metadata.tables[table]
    row = {column.name: made.get(str(column.type), "x") for column in columns.c}
    refused = r"row-level security|permission denied"
    with pytest.raises(sa.exc.ProgrammingError, match=refused), walled.write(A) as unit:
        unit.execute(sa.insert(columns).values({**row, "tenant": B}))

    def give_away() -> None:
        with walled.write(A) as unit:
            unit.execute(sa.insert(columns).values({**row, "tenant": A}))
            unit.execute(sa.update(columns).values(tenant=B))

    with pytest.raises(sa.exc.ProgrammingError, match=refused):
        give_away()


def test_f68_a_transaction_that_names_no_tenant_sees_nothing(walled: Database) -> None:
    with walled.read("") as unit:
        assert [
            unit.execute(sa.select(sa.func.count()).select_from(one)).scalar() for one in metadata.sorted_tables
        ] == [0] * len(TABLES)


def test_a_unit_of_all_tenants_sees_what_waits_but_nothing_that_anyone_wrote(walled: Database) -> None:
    with walled.read(EVERY) as unit:
        seen = {
            table.name: unit.execute(sa.select(sa.func.count(sa.distinct(table.c.tenant))).select_from(table)).scalar()
            for table in metadata.sorted_tables
        }
    assert {name for name, tenants in seen.items() if tenants} <= {"streams", "work", "api_keys", "admin_acts"}
    assert seen["streams"] == seen["work"] == 2


def test_f68_a_connection_keeps_nothing_of_the_unit_before(walled_url: str) -> None:
    database = Database(walled_url, connections=2)
    for tenant in (A, B, A):
        with database.read(tenant) as unit:
            assert set(unit.connection.exec_driver_sql("SELECT tenant FROM events").scalars()) == {tenant}
    with database.engines()[0].connect() as connection:
        settings_kept = "current_setting('promptctx.tenant', true), current_setting('lock_timeout')"
        kept = f"SELECT {settings_kept}, current_user = session_user"
        assert tuple(connection.exec_driver_sql(kept).one()) in [("", "0", True), (None, "0", True)]
    database.dispose()


def test_the_application_cannot_change_events_even_where_a_trigger_is_gone(walled: Database) -> None:
    for sql in ("UPDATE events SET kind = 'x'", "DELETE FROM events", "TRUNCATE events", "DROP TABLE events"):
        with pytest.raises(sa.exc.ProgrammingError, match=r"permission denied|must be owner"), walled.write(A) as unit:
            unit.connection.exec_driver_sql(sql)


# --- roles ------------------------------------------------------------------------------------------------------------


@contextmanager
def login(server: str, options: str) -> Iterator[str]:
    """A role that may log in, gone at the end."""
    name = f"promptctx_test_{time.time_ns()}"
    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN {options}".encode())
        try:
            yield name
        finally:
            connection.execute(f"DROP OWNED BY {name}".encode())
            connection.execute(f"DROP ROLE {name}".encode())


def as_role(url: str, name: str) -> str:
    return str(sa.make_url(url).set(username=name, password=None).render_as_string(hide_password=False))


def test_a_login_that_owns_nothing_does_all_the_work_behind_the_walls(postgres_server: str, walled_url: str) -> None:
    with login(postgres_server, "IN ROLE promptctx_app") as name:
        url = as_role(walled_url, name)
        database = Database(url)
        engine = Engine(Deps(database))
        fill(engine, "tenant-c")
        assert engine.verify("tenant-c", "s")["ok"]
        found = migrate.findings(url)
        database.dispose()
        assert found is not None
        assert found["in_force"]


def test_an_owner_that_may_not_make_roles_is_still_bound(postgres_server: str, new_postgres_url: str) -> None:
    with login(postgres_server, "NOSUPERUSER NOCREATEROLE") as name:
        database_name = sa.make_url(new_postgres_url).database
        with psycopg.connect(postgres_server.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{database_name}" OWNER TO {name}'.encode())
        url = as_role(new_postgres_url, name)
        migrate.upgrade(url)
        database = Database(url)
        engine = Engine(Deps(database))
        for tenant in (A, B):
            engine.append(tenant, "s", [said("x")])
        with database.read(A) as unit:
            assert set(unit.connection.exec_driver_sql("SELECT tenant FROM events").scalars()) == {A}
        found = migrate.findings(url)
        assert found is not None
        assert found["in_force"]
        database.dispose()
        with psycopg.connect(postgres_server.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{database_name}" OWNER TO CURRENT_USER'.encode())
        with psycopg.connect(new_postgres_url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER".encode())


def test_doctor_says_whether_the_walls_stand_and_migrate_puts_them_up_again(new_postgres_url: str) -> None:
    migrate.upgrade(new_postgres_url)
    asked = load_settings(database_url=new_postgres_url, dispatcher="inline")
    assert examine(asked)["row_level_security"]["in_force"]
    owner = sa.create_engine(new_postgres_url)
    with owner.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE events DISABLE ROW LEVEL SECURITY")
    owner.dispose()
    found = examine(asked)
    assert not found["row_level_security"]["in_force"]
    assert any("events has no walls" in problem for problem in found["problems"])
    migrate.upgrade(new_postgres_url)
    assert examine(asked)["problems"] == []


def test_every_table_has_its_tenant_first_and_its_walls(walled: Database) -> None:
    with walled.read(EVERY) as unit:
        assert walls.findings(unit.connection) == {"in_force": True, "role": "promptctx_app"}
    assert all(next(iter(table.primary_key)).name == "tenant" for table in metadata.sorted_tables)


# --- migrations, partitions, connections ------------------------------------------------------------------------------


def test_a_migration_gives_up_on_a_table_in_use_and_changes_nothing(new_postgres_url: str) -> None:
    migrate.upgrade(new_postgres_url, "0001")
    with psycopg.connect(new_postgres_url.replace("+psycopg", "")) as busy:
        busy.execute("LOCK TABLE work IN ACCESS SHARE MODE")
        with pytest.raises(StoreUnavailable, match=r"changed nothing.*lock timeout"):
            migrate.upgrade(new_postgres_url, lock_seconds=0.3)
        assert migrate.current(new_postgres_url) == "0001"
    migrate.upgrade(new_postgres_url)
    migrate.check(new_postgres_url)


def test_f69_events_can_be_partitioned_by_tenant(new_postgres_url: str) -> None:
    """By the statements of the manual, on a store that is in use."""
    migrate.upgrade(new_postgres_url)
    database = Database(new_postgres_url)
    engine = Engine(Deps(database))
    fill(engine, A)
    manual = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    script = manual.partition("```sql\n-- partitions\n")[2].partition("```")[0]
    assert script
    owner = sa.create_engine(new_postgres_url)
    with owner.begin() as connection:
        connection.exec_driver_sql(script)
    owner.dispose()
    migrate.upgrade(new_postgres_url)
    fill(engine, B)
    engine.append(A, "s", [said("after")])
    drain(engine)
    for tenant in (A, B):
        assert engine.verify(tenant, "s")["ok"]
    with pytest.raises(sa.exc.DBAPIError, match="immutable"), owner.begin() as connection:
        connection.exec_driver_sql("UPDATE events SET kind = 'x'")
    with database.read(A) as unit:
        assert set(unit.connection.exec_driver_sql("SELECT tenant FROM events").scalars()) == {A}
        assert walls.findings(unit.connection)["in_force"]
    database.dispose()
    owner.dispose()


def test_many_threads_share_few_connections(walled_url: str) -> None:
    database = Database(f"{walled_url}?application_name=promptctx_few", connections=3)
    engine = Engine(Deps(database))
    threads = [threading.Thread(target=engine.append, args=("few", f"s{n}", [said("x")])) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engine.sessions("few")["sessions"]) == 24
    with database.read(EVERY) as unit:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'promptctx_few'"
        assert unit.connection.exec_driver_sql(asked).scalar() <= 3
    database.dispose()


# --- a pooler in between ----------------------------------------------------------------------------------------------


@pytest.fixture
def pooled_url(walled_url: str, pgbouncer: str, tmp_path: Path) -> Iterator[str]:
    """PgBouncer in transaction mode, with two connections to the server for all of its clients."""
    url = sa.make_url(walled_url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "users").write_text(f'"{url.username}" "x"\n')
    (tmp_path / "bouncer.ini").write_text(f"""[databases]
* = host={url.host} port={url.port} user={url.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
auth_file = {tmp_path}/users
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
logfile = {tmp_path}/log
pidfile = {tmp_path}/pid
""")
    tmp_path.chmod(0o777)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    running = subprocess.Popen([pgbouncer, "-u", "postgres", f"{tmp_path}/bouncer.ini"], stderr=subprocess.DEVNULL)
    try:
        pooled = url.set(port=port)
        wait_until_it_answers(pooled)
        yield pooled.render_as_string(hide_password=False)
    finally:
        running.terminate()
        running.wait(timeout=20)


def wait_until_it_answers(url: sa.URL) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_everything_works_through_a_pooler_that_shares_two_connections(pooled_url: str) -> None:
    database = Database(pooled_url, connections=10)
    engine = Engine(Deps(database))
    tenants = [f"pooled-{n}" for n in range(8)]
    threads = [threading.Thread(target=fill, args=(engine, tenant)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drain(engine)
    for tenant in tenants:
        assert engine.verify(tenant, "s")["ok"]
        texts = [one["payload"]["content"][0]["text"] for one in engine.events(tenant, "s")["events"][1:3]]
        assert texts == [f"of {tenant}", "more"]
        with database.read(tenant) as unit:
            assert set(unit.connection.exec_driver_sql("SELECT tenant FROM events").scalars()) == {tenant}
    database.dispose()
