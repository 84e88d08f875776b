"""The time machine explains: diff, blame, why, bisect, provenance, what-if, the versions of the instruction."""

from typing import Any

import pytest
from store_histories import event, said

from domain.canonical import content_hash
from domain.errors import InvalidRequest, UnknownSnapshot
from workers.engine import Engine
from workers.store import migrate

Json = dict[str, Any]
WORDS = "many words about trains and seats "


def compiled(engine: Engine, tenant: str, session: str = "s", **body: Any) -> Json:
    job = engine.request_prompt(tenant, session, body, ring=False)
    job = engine.run_job(tenant, job["id"])
    assert job["status"] == "done", job["error"]
    return engine.prompt(tenant, job["prompt"])


@pytest.fixture
def store_url(sqlite_url: str) -> str:
    """Explaining reads what was stored; that both databases store the same is tested where they do."""
    migrate.upgrade(sqlite_url)
    return sqlite_url


@pytest.fixture
def trip(engine: Engine, tenant: str) -> list[Json]:
    """A session whose rule changes half-way, under a budget that pushes its beginning out; a version for each turn."""
    engine.append(
        tenant,
        "s",
        [
            event("session.started", subject="u-1", model="gpt-4o", mode="chat", locale="en"),
            event("instruction.set", role="You book trains.", rules=[{"text": "Ask before you pay.", "core": True}]),
            event("constraint.set", id="no-pay", text="never pay more than 100"),
            said("A train to Bern, please."),
            event("assistant.output", tool_calls=[{"id": "c1", "name": "find", "arguments": '{"to":"Bern"}'}]),
            event("tool.result", call_id="c1", content="07:04, 08:04\nplatform 3\nplatform 4", name="find"),
            event("assistant.output", content="There are two."),
            event("profile.set", key="seat", value="window"),
        ],
    )
    made = [compiled(engine, tenant, budget=900)]
    for turn in range(5):
        engine.append(
            tenant, "s", [said(f"turn {turn} {WORDS * 45}"), event("assistant.output", content=f"answer {turn}")]
        )
        if turn == 2:
            engine.append(
                tenant,
                "s",
                [
                    event("constraint.set", id="no-pay", text="never pay more than 50"),
                    event("instruction.set", role="You book trains.", rules=[{"text": "Never ask.", "core": True}]),
                    event("profile.set", key="seat", value="aisle"),
                ],
            )
        made.append(compiled(engine, tenant, budget=900))
    return made


def change(found: Json, segment: str) -> Json:
    (one,) = [row for row in found["changes"] if row["segment"] == segment]
    return one


# --- diff -------------------------------------------------------------------------------------------------------------


def test_a_diff_names_the_event_that_changed_each_line(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.diff(tenant, trip[2]["id"], trip[3]["id"])
    rule = change(found, "slot:constraints")
    assert rule["cause"]["text"] == "constraint.set at seq 14"
    (line,) = rule["lines"]
    assert [word for word in line["words"] if word[0] != "="] == [["-", "100"], ["+", "50"]]
    assert change(found, "instruction")["cause"]["event"]["seq"] == 15
    seat = change(found, "slot:profile")["lines"][0]
    assert (seat["text"], seat["cause"]["event"]["stream"]) == ("- seat: aisle", "subject")


def test_a_diff_names_the_rule_that_took_a_message_out(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.diff(tenant, trip[0]["id"], trip[5]["id"])
    first = next(row for row in found["changes"] if any("A train to Bern" in line["text"] for line in row["lines"]))
    assert first["cause"]["by"] == "rule"
    assert first["cause"]["rule"] == "window"
    assert first["cause"]["numbers"]["tokens"] > 0
    zones = {row["zone"]: row for row in found["zones"]}
    assert zones["summary"]["before"] == 0 < zones["summary"]["after"]


def test_a_diff_of_two_budgets_names_the_request(engine: Engine, tenant: str, trip: list[Json]) -> None:
    larger = compiled(engine, tenant, budget=4000)
    found = engine.history.diff(tenant, trip[-1]["id"], larger["id"])
    assert found["request"] == [{"field": "budget", "before": 900, "after": 4000}]
    came = [row for row in found["changes"] if row["change"] == "added"]
    assert came
    assert all(row["cause"]["request"] == found["request"] for row in came if row["cause"]["by"] == "rule")


def test_a_prompt_has_no_difference_from_itself(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.diff(tenant, "s@3", trip[2]["id"])
    assert (found["identical"], found["changes"], found["zones"]) == (True, [], [])


def test_a_diff_works_across_sessions(engine: Engine, tenant: str, trip: list[Json]) -> None:
    engine.append(tenant, "other", [said("Hello.")])
    other = compiled(engine, tenant, "other")
    found = engine.history.diff(tenant, trip[0]["id"], other["id"])
    assert {row["change"] for row in found["changes"]} >= {"added", "removed"}


def test_the_changes_of_a_diff_rebuild_the_other_prompt(engine: Engine, tenant: str, trip: list[Json]) -> None:
    """Taking away what went and adding what came gives the lines of the other prompt, so that nothing is left out."""
    found = engine.history.diff(tenant, trip[1]["id"], trip[4]["id"])

    def lines(prompt: Json) -> list[str]:
        return sorted(row["text"] for row in engine.history.blame(tenant, prompt["id"])["lines"])

    rest = lines(trip[1])
    for row in (line for one in found["changes"] for line in one["lines"]):
        if row["op"] in "-~":
            rest.remove(row["before"] if row["op"] == "~" else row["text"])
        if row["op"] in "+~":
            rest.append(row["text"])
    blank = [line for line in rest if line], [line for line in lines(trip[4]) if line]
    assert sorted(blank[0]) == blank[1]


# --- blame ------------------------------------------------------------------------------------------------------------


def test_blame_names_the_event_of_each_line(engine: Engine, tenant: str, trip: list[Json]) -> None:
    rows = engine.history.blame(tenant, trip[0]["id"])["lines"]
    by = {row["text"]: row["by"] for row in rows}
    assert by["- [BLOCK] never pay more than 100"] == "3 constraint.set"
    assert by["- Ask before you pay."] == "2 instruction.set"
    assert by["platform 4"] == "6 tool.result"
    assert by["- seat: window"] == "subject:1 profile.set"
    assert by["## Constraints"] == "compiler"
    assert [row["text"] for row in engine.history.blame(tenant, trip[0]["id"], "platform")["lines"]] == [
        "platform 3", "platform 4",
    ]  # fmt: skip


def test_blame_tells_every_line_of_the_prompt(engine: Engine, tenant: str, trip: list[Json]) -> None:
    for prompt in trip:
        shown = "\n".join(row["text"] for row in engine.history.blame(tenant, prompt["id"])["lines"])
        for message in prompt["payload"]["messages"]:
            for line in (message["content"] or "").split("\n"):
                assert line in shown


# --- why --------------------------------------------------------------------------------------------------------------


def test_why_tells_what_is_shown_and_where(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.why(tenant, trip[0]["id"], "6")
    assert (found["disposition"], found["event"]["kind"]) == ("included", "tool.result")
    assert found["where"][0]["lines"] == [1, 3]


def test_why_tells_what_took_the_place_of_an_event(engine: Engine, tenant: str, trip: list[Json]) -> None:
    rule = engine.history.why(tenant, trip[5]["id"], "3")
    assert (rule["disposition"], rule["by"]["seq"]) == ("superseded", 14)
    seat = engine.history.why(tenant, trip[5]["id"], "subject:1")
    assert (seat["disposition"], seat["by"]["kind"]) == ("superseded", "profile.set")
    assert engine.history.why(tenant, trip[1]["id"], "14")["disposition"] == "later"
    assert engine.history.why(tenant, trip[1]["id"], "1")["disposition"] == "unseen"


def test_what_why_says_would_have_kept_a_message_keeps_it(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.why(tenant, trip[5]["id"], "7", verify=True)
    assert found["disposition"] in ("dropped", "summarized")
    assert found["numbers"]["needs"] > 0
    assert found["verified"] is not None
    would = engine.history.what_if(tenant, trip[5]["id"], found["verified"]["set"])["would"]
    assert any(
        unit["from_seq"] <= 7 <= unit["to_seq"] and unit["disposition"] == "included"
        for unit in would["report"]["units"]
    )  # fmt: skip


def test_why_gives_the_numbers_of_a_slot(engine: Engine, tenant: str, trip: list[Json]) -> None:
    engine.append(
        tenant,
        "s",
        [event("profile.set", key=f"likes {at}", value=WORDS * 5, category="preference") for at in range(12)],
    )  # fmt: skip
    prompt = compiled(engine, tenant, budget=6000, overrides={"lending": False})
    items = prompt["report"]["slots"]["profile"]["items"]
    assert {"slot_budget", "top_k"} <= {item["reason"] for item in items}
    for reason in ("slot_budget", "top_k"):
        dropped = next(item for item in items if item["reason"] == reason)
        found = engine.history.why(tenant, prompt["id"], dropped["events"][0], verify=True)
        assert (found["disposition"], found["reason"]) == ("dropped", reason)
        assert found["kept_by"]
    budget = engine.history.why(
        tenant, prompt["id"], next(i for i in items if i["reason"] == "slot_budget")["events"][0]
    )
    tried = engine.history.what_if(tenant, prompt["id"], budget["kept_by"])["would"]["report"]
    kept = {
        event
        for item in tried["slots"]["profile"]["items"]
        if item["disposition"] == "included"
        for event in item["events"]
    }
    assert budget["event"]["event_id"] in kept


def test_why_refuses_an_event_that_nobody_knows(engine: Engine, tenant: str, trip: list[Json]) -> None:
    for name in ("999", "subject:77", "nonsense", "00000000-0000-0000-0000-000000000000", "٣"):
        with pytest.raises(InvalidRequest, match="name it by id"):
            engine.history.why(tenant, trip[0]["id"], name)


# --- bisect and provenance --------------------------------------------------------------------------------------------


def test_bisect_finds_the_version_and_the_event(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.bisect(tenant, "s", "never pay more than 50")
    assert (found["appeared"]["version"], found["appeared"]["cause"]["event"]["seq"]) == (4, 14)
    assert found["vanished"] is None
    gone = engine.history.bisect(tenant, "s", "platform 4")
    assert gone["appeared"]["version"] == 1
    holds = [any("platform 4" in str(m) for m in one["payload"]["messages"]) for one in trip]
    assert gone["vanished"]["version"] == holds.index(False) + 1
    assert gone["vanished"]["cause"]["by"] == "rule"


def test_bisect_compares_within_a_view_only(engine: Engine, tenant: str, trip: list[Json]) -> None:
    compiled(engine, tenant, budget=20_000)
    compiled(engine, tenant, budget=900, fresh=True)
    found = engine.history.bisect(tenant, "s", "platform 4")
    assert [turn["change"] for turn in found["turns"]] == ["appeared", "vanished", "appeared"]
    assert len({turn["view"] for turn in found["turns"]}) == 2


def test_a_summary_leads_down_to_its_originals(engine: Engine, tenant: str, trip: list[Json]) -> None:
    found = engine.history.provenance(tenant, trip[5]["id"])["summaries"]
    assert found
    originals = [event for row in found for event in row["originals"]]
    assert "A train to Bern, please." in [event.get("text") for event in originals]
    one = found[-1]["line"]
    assert [row["line"] for row in engine.history.provenance(tenant, trip[5]["id"], one)["summaries"]] == [one]


# --- what if ----------------------------------------------------------------------------------------------------------


def test_a_what_if_makes_no_version_and_is_what_a_compile_would_give(
    engine: Engine, tenant: str, trip: list[Json]
) -> None:
    found = engine.history.what_if(tenant, trip[5]["id"], {"budget": 4000, "slots.profile.top_k": 1})
    assert len(engine.prompts(tenant, "s")["prompts"]) == len(trip)
    asked = {"budget": 4000, "overrides": {"slots": {"profile": {"top_k": 1}}}}
    assert compiled(engine, tenant, **asked)["content_hash"] == found["would"]["content_hash"]
    assert content_hash(found["would"]["payload"]) == found["would"]["content_hash"]


def test_a_what_if_takes_a_mode_of_its_own(engine: Engine, tenant: str, trip: list[Json]) -> None:
    schema = {"bare": {"slots": [{"slot": "constraints", "token_budget": 100}]}}
    found = engine.history.what_if(tenant, trip[5]["id"], {"mode": "bare"}, schema)
    assert found["would"]["mode"] == "bare"
    assert change(found["diff"], "slot:profile")["change"] == "removed"
    react = engine.history.what_if(tenant, trip[5]["id"], {"mode": "react", "model": "claude-sonnet-4-5"})
    assert (react["would"]["mode"], react["would"]["model"]) == ("react", "claude-sonnet-4-5")
    assert {"mode", "model", "tokenizer", "schema"} <= {one["field"] for one in react["diff"]["request"]}


def test_a_what_if_that_changes_nothing_is_the_prompt(engine: Engine, tenant: str, trip: list[Json]) -> None:
    for prompt in trip:
        found = engine.history.what_if(tenant, prompt["id"], {"budget": 900})
        assert found["identical"]
        assert found["diff"]["identical"]


@pytest.mark.parametrize("changes", [{"budget": -1}, {"nonsense": 3}, {"budget.x": 1}, {"slots.profile.top_k": "x"}])
def test_a_what_if_that_makes_no_sense_names_the_field(
    engine: Engine, tenant: str, trip: list[Json], changes: Json
) -> None:
    with pytest.raises(InvalidRequest):
        engine.history.what_if(tenant, trip[0]["id"], changes)


# --- anchors and names ------------------------------------------------------------------------------------------------


def test_anchors_lists_the_versions_of_the_instruction(engine: Engine, tenant: str, trip: list[Json]) -> None:
    first, second = engine.history.anchors(tenant, "s")["anchors"]
    assert (first["version"], first["state"], second["version"], second["state"]) == (1, "in force", 2, "current")
    assert "-- Ask before you pay." in second["diff"]
    assert "+- Never ask." in second["diff"]
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=13, loosen=True)])
    states = [(row["version"], row["state"]) for row in engine.history.anchors(tenant, "s")["anchors"]]
    assert states == [(1, "current"), (None, "rolled back")]


def test_a_prompt_is_named_by_session_and_version(engine: Engine, tenant: str, trip: list[Json]) -> None:
    assert engine.prompt(tenant, "s@2")["id"] == trip[1]["id"]
    for name in ("s@99", "s@0", "s@", "@1", "nobody@1", "s@1x"):
        with pytest.raises(UnknownSnapshot):
            engine.prompt(tenant, name)


# --- replays ----------------------------------------------------------------------------------------------------------


def test_replays_come_page_by_page_with_a_verdict_each(engine: Engine, tenant: str, trip: list[Json]) -> None:
    engine.append(tenant, "other", [said("Hello.")])
    compiled(engine, tenant, "other")
    seen: list[tuple[str, int]] = []
    after = None
    while True:
        page = engine.history.replays(tenant, limit=3, after=after)
        assert page["identical"] == len(page["verdicts"])
        seen += [(one["session"], one["version"]) for one in page["verdicts"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [*(("s", version) for version in range(1, 7)), ("other", 1)]
    some = engine.history.replays(tenant, "s", 2, 4)["verdicts"]
    assert [one["version"] for one in some] == [2, 3, 4]


def test_a_redaction_is_a_verdict_of_its_own(engine: Engine, tenant: str, trip: list[Json]) -> None:
    train = engine.events(tenant, "s")["events"][3]
    engine.append(tenant, "s", [event("event.redacted", event_id=train["event_id"])])
    page = engine.history.replays(tenant, "s")
    assert page["redacted"] == sum(one["verdict"] == "redacted" for one in page["verdicts"]) > 0
    assert page["different"] == 0 or all(
        one["because"]["kind"] == "redaction" for one in page["verdicts"] if one["verdict"] == "different"
    )
