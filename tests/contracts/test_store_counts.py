"""The history over tables answers as the one over a folded state does, with stored counts and without."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_histories import append_valid, drain, event, histories, said, with_causes

from domain.rows import Message
from domain.state import ContextState
from domain.windows import NEWEST, MemoryHistory
from workers.engine import Engine
from workers.store import Database, Unit, counts, models, streams
from workers.store.counts import LearningCounter, SqlHistory
from workers.tokens import Tokens

TOKENS = Tokens()


def counter() -> LearningCounter:
    return LearningCounter(TOKENS.counter("o200k_base"), "o200k_base", "openai")


def loaded(unit: Unit, tenant: str) -> tuple[int, models.Checkpoint, ContextState]:
    row = streams.get(unit, tenant, "session/s")
    assert row is not None
    checkpoint = models.checkpoint(unit, tenant, row.number)
    return row.number, checkpoint, models.load_all(unit, tenant, row.number, checkpoint.generation)


def by_seq(messages: Any) -> list[Message]:
    return sorted(messages, key=lambda message: message.seq)


def count_all(database: Database, tenant: str) -> int:
    """Store counts as a compile does; how many rows that were."""
    stored = 0
    while True:
        with database.read(tenant) as unit:
            number, checkpoint, _ = loaded(unit, tenant)
            rows = counts.count_ahead(unit, tenant, number, checkpoint, counter())
        if rows is None:
            return stored
        with database.write(tenant) as unit:
            assert counts.store(unit, tenant, number, checkpoint, rows)
        stored += len(rows.rows)


def assert_alike(database: Database, tenant: str) -> None:
    with database.read(tenant) as unit:
        number, checkpoint, state = loaded(unit, tenant)
        count = counter()
        sql = SqlHistory(unit, tenant, number, checkpoint.generation, count)
        memory = MemoryHistory(state, counter())
        for before in [NEWEST, *range(state.head + 2)]:
            assert sql.totals(before) == memory.totals(before)
            for limit in (1, 2, 64):
                assert by_seq(sql.newest(before, limit)) == by_seq(memory.newest(before, limit))
        names = sorted(state.tables["messages"])
        for some in (names[:1], names[::3], [], [str(uuid.uuid4())]):
            assert by_seq(sql.units(some)) == by_seq(memory.units(some))
        for message in state.tables["messages"].values():
            assert count.message(message) == counter().message(message)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=histories,
    picks=st.lists(st.integers(0, 1000), min_size=25, max_size=25),
    cut=st.integers(0, 25),
)
def test_both_histories_answer_alike(
    engine: Engine,
    database: Database,
    monkeypatch_left: Mapping[str, int],
    history: list[Any],
    picks: list[int],
    cut: int,
) -> None:
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    whole = [said("first"), *with_causes(history, picks)]
    for part in (whole[: cut + 1], whole[cut + 1 :]):
        if part:
            append_valid(engine, tenant, "s", part)
            drain(engine)
            count_all(database, tenant)
            assert_alike(database, tenant)


@pytest.fixture
def monkeypatch_left(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, int]:
    """Counts are stored however few there are."""
    monkeypatch.setattr(counts, "LEFT", 1)
    return {"LEFT": 1}


def test_counts_are_stored_ahead_and_only_once(engine: Engine, database: Database, tenant: str) -> None:
    engine.append(tenant, "s", [said(f"message {number}") for number in range(counts.AHEAD + 100)])
    drain(engine)
    assert count_all(database, tenant) == counts.AHEAD + 100
    assert count_all(database, tenant) == 0
    assert_alike_at_the_end(database, tenant)


def assert_alike_at_the_end(database: Database, tenant: str) -> None:
    with database.read(tenant) as unit:
        number, checkpoint, state = loaded(unit, tenant)
        sql = SqlHistory(unit, tenant, number, checkpoint.generation, counter())
        assert sql.totals(NEWEST) == MemoryHistory(state, counter()).totals(NEWEST)


def test_a_message_that_changes_takes_the_counts_after_it_away(engine: Engine, database: Database, tenant: str) -> None:
    opened = event("assistant.output", content="let me see")
    engine.append(tenant, "s", [said(f"message {number}") for number in range(20)] + [opened])
    engine.append(tenant, "s", [said(f"more {number}") for number in range(20)])
    drain(engine)
    assert count_all(database, tenant) == 41
    joined = {**event("tool.called", name="look", call_id="c"), "causation_id": opened["event_id"]}
    engine.append(tenant, "s", [joined])
    drain(engine)
    assert_alike(database, tenant)
    assert_alike(database, tenant)


def test_counts_of_messages_that_changed_meanwhile_are_not_stored(
    engine: Engine, database: Database, tenant: str
) -> None:
    engine.append(tenant, "s", [said(f"message {number}") for number in range(40)])
    drain(engine)
    with database.read(tenant) as unit:
        number, checkpoint, _ = loaded(unit, tenant)
        rows = counts.count_ahead(unit, tenant, number, checkpoint, counter())
    assert rows is not None
    engine.append(tenant, "s", [said("later")])
    drain(engine)
    with database.write(tenant) as unit:
        assert not counts.store(unit, tenant, number, checkpoint, rows)
