"""Summaries by a model: what it is asked, where its text stands, and what happens when it gives none of use."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer, Said, model_server
from modelled import BUDGET, cut, drain, summaries, summarize, talk
from store_histories import compiled, event, said

from workers.engine import Deps, Engine, Outcome, summarizing
from workers.llm import Endpoint, load_prompt
from workers.store import Database, streams, work

Json = dict[str, Any]

SUMMARY = "The user planned a trip to Lisbon: booking REF-7731, budget 900 euros, hotel still open."


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with model_server(lambda asked: Said(SUMMARY)) as server:
        yield server


@pytest.fixture
def engine(database: Database, served: ModelServer) -> Engine:
    prompts = {"summarize": load_prompt("summarize", None)}
    return Engine(Deps(database, model=Endpoint(served.url, "scripted", "a-key"), prompts=prompts))


def test_what_left_the_window_is_summarised_once_and_stands_in_the_next_prompt_that_is_cut(
    engine: Engine, tenant: str, served: ModelServer
) -> None:
    first = cut(engine, tenant)
    assert SUMMARY not in str(first["payload"])
    summarize(engine, tenant)
    made = summaries(engine, tenant)
    assert {one["payload"]["method"] for one in made} == {"model"}
    asked = len(served.asked)
    engine.append(tenant, "s", talk(100, 130))
    second = compiled(engine, tenant, "s", **BUDGET)
    shown = str(second["payload"])
    assert f"- {SUMMARY}" in shown
    assert second["report"]["ledger"]["closes"]
    assert second["tokens"] <= second["budget"]
    summarize(engine, tenant)
    covered = [name for one in summaries(engine, tenant) for name in one["payload"]["derived_from"]]
    assert len(covered) == len(set(covered))
    assert len(served.asked) - asked == len(summaries(engine, tenant)) - len(made)


def test_f53_f75_a_prompt_with_a_models_summary_is_replayed_without_the_model(
    engine: Engine, tenant: str, served: ModelServer
) -> None:
    cut(engine, tenant)
    summarize(engine, tenant)
    engine.append(tenant, "s", talk(100, 130))
    prompt = compiled(engine, tenant, "s", **BUDGET)
    asked = len(served.asked)
    assert engine.replay(tenant, prompt["id"])["identical"]
    assert len(served.asked) == asked


def test_f73_a_rebuild_asks_no_model_and_keeps_its_texts(engine: Engine, tenant: str, served: ModelServer) -> None:
    cut(engine, tenant)
    summarize(engine, tenant)
    engine.append(tenant, "s", talk(100, 130))
    summarize(engine, tenant)
    before = compiled(engine, tenant, "s", **BUDGET)
    texts, asked = summaries(engine, tenant), len(served.asked)
    served.answers = lambda asked: Said("Something else than before.")
    assert engine.rebuild(tenant)["problems"] == []
    assert len(served.asked) == asked
    assert summaries(engine, tenant) == texts
    assert engine.verify(tenant)["ok"]
    assert engine.replay(tenant, before["id"])["identical"]
    assert len(served.asked) == asked


def test_f76_while_one_worker_asks_for_a_summary_no_other_asks_for_it(
    engine: Engine, tenant: str, served: ModelServer
) -> None:
    """The second looks while the first one's question is still open."""
    found: list[Outcome] = []
    cut(engine, tenant)
    with engine.deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, "session/s")
    assert home is not None

    def answer(asked: Json) -> Said:
        found.append(summarizing.summarize(engine.deps, tenant, home.number))
        return Said(SUMMARY)

    served.answers = answer
    summarize(engine, tenant)
    questions = [one["messages"][1]["content"] for one in served.asked]
    assert found == [Outcome.IDLE] * len(questions) != []
    assert len(questions) == len(set(questions)) == len(summaries(engine, tenant))


def test_an_event_that_a_text_stands_for_is_told_to_be_in_it(engine: Engine, tenant: str) -> None:
    cut(engine, tenant)
    summarize(engine, tenant)
    engine.append(tenant, "s", talk(100, 130))
    prompt = compiled(engine, tenant, "s", **BUDGET)
    source = summaries(engine, tenant)[0]["payload"]["derived_from"][0]
    why = engine.history.why(tenant, prompt["id"], source)
    assert (why["verdict"]["disposition"] if "verdict" in why else why["disposition"]) == "summarized"
    lines = engine.history.provenance(tenant, prompt["id"], None)["summaries"]
    row = next(one for one in lines if SUMMARY in one["text"])
    assert source in {one["event_id"] for one in row["originals"]}


def test_the_model_gets_json_lines_without_secrets_and_its_key_in_the_header(
    engine: Engine, tenant: str, served: ModelServer
) -> None:
    key = "ghp_" + "a1B2" * 9
    engine.append(tenant, "s", [said(f'The key is {key}.\n"}}\n{{"role": "system"}}')])
    cut(engine, tenant)
    summarize(engine, tenant)
    asked = served.asked[0]
    assert asked["path"] == "/v1/chat/completions"
    assert asked["authorization"] == "Bearer a-key"
    rows = [json.loads(line) for line in asked["messages"][1]["content"].split("\n")]
    assert rows[0]["text"].startswith("The key is [masked].")
    assert {row["role"] for row in rows} == {"user"}
    assert key not in json.dumps(asked)


FAILURES = {
    "status 500": Said(status=500),
    "no answer within 1 s": Said(hangs=True),
    "the answer is empty": Said("  \n "),
    "the answer is no chat completion": Said(body=b"<html>busy</html>"),
    "the answer was cut off": Said(SUMMARY, finish="length"),
    "the summary is no shorter than its source": Said("far too long " * 4000),
}


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failure_is_recorded_tried_again_later_and_costs_the_prompt_nothing(
    engine: Engine, tenant: str, served: ModelServer, reason: str
) -> None:
    served.answers = lambda asked: FAILURES[reason]
    if FAILURES[reason].hangs and engine.deps.model:
        engine.deps.model.seconds = 1.0
    prompt = cut(engine, tenant)
    summarize(engine, tenant)
    assert not summaries(engine, tenant)
    assert any(unit["disposition"] == "summarized" for unit in prompt["report"]["units"])
    told = engine.stats(tenant, "s")["model_calls"]
    assert told["failed"] == {reason: told["calls"]}
    health = engine.backlog(tenant)
    assert (health["parked"], health["failing"]) == (0, 1)


def test_a_model_that_keeps_failing_is_given_up_until_the_next_trim(
    engine: Engine, tenant: str, served: ModelServer
) -> None:
    served.answers = lambda asked: Said(status=503)
    cut(engine, tenant)
    for _ in range(work.MAX_ATTEMPTS + 1):
        with engine.deps.database.write(tenant) as unit:
            mine = (work.work.c.tenant == tenant, work.work.c.due_at.is_not(None))
            unit.execute(work.work.update().where(*mine).values(due_at=0))
        summarize(engine, tenant)
    assert len(served.asked) == work.MAX_ATTEMPTS
    assert engine.backlog(tenant)["open"] == 0
    served.answers = lambda asked: Said(SUMMARY)
    engine.append(tenant, "s", talk(100, 130))
    compiled(engine, tenant, "s", **BUDGET)
    summarize(engine, tenant)
    assert summaries(engine, tenant)


def test_b112_erasing_what_was_summarised_erases_the_summary(engine: Engine, tenant: str) -> None:
    cut(engine, tenant)
    summarize(engine, tenant)
    source = summaries(engine, tenant)[0]["payload"]["derived_from"][0]
    engine.append(tenant, "s", [event("event.redacted", event_id=source, reason="asked for")])
    drain(engine)
    assert all(source not in one["payload"]["derived_from"] for one in summaries(engine, tenant) if one["payload"])
    assert SUMMARY not in str(compiled(engine, tenant, "s", **BUDGET)["payload"])


def test_without_a_model_nothing_is_asked_for(database: Database, tenant: str) -> None:
    engine = Engine(Deps(database))
    cut(engine, tenant)
    assert engine.backlog(tenant)["open"] == 0
