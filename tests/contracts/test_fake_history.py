"""What the fake server knows of the time machine, and what it says of the rest."""

import pytest

import promptctx
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


def test_what_is_not_in_the_fake_says_so(client: promptctx.Client) -> None:
    session = client.session("s-1")
    session.user("Where is my parcel?")
    with pytest.raises(promptctx.PromptctxError, match=r"GET /v1/sessions/s-1/bisect is not in the fake") as refused:
        session.bisect("parcel")
    assert refused.value.code == "not_in_the_fake"
