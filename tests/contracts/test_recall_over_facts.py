"""Recall over facts: messages that facts lead to from what the query names, told of in the report, within the walls."""

from typing import Any

import pytest
import store_histories
from store_histories import drain, event, said

from workers.engine import Engine

Json = dict[str, Any]

QUERY = "What trade does the husband of Nele's sister have?"
ANSWER = "Jonas grinds lenses for telescopes."


def compiled(engine: Engine, tenant: str, session: str, hops: int | None = None) -> Json:
    slot = {"top_k": 0, "min_score": 0.4, **({} if hops is None else {"hops": hops})}
    overrides = {"slots": {"recall": slot}}
    body = {"mode": "rag", "query": QUERY, "fresh": True, "overrides": overrides}
    return store_histories.compiled(engine, tenant, session, **body)


def answers(prompt: Json) -> list[Json]:
    items: list[Json] = prompt["report"]["slots"]["recall"]["items"]
    return [one for one in items if one["text"] == ANSWER and one["disposition"] == "included"]


def fact(told_in: Json, subject: str, predicate: str, thing: str) -> Json:
    return event(
        "memory.recorded", id=f"{subject}-{predicate}", text=f"{subject} {predicate} {thing}", category="fact",
        subject=subject, predicate=predicate, object=thing, derived_from=[told_in["event_id"]],
    )  # fmt: skip


@pytest.fixture
def facts(engine: Engine, tenant: str) -> list[Json]:
    """The events of two facts, told in messages that do not share a word with what is asked."""
    sister, husband, answer = said("Mira moved house."), said("Barely. But Jonas cooked."), said(ANSWER)
    found = [fact(sister, "Nele", "sister", "Mira"), fact(answer, "Mira", "husband", "Jonas")]
    chatter = [said(f"The weather of day {number} was fine.") for number in range(30)]
    started = event("session.started", locale="en", subject="nele")
    engine.append(tenant, "before", [started, sister, husband, *chatter[:15], answer, *chatter[15:], *found])
    engine.append(tenant, "now", [started, said("Hello.")])
    drain(engine)
    return found


def test_a_message_is_found_over_two_facts_and_the_report_names_them(
    engine: Engine, tenant: str, facts: list[Json]
) -> None:
    assert answers(compiled(engine, tenant, "now", 0)) == []
    prompt = compiled(engine, tenant, "now")
    (found,) = answers(prompt)
    assert found["through"] == [one["event_id"] for one in facts]
    assert prompt["report"]["ledger"]["closes"]
    assert engine.replay(tenant, prompt["id"])["identical"]


def test_a_fact_that_was_taken_back_leads_nowhere_and_old_prompts_stay(
    engine: Engine, tenant: str, facts: list[Json]
) -> None:
    prompt = compiled(engine, tenant, "now")
    engine.append(tenant, "now", [event("memory.retracted", id="Mira-husband")])
    drain(engine)
    assert answers(compiled(engine, tenant, "now")) == []
    assert engine.replay(tenant, prompt["id"])["identical"]


def test_facts_of_another_subject_lead_nowhere(engine: Engine, tenant: str, facts: list[Json]) -> None:
    started = event("session.started", locale="en", subject="eve")
    engine.append(tenant, "hers", [started, said(ANSWER), *(said(f"Day {number}.") for number in range(30))])
    engine.append(tenant, "asks", [started, said("Hello.")])
    drain(engine)
    prompt = compiled(engine, tenant, "asks")
    assert not any("through" in one for one in prompt["report"]["slots"]["recall"]["items"])
