"""Undoing: rollbacks and forks through the engine, and what they do to the memory that sessions share."""

from typing import Any

import pytest
import sqlalchemy as sa
from store_histories import compiled, drain, event, said

from domain.errors import Forbidden, InvalidEvent, InvalidRequest, UnknownSession
from workers.engine import Engine
from workers.store import streams

Json = dict[str, Any]
WORDS = "many words about trains and seats "


def started(engine: Engine, tenant: str, subject: str | None = "u-1", session: str = "s") -> None:
    told = {"subject": subject} if subject else {}
    engine.append(
        tenant,
        session,
        [
            event("session.started", mode="chat", locale="en", **told),
            event("instruction.set", role="You book trains."),
            event("profile.set", key="seat", value="window"),
            said("A train to Bern, please."),
        ],
    )


def back(engine: Engine, tenant: str, prompt: Json, session: str = "s", **more: Any) -> Json:
    payload = {"to_seq": prompt["inputs"]["session"]["seq"], "to_version": prompt["version"], **more}
    return engine.append(tenant, session, [event("context.rolled_back", **payload)])["events"][0]


def again(engine: Engine, tenant: str, prompt: Json, session: str = "s") -> Json:
    """The prompt of the same request, with its `as_of`."""
    return compiled(engine, tenant, session, **prompt["request"] | {"fresh": True})


# --- rollback ---------------------------------------------------------------------------------------------------------


def test_inv10_after_a_rollback_a_version_comes_back_with_what_its_session_wrote_into_memory_taken_back(
    engine: Engine, tenant: str
) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant, budget=2000)
    engine.append(
        tenant,
        "s",
        [
            said("No, to Basel."),
            event("profile.set", key="seat", value="aisle"),
            event("profile.set", key="class", value="first"),
            event("memory.recorded", id="m", text="Wants to go to Basel by train to Bern", category="fact"),
        ],
    )
    assert "aisle" in str(compiled(engine, tenant, budget=2000)["payload"])
    receipt = back(engine, tenant, version)
    assert [one["kind"] for one in receipt["takes_back"]] == ["memory.recorded", "profile.set", "profile.set"]
    assert receipt["conflicts"] == []
    after = again(engine, tenant, version)
    assert after["content_hash"] == version["content_hash"]
    assert after["version"] > version["version"]
    found = engine.verify(tenant)
    assert found["ok"], found


def test_a_rollback_of_a_rollback_brings_back_what_was_taken_back(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    first = compiled(engine, tenant, budget=2000)
    engine.append(tenant, "s", [said("No, to Basel."), event("profile.set", key="seat", value="aisle")])
    second = compiled(engine, tenant, budget=2000)
    for _ in range(2):
        back(engine, tenant, first)
        assert again(engine, tenant, first)["content_hash"] == first["content_hash"]
        back(engine, tenant, second)
        assert again(engine, tenant, second)["content_hash"] == second["content_hash"]
    found = engine.verify(tenant)
    assert found["ok"], found


@pytest.mark.parametrize("times", [2, 3])
def test_going_back_to_the_same_version_again_and_again_is_going_back_once(
    engine: Engine, tenant: str, times: int
) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant)
    engine.append(tenant, "s", [event("profile.set", key="seat", value="aisle")])
    first = back(engine, tenant, version)
    assert [one["text"] for one in first["takes_back"]] == ["aisle"]
    for _ in range(times - 1):
        back(engine, tenant, version)
    assert again(engine, tenant, version)["content_hash"] == version["content_hash"]
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=first["seq"] - 1)])
    assert "aisle" in str(compiled(engine, tenant)["payload"])


def test_b109_what_another_session_changed_since_is_not_taken_back(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant)
    engine.append(
        tenant, "s", [event("profile.set", key="seat", value="aisle"), event("profile.set", key="class", value="first")]
    )
    engine.append(
        tenant, "other", [event("session.started", subject="u-1"), event("profile.set", key="seat", value="any")]
    )
    planned = engine.history.rollback_plan(tenant, "s", to_version=version["version"])
    receipt = back(engine, tenant, version)
    assert receipt["takes_back"] == planned["takes_back"]
    assert [one["text"] for one in receipt["takes_back"]] == ["first"]
    assert [(one["text"], one["newer"]["text"]) for one in receipt["conflicts"]] == [("aisle", "any")]
    profile = {item["key"]: item["text"] for item in engine.state(tenant, "other")["slots"]["profile"]}
    assert "any" in str(profile)
    assert "first" not in str(profile)


def test_b109_going_back_to_the_beginning_takes_back_all_that_the_session_wrote_into_memory_the_newest_first(
    engine: Engine, tenant: str
) -> None:
    engine.append(
        tenant, "other", [event("session.started", subject="u-1"), event("profile.set", key="tea", value="yes")]
    )
    before = engine.state(tenant, "other")["slots"]["profile"]
    started(engine, tenant)
    engine.append(tenant, "s", [event("memory.recorded", id="m", text="likes Bern", category="identity")])
    engine.append(tenant, "s", [event("memory.revised", id="m", text="loves Bern"), event("profile.unset", key="tea")])
    receipt = engine.append(tenant, "s", [event("context.rolled_back", to_seq=0)])["events"][0]
    took = [one["kind"] for one in receipt["takes_back"]]
    assert took == ["profile.unset", "memory.revised", "memory.recorded", "profile.set"]
    assert engine.state(tenant, "other")["slots"]["profile"] == before
    assert "Bern" not in str(compiled(engine, tenant, "other", query="Bern")["payload"])


def test_a_rollback_takes_back_what_came_with_it_in_one_batch(engine: Engine, tenant: str) -> None:
    engine.append(
        tenant,
        "s",
        [said("hi"), event("profile.set", key="seat", value="aisle"), event("context.rolled_back", to_seq=0)],
    )
    drain(engine)
    assert engine.state(tenant, "s")["slots"]["profile"] == []


def test_memory_is_kept_on_request(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant)
    engine.append(tenant, "s", [event("profile.set", key="seat", value="aisle"), said("more")])
    receipt = back(engine, tenant, version, scope="memory_kept")
    assert "takes_back" not in receipt
    assert "aisle" in str(engine.state(tenant, "s")["slots"]["profile"])
    assert "more" not in str(compiled(engine, tenant)["payload"])


def test_b109_a_dry_run_shows_what_would_go_and_changes_nothing(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant)
    engine.append(
        tenant,
        "s",
        [
            said("No, to Basel."),
            event("constraint.set", id="no-pay", text="never pay"),
            event("memory.recorded", id="m", text="Basel"),
        ],
    )
    compiled(engine, tenant)
    head = engine.events(tenant, "s")["head"]
    plan = engine.history.rollback_plan(tenant, "s", to_version=version["version"])
    assert [one["text"] for one in plan["hides"]] == ["No, to Basel."]
    assert [one["kind"] for one in plan["stays"]] == ["constraint.set"]
    assert [one["text"] for one in plan["takes_back"]] == ["Basel"]
    assert plan["versions_after"] == [2]
    assert engine.events(tenant, "s")["head"] == head
    loose = engine.history.rollback_plan(tenant, "s", to_version=version["version"], loosen=True)
    assert [one["kind"] for one in loose["hides"]] == ["user.input", "constraint.set"]
    with pytest.raises(InvalidRequest):
        engine.history.rollback_plan(tenant, "s")
    with pytest.raises(InvalidRequest):
        engine.history.rollback_plan(tenant, "s", to_seq=99)


def test_the_next_report_says_what_a_rollback_hid(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant)
    engine.append(tenant, "s", [said("one"), said("two")])
    back(engine, tenant, version)
    engine.append(tenant, "s", [said("three")])
    (told,) = compiled(engine, tenant)["report"]["rolled_back"]
    at = version["inputs"]["session"]["seq"]
    assert (told["from_seq"], told["to_seq"]) == (at + 1, at + 2)
    engine.append(tenant, "s", [said("four")])
    assert compiled(engine, tenant)["report"]["rolled_back"] == []


def test_b110_what_was_rolled_back_can_be_said_again(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    version = compiled(engine, tenant)
    events = [said("to Basel"), event("profile.set", key="seat", value="aisle")]
    engine.append(tenant, "s", events)
    back(engine, tenant, version)
    fresh = [{**one, "event_id": event("x.y")["event_id"]} for one in events]
    engine.append(tenant, "s", fresh)
    prompt = compiled(engine, tenant)
    assert "to Basel" in str(prompt["payload"])
    assert "aisle" in str(prompt["payload"])


def test_b107_a_rollback_goes_where_it_says_whatever_came_meanwhile(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    first = compiled(engine, tenant)
    engine.append(tenant, "s", [said("one")])
    back(engine, tenant, first)
    engine.append(tenant, "s", [said("two")])
    second = compiled(engine, tenant)
    engine.append(tenant, "s", [said("three")])
    back(engine, tenant, second)
    found = str(again(engine, tenant, second)["payload"])
    assert ("one" in found, "two" in found, "three" in found) == (False, True, False)


def test_b107_a_rollback_that_is_sent_again_late_changes_nothing(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    at = compiled(engine, tenant)["inputs"]["session"]["seq"]
    engine.append(tenant, "s", [said("one")])
    rollback = event("context.rolled_back", to_seq=at, to_version=1)
    engine.append(tenant, "s", [rollback])
    engine.append(tenant, "s", [said("two"), event("profile.set", key="seat", value="aisle")])
    before = compiled(engine, tenant)
    (receipt,) = engine.append(tenant, "s", [rollback])["events"]
    assert (receipt["seq"], receipt["duplicate"]) == (at + 2, True)
    after = compiled(engine, tenant, fresh=True)
    assert after["payload"] == before["payload"]
    assert all(text in str(after["payload"]) for text in ("two", "aisle"))


def test_only_the_server_takes_single_events_back(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    with pytest.raises(InvalidEvent, match="undoes"):
        engine.append(tenant, "s", [event("context.rolled_back", to_seq=1, undoes=["x"])])


def test_a_rollback_from_the_middle_of_a_tool_batch_leaves_a_call_that_waits(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    calls = [{"id": name, "name": "find", "arguments": "{}"} for name in ("a", "b")]
    engine.append(
        tenant, "s", [event("assistant.output", tool_calls=calls), event("tool.result", call_id="a", content="one")]
    )
    half = compiled(engine, tenant)
    engine.append(tenant, "s", [event("tool.result", call_id="b", content="two"), said("thanks")])
    assert "two" in str(compiled(engine, tenant)["payload"])
    back(engine, tenant, half)
    assert again(engine, tenant, half)["content_hash"] == half["content_hash"]
    engine.append(tenant, "s", [event("tool.result", call_id="b", content="three")])
    assert "three" in str(compiled(engine, tenant)["payload"])


def test_b104_b105_going_back_to_before_a_trim_brings_everything_back(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    for turn in range(4):
        engine.append(tenant, "s", [said(f"early {turn}"), event("assistant.output", content=f"answer {turn}")])
    whole = compiled(engine, tenant, budget=700)
    for turn in range(8):
        engine.append(tenant, "s", [said(f"late {turn} {WORDS * 12}"), event("assistant.output", content="yes")])
        trimmed = compiled(engine, tenant, budget=700)
    assert trimmed["report"]["trim"]["cut"] > 0
    back(engine, tenant, whole)
    assert again(engine, tenant, whole)["content_hash"] == whole["content_hash"]
    assert all(f"early {turn}" in str(again(engine, tenant, whole)["payload"]) for turn in range(4))


# --- fork -------------------------------------------------------------------------------------------------------------


def fork(engine: Engine, tenant: str, child: str, at_seq: int, parent: str = "s", **more: Any) -> Json:
    events = [event("session.forked", parent=parent, at_seq=at_seq)]
    events += [event("session.started", **more)] if more else []
    return engine.append(tenant, child, events)


def messages(prompt: Json) -> Any:
    return prompt["payload"]["messages"]


@pytest.mark.parametrize("subject", ["u-1", None])
def test_f52_a_fork_at_every_prefix_is_what_the_parent_was_there(
    engine: Engine, tenant: str, subject: str | None
) -> None:
    started(engine, tenant, subject)
    made: dict[int, Json] = {}
    later = [
        said("one"),
        event("assistant.output", tool_calls=[{"id": "c", "name": "find", "arguments": "{}"}]),
        event("tool.result", call_id="c", content="found"),
        event("profile.set", key="class", value="first"),
        event("context.rolled_back", to_seq=4),
        said("two"),
    ]
    for one in later:
        engine.append(tenant, "s", [one])
        # What goes to private memory belongs to the seq at which it came.
        made[engine.events(tenant, "s")["head"]] = compiled(engine, tenant, budget=3000)
    if subject:
        # Shared memory is one for both: only a private one is forked.
        made = dict([made.popitem()])
    for place, (seq, prompt) in enumerate(made.items()):
        child = f"fork-{place}"
        fork(engine, tenant, child, seq)
        copied = compiled(engine, tenant, child, budget=3000, as_of=prompt["request"]["as_of"])
        assert messages(copied) == messages(prompt), seq
        engine.append(tenant, child, [said("only in the fork")])
    assert "only in the fork" not in str(compiled(engine, tenant)["payload"])
    found = engine.verify(tenant)
    assert found["ok"], found


def test_a_fork_does_not_see_what_its_parent_does_later(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    fork(engine, tenant, "child", 3)
    engine.append(tenant, "s", [said("later"), event("context.rolled_back", to_seq=1)])
    before = compiled(engine, tenant, "child")
    assert "A train to Bern" in str(before["payload"])
    assert "later" not in str(before["payload"])
    fork(engine, tenant, "grandchild", engine.events(tenant, "child")["head"], "child")
    assert messages(compiled(engine, tenant, "grandchild")) == messages(before)


def test_the_same_fork_again_is_no_second_one(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    forked = event("session.forked", parent="s", at_seq=3)
    first, second = (engine.append(tenant, "child", [forked]) for _ in range(2))
    assert (first["head"], second["head"]) == (4, 4)
    assert second["events"][0]["duplicate"]
    assert engine.append(tenant, "child", [said("on")], expected_seq=4)["head"] == 5


def test_a_fork_is_refused_where_it_cannot_be(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    with pytest.raises(UnknownSession):
        fork(engine, tenant, "child", 1, "nobody")
    with pytest.raises(InvalidEvent, match="not yet at 99"):
        fork(engine, tenant, "child", 99)
    with pytest.raises(InvalidEvent, match="begins a session"):
        fork(engine, tenant, "s", 1)
    with pytest.raises(UnknownSession):
        fork(engine, f"{tenant}-2", "child", 1)


def test_a_fork_is_no_way_around_the_rules_of_its_parent(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    engine.append(tenant, "s", [event("constraint.set", id="no-pay", text="never pay")])
    head = engine.events(tenant, "s")["head"]
    forked, loose = event("session.forked", parent="s", at_seq=head), event("constraint.removed", id="no-pay")
    with pytest.raises(InvalidEvent, match="nothing but"):
        engine.append(tenant, "child", [forked, loose], may_loosen=False)
    engine.append(tenant, "child", [forked], may_loosen=False)
    with pytest.raises(Forbidden):
        engine.append(tenant, "child", [loose], may_loosen=False)
    assert "never pay" in str(compiled(engine, tenant, "child")["payload"])


def test_inv11_an_erasure_reaches_the_forks(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    secret = said("my pin is 7391")
    engine.append(tenant, "s", [secret])
    head = engine.events(tenant, "s")["head"]
    fork(engine, tenant, "child", head)
    shown = compiled(engine, tenant, "child")
    assert "7391" in str(shown["payload"])
    engine.append(tenant, "s", [event("event.redacted", event_id=secret["event_id"])])
    drain(engine)
    assert engine.prompts(tenant, "child")["prompts"][0]["redacted"]
    assert "7391" not in str(engine.events(tenant, "child")["events"])
    assert "7391" not in str(compiled(engine, tenant, "child")["payload"])
    fork(engine, tenant, "late", head)
    assert "7391" not in str(compiled(engine, tenant, "late")["payload"])
    found = engine.verify(tenant)
    assert found["ok"], found


def test_verify_knows_a_gap_that_a_fork_copied_from_one_that_it_lost(engine: Engine, tenant: str) -> None:
    started(engine, tenant, subject=None)
    seat = event("profile.set", key="seat", value="aisle 7391")
    pin = said("my pin is 7391")
    head = engine.append(tenant, "s", [seat, pin])["head"]
    for one in (seat, pin):
        engine.append(tenant, "s", [event("event.redacted", event_id=one["event_id"])])
    fork(engine, tenant, "late", head)
    fork(engine, tenant, "later", head, parent="late")
    drain(engine)
    found = engine.verify(tenant)
    assert found["ok"], found["problems"]

    with engine.deps.database.write(tenant) as unit:
        row = streams.get(unit, tenant, "session/later")
        assert row is not None
        unit.execute(
            sa.text("UPDATE events SET payload = NULL, salt = NULL WHERE tenant = :t AND stream = :s AND seq = 2"),
            {"t": tenant, "s": row.number},
        )
    told = [one for one in engine.verify(tenant)["problems"] if one["check"] == "erasure"]
    assert [(one["stream"], "seq 2 " in one["problem"]) for one in told] == [("session/later", True)]


def test_inv12_a_reference_resolves_in_a_fork_and_after_a_rollback(engine: Engine, tenant: str) -> None:
    started(engine, tenant)
    engine.put_document(tenant, "s", "guide", [b"line one\nline two\n"])
    head = engine.events(tenant, "s")["head"]
    fork(engine, tenant, "child", head)
    engine.append(tenant, "child", [event("context.rolled_back", to_seq=3)])
    for reference, text in (("guide", "line two"), ("e3", "A train to Bern")):
        engine.append(tenant, "child", [event("reference.expanded", reference_id=reference)])
        assert text in str(compiled(engine, tenant, "child")["payload"])
