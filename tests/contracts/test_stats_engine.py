"""Statistics of real sessions on both databases, by the engine and over HTTP."""

import json
from typing import Any

import httpx2
import pytest
from store_histories import compiled, drain, event, said

from domain.errors import UnknownSession
from promptctx.testing import FakeServer
from workers.engine import Engine
from workers.engine import statistics as gathering

pytest_plugins = ["api_server"]

Json = dict[str, Any]


def turn(number: int, words: int = 40) -> list[Json]:
    call = f"c{number}"
    return [
        said(f"Please look up number {number}."),
        event("assistant.output", tool_calls=[{"id": call, "name": "find", "arguments": {"n": number}}]),
        event("tool.result", call_id=call, content=f"row {number} " * words, name="find"),
        event("assistant.output", content="Done.", usage={"input_tokens": 900, "output_tokens": 30_000 + number}),
    ]


def fill(engine: Engine, tenant: str, session: str = "s", turns: int = 25) -> list[Json]:
    """So many turns with a prompt after each, under a budget that makes some of them trim."""
    started = event("session.started", mode="react", model="gpt-4o", locale="en", context_window=100_000)
    engine.append(tenant, session, [started, event("constraint.set", id="r", text="never pay", level="warn")])
    prompts = []
    for number in range(turns):
        engine.append(tenant, session, turn(number))
        prompts.append(compiled(engine, tenant, session, budget=1500))
    return prompts


def test_messages_are_told_by_role_and_by_tool(engine: Engine, tenant: str) -> None:
    for number in range(3):
        engine.append(tenant, "s", turn(number))
    told = engine.stats(tenant, "s")
    assert (told["session"], told["sessions"], told["messages"]) == ("s", 1, 12)
    assert {role: one["count"] for role, one in told["roles"].items()} == {"user": 3, "assistant": 6, "tool": 3}
    assert [(one["tool"], one["count"]) for one in told["tools"]] == [("find", 3)]
    assert told["tools"][0]["tokens"] == told["roles"]["tool"]["tokens"] > 3 * 40
    assert told["outputs"]["peak"] == 30_002
    assert told["prompts"]["count"] == 0
    assert told["recommended"]["reserve_ratio"] is None


def test_the_sizes_are_those_that_a_compile_counts_whether_they_are_stored_or_not(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [one for number in range(10) for one in turn(number)])
    before = engine.stats(tenant, "s")
    prompt = compiled(engine, tenant, budget=100_000)
    engine.append(tenant, "s", [said("and one more")])
    after = engine.stats(tenant, "s")
    units = sum(unit["tokens"] for unit in prompt["report"]["units"])
    assert sum(one["tokens"] for one in before["roles"].values()) == units
    assert after["roles"]["tool"] == before["roles"]["tool"]
    assert after["roles"]["user"]["count"] == before["roles"]["user"]["count"] + 1


def test_more_messages_than_a_page_are_all_seen(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.store.statistics.PAGE", 3)
    engine.append(tenant, "s", [one for number in range(20) for one in turn(number)])
    assert engine.stats(tenant, "s")["messages"] == 80


def test_what_was_rolled_back_or_erased_does_not_count(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", turn(1))
    gone = [said("far too long " * 500), *turn(2)]
    engine.append(tenant, "s", gone)
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=4)])
    assert engine.stats(tenant, "s")["messages"] == 4


def test_prompts_are_told_from_their_reports(engine: Engine, tenant: str) -> None:
    prompts = fill(engine, tenant)
    told = engine.stats(tenant, "s")
    reports = [prompt["report"] for prompt in prompts]
    assert told["prompts"]["count"] == told["prompts"]["stored"] == len(prompts)
    assert told["prompts"]["peak"] == max(prompt["tokens"] for prompt in prompts) <= 1500
    trims = sum(bool(report["trim"]["cut"]) and not report["trim"]["carried"] for report in reports)
    assert told["prompts"]["trimmed"] == round(trims / len(prompts), 4) > 0
    assert told["prompts"]["pairs"] == len(prompts) - 1
    assert 0 < told["prompts"]["prefix_reuse"] < 1
    short = sum(any(unit["disposition"] != "included" for unit in report["units"]) for report in reports)
    assert told["zones"]["window"]["over"] == short > 0
    assert told["zones"]["window"]["tokens"] == sum(report["zones"].get("window", 0) for report in reports)
    assert told["slots"]["tool_state"]["wanted"]["count"] == len(prompts)
    assert told["slots"]["constraints"]["budget"] == 280


def test_settings_are_recommended_once_enough_was_seen(engine: Engine, tenant: str) -> None:
    fill(engine, tenant)
    told = engine.stats(tenant, "s")["recommended"]
    assert told["reserve_ratio"] == 0.31
    assert told["slots"]["constraints"] == 50
    assert told["long_result"] % 50 == 0
    assert told["global_slot_budget"] % 100 == 0
    assert 0.5 <= told["window_share"] <= 0.95
    overrides = {name: told[name] for name in ("global_slot_budget", "window_share", "reserve_ratio")}
    overrides["slots"] = {slot: {"token_budget": tokens} for slot, tokens in told["slots"].items()}
    assert compiled(engine, tenant, overrides=overrides)["tokens"] > 0


def test_only_the_newest_prompts_are_looked_at(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PAGE", 2)
    monkeypatch.setattr(gathering, "MOST_PROMPTS", 5)
    prompts = fill(engine, tenant, turns=7)
    told = engine.stats(tenant, "s")["prompts"]
    assert (told["count"], told["stored"], told["pairs"]) == (5, 7, 4)
    assert told["tokens"] == sum(prompt["tokens"] for prompt in prompts[2:])


def test_a_prompt_that_was_erased_says_nothing(engine: Engine, tenant: str) -> None:
    secret = said("the code is 4711-0815")
    engine.append(tenant, "s", [secret])
    compiled(engine, tenant)
    engine.append(tenant, "s", [event("event.redacted", event_id=secret["event_id"], reason="asked")])
    compiled(engine, tenant)
    told = engine.stats(tenant, "s")["prompts"]
    assert (told["count"], told["stored"], told["pairs"]) == (1, 2, 0)


def test_all_sessions_are_the_sum_of_each(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PAGE", 2)
    for number in range(5):
        engine.append(tenant, f"s-{number}", turn(number))
        compiled(engine, tenant, f"s-{number}")
    every, each = engine.stats(tenant), [engine.stats(tenant, f"s-{number}") for number in range(5)]
    assert (every["session"], every["sessions"], every["skipped"]) == (None, 5, 0)
    assert every["messages"] == sum(one["messages"] for one in each)
    assert every["roles"]["tool"]["tokens"] == sum(one["roles"]["tool"]["tokens"] for one in each)
    assert every["prompts"]["tokens"] == sum(one["prompts"]["tokens"] for one in each)
    assert engine.stats(f"{tenant}-other")["sessions"] == 0


def test_hostile_sessions_have_statistics_too(engine: Engine, tenant: str) -> None:
    name = "..\u202e a?#%25"
    orphan = event("tool.result", call_id="none", content="\ud800 <|endoftext|>", name="\x00" * 50)
    odd = event("assistant.output", content='"output_tokens"', usage={"output_tokens": 0})
    engine.append(tenant, name, [orphan, odd, event("custom.any", usage={"output_tokens": "many"})])
    drain(engine)
    told = engine.stats(tenant, name)
    assert told["messages"] == 2
    assert told["outputs"]["count"] == 1


def test_a_session_that_is_not_there_has_none(engine: Engine, tenant: str) -> None:
    with pytest.raises(UnknownSession):
        engine.stats(tenant, "nobody")


def test_statistics_travel_as_they_are(http: httpx2.Client) -> None:
    assert http.get("/v1/stats").json()["sessions"] == 0
    assert http.get("/v1/sessions/s%201/stats").status_code == 404
    http.post("/v1/sessions/s%201/events", content=json.dumps({"events": turn(1)}).encode())
    http.post("/v1/sessions/s%201/prompts", content=b'{"wait": 30}')
    one, every = (http.get(path).json() for path in ("/v1/sessions/s%201/stats", "/v1/stats"))
    assert one["session"] == "s 1"
    assert {**every, "session": "s 1"} == one
    assert every["prompts"]["count"] == 1


def test_the_server_in_the_process_says_as_much(http: httpx2.Client) -> None:
    with httpx2.Client(transport=FakeServer(), base_url="http://fake") as fake:
        found = []
        for api in (http, fake):
            api.post("/v1/sessions/s-1/events", content=json.dumps({"events": turn(1)}).encode())
            assert api.post("/v1/sessions/s-1/prompts", content=b'{"wait": 30}').status_code == 200
            found.append(api.get("/v1/sessions/s-1/stats").json())
    real, told = found
    assert set(real) == set(told)
    assert set(real["prompts"]) == set(told["prompts"])
    counts = [{role: (set(one), one["count"]) for role, one in each["roles"].items()} for each in found]
    assert counts[0] == counts[1]
