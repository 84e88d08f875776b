"""Invariant 9, the pure part: folding is `reduce` step by step, in any batches, from rows stored and read again."""

from copy import deepcopy
from typing import Any

import pytest
from histories import EPOCH, Log
from hypothesis import given
from hypothesis import strategies as st
from test_same_inputs_same_bytes import stored
from worlds import examples, logs, subjects, texts

from domain.canonical import canonical_json, parse_json
from domain.errors import InvalidEvent
from domain.events import PAYLOADS, Event, UnknownPayload, dump_payload, parse_payload, read_payload
from domain.history import in_force
from domain.rows import TABLES, dump_row, load_row
from domain.state import ContextState, changes, fold, lookups, reduce, small_tables

streams = logs() | subjects()


def cut(log: Log, places: list[int]) -> list[list[Event]]:
    """The events in batches that end at these places."""
    ends = sorted({place % (len(log.events) + 1) for place in places} | {len(log.events)})
    return [log.events[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@examples(100)
@given(streams)
def test_folding_is_reducing_step_by_step(log: Log) -> None:
    state = ContextState()
    for event in log.events:
        state = reduce(state, event)
    assert state == fold(log.events)


@examples(100)
@given(streams, st.lists(st.integers(0, 200), max_size=4))
def test_folding_in_batches_is_folding_the_whole(log: Log, places: list[int]) -> None:
    state = ContextState()
    for batch in cut(log, places):
        state = fold(batch, state)
    assert state == fold(log.events)


@examples(60)
@given(logs(max_size=12))
def test_reducing_leaves_the_given_state_as_it_was(log: Log) -> None:
    state = ContextState()
    for event in log.events:
        before = deepcopy(state.tables)
        after = reduce(state, event)
        assert state.tables == before
        state = after
    start = fold(log.events)
    before = deepcopy(start.tables)
    fold(log.events[:3], start)
    assert start.tables == before


class Database:
    """The read side in small: rows as JSON, of which a projection loads only those it may need."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bytes] = {}

    def project(self, batch: list[Event]) -> None:
        wanted = lookups(batch)
        named = {"messages": wanted.messages, "call_ids": wanted.call_ids}
        state = ContextState()
        for (table, key), data in self.rows.items():
            if table in small_tables() or key in named[table]:
                state.tables[table][key] = self.load(table, data)
        for event in batch:
            found = changes(state, event)
            state.apply(found)
            for table, key, _ in found:
                self.write(table, key, state.tables[table].get(key))

    def write(self, table: str, key: str, row: Any) -> None:
        if row is None:
            self.rows.pop((table, key), None)
        else:
            self.rows[table, key] = canonical_json(dump_row(table, row))

    def load(self, table: str, data: bytes) -> Any:
        return load_row(table, parse_json(data))

    @property
    def state(self) -> ContextState:
        state = ContextState()
        for (table, key), data in self.rows.items():
            state.tables[table][key] = self.load(table, data)
        return state


@examples(120)
@given(streams, st.lists(st.integers(0, 200), max_size=4))
def test_a_projection_that_loads_only_what_it_may_need_holds_the_folded_state(log: Log, places: list[int]) -> None:
    database = Database()
    for batch in cut(log, places):
        database.project(batch)
    assert database.state == fold(log.events)


@examples(100)
@given(streams)
def test_rows_come_back_from_storage_as_they_were(log: Log) -> None:
    state = fold(log.events)
    assert stored(state) == state


# --- total -----------------------------------------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
known_fields = sorted({name for model in PAYLOADS.values() for name in model.model_fields})
payloads = st.dictionaries(st.sampled_from(known_fields), anything, max_size=5) | anything


@examples(300)
@given(st.lists(st.tuples(st.sampled_from([*PAYLOADS, "custom.x", "newer.kind"]), payloads), max_size=8))
def test_no_stored_event_makes_the_fold_raise(stories: list[tuple[str, Any]]) -> None:
    events = [
        Event(f"e{seq}", seq, kind, read_payload(kind, 1, data), EPOCH + seq)
        for seq, (kind, data) in enumerate(stories, 1)
    ]
    assert fold(in_force(events)).head <= len(events)


def test_what_cannot_be_read_is_kept_skipped_and_noticed() -> None:
    log = Log()
    log.user("hello")
    log.events.append(Event("e2", 2, "user.input", read_payload("user.input", 7, {"holo": 1}), EPOCH))
    log.events.append(Event("e3", 3, "user.input", read_payload("user.input", 1, {"content": 5}), EPOCH))
    log.add("custom.mine", anything=1)
    assert all(isinstance(event.payload, UnknownPayload) for event in log.events[1:])
    state = log.state
    assert state.head == 4
    assert len(state.rows("messages")) == 1
    assert [row.count for row in state.rows("notices")] == [2]


def test_a_payload_that_the_log_stores_is_read_again_as_it_was() -> None:
    for kind, model in PAYLOADS.items():
        payload = parse_payload(kind, 1, _least(model))
        assert read_payload(kind, 1, parse_json(canonical_json(dump_payload(payload)))) == payload


def _least(model: Any) -> dict[str, Any]:
    """The smallest payload of a kind."""
    values = {
        "values": {},
        "derived_from": ["e1"],
        "value": 1,
        "version": 1,
        "anchor": "system",
        "to_seq": 0,
        "at_seq": 0,
        "act": "NONE",
    }
    return {name: values.get(name, "x") for name, field in model.model_fields.items() if field.is_required()}


# --- at the door -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("kind", "payload", "path"),
    [
        ("custom.any", lambda x: {"a": [{"b": x}]}, "payload.a.0.b"),
        ("profile.set", lambda x: {"key": "k", "value": x}, "payload.value"),
        ("profile.set", lambda x: {"key": "k", "value": {"deep": [x]}}, "payload.value"),
        ("tool.called", lambda x: {"name": "f", "arguments": {"a": x}}, "payload.arguments"),
        ("user.input", lambda x: {"content": [{"type": "data", "data": x}]}, "payload.content.0"),
        ("memory.recorded", lambda x: {"id": "m", "text": "t", "importance": x}, "payload.importance"),
        ("context.trimmed", lambda x: {"snapshot_id": "s", "units": [{"tokens": x}]}, "payload.units.0"),
        ("tool.registered", lambda x: {"name": "f", "parameters": {"minimum": x}}, "payload.parameters"),
    ],
)
def test_nan_and_infinity_are_refused_with_the_path_of_the_field(
    kind: str, payload: Any, path: str, number: float
) -> None:
    with pytest.raises(InvalidEvent) as refused:
        parse_payload(kind, 1, payload(number))
    assert refused.value.details["path"].startswith(path)


def test_every_table_is_told_to_be_small_or_looked_up() -> None:
    assert set(small_tables()) == set(TABLES) - {"messages", "call_ids"}
