"""Faults of other systems' histories, each with its number: replays with effects, checkpoints that grow."""

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from store_histories import event, said

from domain.modes import SlotSpec
from domain.sources import SourceItem
from workers.engine import Engine
from workers.store import Database, migrate, packing, tables

Json = dict[str, Any]
WORDS = "many words about trains and seats "


@pytest.fixture
def store_url(sqlite_url: str) -> str:
    migrate.upgrade(sqlite_url)
    return sqlite_url


def compiled(engine: Engine, tenant: str, **body: Any) -> Json:
    job = engine.request_prompt(tenant, "s", body, ring=False)
    job = engine.run_job(tenant, job["id"])
    assert job["status"] == "done", job["error"]
    return engine.prompt(tenant, job["prompt"])


class Asked:
    """A source that gives something else each time, and counts how often it was asked."""

    name = "asked"

    def __init__(self) -> None:
        self.times = 0

    def supports(self, slot: str) -> bool:
        return slot == "profile"

    def fetch(self, query: str, spec: SlotSpec) -> Sequence[SourceItem]:
        self.times += 1
        return [SourceItem("weather", f"answer number {self.times}", category="identity")]


def rows(database: Database) -> dict[str, int]:
    with database.read("t") as unit:
        return {
            table.name: unit.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in tables.metadata.sorted_tables
        }


def test_f53_f75_a_replay_asks_nobody_and_writes_nothing(engine: Engine, database: Database) -> None:
    source = Asked()
    engine.deps.sources.register(source)
    engine.append("t", "s", [event("session.started", mode="chat"), said("To Bern.")])
    prompt = compiled(engine, "t")
    assert "answer number 1" in str(prompt["payload"])
    before = rows(database)
    for _ in range(2):
        assert engine.replay("t", prompt["id"])["identical"]
        assert engine.history.what_if("t", prompt["id"], {"budget": 9000})["would"]["payload"] == prompt["payload"]
    assert source.times == 1
    assert rows(database) == before


def test_f54_what_is_stored_does_not_grow_with_the_square_of_the_history(engine: Engine, database: Database) -> None:
    def stored(turns: int) -> int:
        for turn in range(turns):
            engine.append("t", "s", [said(f"turn {turn} {WORDS * 30}"), event("assistant.output", content=WORDS * 30)])
            if turn % 10 == 9:
                compiled(engine, "t", budget=100_000)
        with database.read("t") as unit:
            sizes = [
                unit.execute(sa.select(sa.func.sum(sa.func.length(column)))).scalar_one() or 0
                for column in (tables.snapshots.c.body, tables.snapshots.c.layout, tables.texts.c.body)
            ]
        return int(sum(sizes))

    first = stored(40)
    appended = 80 * len(WORDS) * 30
    second = stored(40) - first
    assert first < appended
    # A prompt names what the log holds: each costs as much as the ids and numbers of what it shows.
    assert second < 4 * first
    assert first + second < 2 * appended


def test_b115_a_layout_that_cannot_be_read_is_left_out_and_the_prompt_is_made_from_the_log(
    engine: Engine, database: Database
) -> None:
    """As another release may have written it: without what this one needs."""
    engine.append(
        "t", "s", [event("session.started", mode="chat"), *(said(f"{turn} {WORDS * 9}") for turn in range(40))]
    )
    before = compiled(engine, "t", budget=700)
    assert before["report"]["trim"]["cut"] > 0
    older, _ = packing.pack({"cut": 1}, {})
    with database.write("t") as unit:
        unit.execute(tables.snapshots.update().where(tables.snapshots.c.id == before["id"]).values(layout=older))
    engine.append("t", "s", [said("and now?")])
    after = compiled(engine, "t", budget=700)
    assert "and now?" in str(after["payload"])
    assert after["inputs"]["parent_layout"] is None
    assert engine.replay("t", after["id"])["identical"]
    assert engine.replay("t", before["id"])["identical"]
