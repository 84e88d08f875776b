"""How much of a history a compile reads: bounded by its budget, whatever the length of the log."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from histories import Log, compiled, counter
from hypothesis import given
from worlds import examples, formats, logs

from domain.compiling import prepare
from domain.requests import parse_request
from domain.rows import Message
from domain.snapshots import Layout
from domain.windows import NEWEST, MemoryHistory, Totals, read_history


class Counting:
    """A reader that counts the messages it hands out."""

    def __init__(self, inner: MemoryHistory) -> None:
        self.inner = inner
        self.messages = 0

    def newest(self, before_unit: int, limit: int) -> Sequence[Message]:
        return self._count(self.inner.newest(before_unit, limit))

    def units(self, event_ids: Collection[str]) -> Sequence[Message]:
        return self._count(self.inner.units(event_ids))

    def totals(self, before_unit: int) -> Totals:
        return self.inner.totals(before_unit)

    def _count(self, found: Sequence[Message]) -> Sequence[Message]:
        self.messages += len(found)
        return found


def read(log: Log, *, deep: bool, parent: Layout | None = None, budget: int = 1000) -> int:
    """How many messages a compile of this log reads."""
    state, request = log.state, parse_request({"budget": budget})
    count = counter(request)
    plan = prepare(state, request, count)
    reader, before = Counting(MemoryHistory(state, count)), parent or Layout()
    more: dict[str, Any] = {"cut": before.cut, "kept": before.kept, "seen": before.seen}
    read_history(reader, state, count, plan.limit, deep=deep, **more)
    return reader.messages


def talk(turns: int) -> Log:
    log = Log()
    log.add("instruction.set", role="You help.")
    for turn in range(turns):
        log.user(f"question {turn} " * 5)
        log.calls(f"c{turn}")
        log.answer(f"c{turn}", "fine " * 10)
        log.assistant(f"answer {turn} " * 5)
    return log


@pytest.mark.parametrize("deep", [False, True])
def test_a_longer_log_costs_no_more_to_read(deep: bool) -> None:
    assert read(talk(1500), deep=deep) == read(talk(300), deep=deep) < 800


def test_a_prompt_that_carries_a_layout_on_reads_what_it_shows() -> None:
    log = talk(300)
    parent = compiled(log, budget=1000).layout
    log.user("one more")
    assert read(log, deep=False, parent=parent) <= 2 * 64


def test_calls_that_nobody_ever_answers_do_not_add_up() -> None:
    log = Log()
    for turn in range(1500):
        log.calls(f"c{turn}", content="a call that is lost")
    log.user("go on")
    assert read(log, deep=False) < 800


def test_lost_answers_do_not_add_up() -> None:
    log = talk(3)
    for number in range(3000):
        log.answer(f"nobody{number}", "lost " * 30)
    log.user("go on")
    assert read(log, deep=True) < 2500


@examples(80)
@given(logs(), formats)
def test_the_pages_of_a_reader_hold_each_unit_once_and_whole(log: Log, target: str) -> None:
    state = log.state
    count = counter(parse_request({"format": target}))
    reader = MemoryHistory(state, count)
    rows, found, before = state.rows("messages"), [], NEWEST
    while page := reader.newest(before, 3):
        units = {row.unit for row in page}
        assert len(units) <= 3
        assert {row.event_id for row in rows if row.unit in units} == {row.event_id for row in page}
        found += page
        before = min(units)
        totals = reader.totals(before)
        older = [row for row in rows if row.unit < before]
        assert (totals.units, totals.messages) == (len({row.unit for row in older}), len(older))
        assert totals.tokens == sum(map(count.message, older))
    assert sorted(row.seq for row in found) == [row.seq for row in rows]
    assert state.progress.units == len({row.unit for row in rows})
    assert state.progress.messages == len(rows)
