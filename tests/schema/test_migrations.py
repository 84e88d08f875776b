"""Migrations: they make what the code expects, up and down, also when several processes try at once."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from domain.errors import StoreUnavailable
from workers.engine import Deps, Engine
from workers.store import EVERY, Database, migrate

ROOT = Path(__file__).resolve().parents[2]


def test_tables_in_the_code_are_those_the_migrations_make() -> None:
    assert migrate.differences() == []


def test_a_store_goes_up_down_and_up_again(database_url: str) -> None:
    migrate.upgrade(database_url)
    migrate.downgrade(database_url)
    with Database(database_url).read(EVERY) as unit:
        left = set(sa.inspect(unit.connection).get_table_names())
    migrate.upgrade(database_url)
    assert left <= {"alembic_version"}
    assert migrate.current(database_url) == migrate.newest()


def test_upgrading_twice_keeps_what_the_log_holds(database_url: str) -> None:
    migrate.upgrade(database_url)
    engine = Engine(Deps(Database(database_url)))
    engine.append("default", "s", [{"kind": "user.input", "payload": {"content": "hi"}}])
    migrate.upgrade(database_url)
    assert engine.append("default", "s", [{"kind": "custom.x"}])["head"] == 2


def test_an_unmigrated_store_is_refused_with_the_way_out(database_url: str) -> None:
    with pytest.raises(StoreUnavailable, match="python -m workers migrate"):
        migrate.check(database_url)
    migrate.upgrade(database_url)
    migrate.check(database_url)


@pytest.mark.parametrize("ask", [migrate.check, migrate.upgrade])
def test_a_store_of_a_later_release_is_refused_with_the_ways_out(ask: Callable[[str], None], database_url: str) -> None:
    migrate.upgrade(database_url)
    with migrate.exclusive(database_url) as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'later'"))
    with pytest.raises(StoreUnavailable, match="later release made: start that release, or restore a backup"):
        ask(database_url)


def test_f64_three_processes_migrate_at_once(database_url: str) -> None:
    code = f"from workers.store import migrate; migrate.upgrade({database_url!r})"
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(3)]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    migrate.check(database_url)


def test_f65_every_constraint_and_index_has_a_name(database_url: str) -> None:
    migrate.upgrade(database_url)
    with Database(database_url).read(EVERY) as unit:
        inspector = sa.inspect(unit.connection)
        tables = [name for name in inspector.get_table_names() if name != "alembic_version"]
        keys = {name: inspector.get_pk_constraint(name) for name in tables}
    assert all(key["name"] for key in keys.values())
    assert all(key["constrained_columns"][0] == "tenant" for key in keys.values())


def test_a_file_that_is_no_database_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("these are notes, not a database " * 10)
    with pytest.raises(StoreUnavailable, match=r"notes\.db is no SQLite database"):
        migrate.upgrade(f"sqlite:///{tmp_path / 'notes.db'}")
    assert (tmp_path / "notes.db").read_text().startswith("these are notes")
