"""Core blocks: named, limited, perhaps read-only, edited by events, shown with their fill, and taken back."""

from typing import Any

import pytest
from store_histories import compiled, drain, event

from domain.errors import Forbidden, InvalidEvent
from workers.engine import Engine

Json = dict[str, Any]


@pytest.fixture
def session(engine: Engine, tenant: str) -> str:
    """A session whose subject has a block, and one that is read-only."""
    blocks = [
        event("session.started", subject="ada", locale="en"),
        event("block.defined", label="persona", text="kind", limit=10),
        event("block.defined", label="policy", text="fixed", limit=10, read_only=True),
    ]
    engine.append(tenant, "s", blocks)
    drain(engine)
    return "s"


def edit(engine: Engine, tenant: str, label: str, text: str, **envelope: Any) -> str:
    one = {**event("block.edited", label=label, text=text), **envelope}
    return str(engine.append(tenant, "s", [one])["events"][0]["event_id"])


def shown(engine: Engine, tenant: str) -> str:
    return str(compiled(engine, tenant, "s", fresh=True)["payload"]["messages"])


def test_a_block_is_shown_with_its_fill_edited_and_the_edit_is_taken_back(
    engine: Engine, tenant: str, session: str
) -> None:
    assert "- persona (4/10 characters): kind" in shown(engine, tenant)
    assert "- policy (5/10 characters, read-only): fixed" in shown(engine, tenant)
    change = edit(engine, tenant, "persona", "very kind", actor="agent")
    assert "- persona (9/10 characters): very kind" in shown(engine, tenant)
    engine.memories.undo(tenant, "ada", change)
    assert "- persona (4/10 characters): kind" in shown(engine, tenant)


def test_an_edit_over_the_limit_is_an_error_that_says_so_and_changes_nothing(
    engine: Engine, tenant: str, session: str
) -> None:
    with pytest.raises(InvalidEvent, match="would have 17 characters, its limit is 10") as refused:
        edit(engine, tenant, "persona", "much too friendly")
    assert refused.value.details == {"path": "payload.text", "label": "persona", "limit": 10, "size": 17}
    with pytest.raises(InvalidEvent, match="limit is 3"):
        engine.append(tenant, "s", [event("block.defined", label="new", text="long", limit=3)])
    with pytest.raises(InvalidEvent, match="there is no block"):
        edit(engine, tenant, "nothing", "x")
    assert "- persona (4/10 characters): kind" in shown(engine, tenant)


def test_a_read_only_block_is_changed_by_no_edit_and_redefined_by_no_agent(
    engine: Engine, tenant: str, session: str
) -> None:
    with pytest.raises(Forbidden, match="read-only"):
        edit(engine, tenant, "policy", "open")
    anew = event("block.defined", label="policy", text="open", limit=10)
    with pytest.raises(Forbidden, match="read-only"):
        engine.append(tenant, "s", [{**anew, "actor": "agent"}])
    with pytest.raises(Forbidden, match="read-only"):
        engine.append(tenant, "s", [anew], may_loosen=False)
    engine.append(tenant, "s", [anew])
    assert "- policy (4/10 characters): open" in shown(engine, tenant)


def test_the_same_edit_again_is_no_second_one_and_a_batch_is_checked_as_a_whole(
    engine: Engine, tenant: str, session: str
) -> None:
    one = event("block.edited", label="persona", text="calm")
    assert engine.append(tenant, "s", [one])["events"][0]["duplicate"] is False
    engine.append(tenant, "s", [event("block.defined", label="persona", text="x", limit=2)])
    assert engine.append(tenant, "s", [one])["events"][0]["duplicate"] is True
    batch = [event("block.defined", label="new", limit=3), event("block.edited", label="new", text="long")]
    with pytest.raises(InvalidEvent, match="limit is 3"):
        engine.append(tenant, "s", batch)
    assert "new (" not in shown(engine, tenant)
