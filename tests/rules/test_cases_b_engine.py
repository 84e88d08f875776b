"""Cases B21 to B129 that need a log: ids and order at ingest, redelivery, appends while others work, tenants."""

import contextlib
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from checkers import faults, seen

from domain.errors import ConcurrencyConflict, EventConflict, PromptctxError
from workers.dispatch import Inline
from workers.engine import Deps, Engine
from workers.store import Database, migrate

Json = dict[str, Any]


@pytest.fixture
def engine(sqlite_url: str) -> Iterator[Engine]:
    migrate.upgrade(sqlite_url)
    database, dispatcher = Database(sqlite_url), Inline()
    deps = Deps(database, dispatcher=dispatcher)
    dispatcher.start(deps)
    yield Engine(deps)
    dispatcher.close()
    database.dispose()


def said(text: str, **more: Any) -> Json:
    return {"kind": "user.input", "payload": {"content": text}, **more}


def answered(text: str, **more: Any) -> Json:
    return {"kind": "assistant.output", "payload": {"content": text}, **more}


def append(engine: Engine, *events: Json, session: str = "s", tenant: str = "t", **more: Any) -> Json:
    return engine.append(tenant, session, list(events), **more)


def prompt(engine: Engine, session: str = "s", tenant: str = "t", **body: Any) -> Json:
    job = engine.request_prompt(tenant, session, body)
    job = engine.run_job(tenant, job["id"])
    assert job["status"] == "done", job["error"]
    return engine.prompt(tenant, job["prompt"])


def texts(made: Json) -> list[str]:
    return [one.text for one in seen(made["payload"], made["format"])]


def log(engine: Engine) -> list[Json]:
    found: list[Json] = engine.events("t", "s")["events"]
    return found


def test_b21_events_without_ids_get_ids_that_stay(engine: Engine) -> None:
    receipts = append(engine, said("one"), said("two"), said("one"))["events"]
    ids = [receipt["event_id"] for receipt in receipts]
    assert len({uuid.UUID(one) for one in ids}) == 3
    assert [event["event_id"] for event in log(engine)] == ids
    append(engine, {"kind": "message.pinned", "payload": {"event_id": ids[0]}})
    assert texts(prompt(engine)) == ["one", "two", "one"]


def test_b95_a_message_stamped_late_keeps_the_place_at_which_it_came(engine: Engine) -> None:
    append(engine, said("question", occurred_at="2026-05-01T12:00:09Z"))
    append(engine, answered("reply", occurred_at="2026-05-01T12:00:05Z"))
    assert [event["seq"] for event in log(engine)] == [1, 2]
    assert texts(prompt(engine)) == ["question", "reply"]


def test_b96_events_emitted_at_once_get_one_order_that_all_readers_see(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append(engine, said(f"m{number}")), range(40)))
    events = log(engine)
    assert [event["seq"] for event in events] == list(range(1, 41))
    told = [event["payload"]["content"][0]["text"] for event in events]
    assert sorted(told) == sorted(f"m{number}" for number in range(40))
    assert texts(prompt(engine, budget=100_000)) == told


def test_b98_a_compile_in_the_background_makes_no_append_stale(engine: Engine) -> None:
    head = append(engine, *(said(f"question {number} " * 20) for number in range(10)))["head"]
    assert prompt(engine, budget=300)["report"]["trim"]["strategy"] != "none"
    assert append(engine, said("the next"), expected_seq=head)["head"] == head + 1
    with pytest.raises(ConcurrencyConflict) as refused:
        append(engine, said("too late"), expected_seq=head)
    assert refused.value.details["head"] == head + 1


def test_b99_what_is_appended_while_a_prompt_is_made_is_neither_lost_nor_in_it(engine: Engine) -> None:
    append(engine, *(said(f"question {number} " * 20) for number in range(30)))
    job = engine.request_prompt("t", "s", {"budget": 400}, ring=False)
    appending = threading.Thread(target=lambda: [append(engine, said(f"meanwhile {number}")) for number in range(9)])
    appending.start()
    done = engine.run_job("t", job["id"])
    appending.join()
    assert "meanwhile" not in str(engine.prompt("t", done["prompt"])["payload"])
    assert len(log(engine)) == 39
    assert "meanwhile 8" in texts(prompt(engine, budget=400))


def test_b101_a_redelivered_event_is_the_same_event(engine: Engine) -> None:
    delivery = said("pay the bill", event_id=str(uuid.uuid4()))
    first = append(engine, delivery)
    append(engine, said("something else"))
    again = append(engine, delivery)
    assert again["events"][0] == {**first["events"][0], "duplicate": True}
    assert len(log(engine)) == 2
    assert texts(prompt(engine)) == ["pay the bill", "something else"]
    with pytest.raises(EventConflict):
        append(engine, {**delivery, "payload": {"content": "pay twice"}})


def test_b102_one_event_sent_four_times_at_once_is_one_event(engine: Engine) -> None:
    delivery = said("only once", event_id=str(uuid.uuid4()))
    with ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lambda _: append(engine, delivery)["events"][0], range(4)))
    assert sorted(receipt["duplicate"] for receipt in receipts) == [False, True, True, True]
    assert {receipt["seq"] for receipt in receipts} == {1}
    assert len(log(engine)) == 1


def test_b102_a_batch_of_which_half_is_known_adds_the_other_half(engine: Engine) -> None:
    batch = [said(f"m{number}", event_id=str(uuid.uuid4())) for number in range(4)]
    append(engine, *batch[:2])
    receipts = append(engine, *batch)["events"]
    assert [receipt["duplicate"] for receipt in receipts] == [True, True, False, False]
    assert [event["seq"] for event in log(engine)] == [1, 2, 3, 4]


def test_b129_sessions_and_tenants_share_no_answer(engine: Engine) -> None:
    for tenant, session, text in (("t", "s", "one"), ("t", "s2", "two"), ("u", "s", "three")):
        rule = {"kind": "instruction.set", "payload": {"role": "You are the same."}}
        append(engine, rule, said(text), tenant=tenant, session=session)
    assert texts(prompt(engine))[-1] == "one"
    assert texts(prompt(engine, "s2"))[-1] == "two"
    assert texts(prompt(engine, tenant="u"))[-1] == "three"


@pytest.mark.parametrize("target", ["openai", "anthropic", "text"])
def test_b104_after_a_rollback_the_request_of_a_version_gives_its_bytes_again(engine: Engine, target: str) -> None:
    made: list[Json] = []
    for turn in range(16):
        append(engine, said(f"question {turn} about W{1000 + turn} " * 6), answered(f"answer {turn} " * 12))
        made.append(prompt(engine, format=target, budget=500))
    version = made[8]
    assert version["report"]["trim"]["cut"] > 0, "the version should carry a cut"
    for _ in range(2):
        append(engine, {"kind": "context.rolled_back", "payload": {"to_seq": 18, "to_version": version["version"]}})
        again = prompt(engine, format=target, budget=500, as_of=version["request"]["as_of"])
        assert again["version"] > version["version"]
        assert faults(again["payload"], target) == []
        assert again["content_hash"] == version["content_hash"]
        append(engine, said("another way " * 20))
        prompt(engine, format=target, budget=500)


def test_erasing_a_rollback_brings_nothing_back(engine: Engine) -> None:
    append(engine, said("one"), said("two, which was taken back"))
    rollback = append(engine, {"kind": "context.rolled_back", "payload": {"to_seq": 1}})["events"][0]
    with contextlib.suppress(PromptctxError):  # to refuse it is one way
        append(engine, {"kind": "event.redacted", "payload": {"event_id": rollback["event_id"]}})
    assert texts(prompt(engine)) == ["one"]
