"""What the fake server knows of the time machine, and what it says of the rest."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import promptctx
from domain import history
from domain.events import Event, read_payload
from promptctx._fake_past import in_force
from promptctx.testing import FakeServer


@pytest.fixture
def client() -> promptctx.Client:
    return promptctx.Client(transport=FakeServer())


def test_flags_labels_and_the_active_version_are_in_the_fake(client: promptctx.Client) -> None:
    session = client.session("s-1")
    session.user("Where is my parcel?")
    first = session.compile(budget=1000).result()
    session.assistant("In a depot.")
    second = session.compile(budget=1000).result()
    assert session.active().id == second.id
    session.flag(second, note="wrong depot")
    session.label("active", first)
    assert session.active().id == first.id
    assert [row["version"] for row in session.labels()["marked"]] == [1, 2]
    (bad,) = client.flagged()["flagged"]
    assert (bad["prompt"], bad["note"]) == (second.id, "wrong depot")
    session.flag(second, verdict="good")
    assert client.flagged()["flagged"] == []


def test_an_agents_test_can_go_back_and_try_again(client: promptctx.Client) -> None:
    session = client.session("s-1")
    session.user("Where is my parcel?")
    first = session.compile(budget=1000).result()
    call = {"id": "c1", "name": "track", "arguments": {"parcel": 7}}
    session.assistant("", tool_calls=[call])
    session.tool_result("c1", "in a depot")
    second = session.compile(budget=1000).result()
    (unit,) = [unit for unit in second.report["units"] if unit["role"] == "assistant"]
    assert (unit["from_seq"], unit["to_seq"], len(unit["events"])) == (2, 3, 2)
    assert second.why(3)["numbers"] == {"tokens": unit["tokens"]}
    assert [change["role"] for change in first.diff(second.id)["changes"]] == ["assistant", "tool"]
    assert second.replay().identical
    session.rollback(to_version=1)
    assert session.compile(budget=1000).result().messages == first.messages
    assert [one.identical for one in client.replays("s-1")] == [True, True, True]
    child = session.fork("s-2", at_seq=3)
    assert child.compile(budget=1000).result().messages == second.messages


def test_a_fork_has_the_documents_and_the_private_profile(client: promptctx.Client) -> None:
    session = client.session("s-1")
    session.profile("seat", "window")
    session.document("one line\nand another", document_id="notes")
    session.profile("seat", "aisle")
    child = session.fork("s-2", at_seq=1)
    assert child.document_text("notes", 0, 8) == "one line"
    assert [event.payload["value"] for event in child.events(stream="subject")] == ["window", "aisle"]
    early = session.fork("s-3", at_seq=0)
    assert [event.payload["value"] for event in early.events(stream="subject")] == ["window"]
    with pytest.raises(promptctx.UnknownDocument):
        early.document_text("notes")


def test_a_rollback_that_reaches_into_memory_is_not_in_the_fake(client: promptctx.Client) -> None:
    session = client.session("s-1", subject="u-1")
    session.user("Where is my parcel?")
    session.profile("seat", "window")
    with pytest.raises(promptctx.PromptctxError, match=r"profile\.set back from memory.*memory_kept") as refused:
        session.rollback(to_seq=1)
    assert refused.value.code == "not_in_the_fake"
    with pytest.raises(promptctx.PromptctxError, match=r"profile\.set back from memory"):
        session.rollback_plan(to_seq=1)
    assert session.head() == 2
    assert session.rollback(to_seq=1, scope="memory_kept").seq == 3
    assert session.rollback(to_seq=2).seq == 4


def test_a_what_if_is_not_in_the_fake(client: promptctx.Client) -> None:
    session = client.session("s-1")
    session.user("Where is my parcel?")
    prompt = session.compile(budget=1000).result()
    with pytest.raises(promptctx.PromptctxError, match="needs a compiler, which the fake server lacks"):
        client.diff(prompt.id, changes={"budget": 10})
    with pytest.raises(promptctx.PromptctxError, match=r"what-if is not in the fake"):
        prompt.what_if({"budget": 10})


def test_what_is_not_in_the_fake_says_so(client: promptctx.Client) -> None:
    session = client.session("s-1")
    session.user("Where is my parcel?")
    with pytest.raises(promptctx.PromptctxError, match=r"GET /v1/sessions/s-1/bisect is not in the fake") as refused:
        session.bisect("parcel")
    assert refused.value.code == "not_in_the_fake"


RULES = st.sampled_from(["a", "b"])
DRAFTS = st.one_of(
    st.just(("user.input", {"content": "hello"})),
    st.just(("instruction.set", {"role": "You help."})),
    st.builds(
        lambda name, level: ("constraint.set", {"id": name, "text": level, "level": level}),
        RULES,
        st.sampled_from(["block", "warn"]),
    ),
    st.builds(lambda name: ("constraint.removed", {"id": name}), RULES),
    st.builds(
        lambda seq, loosen: ("context.rolled_back", {"to_seq": seq, "loosen": loosen}),
        st.integers(0, 14),
        st.booleans(),
    ),
)


@given(st.lists(DRAFTS, max_size=12))
def test_the_events_that_count_are_those_that_count_on_a_server(drafts: list[tuple[str, dict[str, Any]]]) -> None:
    events: list[dict[str, Any]] = [
        {"event_id": str(seq), "seq": seq, "kind": kind, "payload": told} for seq, (kind, told) in enumerate(drafts, 1)
    ]
    real = [
        Event(one["event_id"], one["seq"], one["kind"], read_payload(one["kind"], 1, one["payload"]), 0)
        for one in events
    ]
    assert [one["seq"] for one in in_force(events)] == [one.seq for one in history.in_force(real)]
