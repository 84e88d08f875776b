"""The log: numbered without gaps, idempotent, exact, immutable, chained."""

import threading
import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_histories import any_json, any_text, drain, event, said

from domain.errors import (
    ConcurrencyConflict,
    EventConflict,
    Forbidden,
    InvalidEvent,
    InvalidRequest,
    PayloadTooLarge,
    TooManyPins,
    UnknownSession,
)  # fmt: skip
from workers.clock import SetClock
from workers.engine import Deps, Engine
from workers.store import EVERY, Database
from workers.store.tables import streams

shared_fixtures = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def payloads(engine: Engine, tenant: str, session: str, stream: str = "session") -> list[Any]:
    return [one["payload"] for one in engine.events(tenant, session, stream, 0, 1000)["events"]]


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_the_first_event_makes_the_session_and_seqs_have_no_gaps(engine: Engine, tenant: str) -> None:
    first = engine.append(tenant, "s", [said("a")])
    more = engine.append(tenant, "s", [said("b"), said("c")])
    assert [receipt["seq"] for receipt in first["events"] + more["events"]] == [1, 2, 3]
    assert more["head"] == 3
    assert [one["id"] for one in engine.sessions(tenant)["sessions"]] == ["s"]


def test_a_batch_is_appended_whole_or_not_at_all(engine: Engine, tenant: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        engine.append(tenant, "s", [said("a"), event("constraint.set", id="x")])
    assert caught.value.details["index"] == 1
    with pytest.raises(UnknownSession):
        engine.events(tenant, "s")


def test_profile_and_memory_go_to_the_subject_and_audit_kinds_to_the_audit_stream(engine: Engine, tenant: str) -> None:
    done = engine.append(
        tenant,
        "s",
        [
            event("session.started", subject="u-1"),
            event("profile.set", key="城市", value="北京"),
            event("memory.recorded", id="m", text="t", scope="tenant"),
            event("output.flagged", snapshot_id="p"),
            said("hi"),
        ],
    )
    assert [(one["stream"], one["seq"]) for one in done["events"]] == [
        ("session", 1),
        ("subject", 1),
        ("tenant", 1),
        ("audit", 1),
        ("session", 2),
    ]
    routed = engine.events(tenant, "s", "subject")["events"][0]
    assert routed["correlation_id"] == "session/s@1"
    assert routed["causation_id"] == done["events"][0]["event_id"]


def test_sessions_of_one_subject_share_its_stream(engine: Engine, tenant: str) -> None:
    for name in ("a", "b"):
        engine.append(tenant, name, [event("session.started", subject="u"), event("profile.set", key=name, value=1)])
    assert [one["key"] for one in payloads(engine, tenant, "b", "subject")] == ["a", "b"]


def test_a_session_without_a_subject_has_a_private_one(engine: Engine, tenant: str) -> None:
    for name in ("a", "b"):
        engine.append(tenant, name, [event("profile.set", key=name, value=1)])
    assert [one["key"] for one in payloads(engine, tenant, "b", "subject")] == ["b"]


def test_inv15_tenants_do_not_see_each_other(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [said("mine")])
    with pytest.raises(UnknownSession):
        engine.events(f"{tenant}-other", "s")
    assert engine.append(f"{tenant}-other", "s", [said("theirs")])["head"] == 1
    assert engine.sessions(f"{tenant}-other")["sessions"][0]["head"] == 1


# --- idempotency and conflicts ----------------------------------------------------------------------------------------


def test_the_same_event_again_gives_the_first_seq(engine: Engine, tenant: str) -> None:
    one = said("a")
    first = engine.append(tenant, "s", [one, said("b")])
    again = engine.append(tenant, "s", [said("c"), one])
    assert again["events"][1] == {**first["events"][0], "duplicate": True}
    assert again["head"] == 3


def test_the_same_event_twice_in_one_batch_is_one_event(engine: Engine, tenant: str) -> None:
    one = said("a")
    done = engine.append(tenant, "s", [one, said("b"), one])
    assert [(receipt["seq"], receipt["duplicate"]) for receipt in done["events"]] == [(1, False), (2, False), (1, True)]
    assert done["head"] == 2


@pytest.mark.parametrize(
    "other",
    [
        event("user.input", content="b"),
        event("custom.x", content="a"),
        event("profile.set", key="content", value="a"),
    ],
)
def test_the_same_id_with_other_content_is_a_conflict(engine: Engine, tenant: str, other: dict[str, Any]) -> None:
    one = said("a")
    engine.append(tenant, "s", [one])
    with pytest.raises(EventConflict):
        engine.append(tenant, "s", [said("before"), {**other, "event_id": one["event_id"]}])
    assert payloads(engine, tenant, "s") == [{"content": [{"type": "text", "text": "a"}]}] or (
        len(payloads(engine, tenant, "s")) == 1
    )


def test_expected_seq_speaks_of_the_session_alone(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [said("a"), event("profile.set", key="k", value=1)], expected_seq=0)
    engine.append(tenant, "s", [event("profile.set", key="k", value=2)], expected_seq=1)
    with pytest.raises(ConcurrencyConflict) as caught:
        engine.append(tenant, "s", [said("b")], expected_seq=0)
    assert caught.value.details["head"] == 1


def test_a_retry_whose_answer_was_lost_is_no_conflict(engine: Engine, tenant: str) -> None:
    batch = [said("a"), said("b")]
    first = engine.append(tenant, "s", batch, expected_seq=0)
    again = engine.append(tenant, "s", batch, expected_seq=0)
    assert [one["seq"] for one in again["events"]] == [one["seq"] for one in first["events"]]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "x" * 201, "a/b", "a\x00", "a\nb", "\ud800", 7, None])
def test_names_that_cannot_be_ids_are_refused(engine: Engine, tenant: str, name: Any) -> None:
    with pytest.raises(InvalidRequest):
        engine.append(tenant, name, [said("a")])


@pytest.mark.parametrize(
    "name", ["x" * 200, "会话 1", "...", "s@", "s@1x", "a?b#c%2F", "'; DROP TABLE events; --", "👩\u200d👧"]
)
def test_any_other_name_is_an_id(engine: Engine, tenant: str, name: str) -> None:
    assert engine.append(tenant, name, [said("a")])["head"] == 1
    assert engine.sessions(tenant)["sessions"][0]["id"] == name


@pytest.mark.parametrize(("name", "why"), [(".", "folder"), ("..", "folder"), ("a@3", "SESSION@VERSION")])
def test_a_new_session_has_no_name_that_addresses_or_prompts_have(
    engine: Engine, tenant: str, name: str, why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        engine.append(tenant, name, [said("a")])
    assert engine.sessions(tenant)["sessions"] == []
    engine.append(tenant, "s", [said("a")])
    with engine.deps.database.write(tenant) as unit:  # as an older release let it be called
        mine = (streams.c.stream_id == "session/s") & (streams.c.tenant == tenant)
        unit.execute(sa.update(streams).where(mine).values(stream_id=f"session/{name}"))
    assert engine.append(tenant, name, [said("b")])["head"] == 2


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ([], "events"),
        (["text"], "event"),
        ([{}], "kind"),
        ([{"kind": 1}], "kind"),
        ([{"kind": "instruction.set"}], "payload"),
        ([{"kind": "instruction.set", "payload": {"text": " ", "rules": [{"text": ""}]}}], "payload"),
        ([{"kind": "constraint.set", "payload": {"id": "q", "text": " "}}], "payload.text"),
        ([{"kind": "a\x00"}], "kind"),
        ([{"kind": "user.input", "text": "hi"}], "text"),
        ([{"kind": "user.input", "event_id": "x"}], "event_id"),
        ([{"kind": "user.input", "schema_version": True}], "schema_version"),
        ([{"kind": "user.input", "occurred_at": "yesterday"}], "occurred_at"),
        ([{"kind": "user.input", "occurred_at": 5}], "occurred_at"),
        ([{"kind": "user.input", "actor": "a\x00"}], "actor"),
        ([{"kind": "user.input", "run_id": "\ud800"}], "run_id"),
        ([{"kind": "user.input", "payload": []}], "payload"),
        ([{"kind": "memory.recorded", "payload": {"id": "m", "text": "t", "importance": 2}}], "payload.importance"),
        ([{"kind": "custom.x", "payload": {"a": [1.0, float("nan")]}}], "payload.a.1"),
        ([{"kind": "profile.set", "payload": {"key": "k", "value": {"a": float("inf")}}}], "payload.value.a"),
        ([{"kind": "session.started", "payload": {"subject": "a/b"}}], "payload.subject"),
        ([{"kind": "event.redacted", "payload": {"event_id": str(uuid.UUID(int=1))}}], "payload.event_id"),
    ],
)
def test_bad_events_are_refused_with_the_field(engine: Engine, tenant: str, wire: Any, path: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        engine.append(tenant, "s", wire)
    assert caught.value.details["path"] == path
    assert engine.sessions(tenant)["sessions"] == []


def test_nesting_without_end_is_refused(engine: Engine, tenant: str) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidEvent):
        engine.append(tenant, "s", [event("custom.x", deep=deep)])


def test_a_payload_over_the_limit_names_the_document_upload(engine: Engine, tenant: str) -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        engine.append(tenant, "s", [said("x" * (1024 * 1024))])
    assert "documents" in caught.value.message


def test_a_sixth_pin_is_refused(engine: Engine, tenant: str) -> None:
    messages = [said(str(number)) for number in range(6)]
    pins = [event("message.pinned", event_id=one["event_id"]) for one in messages]
    engine.append(tenant, "s", [*messages, *pins[:5]])
    with pytest.raises(TooManyPins):
        engine.append(tenant, "s", [pins[5]])
    assert engine.append(tenant, "s", [pins[4]])["events"][0]["duplicate"]
    engine.append(tenant, "s", [event("message.unpinned", event_id=messages[0]["event_id"]), pins[5]])


# --- rules about rules ------------------------------------------------------------------------------------------------

LOOSENING = [
    event("constraint.removed", id="no-rm"),
    event("constraint.set", id="no-rm", level="warn", text="no rm"),
    event("instruction.set", role="other"),
    event("context.rolled_back", to_seq=0, loosen=True),
    event("session.started", subject="somebody-else"),
]


@pytest.mark.parametrize("loosening", LOOSENING, ids=lambda one: one["kind"])
@pytest.mark.parametrize("actor", ["agent", "Agent", "assistant", "agent:1", "tool", None])
def test_rules_are_not_loosened_without_the_right(
    engine: Engine, tenant: str, loosening: dict[str, Any], actor: str | None
) -> None:
    engine.append(
        tenant, "s", [event("constraint.set", id="no-rm", text="no rm"), event("instruction.set", role="first")]
    )
    wire = {**loosening, **({"actor": actor} if actor else {})}
    with pytest.raises(Forbidden):
        engine.append(tenant, "s", [said("harmless"), wire], may_loosen=actor is not None)
    assert engine.events(tenant, "s")["head"] == 2
    assert engine.append(tenant, "s", [loosening])["head"] == 3


def test_tightening_needs_no_right(engine: Engine, tenant: str) -> None:
    engine.append(
        tenant,
        "s",
        [event("constraint.set", id="a", level="warn", text="t"), event("constraint.set", id="a", text="t")],
        may_loosen=False,
    )
    engine.append(tenant, "s", [event("instruction.set", role="first")], may_loosen=False)


def test_erasing_a_rule_is_loosening_it(engine: Engine, tenant: str) -> None:
    rule = event("constraint.set", id="no-rm", text="no rm")
    engine.append(tenant, "s", [rule])
    with pytest.raises(Forbidden):
        engine.append(tenant, "s", [event("event.redacted", event_id=rule["event_id"])], may_loosen=False)
    for actor in ("agent", "tool"):
        with pytest.raises(Forbidden):
            engine.append(tenant, "s", [{**event("event.redacted", event_id=rule["event_id"]), "actor": actor}])


# --- exactness --------------------------------------------------------------------------------------------------------


@shared_fixtures
@given(any_json, any_text)
def test_f39_every_json_value_and_text_comes_back_exactly(engine: Engine, value: Any, text: str) -> None:
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    engine.append(tenant, "s", [event("custom.any", value=value, **{"\x00\ud800": text}), said(text)])
    kept = payloads(engine, tenant, "s")
    assert kept[0] == {"value": value, "\x00\ud800": text}
    assert kept[1] == ({"content": [{"type": "text", "text": text}]} if text else {})
    assert engine.verify(tenant, "s")["ok"]


def test_occurred_at_is_kept_and_never_orders(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [said("late", occurred_at="2030-01-01T00:00:00.123456+08:00")])
    engine.append(tenant, "s", [said("early", occurred_at="1969-12-31T23:59:59Z")])
    found = engine.events(tenant, "s")["events"]
    assert [one["occurred_at"] for one in found] == ["2029-12-31T16:00:00.123456Z", "1969-12-31T23:59:59.000000Z"]


def test_recorded_at_never_runs_backwards_in_a_stream(database: Database, tenant: str) -> None:
    clock = SetClock()
    engine = Engine(Deps(database, clock=clock))
    engine.append(tenant, "s", [said("a")])
    clock.move(-1_000_000)
    engine.append(tenant, "s", [said("b")])
    first, second = engine.events(tenant, "s")["events"]
    assert second["recorded_at"] >= first["recorded_at"]


def test_unknown_kinds_and_newer_versions_are_kept(engine: Engine, tenant: str) -> None:
    newer = {**event("user.input", future=1), "schema_version": 9}
    engine.append(tenant, "s", [newer, event("brand.new", a=1)])
    drain(engine)
    found = engine.events(tenant, "s")["events"]
    assert [(one["kind"], one["schema_version"], one["payload"]) for one in found] == [
        ("user.input", 9, {"future": 1}),
        ("brand.new", 1, {"a": 1}),
    ]


def test_pages_follow_each_other(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [said(str(number)) for number in range(7)])
    seen, after = [], 0
    while after is not None:
        page = engine.events(tenant, "s", after=after, limit=3)
        seen += [one["seq"] for one in page["events"]]
        after = page["next"]
    assert seen == list(range(1, 8))


def test_sessions_are_listed_newest_first_in_pages(engine: Engine, tenant: str) -> None:
    for name in "abcde":
        engine.append(tenant, name, [event("session.started", title=f"\x00{name}")])
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = engine.sessions(tenant, 2, after)
        seen += [one["id"] for one in page["sessions"]]
        after = page["next"]
    assert seen == list("edcba")


# --- immutability and the chain ---------------------------------------------------------------------------------------

TAMPERINGS = {
    "payload": "UPDATE events SET payload = :bytes WHERE tenant = :tenant AND seq = 2",
    "kind": "UPDATE events SET kind = 'custom.y' WHERE tenant = :tenant AND seq = 2",
    "salt": "UPDATE events SET salt = NULL WHERE tenant = :tenant AND seq = 2",
    "digest": "UPDATE events SET digest = :bytes WHERE tenant = :tenant AND seq = 2",
    "recorded_at": "UPDATE events SET recorded_at = 1 WHERE tenant = :tenant AND seq = 2",
    "actor": "UPDATE events SET actor = 'user' WHERE tenant = :tenant AND seq = 2",
    "middle": "DELETE FROM events WHERE tenant = :tenant AND seq = 2",
    "end": "DELETE FROM events WHERE tenant = :tenant AND seq = 3",
}


def tamper(database: Database, sql: str, tenant: str) -> None:
    """As the owner of the tables, whom no role binds."""
    statement = sa.text(sql)
    params = {"tenant": tenant} | ({"bytes": b"{}"} if ":bytes" in sql else {})
    with database.engines()[0].connect() as connection:
        connection.execute(statement, params)
        connection.commit()


@pytest.mark.parametrize("name", TAMPERINGS)
def test_the_database_refuses_to_change_events(database: Database, engine: Engine, tenant: str, name: str) -> None:
    engine.append(tenant, "s", [said("a"), said("b"), said("c")])
    with pytest.raises(sa.exc.DBAPIError, match="immutable"):
        tamper(database, TAMPERINGS[name], tenant)
    assert engine.verify(tenant, "s")["ok"]


@pytest.fixture
def unguarded(sqlite_url: str) -> Database:
    """A store from which somebody took the triggers away."""
    from workers.store import migrate

    migrate.upgrade(sqlite_url)
    database = Database(sqlite_url)
    with database.write(EVERY) as unit:
        for trigger in ("events_update", "events_delete"):
            unit.execute(sa.text(f"DROP TRIGGER {trigger}"))
    return database


@pytest.mark.parametrize("name", TAMPERINGS)
def test_f56_verify_finds_every_tampering(unguarded: Database, tenant: str, name: str) -> None:
    engine = Engine(Deps(unguarded))
    engine.append(tenant, "s", [said("a"), said("b"), said("c")])
    drain(engine)
    assert engine.verify(tenant, "s")["ok"]
    tamper(unguarded, TAMPERINGS[name], tenant)
    report = engine.verify(tenant, "s")
    assert not report["ok"]
    assert report["problems"][0]["stream"] == "session/s"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seq=st.integers(1, 4), at=st.integers(0, 10_000), bit=st.integers(0, 7), column=st.sampled_from(
    ["payload", "salt", "payload_hash", "digest", "event_id"]))  # fmt: skip
def test_f56_one_flipped_bit_is_found(unguarded: Database, seq: int, at: int, bit: int, column: str) -> None:
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    engine = Engine(Deps(unguarded))
    engine.append(tenant, "s", [said(text) for text in "abcd"])
    with unguarded.write(tenant) as unit:
        where = f"FROM events WHERE tenant = '{tenant}' AND seq = {seq}"
        before = bytearray(unit.execute(sa.text(f"SELECT {column} {where}")).scalar_one())
        before[at % len(before)] ^= 1 << bit
        changed = f"UPDATE events SET {column} = :b WHERE tenant = '{tenant}' AND seq = {seq}"
        unit.execute(sa.text(changed), {"b": bytes(before)})
    assert not engine.verify(tenant, "s")["ok"]


def test_erasing_keeps_the_chain_and_what_was_erased_stays_away(engine: Engine, tenant: str) -> None:
    secret = said("my secret")
    engine.append(tenant, "s", [said("a"), secret, said("c")])
    drain(engine)
    engine.append(tenant, "s", [event("event.redacted", event_id=secret["event_id"], reason="asked")])
    drain(engine)
    erased = engine.events(tenant, "s")["events"][1]
    assert erased["redacted"]
    assert erased["payload"] is None
    again = engine.append(tenant, "s", [secret])
    assert again["head"] == 4
    assert (again["events"][0]["seq"], again["events"][0]["redacted"]) == (2, True)
    assert engine.verify(tenant, "s")["ok"]


# --- many writers -----------------------------------------------------------------------------------------------------


def test_f56_threads_that_append_at_once_lose_nothing_and_fork_nothing(engine: Engine, tenant: str) -> None:
    def append(writer: int) -> None:
        for number in range(20):
            events = [said(f"{writer}/{number}"), event("profile.set", key=f"{writer}", value=number)]
            engine.append(tenant, f"s-{writer % 2}", [event("session.started", subject="u"), *events])

    threads = [threading.Thread(target=append, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [engine.events(tenant, f"s-{number}")["head"] for number in range(2)] == [80, 80]
    assert engine.events(tenant, "s-0", "subject")["head"] == 80
    assert engine.verify(tenant)["ok"]
