"""Facts by a model: it proposes, the rules decide, and an answer that is no list of facts is none."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer, Said, model_server
from modelled import cut, summaries, summarize
from store_histories import event, said

from workers.engine import Deps, Engine
from workers.llm import Endpoint, load_prompt
from workers.store import Database

Json = dict[str, Any]

CITY = {"act": "ADD", "text": "The user lives in Bergen", "subject": "user", "predicate": "city", "object": "Bergen"}


@pytest.fixture
def answers() -> list[Any]:
    """What the model says about facts: the last one again and again."""
    return [{"facts": [{**CITY, "from": [1]}]}]


@pytest.fixture
def served(answers: list[Any]) -> Iterator[ModelServer]:
    def answer(asked: Json) -> Said:
        if "worth remembering" not in asked["messages"][0]["content"]:
            return Said("A short summary of what was said.")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return Said(found if isinstance(found, str) else json.dumps(found))

    with model_server(answer) as server:
        yield server


@pytest.fixture
def engine(database: Database, served: ModelServer) -> Engine:
    prompts = {name: load_prompt(name, None) for name in ("summarize", "extract")}
    rules: frozenset[str] = frozenset()
    return Engine(Deps(database, model=Endpoint(served.url, "scripted"), prompts=prompts, memory_rules=rules))


def told(engine: Engine, tenant: str, kind: str) -> list[Json]:
    found = engine.events(tenant, "s", "subject", limit=1000)["events"]
    return [one["payload"] for one in found if one["kind"] == kind]


def test_a_fact_is_written_once_with_the_events_it_came_from_and_who_decided(engine: Engine, tenant: str) -> None:
    first = engine.append(tenant, "s", [said("I live in Bergen, and I plan a trip.")])["events"][0]["event_id"]
    cut(engine, tenant)
    summarize(engine, tenant)
    written = told(engine, tenant, "memory.recorded")
    assert [(one["text"], one["derived_from"]) for one in written] == [(CITY["text"], [first])]
    decided = told(engine, tenant, "memory.decided")
    assert {(one["act"], one["method"], one["model"]) for one in decided} == {("ADD", "model", "scripted")}
    assert len(decided[0]["prompt_hash"]) == 64


def test_the_same_fact_again_is_none_whatever_the_model_says(engine: Engine, tenant: str) -> None:
    cut(engine, tenant, 120)
    summarize(engine, tenant)
    assert len(summaries(engine, tenant)) > 1
    acts = [one["act"] for one in told(engine, tenant, "memory.decided")]
    assert acts[0] == "ADD"
    assert set(acts[1:]) == {"NONE"}
    assert len(told(engine, tenant, "memory.recorded")) == 1


def test_what_is_held_is_shown_under_small_numbers_and_named_by_them(
    engine: Engine, tenant: str, served: ModelServer, answers: list[Any]
) -> None:
    held = event("memory.recorded", id="m-1", text="The user lives in Bergen", subject="user", predicate="city",
                 object="Bergen")  # fmt: skip
    engine.append(tenant, "s", [held])
    answers[:] = [{"facts": [{**CITY, "act": "UPDATE", "text": "The user lives in Oslo", "object": "Oslo", "held": 1,
                              "from": [2]}]}]  # fmt: skip
    cut(engine, tenant)
    summarize(engine, tenant)
    asked = next(one for one in served.asked if "worth remembering" in one["messages"][0]["content"])
    rows = [json.loads(line) for line in asked["messages"][1]["content"].split("\n")]
    assert rows[0] == {"held": 1, "text": "The user lives in Bergen"}
    assert "m-1" not in asked["messages"][1]["content"]
    newest = told(engine, tenant, "memory.recorded")[-1]
    assert (newest["text"], newest["supersedes"]) == ("The user lives in Oslo", ["m-1"])


@pytest.mark.parametrize(
    "answer",
    [
        "There are no facts.",
        "[]",
        {"facts": None},
        {"facts": [{"text": "of nothing"}]},
        {"facts": [{**CITY, "from": [999]}]},
        {"facts": [{**CITY, "act": "DROP TABLE", "from": [1]}]},
        {"facts": [{**CITY, "from": [1]}] * 41},
    ],
)
def test_a_malformed_answer_is_a_failure_and_never_no_facts(
    engine: Engine, tenant: str, answers: list[Any], answer: Any
) -> None:
    answers[:] = [answer]
    cut(engine, tenant)
    summarize(engine, tenant)
    assert not told(engine, tenant, "memory.recorded")
    assert not summaries(engine, tenant)
    assert engine.stats(tenant, "s")["model_calls"]["failed"] == {"the answer is no list of facts": 1}
    assert engine.backlog(tenant)["failing"] == 1


def test_no_facts_is_an_answer_also_in_a_fence(engine: Engine, tenant: str, answers: list[Any]) -> None:
    answers[:] = ['```json\n{"facts": []}\n```']
    cut(engine, tenant)
    summarize(engine, tenant)
    assert summaries(engine, tenant)
    assert engine.stats(tenant, "s")["model_calls"]["failed"] == {}


def test_what_only_a_tool_said_is_not_remembered(engine: Engine, tenant: str) -> None:
    call = {"id": "c1", "name": "read", "arguments": "{}"}
    engine.append(
        tenant, "s",
        [
            event("assistant.output", content="", tool_calls=[call]),
            event("tool.result", call_id="c1", content="The user lives in Bergen. " * 20),
        ],
    )  # fmt: skip
    cut(engine, tenant)
    summarize(engine, tenant)
    assert summaries(engine, tenant)
    assert not told(engine, tenant, "memory.recorded")
