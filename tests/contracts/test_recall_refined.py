"""Queries in other words and passages in the order of a model: recorded, bounded in time, left out when it fails."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer, Said, model_server
from store_histories import compiled, drain, event, said

from workers.assembly import prompts
from workers.engine import Deps, Engine
from workers.engine.shelves import Shelves
from workers.llm import Endpoint, Rest, load_prompt
from workers.settings import Settings
from workers.store import Database

Json = dict[str, Any]

COLOURS = [
    "Ruth likes the colour red.",
    "Ruth likes the colour green.",
    "Ruth likes the colour blue.",
    "I was in Bergen.",
]
SECRET = "sk-proj-Zq8mT3vLw9XyB2nK4rJ7dP1fG6hS0aEcUiOtRbNvQpWm"


class Script:
    """What the model answers to each task; it is told apart by its prompt."""

    def __init__(self) -> None:
        self.rewrite: Said | Json = {"queries": ["colour that Ruth likes"]}
        self.rerank: Said | Json = {"order": [1]}

    def __call__(self, asked: Json) -> Said:
        told = self.rewrite if "in other words" in asked["messages"][0]["content"] else self.rerank
        return told if isinstance(told, Said) else Said(json.dumps(told))


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def served(script: Script) -> Iterator[ModelServer]:
    with model_server(script) as server:
        yield server


@pytest.fixture
def tasks() -> tuple[str, ...]:
    return ("rewrite", "rerank")


@pytest.fixture
def engine(database: Database, served: ModelServer, tasks: tuple[str, ...]) -> Engine:
    made = {name: load_prompt(name, None) for name in tasks}
    return Engine(Deps(database, model=Endpoint(served.url, "scripted"), prompts=made))


@pytest.fixture
def asking(engine: Engine, tenant: str) -> Engine:
    engine.append(tenant, "before", [event("session.started", locale="en", subject="ada"), *map(said, COLOURS)])
    engine.append(tenant, "now", [event("session.started", locale="en", subject="ada"), said("What does Ruth like?")])
    drain(engine)
    return engine


def told(engine: Engine, tenant: str, *texts: str) -> None:
    """More in the earlier session, before the question is asked again."""
    engine.append(tenant, "before", [said(text) for text in texts])
    engine.append(tenant, "now", [said("What does Ruth like?")])
    drain(engine)


def asked(engine: Engine, tenant: str, **body: Any) -> Json:
    return compiled(engine, tenant, "now", **{"mode": "rag", "fresh": True, **body})


def result(prompt: Json) -> Json:
    (found,) = (one for one in prompt["inputs"]["sources"] if one["source"] == "log")
    return dict(found)


def order(prompt: Json) -> list[str]:
    return [one["text"] for one in result(prompt)["items"] if one["text"] in COLOURS]


def of_task(served: ModelServer, words: str) -> list[list[Json]]:
    """The lines that a task was asked about."""
    found = [one["messages"] for one in served.asked if words in one["messages"][0]["content"]]
    return [[json.loads(line) for line in messages[1]["content"].split("\n")] for messages in found]


@pytest.mark.parametrize("tasks", [()])
def test_no_model_is_asked_unless_it_was_asked_for(asking: Engine, tenant: str, served: ModelServer) -> None:
    assert order(asked(asking, tenant))
    assert served.asked == []
    assert set(prompts(Settings())) == {"summarize", "extract"}
    assert set(prompts(Settings(llm_rewrite=True, llm_rerank=True))) == {"summarize", "extract", "rewrite", "rerank"}


def test_passages_stand_in_the_order_of_the_model_and_keep_the_scores_of_their_places(
    asking: Engine, tenant: str, script: Script, served: ModelServer
) -> None:
    before = asked(asking, tenant)
    candidates = [one for one in of_task(served, "passages")[-1] if "n" in one]
    blue = next(one["n"] for one in candidates if "blue" in one["text"])
    script.rerank = {"order": [blue]}
    after = asked(asking, tenant)
    assert order(after)[0] == "Ruth likes the colour blue."
    assert sorted(order(after)) == sorted(order(before))
    scores = [[one["score"] for one in result(prompt)["items"]] for prompt in (before, after)]
    assert scores[0] == scores[1]
    assert result(after)["ordered_by"] == f"scripted {load_prompt('rerank', None).hash[:16]}"
    assert not after["report"]["warnings"]


def test_other_words_find_what_the_query_does_not_say(asking: Engine, tenant: str, script: Script) -> None:
    script.rewrite = {"queries": ["Where was I? Bergen", "Bergen"]}
    prompt = asked(asking, tenant, query="And what about that town?")
    assert result(prompt)["queries"] == ["Where was I? Bergen", "Bergen"]
    assert "I was in Bergen." in order(prompt)
    assert prompt["request"]["query"] == "And what about that town?"


def test_a_replay_asks_nobody_and_gives_the_same_bytes(
    asking: Engine, tenant: str, script: Script, served: ModelServer
) -> None:
    script.rerank = {"order": [2, 1]}
    prompt = asked(asking, tenant)
    many = len(served.asked)
    asking.deps.shelves, asking.deps.model, asking.deps.prompts = Shelves(), None, {}
    assert asking.replay(tenant, prompt["id"])["identical"]
    assert asking.history.what_if(tenant, prompt["id"], {"budget": 3000})["would"]
    assert len(served.asked) == many


def test_a_what_if_asks_nobody_either(asking: Engine, tenant: str, served: ModelServer) -> None:
    prompt = asked(asking, tenant)
    many = len(served.asked)
    assert asking.history.what_if(tenant, prompt["id"], {"query": "colour"})["would"]
    assert len(served.asked) == many


def test_the_model_sees_small_numbers_and_no_ids_and_no_secrets(
    asking: Engine, tenant: str, served: ModelServer
) -> None:
    told(asking, tenant, f"Ruth likes the key {SECRET} she has.")
    asked(asking, tenant)
    lines = of_task(served, "passages")[-1]
    assert any("Ruth likes the key" in one.get("text", "") for one in lines)
    assert lines[0] == {"query": "What does Ruth like?"}
    assert [one["n"] for one in lines[1:]] == list(range(1, len(lines)))
    text = json.dumps(served.asked)
    assert SECRET not in text
    assert not any(one["event_id"] in text for one in asking.events(tenant, "before")["events"])


FAILED = "the answer is not what was asked for"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Said("The third one, I think."), FAILED),
        (Said(""), "the answer is empty"),
        ({"order": []}, FAILED),
        ({"order": [1, 1]}, FAILED),
        ({"order": [99]}, FAILED),
        ({"order": [0]}, FAILED),
        ({"order": ["1"]}, FAILED),
        ({"order": [True]}, FAILED),
        ({"first": 1}, FAILED),
        (Said("[" * 100_000), FAILED),
        (Said(status=503), "status 503"),
        (Said(body=b"{"), "the answer is no chat completion"),
        (Said('{"order": [1', finish="length"), "the answer was cut off"),
    ],
)
@pytest.mark.parametrize("tasks", [("rerank",)])
def test_an_answer_that_is_of_no_use_is_counted_told_and_leaves_the_order_as_it_was(
    asking: Engine, tenant: str, script: Script, answer: Said | Json, reason: str
) -> None:
    model, asking.deps.model = asking.deps.model, None
    plain = asked(asking, tenant)
    asking.deps.model, script.rerank = model, answer
    prompt = asked(asking, tenant)
    assert prompt["content_hash"] == plain["content_hash"]
    assert result(prompt)["items"] == result(plain)["items"]
    assert any(f"without an order by the model: {reason}" in one for one in prompt["report"]["warnings"])
    assert asking.stats(tenant, "now")["model_calls"]["failed"] == {reason: 1}
    assert asking.replay(tenant, prompt["id"])["identical"]


@pytest.mark.parametrize("answer", [{"queries": []}, {"queries": [""]}, {"queries": ["x" * 301]}, {"queries": "x"}, {}])
def test_other_words_of_no_use_leave_the_query_as_it_was(
    asking: Engine, tenant: str, script: Script, answer: Json
) -> None:
    script.rewrite = answer
    prompt = asked(asking, tenant)
    assert "queries" not in result(prompt)
    assert order(prompt)
    assert any("without other words for the query" in one for one in prompt["report"]["warnings"])


def test_a_prompt_waits_no_longer_than_it_was_told_to_and_those_after_it_leave_the_model_alone_for_a_while(
    asking: Engine, tenant: str, script: Script, served: ModelServer
) -> None:
    script.rewrite = script.rerank = Said(hangs=True)
    asking.deps.recall_seconds = 0.1
    prompt = asked(asking, tenant)
    assert order(prompt)
    assert order(asked(asking, tenant))
    calls = asking.stats(tenant, "now")["model_calls"]
    assert (calls["calls"], calls["failed"]) == (1, {"no answer within 0.1 s": 1})
    (warning,) = prompt["report"]["warnings"]
    assert "without other words for the query: no answer within 0.1 s" in warning
    assert "without an order by the model: the model did not answer a moment ago" in warning
    script.rewrite, script.rerank, asking.deps.rest = {"queries": ["Ruth"]}, {"order": [1]}, Rest()
    asking.deps.recall_seconds = 30.0
    assert not asked(asking, tenant)["report"]["warnings"]


def test_what_it_cost_is_counted_with_the_session(asking: Engine, tenant: str) -> None:
    asked(asking, tenant)
    calls = asking.stats(tenant, "now")["model_calls"]
    assert calls == {"calls": 2, "tokens_in": 200, "tokens_out": 40, "failed": {}}


def test_a_larger_budget_recalls_no_less_in_the_order_of_a_model(asking: Engine, tenant: str, script: Script) -> None:
    facts = [f"Ruth likes the colour number {at} in her {at}th picture." for at in range(60)]
    told(asking, tenant, *facts)
    script.rerank = {"order": list(range(30, 0, -1))}
    kept: set[str] = set()
    for budget in (60, 200, 400, 900):
        recall = {"recall": {"token_budget": budget, "top_k": 0, "min_score": 0.0}}
        overrides = {"slots": recall, "global_slot_budget": budget, "lending": False}
        text = json.dumps(asked(asking, tenant, overrides=overrides)["payload"])
        found = {fact for fact in facts if fact in text}
        assert kept <= found
        kept = found
    assert len(kept) > 10


@pytest.mark.parametrize("tasks", [("rerank",)])
def test_what_is_erased_while_the_model_thinks_is_not_shown(
    asking: Engine, tenant: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = asking.events(tenant, "before")["events"][1]["event_id"]

    class Erasing(Script):
        def __call__(self, told: Json) -> Said:
            asking.append(tenant, "before", [event("event.redacted", event_id=source, reason="asked")])
            return Said('{"order": [3, 2, 1]}')

    with model_server(Erasing()) as server:
        asking.deps.model = Endpoint(server.url, "scripted")
        assert "colour red" not in json.dumps(asked(asking, tenant)["payload"])


def test_a_folder_of_ones_own_prompts_takes_the_place_of_ours(tmp_path: Any) -> None:
    (tmp_path / "rerank.md").write_text("Which?")
    found = prompts(Settings(llm_rewrite=True, llm_rerank=True, llm_prompts=tmp_path))
    assert found["rerank"].text == "Which?"
    assert "in other words" in found["rewrite"].text
