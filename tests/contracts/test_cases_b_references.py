"""Cases B54 to B133 that need a store, and invariant 12: a reference resolves after trims, rollbacks and forks."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from store_histories import drain, said
from store_histories import event as happened
from structlog.testing import capture_logs

from domain.errors import InvalidEvent
from workers.engine import Deps, Engine
from workers.engine.references import expand
from workers.store import Database, migrate

Json = dict[str, Any]

NAMED = re.compile(r"\[e(\d+)\]|(?:引用 |reference )e(\d+)")


@pytest.fixture
def file_engine(sqlite_url: str) -> Iterator[Engine]:
    """An engine on a file of its own, whose tables may be tampered with."""
    migrate.upgrade(sqlite_url)
    database = Database(sqlite_url)
    yield Engine(Deps(database))
    database.dispose()


def asked(engine: Engine, tenant: str, session: str = "s", **body: Any) -> Json:
    """The finished job of a request."""
    job = engine.request_prompt(tenant, session, body, ring=False)
    return engine.run_job(tenant, job["id"])


def prompt_of(engine: Engine, tenant: str, session: str = "s", **body: Any) -> Json:
    done = asked(engine, tenant, session, **body)
    assert done["error"] is None
    return engine.prompt(tenant, done["prompt"])


def named(prompt: Json) -> set[int]:
    """The references that a prompt names."""
    return {int(one or two) for one, two in NAMED.findall(str(prompt["payload"]))}


def turn(number: int, size: int = 40) -> list[Json]:
    return [
        said(f"look up row {number}"),
        happened("assistant.output", tool_calls=[{"id": f"c{number}", "name": "search", "arguments": {"row": number}}]),
        happened("tool.result", call_id=f"c{number}", content=rows(number, size)),
    ]


def rows(number: int, size: int = 40) -> str:
    return f"row {number}: " + "".join(f"HAT{number}{at:03} leaves at 09:{at % 60:02}\n" for at in range(size))


def audit(engine: Engine, tenant: str, session: str = "s") -> list[str]:
    return [one["kind"] for one in engine.events(tenant, session, "audit")["events"]]


def contents(log: list[Json]) -> dict[int, str]:
    """By seq the text of each message, as it was sent."""
    found = {}
    for one in log:
        parts = one["payload"].get("content") if isinstance(one["payload"], dict) else None
        if one["kind"] in ("user.input", "assistant.output", "tool.result") and parts:
            found[one["seq"]] = "\n".join(part["text"] for part in parts)
    return found


# --- references ------------------------------------------------------------------------------------------------------


def test_b125_a_reference_is_the_number_in_the_log_and_outlives_every_trim(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", turn(0, 150))
    first = prompt_of(engine, tenant, budget=500)
    assert named(first) == {3}
    trims = set()
    for number in range(1, 7):
        engine.append(tenant, "s", turn(number, 8))
        prompt = prompt_of(engine, tenant, budget=500)
        trims.add(prompt["report"]["trim"]["cut"])
    assert len(trims) >= 3
    engine.append(tenant, "s", [happened("reference.expanded", reference_id="e3", start=200, end=260)])
    shown = prompt_of(engine, tenant, budget=500)
    assert rows(0, 150)[200:260].strip() in str(shown["payload"]["messages"]).replace("\\n", "\n")


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("e3", "what stood under 'e3' was erased"),
        ("e99", "nothing stands under 'e99'"),
        ("m0042", "nothing stands under 'm0042'"),
        ("e4", "'e4' is the event event.redacted, which has no text"),
    ],
)
def test_b125_the_error_says_what_became_of_the_reference(
    engine: Engine, tenant: str, reference: str, told: str
) -> None:
    receipts = engine.append(tenant, "s", turn(0))["events"]
    engine.append(tenant, "s", [happened("event.redacted", event_id=receipts[2]["event_id"])])
    with pytest.raises(InvalidEvent, match=told):
        engine.append(tenant, "s", [happened("reference.expanded", reference_id=reference)])


def test_b68_any_part_of_an_oversized_message_comes_back(engine: Engine, tenant: str) -> None:
    giants = [f"part {number} begins. " + f"lorem {number} ipsum dolor " * 9000 + "its end." for number in range(3)]
    engine.append(tenant, "s", [said("start"), *(happened("assistant.output", content=giant) for giant in giants)])
    engine.append(tenant, "s", [said("go on")])
    prompt = prompt_of(engine, tenant, budget=1500)
    assert named(prompt) == {2, 3, 4}
    for seq in named(prompt):
        giant = giants[seq - 2]
        middle = len(giant) // 2
        engine.append(
            tenant, "s", [happened("reference.expanded", reference_id=f"e{seq}", start=middle, end=middle + 90)]
        )
        shown = prompt_of(engine, tenant, budget=1500)
        assert giant[middle : middle + 90].strip() in str(shown["payload"])


@st.composite
def moves(draw: Any) -> list[tuple[str, int]]:
    """What happens to a session: turns of some size, prompts, rollbacks, and now and then a long result."""
    made = draw(
        st.lists(
            st.tuples(st.sampled_from(["turn", "turn", "long", "back"]), st.integers(0, 1000)), min_size=4, max_size=8
        )
    )
    return [("long", 0), ("turn", 1), ("turn", 2), *made]


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves())
def test_inv12_a_reference_resolves_after_more_trims_rollbacks_and_in_forks(
    file_engine: Engine, history: list[tuple[str, int]]
) -> None:
    """Whatever a prompt once named gives what the log had there, and goes on doing so."""
    engine, tenant = file_engine, f"t-{uuid.uuid4().hex[:12]}"
    seen, trims, backs = set[int](), 0, 0
    for number, (what, pick) in enumerate(history):
        if what == "back":
            head = engine.events(tenant, "s")["head"]
            engine.append(tenant, "s", [happened("context.rolled_back", to_seq=pick % head)])
            backs += 1
        else:
            engine.append(tenant, "s", turn(number, 70 if what == "long" else 4 + pick % 12))
        if what != "turn" or pick % 2:
            prompt = prompt_of(engine, tenant, budget=500)
            trims += prompt["report"]["trim"]["strategy"] != "none"
            seen |= named(prompt)
    log = engine.events(tenant, "s", limit=500)["events"]
    there = contents(log)
    event(f"references {min(len(seen), 3)}, trims {min(trims, 3)}, rollbacks {min(backs, 2)}")
    assert seen
    assert trims
    engine.append(tenant, "fork", [happened("session.forked", parent="s", at_seq=len(log))])
    engine.append(tenant, "fork of it", [happened("session.forked", parent="fork", at_seq=max(seen))])
    for seq in sorted(seen):
        for session in ("s", "fork", "fork of it"):
            assert expand(engine.deps, tenant, session, f"e{seq}") == there[seq]
            assert expand(engine.deps, tenant, session, f"e{seq}", 5, 25) == there[seq][5:25]
    for session in ("s", "fork of it"):
        chosen = happened("reference.expanded", reference_id=f"e{max(seen)}", end=30)
        engine.append(tenant, session, [chosen])
        assert f"e{max(seen)}" in str(prompt_of(engine, tenant, session, budget=500)["payload"])


# --- what a refusal leaves behind ------------------------------------------------------------------------------------


def test_b61_b64_a_prompt_that_cannot_be_leaves_nothing_and_says_the_same_each_time(
    engine: Engine, tenant: str
) -> None:
    engine.append(tenant, "s", [happened("instruction.set", role="rule " * 3000), said("do it"), *turn(1), *turn(2)])
    told = []
    for number in range(4):
        done = asked(engine, tenant, budget=2000)
        assert (done["status"], done["prompt"], done["error"]["code"]) == ("failed", None, "context_overflow")
        assert max(done["error"]["details"]["needs"], key=done["error"]["details"]["needs"].get) == "anchor_system"
        told.append(done["error"]["message"])
        if number == 1:
            drain(engine)
    assert len(set(told)) == 1
    assert audit(engine, tenant) == []
    assert engine.prompts(tenant, "s")["prompts"] == []
    assert engine.sweep() == 0, "nothing goes on trying by itself"
    assert prompt_of(engine, tenant, budget=8000)["version"] == 1


# --- what is stored --------------------------------------------------------------------------------------------------


def test_b54_counts_that_were_stored_by_other_rules_are_not_used(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.append(tenant, "s", [said(f"message {number}") for number in range(40)])
    with monkeypatch.context() as older:
        older.setattr("domain.counting.COUNTING", 1)
        first = prompt_of(engine, tenant, budget=2000)
    with database.write(tenant) as unit:
        wrong = "UPDATE message_tokens SET tokens = tokens * 9999, total_tokens = total_tokens * 9999 WHERE tenant = :t"
        changed = unit.execute(sa.text(wrong), {"t": tenant})
        assert changed.rowcount == 40, "counts were stored"
    again = prompt_of(engine, tenant, budget=2000, fresh=True)
    assert again["payload"] == first["payload"]
    assert again["report"]["trim"]["strategy"] == "none"
    assert again["report"]["ledger"]["in"]["tokens"] == first["report"]["ledger"]["in"]["tokens"] < 2000


def test_b132_a_cut_and_its_summary_are_stored_together_or_not_at_all(file_engine: Engine, sqlite_url: str) -> None:
    engine, tenant = file_engine, "t"
    for number in range(8):
        engine.append(tenant, "s", turn(number))
    before = engine.events(tenant, "s")["head"]
    refuse = (
        "CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.kind = 'context.trimmed' "
        "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with engine.deps.database.write(tenant) as unit:
        unit.execute(sa.text(refuse))
    job = engine.request_prompt(tenant, "s", {"budget": 500}, ring=False)
    with capture_logs() as logged:
        engine.compile(tenant, "s")
    assert [one["event"] for one in logged] == ["work failed"]
    assert engine.job(tenant, job["id"])["status"] == "queued"
    assert engine.prompts(tenant, "s")["prompts"] == []
    assert audit(engine, tenant) == [], "neither the summary nor the cut is there"
    with engine.deps.database.write(tenant) as unit:
        unit.execute(sa.text("DROP TRIGGER full"))
        unit.execute(sa.text("UPDATE work SET due_at = 0"))
    done = engine.run_job(tenant, job["id"])
    prompt = engine.prompt(tenant, done["prompt"])
    assert prompt["version"] == 1
    assert prompt["report"]["trim"]["strategy"] == "summary"
    assert audit(engine, tenant).count("context.trimmed") == 1
    [trimmed] = [one for one in engine.events(tenant, "s", "audit")["events"] if one["kind"] == "context.trimmed"]
    by_strategy = {one["strategy"] for one in trimmed["payload"]["units"]}
    assert "summary" in by_strategy
    assert engine.events(tenant, "s")["head"] == before, "the log is what it was"


def test_b113_what_was_cut_is_in_the_log_and_a_replay_shows_no_more_than_the_original_did(
    engine: Engine, tenant: str, store_url: str
) -> None:
    made = []
    for number in range(8):
        engine.append(tenant, "s", turn(number, 8))
        made.append(prompt_of(engine, tenant, budget=600))
    told = engine.events(tenant, "s", "audit")["events"]
    cuts = {one["payload"]["snapshot_id"]: one["payload"] for one in told if one["kind"] == "context.trimmed"}
    cut = [one for one in made if one["report"]["trim"]["strategy"] != "none"]
    assert set(cuts) == {one["id"] for one in cut} != set()
    for prompt in cut:
        shown = {
            name for one in prompt["provenance"] if one["zone"] not in ("summary", "slots") for name in one["events"]
        }
        gone = {name for one in cuts[prompt["id"]]["units"] for name in one.get("events", ())}
        assert gone
        assert not gone & shown
    other = Database(store_url)
    try:
        for prompt in made:
            assert Engine(Deps(other)).replay(tenant, prompt["id"])["identical"]
    finally:
        other.dispose()


def test_b123_times_are_one_moment_in_utc_whatever_zone_they_came_in(engine: Engine, tenant: str) -> None:
    same = ["2026-05-01T12:00:09Z", "2026-05-01T14:00:09+02:00", "2026-05-01T12:00:09"]
    engine.append(tenant, "s", [{**said(text), "occurred_at": text} for text in same])
    log = engine.events(tenant, "s")["events"]
    assert len({one["occurred_at"] for one in log}) == 1
    assert log[0]["occurred_at"].startswith("2026-05-01T12:00:09")
    texts = [message["content"] for message in prompt_of(engine, tenant, as_of=same[1])["payload"]["messages"]]
    assert texts == same


def summary(prompt: Json) -> str:
    """The prompt's summary, without the lines that come and go with the prompt's size."""
    whole = [one for one in prompt["provenance"] if one["zone"] == "summary"]
    assert len(whole) == 1
    text: str = prompt["payload"]["messages"][whole[0]["message"]]["content"]
    return "\n".join(line for line in text.split("\n") if line.startswith("- "))


def test_b133_another_process_goes_on_with_the_summary_that_the_first_one_made(
    engine: Engine, tenant: str, store_url: str
) -> None:
    for number in range(8):
        engine.append(tenant, "s", turn(number))
    first = prompt_of(engine, tenant, budget=600)
    made = summary(first)
    assert made
    engine.append(tenant, "s", [said("a short one")])
    other = Database(store_url)
    try:
        second = prompt_of(Engine(Deps(other)), tenant, budget=600)
    finally:
        other.dispose()
    assert second["parent"] == first["id"]
    assert second["report"]["trim"]["carried"]
    assert summary(second) == made
    assert second["payload"]["messages"][: len(first["payload"]["messages"])] == first["payload"]["messages"]
