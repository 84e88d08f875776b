"""What the HTTP API promises, held against the real server and against `promptctx.testing.FakeServer` alike."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from promptctx import Client
from promptctx.testing import FakeServer

pytest_plugins = ["api_server"]

Json = dict[str, Any]
EMOJI = "zwj 👩‍👩‍👧‍👦, CRLF\r\n, NUL \x00, lone \ud83d surrogate, {braces}, <|endoftext|>, 城市"


@pytest.fixture(params=["fake", "server"])
def api(request: pytest.FixtureRequest) -> Iterator[httpx2.Client]:
    if request.param == "server":
        yield request.getfixturevalue("http")
        return
    with httpx2.Client(transport=FakeServer(), base_url="http://fake") as client:
        yield client


def event(text: str = "hello", **more: Any) -> Json:
    return {"kind": "user.input", "payload": {"content": [{"type": "text", "text": text}]}, **more}


def known(text: str = "hello") -> Json:
    return event(text, event_id=str(uuid.uuid4()))


def post(api: httpx2.Client, path: str, body: Any, **query: Any) -> httpx2.Response:
    return api.post(path, content=json.dumps(body).encode(), params=query or None)


def append(api: httpx2.Client, *events: Json, session: str = "s-1") -> Json:
    body = events[0] if len(events) == 1 else {"events": list(events)}
    return answer(post(api, f"/v1/sessions/{session}/events", body), 201)


def answer(response: httpx2.Response, status: int = 200) -> Json:
    assert response.status_code == status, response.text
    told: Json = json.loads(response.content)
    return told


def log_of(api: httpx2.Client, session: str = "s-1", stream: str = "session") -> list[Json]:
    found: list[Json] = answer(api.get(f"/v1/sessions/{session}/events", params={"stream": stream}))["events"]
    return found


def warned(told: Json) -> list[list[str]]:
    return [one.get("warnings", []) for one in told["events"]]


def test_what_was_hardly_meant_is_told_with_the_receipt(api: httpx2.Client) -> None:
    unknown = str(uuid.uuid4())
    first = {"role": "r", "rules": [{"text": "a", "core": True}, {"text": "b"}]}
    told = append(
        api,
        {"kind": "instruction.set", "payload": first},
        {"kind": "instruction.set", "payload": {**first, "text": "more"}},
        {"kind": "instruction.set", "payload": {"rules": [{"text": "Be long."}]}},
        {"kind": "constraint.set", "payload": {"id": "c", "text": "x"}},
        {"kind": "constraint.removed", "payload": {"id": "c"}},
        {"kind": "constraint.removed", "payload": {"id": "c"}},
        {"kind": "tool.removed", "payload": {"name": "t"}},
        {"kind": "message.unpinned", "payload": {"event_id": unknown}},
        {"kind": "message.pinned", "payload": {"event_id": unknown}},
        {"kind": "user.input", "payload": {"content": ""}},
        event("hello"),
    )
    assert warned(told) == [
        [],
        [],
        ["an instruction replaces the one before whole: the role and 1 core rule of that one no longer hold"],
        [],
        [],
        ["no rule 'c' is set in this session: nothing was removed"],
        ["no tool 't' is registered in this session: nothing was removed"],
        [f"no message {unknown!r} is pinned in this session: nothing was unpinned"],
        [f"no message {unknown!r} is in this session: nothing was pinned"],
        ["the user's message is empty: prompts show it as (empty)"],
        [],
    ]


def test_a_warning_comes_once_and_alone_too(api: httpx2.Client) -> None:
    gone = {"kind": "tool.removed", "payload": {"name": "t"}, "event_id": str(uuid.uuid4())}
    assert [len(one) for one in warned(append(api, gone))] == [1]
    assert warned(append(api, gone)) == [[]]
    assert warned(append(api, {"kind": "user.input", "payload": {"content": [{"type": "text", "text": " "}]}}))[0]
    append(api, {"kind": "tool.registered", "payload": {"name": "t"}})
    assert warned(append(api, {"kind": "tool.removed", "payload": {"name": "t"}})) == [[]]


@pytest.mark.parametrize(
    ("kind", "payload", "path"),
    [
        ("instruction.set", {}, "payload"),
        ("instruction.set", {"rules": [{"text": " "}]}, "payload"),
        ("constraint.set", {"id": "q", "text": ""}, "payload.text"),
    ],
)
def test_a_rule_without_a_word_is_refused(api: httpx2.Client, kind: str, payload: Json, path: str) -> None:
    told = refused(post(api, "/v1/sessions/s-1/events", {"kind": kind, "payload": payload}), 422, "invalid_event")
    assert told == {"path": path, "kind": kind}


@pytest.mark.parametrize("name", ["%2E", "%2E%2E", "a@3"])
def test_a_new_session_is_not_called_as_folders_and_prompts_are(api: httpx2.Client, name: str) -> None:
    told = refused(post(api, f"/v1/sessions/{name}/events", event()), 422, "invalid_request")
    assert told == {"path": "session"}
    assert answer(api.get("/v1/sessions"))["sessions"] == []


@pytest.mark.parametrize("asked", [{"budget": "50"}, {"budget": True}, {"window": 50.5}])
def test_a_budget_is_a_whole_number_and_nothing_like_one(api: httpx2.Client, asked: Json) -> None:
    append(api, event())
    told = refused(post(api, "/v1/sessions/s-1/prompts", asked), 422, "invalid_request")
    assert told == {"path": next(iter(asked))}


def refused(response: httpx2.Response, status: int, code: str) -> Json:
    told = answer(response, status)
    assert told["code"] == code
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    details: Json = told["details"]
    return details


# --- append -----------------------------------------------------------------------------------------------------------


def test_one_event_gets_the_first_number_of_a_new_session(api: httpx2.Client) -> None:
    sent = known()
    told = append(api, sent)
    assert told == {
        "session": "s-1",
        "head": 1,
        "events": [{"event_id": sent["event_id"], "seq": 1, "stream": "session", "duplicate": False}],
    }


def test_an_event_without_an_id_is_given_one(api: httpx2.Client) -> None:
    told = append(api, event())
    assert told["events"][0]["event_id"] == log_of(api)[0]["event_id"]


def test_a_batch_is_numbered_in_its_order(api: httpx2.Client) -> None:
    append(api, event("zero"))
    told = append(api, *map(event, ("one", "two", "three")))
    assert [one["seq"] for one in told["events"]] == [2, 3, 4]
    assert told["head"] == 4
    assert [one["payload"]["content"][0]["text"] for one in log_of(api)] == ["zero", "one", "two", "three"]


def test_the_same_event_again_is_no_second_event(api: httpx2.Client) -> None:
    sent = known()
    append(api, sent, event("more"))
    told = append(api, sent)
    assert told["events"][0] == {"event_id": sent["event_id"], "seq": 1, "stream": "session", "duplicate": True}
    assert told["head"] == 2
    assert len(log_of(api)) == 2


def test_the_same_id_with_other_content_is_a_conflict(api: httpx2.Client) -> None:
    sent = known()
    append(api, sent)
    response = post(api, "/v1/sessions/s-1/events", {**sent, "payload": {"content": "other"}})
    assert refused(response, 409, "event_conflict")["event_id"] == sent["event_id"]
    assert len(log_of(api)) == 1


def test_a_batch_with_a_conflict_adds_nothing(api: httpx2.Client) -> None:
    sent = known()
    append(api, sent)
    other = {**sent, "payload": {"content": "other"}}
    refused(post(api, "/v1/sessions/s-1/events", {"events": [event("new"), other]}), 409, "event_conflict")
    assert len(log_of(api)) == 1


@pytest.mark.parametrize("body", [{"payload": {}}, {"kind": 7, "payload": {}}])
def test_an_event_without_a_kind_is_refused_by_the_name_of_the_field(api: httpx2.Client, body: Json) -> None:
    append(api, event())
    assert refused(post(api, "/v1/sessions/s-1/events", body), 422, "invalid_event")["path"] == "kind"
    assert len(log_of(api)) == 1


def test_an_expected_seq_that_holds_lets_the_event_in(api: httpx2.Client) -> None:
    answer(post(api, "/v1/sessions/s-1/events", event(), expected_seq=0), 201)
    told = answer(post(api, "/v1/sessions/s-1/events", {"events": [event("two")], "expected_seq": 1}), 201)
    assert told["head"] == 2


def test_an_expected_seq_that_does_not_hold_is_a_conflict_that_names_the_head(api: httpx2.Client) -> None:
    append(api, event(), event("two"))
    alone = post(api, "/v1/sessions/s-1/events", event("three"), expected_seq=1)
    assert refused(alone, 409, "concurrency_conflict")["head"] == 2
    batch = post(api, "/v1/sessions/s-1/events", {"events": [event("three")], "expected_seq": 7})
    assert refused(batch, 409, "concurrency_conflict")["head"] == 2
    assert len(log_of(api)) == 2


def test_a_retry_is_no_conflict_although_its_expected_seq_has_passed(api: httpx2.Client) -> None:
    sent = known()
    answer(post(api, "/v1/sessions/s-1/events", sent, expected_seq=0), 201)
    told = answer(post(api, "/v1/sessions/s-1/events", sent, expected_seq=0), 201)
    assert told["events"][0]["duplicate"]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_text_comes_back_exactly_as_it_was_sent(api: httpx2.Client) -> None:
    append(api, event(EMOJI))
    assert log_of(api)[0]["payload"]["content"][0]["text"] == EMOJI


def test_unknown_kinds_are_kept_as_they_are(api: httpx2.Client) -> None:
    payload = {"deep": [1, 2.5, None, {"a": "b"}], "big": 2**70}
    append(api, {"kind": "custom.mine", "payload": payload}, {"kind": "from.the.future", "payload": payload})
    assert [(one["kind"], one["payload"]) for one in log_of(api)] == [
        ("custom.mine", payload),
        ("from.the.future", payload),
    ]


def test_pages_follow_each_other_without_a_gap(api: httpx2.Client) -> None:
    append(api, *(event(str(number)) for number in range(5)))
    first = answer(api.get("/v1/sessions/s-1/events", params={"limit": 2}))
    assert ([one["seq"] for one in first["events"]], first["head"], first["next"]) == ([1, 2], 5, 2)
    last = answer(api.get("/v1/sessions/s-1/events", params={"limit": 3, "after": first["next"]}))
    assert ([one["seq"] for one in last["events"]], last["next"]) == ([3, 4, 5], None)


def test_what_belongs_to_the_subject_does_not_move_the_session(api: httpx2.Client) -> None:
    append(api, {"kind": "session.started", "payload": {"subject": "u-1"}})
    told = append(api, {"kind": "profile.set", "payload": {"key": "city", "value": "北京"}})
    assert told["head"] == 1
    assert told["events"][0]["stream"] == "subject"
    append(api, {"kind": "session.started", "payload": {"subject": "u-1"}}, session="s-2")
    assert [one["kind"] for one in log_of(api, "s-2", "subject")] == ["profile.set"]


def test_what_is_audit_has_numbers_of_its_own(api: httpx2.Client) -> None:
    append(api, event())
    flagged = {"kind": "output.flagged", "payload": {"snapshot_id": "p-1"}}
    told = append(api, flagged)
    assert told["head"] == 1
    assert told["events"][0]["stream"] == "audit"
    assert [one["kind"] for one in log_of(api, stream="audit")] == ["output.flagged"]


def test_ids_may_hold_anything_but_slashes_and_control_characters(api: httpx2.Client) -> None:
    name = "a b?#%25&=+.城市"
    append(api, event(), session="a%20b%3F%23%2525%26%3D%2B.%E5%9F%8E%E5%B8%82")
    assert [one["id"] for one in answer(api.get("/v1/sessions"))["sessions"]] == [name]


def test_sessions_are_listed_with_what_they_said_about_themselves(api: httpx2.Client) -> None:
    append(api, {"kind": "session.started", "payload": {"subject": "u-1", "mode": "react", "model": "gpt-4o"}}, event())
    (told,) = answer(api.get("/v1/sessions"))["sessions"]
    assert (told["id"], told["subject"], told["mode"], told["model"]) == ("s-1", "u-1", "react", "gpt-4o")
    assert (told["head"], told["prompts"]) == (2, 0)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "events"), ("GET", "state"), ("GET", "prompts"), ("POST", "prompts")],
)
def test_a_session_that_nobody_began_is_unknown(api: httpx2.Client, method: str, path: str) -> None:
    body = b"{}" if method == "POST" else None
    refused(api.request(method, f"/v1/sessions/nobody/{path}", content=body), 404, "unknown_session")


# --- prompts ----------------------------------------------------------------------------------------------------------


def compiled(api: httpx2.Client, session: str = "s-1", **asked: Any) -> Json:
    return answer(post(api, f"/v1/sessions/{session}/prompts", {"budget": 8000, "wait": 30, **asked}))


def test_a_compile_that_waits_answers_with_the_prompt(api: httpx2.Client) -> None:
    append(api, event("what is the weather?"))
    told = compiled(api)
    assert (told["session"], told["version"], told["format"]) == ("s-1", 1, "openai")
    assert told["payload"]["messages"][-1]["role"] == "user"
    assert "what is the weather?" in json.dumps(told["payload"])
    assert 0 < told["tokens"] <= 8000


def test_the_same_request_at_the_same_head_is_the_same_prompt(api: httpx2.Client) -> None:
    append(api, event())
    first = compiled(api)
    assert compiled(api)["id"] == first["id"]
    append(api, event("more"))
    assert compiled(api)["version"] == 2


def test_a_fresh_compile_makes_a_new_version(api: httpx2.Client) -> None:
    append(api, event())
    first = compiled(api)
    again = compiled(api, fresh=True)
    assert again["id"] != first["id"]
    assert again["version"] == 2


def test_a_compile_that_does_not_wait_answers_with_a_job(api: httpx2.Client) -> None:
    append(api, event())
    job = answer(post(api, "/v1/sessions/s-1/prompts", {"budget": 8000}), 202)
    assert job["session"] == "s-1"
    assert job["status"] in ("queued", "running", "done")
    assert answer(api.get(f"/v1/jobs/{job['id']}"))["id"] == job["id"]


def test_a_prompt_can_be_had_again_with_its_report_and_its_place_in_the_list(api: httpx2.Client) -> None:
    append(api, event())
    made = compiled(api)
    assert answer(api.get(f"/v1/prompts/{made['id']}"))["payload"] == made["payload"]
    assert answer(api.get(f"/v1/prompts/{made['id']}/report")) == made["report"]
    (listed,) = answer(api.get("/v1/sessions/s-1/prompts"))["prompts"]
    assert (listed["id"], listed["content_hash"]) == (made["id"], made["content_hash"])


def test_a_replay_is_identical(api: httpx2.Client) -> None:
    append(api, event())
    made = compiled(api)
    told = answer(api.post(f"/v1/prompts/{made['id']}/replay"))
    assert told["identical"] is True
    assert told["replayed_hash"] == told["content_hash"] == made["content_hash"]
    assert told["first_difference"] is None


@pytest.mark.parametrize(("format", "keys"), [("anthropic", {"messages"}), ("text", {"text"})])
def test_another_format_is_derived_on_request(api: httpx2.Client, format: str, keys: set[str]) -> None:
    append(api, event("what is the weather?"))
    made = compiled(api)
    told = answer(api.get(f"/v1/prompts/{made['id']}", params={"format": format}))
    assert told["derived"] is True
    assert told["format"] == format
    assert keys <= told["payload"].keys()


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/prompts/none", "unknown_snapshot"),
        ("GET", "/v1/prompts/none/report", "unknown_snapshot"),
        ("POST", "/v1/prompts/none/replay", "unknown_snapshot"),
        ("GET", "/v1/jobs/none", "unknown_job"),
    ],
)
def test_what_was_never_made_is_unknown(api: httpx2.Client, method: str, path: str, code: str) -> None:
    refused(api.request(method, path), 404, code)


# --- the time machine -------------------------------------------------------------------------------------------------


def telling(api: httpx2.Client) -> list[Json]:
    """A session of an instruction, a question and an answer, with a prompt after each of the last two."""
    begun = {"kind": "session.started", "payload": {"mode": "chat", "locale": "en"}}
    append(api, begun, {"kind": "instruction.set", "payload": {"role": "You book trains."}}, known("To Bern, please."))
    first = compiled(api)
    append(api, {"kind": "assistant.output", "payload": {"content": "There are two.\nWhich one?"}})
    return [first, compiled(api)]


def back(api: httpx2.Client, to_seq: int, **more: Any) -> Json:
    told = append(api, {"kind": "context.rolled_back", "payload": {"to_seq": to_seq, **more}})
    receipt: Json = told["events"][0]
    return receipt


def told_in(prompt: Json) -> str:
    return json.dumps(prompt["payload"])


def diff(api: httpx2.Client, before: str, after: str) -> Json:
    return answer(post(api, f"/v1/prompts/{before}/diff", {"to": after}))


def test_a_diff_tells_what_came_with_the_event_that_brought_it(api: httpx2.Client) -> None:
    first, second = telling(api)
    found = diff(api, first["id"], "s-1@2")
    reply = log_of(api)[3]
    assert (found["before"]["version"], found["after"]["version"], found["identical"]) == (1, 2, False)
    assert (found["before"]["heads"]["session"], found["after"]["heads"]["session"]) == (3, 4)
    (change,) = found["changes"]
    assert (change["change"], change["role"], change["zone"]) == ("added", "assistant", "window")
    assert change["segment"] == f"message:{reply['event_id']}"
    assert [(line["op"], line["text"]) for line in change["lines"]] == [("+", "There are two."), ("+", "Which one?")]
    named = {"event_id": reply["event_id"], "seq": 4, "stream": "session", "kind": "assistant.output"}
    assert change["cause"] == {"by": "event", "event": named, "text": "assistant.output at seq 4"}
    assert [row["zone"] for row in found["zones"] if row["zone"] == "window"] == ["window"]
    assert diff(api, second["id"], first["id"])["changes"][0]["cause"]["text"] == (
        "assistant.output at seq 4 came after seq 3, where the other prompt ends"
    )


def test_a_prompt_has_no_difference_from_itself_and_another_budget_is_a_request(api: httpx2.Client) -> None:
    _, second = telling(api)
    same = diff(api, second["id"], second["id"])
    assert (same["identical"], same["changes"], same["zones"], same["request"]) == (True, [], [], [])
    other = compiled(api, budget=4000)
    asked = diff(api, second["id"], other["id"])["request"]
    assert asked == [{"field": "budget", "before": 8000, "after": 4000}]


def why(api: httpx2.Client, prompt: Json, event: Any) -> Json:
    return answer(api.get(f"/v1/prompts/{prompt['id']}/why", params={"event": event}))


def test_why_tells_where_an_event_is(api: httpx2.Client) -> None:
    first, second = telling(api)
    reply = log_of(api)[3]
    found = why(api, second, reply["event_id"])
    assert found["event"].items() >= {"seq": 4, "stream": "session", "kind": "assistant.output"}.items()
    assert (found["disposition"], found["reason"], found["kept_by"], found["by"]) == ("included", "window", {}, None)
    assert found["sentence"] == "it is in the prompt, in the zone window (window)"
    (unit,) = [one for one in second["report"]["units"] if reply["event_id"] in one["events"]]
    assert found["numbers"] == {"tokens": unit["tokens"]}
    assert found["where"] == [{"segment": f"message:{reply['event_id']}", "zone": "window", "lines": [1, 2]}]
    instruction = why(api, second, 2)
    assert instruction["sentence"] == "it is in the prompt, in anchor_system"
    later = why(api, first, 4)
    assert (later["disposition"], later["where"]) == ("later", [])
    assert later["sentence"] == "it came after this prompt, which ends at seq 3"
    assert why(api, second, 1)["disposition"] == "unseen"


def test_why_knows_only_events_that_are_there(api: httpx2.Client) -> None:
    _, second = telling(api)
    response = api.get(f"/v1/prompts/{second['id']}/why", params={"event": "99"})
    assert refused(response, 422, "invalid_request") == {"path": "event"}


def test_all_prompts_of_a_session_replay(api: httpx2.Client) -> None:
    first, second = telling(api)
    told = answer(api.post("/v1/sessions/s-1/replays"))
    assert (told["identical"], told["different"], told["redacted"], told["next"]) == (2, 0, 0, None)
    assert [(one["prompt"], one["verdict"]) for one in told["verdicts"]] == [
        (first["id"], "identical"),
        (second["id"], "identical"),
    ]
    assert told["verdicts"][1] == answer(api.post(f"/v1/prompts/{second['id']}/replay"))
    last = answer(api.post("/v1/sessions/s-1/replays", params={"from": 2}))
    assert [one["version"] for one in last["verdicts"]] == [2]
    assert answer(api.post("/v1/replays"))["identical"] == 2


def test_a_rollback_is_planned_and_done(api: httpx2.Client) -> None:
    first, _ = telling(api)
    reply = log_of(api)[3]
    planned = answer(api.get("/v1/sessions/s-1/rollback", params={"to_version": 1}))
    hidden = {"seq": 4, "event_id": reply["event_id"], "kind": "assistant.output", "text": planned["hides"][0]["text"]}
    assert planned == {
        "session": "s-1", "head": 4, "to_seq": 3, "to_version": 1, "hides": [hidden], "stays": [], "returns": [],
        "versions_after": [2], "takes_back": [], "conflicts": [],
    }  # fmt: skip
    assert hidden["text"].startswith("There are two.")
    receipt = back(api, 3, to_version=1)
    assert (receipt["seq"], receipt["takes_back"], receipt["conflicts"]) == (5, [], [])
    after = compiled(api)
    assert (after["version"], after["payload"]) == (3, first["payload"])
    assert why(api, after, 4)["by"] == {"event_id": receipt["event_id"]}
    removed = diff(api, "s-1@2", "s-1@3")["changes"]
    assert [(one["change"], one["cause"]["text"]) for one in removed] == [("removed", "context.rolled_back at seq 5")]
    assert answer(api.post("/v1/sessions/s-1/replays"))["identical"] == 3


def test_a_rollback_of_a_rollback_brings_back(api: httpx2.Client) -> None:
    _, second = telling(api)
    back(api, 3)
    append(api, event("No, to Basel."))
    assert answer(api.get("/v1/sessions/s-1/rollback", params={"to_seq": 4}))["returns"] == [4]
    receipt = back(api, 4)
    after = compiled(api)
    assert after["payload"] == second["payload"]
    assert why(api, after, 6)["by"] == {"event_id": receipt["event_id"]}
    assert why(api, after, 4)["disposition"] == "included"


def test_rules_do_not_get_weaker_by_a_rollback_unless_it_may_loosen(api: httpx2.Client) -> None:
    telling(api)
    append(api, {"kind": "instruction.set", "payload": {"role": "You book trains in Switzerland."}}, event("more"))
    planned = answer(api.get("/v1/sessions/s-1/rollback", params={"to_seq": 3}))
    assert [one["seq"] for one in planned["stays"]] == [5]
    back(api, 3)
    assert "Switzerland" in told_in(compiled(api))
    back(api, 3, loosen=True)
    loosened = compiled(api)
    assert "Switzerland" not in told_in(loosened)
    assert "You book trains." in told_in(loosened)


def test_of_each_rule_the_stricter_stays(api: httpx2.Client) -> None:
    telling(api)
    rules = [("a", "warn"), ("b", "warn"), ("b", "block"), ("c", "warn"), ("d", "block"), ("d", "warn")]
    told = [{"id": name, "text": level, "level": level} for name, level in rules]
    append(api, *({"kind": "constraint.set", "payload": one} for one in told))
    append(api, {"kind": "constraint.removed", "payload": {"id": "c"}})
    expected = {
        4: ([6, 8, 9, 11], [5, 7, 10]),
        5: ([6, 8, 9, 11], [7, 10]),
        6: ([8, 9, 11], [7, 10]),
        7: ([8, 9, 11], [10]),
        9: ([10, 11], []),
        10: ([11], []),
    }
    for to_seq, parts in expected.items():
        planned = answer(api.get("/v1/sessions/s-1/rollback", params={"to_seq": to_seq}))
        assert tuple([one["seq"] for one in planned[key]] for key in ("hides", "stays")) == parts, to_seq


def test_a_rollback_goes_to_where_there_is_something(api: httpx2.Client) -> None:
    telling(api)
    path = "/v1/sessions/s-1/rollback"
    assert refused(api.get(path, params={"to_seq": 9}), 422, "invalid_request") == {"path": "to_seq", "head": 4}
    assert refused(api.get(path, params={"to_version": 9}), 422, "invalid_request") == {"path": "to_version"}
    assert refused(api.get(path), 422, "invalid_request") == {"path": "to_seq"}
    wrong = {"kind": "context.rolled_back", "payload": {"to_seq": 1, "undoes": ["x"]}}
    assert refused(post(api, "/v1/sessions/s-1/events", wrong), 422, "invalid_event")["path"] == "payload.undoes"
    nowhere = {"kind": "context.rolled_back", "payload": {}}
    assert refused(post(api, "/v1/sessions/s-1/events", nowhere), 422, "invalid_event")["path"] == "payload.to_seq"
    assert len(log_of(api)) == 4


def fork(parent: str, at_seq: int) -> Json:
    return {"kind": "session.forked", "payload": {"parent": parent, "at_seq": at_seq}}


def test_a_fork_begins_as_the_other_was_and_goes_its_own_way(api: httpx2.Client) -> None:
    first, second = telling(api)
    told = append(api, fork("s-1", 3), {"kind": "session.started", "payload": {"title": "Basel"}}, session="child")
    assert ([one["seq"] for one in told["events"]], told["head"]) == ([4, 5], 5)
    append(api, event("And to Basel?"), session="child")
    copies, originals = log_of(api, "child"), log_of(api)
    assert [(one["event_id"], one["kind"], one["payload"]) for one in copies[:3]] == [
        (one["event_id"], one["kind"], one["payload"]) for one in originals[:3]
    ]
    child = compiled(api, session="child")
    assert child["version"] == 1
    assert "To Bern, please." in told_in(child)
    assert "And to Basel?" in told_in(child)
    assert compiled(api)["id"] == second["id"]
    changes = diff(api, first["id"], child["id"])["changes"]
    assert [(one["change"], one["cause"]["text"]) for one in changes if "Basel" in str(one["lines"])] == [
        ("added", "user.input at seq 6")
    ]
    titles = {one["id"]: (one["title"], one["mode"]) for one in answer(api.get("/v1/sessions"))["sessions"]}
    assert titles["child"] == ("Basel", "chat")


def test_a_fork_needs_a_parent_and_an_empty_session(api: httpx2.Client) -> None:
    telling(api)
    path = "/v1/sessions/child/events"
    assert refused(post(api, path, fork("s-1", 9)), 422, "invalid_event") == {"path": "payload.at_seq", "head": 4}
    assert refused(post(api, path, fork("nobody", 0)), 404, "unknown_session") == {"session": "nobody"}
    together = {"events": [fork("s-1", 1), event()]}
    assert refused(post(api, path, together), 422, "invalid_event") == {"path": "kind"}
    refused(api.get(path), 404, "unknown_session")
    append(api, event(), session="child")
    assert refused(post(api, path, fork("s-1", 1)), 422, "invalid_event") == {"path": "kind"}


def test_a_fork_of_what_was_rolled_back_is_rolled_back(api: httpx2.Client) -> None:
    first, _ = telling(api)
    back(api, 3)
    append(api, fork("s-1", 5), session="child")
    append(api, fork("s-1", 4), session="whole")
    assert compiled(api, session="child")["payload"] == first["payload"]
    assert "There are two." in told_in(compiled(api, session="whole"))


# --- documents and the rest -------------------------------------------------------------------------------------------


def test_a_document_is_kept_and_sliced_by_characters(api: httpx2.Client) -> None:
    text = "# 城市\n\n👩‍👩‍👧 家\r\n" * 40
    told = answer(api.put("/v1/sessions/s-1/documents/notes.md", content=text.encode()), 201)
    assert (told["document_id"], told["size"], told["seq"]) == ("notes.md", len(text.encode()), 1)
    whole = api.get("/v1/sessions/s-1/documents/notes.md")
    assert whole.content.decode() == text
    piece = api.get("/v1/sessions/s-1/documents/notes.md", params={"from": 3, "to": 12})
    assert piece.content.decode() == text[3:12]
    assert [one["kind"] for one in log_of(api)] == ["document.attached"]


def test_a_document_that_nobody_sent_is_unknown(api: httpx2.Client) -> None:
    append(api, event())
    refused(api.get("/v1/sessions/s-1/documents/none"), 404, "unknown_document")


@pytest.mark.parametrize("path", ["/v1/nothing", "/v2/sessions", "/v1/sessions/s-1"])
def test_an_unknown_address_is_not_found(api: httpx2.Client, path: str) -> None:
    assert answer(api.get(path), 404)["title"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_healthy_server_says_so(api: httpx2.Client, path: str) -> None:
    assert answer(api.get(path))["status"] == "ok"


def test_the_client_understands_both(api: httpx2.Client, request: pytest.FixtureRequest) -> None:
    transport = FakeServer() if "fake" in request.node.name else None
    with Client(str(api.base_url), transport=transport) as client:
        session = client.session("s-1", subject="u-1", mode="react", model="gpt-4o")
        session.user("what is the weather?")
        prompt = session.compile(budget=8000).result(timeout=30)
        assert "what is the weather?" in json.dumps(prompt.messages)
        assert client.prompt(prompt.id).version == 1
