"""References: what left the window comes back by its number, and stays what it was."""

from typing import Any

import pytest
from store_histories import drain, event

from domain.errors import InvalidEvent
from workers.engine import Engine

LONG = "row 1: HAT001 leaves at 09:30\n" * 400


@pytest.fixture
def session(engine: Engine, tenant: str) -> str:
    engine.append(
        tenant,
        "s",
        [
            event("user.input", content="find flights"),
            event("assistant.output", tool_calls=[{"id": "c1", "name": "search"}]),
            event("tool.result", call_id="c1", content=LONG),
        ],
    )
    return "s"


def prompt_of(engine: Engine, tenant: str, session: str, **asked: Any) -> dict[str, Any]:
    job = engine.request_prompt(tenant, session, asked)
    done = engine.run_job(tenant, job["id"])
    assert done["error"] is None
    prompt: dict[str, Any] = engine.prompt(tenant, done["prompt"])
    return prompt


def test_a_cut_result_names_its_reference_and_the_reference_brings_a_slice_back(
    engine: Engine, tenant: str, session: str
) -> None:
    cut = prompt_of(engine, tenant, session, budget=600)
    assert "e3" in str(cut["payload"]["messages"][-1]["content"])
    engine.append(tenant, session, [event("reference.expanded", reference_id="e3", start=30, end=60)])
    shown = prompt_of(engine, tenant, session, budget=900)
    drain(engine)
    assert LONG[30:60].strip() in str(shown["payload"]["messages"][-1]["content"])
    assert "e3" in str(shown["payload"]["messages"][-1]["content"])


def test_a_document_is_a_reference_too(engine: Engine, tenant: str, session: str) -> None:
    engine.put_document(tenant, session, "manual", [b"# Rules\n\nnever pay twice\n"], None, None, "text/markdown")
    engine.append(tenant, session, [event("reference.expanded", reference_id="manual", start=9)])
    shown = prompt_of(engine, tenant, session, budget=20_000)
    assert "never pay twice" in str(shown["payload"]["messages"][-1]["content"])


@pytest.mark.parametrize(
    "payload", [{"reference_id": "e99"}, {"reference_id": "nothing"}, {"reference_id": "e3", "start": -1}]
)
def test_what_stands_under_no_reference_is_refused_and_changes_nothing(
    engine: Engine, tenant: str, session: str, payload: dict[str, Any]
) -> None:
    with pytest.raises(InvalidEvent):
        engine.append(tenant, session, [event("reference.expanded", **payload)])
    assert engine.events(tenant, session)["head"] == 3
