"""What only the real server does over HTTP: texts to the byte, waiting and jobs, tags, following, limits."""

import json
import threading
import uuid
from typing import Any

import httpx2
import pytest

from web.bodies import MAX_DEPTH, MAX_JSON

pytest_plugins = ["api_server"]

Json = dict[str, Any]


def event(content: Any = "hello", **more: Any) -> Json:
    return {"kind": "user.input", "payload": {"content": content}, **more}


def send(http: httpx2.Client, body: bytes | Json, session: str = "s-1", **more: Any) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(f"/v1/sessions/{session}/events", content=content, **more)


def ask(http: httpx2.Client, session: str = "s-1", **asked: Any) -> httpx2.Response:
    return http.post(f"/v1/sessions/{session}/prompts", content=json.dumps({"budget": 8000, **asked}).encode())


def told(response: httpx2.Response, status: int = 200) -> Json:
    assert response.status_code == status, response.text
    found: Json = json.loads(response.content)
    return found


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "\x00",
        "\ud83d",
        "a\udc00b",
        "👩‍👩‍👧‍👦",
        "\r\n\u2028\u2029",
        "𝔘𐍈",
        "{{ }} {% %} $x",
        "<|endoftext|>",
        "不允许",
        "\u202eabc",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "raw"])
def test_every_text_survives_the_way_in_and_out(http: httpx2.Client, text: str, escaped: bool) -> None:
    body = json.dumps(event(text), ensure_ascii=escaped).encode(errors="surrogatepass")
    told(send(http, body), 201)
    (found,) = told(http.get("/v1/sessions/s-1/events"))["events"]
    assert found["payload"]["content"] == [{"type": "text", "text": text}]


def test_a_lone_surrogate_is_sent_as_an_escape_and_all_else_as_utf_8(http: httpx2.Client) -> None:
    send(http, event("城市"))
    assert "城市".encode() in http.get("/v1/sessions/s-1/events").content
    send(http, event("\ud83d"))
    assert b"\\ud83d" in http.get("/v1/sessions/s-1/events").content


def test_of_a_key_that_stands_twice_the_last_one_counts(http: httpx2.Client) -> None:
    told(send(http, b'{"kind":"user.input","kind":"custom.x","payload":{"a":1,"a":2}}'), 201)
    (found,) = told(http.get("/v1/sessions/s-1/events"))["events"]
    assert (found["kind"], found["payload"]) == ("custom.x", {"a": 2})


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", None])
def test_json_is_read_whatever_the_content_type_says(http: httpx2.Client, content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    told(send(http, event(), headers=headers), 201)


def test_a_byte_order_mark_is_no_harm(http: httpx2.Client) -> None:
    told(send(http, json.dumps(event("城市"), ensure_ascii=False).encode("utf-8-sig")), 201)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_nesting_is_taken_up_to_a_limit_and_refused_beyond(http: httpx2.Client) -> None:
    def nested(levels: int) -> bytes:
        return b'{"kind":"custom.x","payload":' + b"[" * levels + b"]" * levels + b"}"

    told(send(http, nested(MAX_DEPTH - 1)), 201)
    assert json.dumps(told(http.get("/v1/sessions/s-1/events"))["events"][0]["payload"]) == "[" * 99 + "]" * 99
    for levels in (MAX_DEPTH, 1000, 200_000):
        refusal = told(send(http, nested(levels)), 422)
        assert (refusal["code"], refusal["details"]["path"]) == ("invalid_request", "body")


@pytest.mark.parametrize("announced", [True, False], ids=["with a length", "in chunks"])
def test_a_body_over_the_limit_is_refused_so_that_the_sender_hears_it(http: httpx2.Client, announced: bool) -> None:
    size = MAX_JSON + 1
    pieces = [b" " * (1 << 20)] * (size >> 20) + [b" "]
    headers = {"Content-Length": str(size)} if announced else {}
    response = http.post("/v1/sessions/s-1/events", content=iter(pieces), headers=headers)
    refusal = told(response, 413)
    assert refusal["code"] == "payload_too_large"
    assert refusal["details"]["limit"] == MAX_JSON


def test_a_payload_over_its_limit_names_the_document_upload(http: httpx2.Client) -> None:
    refusal = told(send(http, event("x" * (2 << 20))), 413)
    assert refusal["code"] == "payload_too_large"
    assert "documents" in refusal["detail"]


def test_a_large_batch_of_small_events_is_taken(http: httpx2.Client) -> None:
    batch = {"events": [event(f"{number} " + "word " * 200) for number in range(2000)]}
    assert told(send(http, batch), 201)["head"] == 2000


# --- asking for prompts -----------------------------------------------------------------------------------------------


def test_without_wait_the_job_is_accepted_and_its_address_told(http: httpx2.Client) -> None:
    send(http, event())
    response = ask(http)
    job = told(response, 202)
    assert response.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert (job["session"], job["error"]) == ("s-1", None)


def test_a_job_that_failed_says_why_and_a_call_that_waits_gets_that_error(http: httpx2.Client) -> None:
    send(http, event("word " * 3000))
    refusal = told(ask(http, budget=50, wait=30), 422)
    assert refusal["code"] == "context_overflow"
    assert refusal["details"]["budget"] == 50
    assert refusal["details"]["needs"]
    job = told(ask(http, budget=51), 202)
    while job["status"] in ("queued", "running"):
        job = told(http.get(f"/v1/jobs/{job['id']}"))
    assert job["status"] == "failed"
    assert (job["prompt"], job["error"]["code"]) == (None, "context_overflow")


def test_many_callers_may_wait_at_once(http: httpx2.Client) -> None:
    names = [f"s-{number}" for number in range(12)]
    for name in names:
        send(http, event(name), name)
    found: dict[str, Json] = {}

    def wait_for(name: str) -> None:
        with httpx2.Client(base_url=http.base_url, timeout=60, trust_env=False) as own:
            found[name] = told(ask(own, name, wait=50))

    threads = [threading.Thread(target=wait_for, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(names)
    assert all(name in json.dumps(found[name]["payload"]) for name in names)


def test_a_prompt_has_a_tag_by_which_it_is_not_sent_again(http: httpx2.Client) -> None:
    send(http, event())
    made = told(ask(http, wait=30))
    first = http.get(f"/v1/prompts/{made['id']}")
    assert first.headers["ETag"] == f'"{made["content_hash"]}"'
    again = http.get(f"/v1/prompts/{made['id']}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = http.get(f"/v1/prompts/{made['id']}", headers={"If-None-Match": '"another"'})
    assert other.status_code == 200


def test_a_prompt_whose_input_was_erased_is_gone(http: httpx2.Client) -> None:
    secret = event("my number is 4711", event_id=str(uuid.uuid4()))
    send(http, secret)
    made = told(ask(http, wait=30))
    told(send(http, {"kind": "event.redacted", "payload": {"event_id": secret["event_id"], "reason": "asked"}}), 201)
    assert told(http.get(f"/v1/prompts/{made['id']}"), 410)["code"] == "snapshot_redacted"
    assert "4711" not in http.get("/v1/sessions/s-1/events").text
    receipt = told(send(http, secret), 201)["events"][0]
    assert (receipt["duplicate"], receipt["redacted"]) == (True, True)


def test_overrides_reach_the_compile(http: httpx2.Client) -> None:
    send(http, event())
    send(http, {"kind": "profile.set", "payload": {"key": "城市", "value": "北京"}})
    assert "北京" in json.dumps(told(ask(http, wait=30))["payload"], ensure_ascii=False)
    without = told(ask(http, wait=30, overrides={"slots": {"profile": {"token_budget": 0}}}))
    assert "北京" not in json.dumps(without["payload"], ensure_ascii=False)


def test_the_state_is_what_a_restarted_agent_needs(http: httpx2.Client) -> None:
    called = {"kind": "assistant.output", "payload": {"tool_calls": [{"id": "c1", "name": "weather"}]}}
    plan = {"kind": "plan.updated", "payload": {"task_id": "t-1", "steps": [{"id": "1", "text": "look"}]}}
    rule = {"kind": "constraint.set", "payload": {"id": "no-rm", "text": "不允许执行 rm -rf"}}
    send(http, {"events": [rule, event("weather?"), plan, called]})
    state = told(http.get("/v1/sessions/s-1/state"))
    assert (state["session"], state["head"], state["seq"]) == ("s-1", 4, 4)
    assert set(state["slots"]) == {"constraints", "planner", "task_memory", "tool_state", "profile", "recall"}
    assert "不允许执行 rm -rf" in json.dumps(state["slots"]["constraints"], ensure_ascii=False)
    assert "t-1" in json.dumps(state["plan"])
    assert "c1" in json.dumps(state["open_calls"])


# --- following --------------------------------------------------------------------------------------------------------


def read_live(http: httpx2.Client, wanted: int, query: str = "", **headers: str) -> list[tuple[str, Json]]:
    """The ids and events of the first `wanted` messages."""
    found: list[tuple[str, Json]] = []
    with http.stream("GET", f"/v1/sessions/s-1/events/live{query}", headers=headers) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        data: Json = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "data":
                data = json.loads(value)
            elif name == "id":
                found.append((value, data))
                if len(found) == wanted:
                    break
    return found


def test_events_are_followed_from_the_beginning_with_their_seq_as_id(http: httpx2.Client) -> None:
    send(http, {"events": [event("one"), event("two\r\n\ud83d"), event("three")]})
    found = read_live(http, 3, "?after=0")
    assert [name for name, _ in found] == ["1", "2", "3"]
    assert [told for _, told in found] == told(http.get("/v1/sessions/s-1/events"))["events"]


def test_a_reader_that_was_cut_off_goes_on_behind_the_last_event_it_saw(http: httpx2.Client) -> None:
    send(http, {"events": [event(str(number)) for number in range(6)]})
    found = read_live(http, 2, "?after=0", **{"Last-Event-ID": "4"})
    assert [name for name, _ in found] == ["5", "6"]


def test_a_reader_sees_what_is_appended_while_it_reads(http: httpx2.Client) -> None:
    send(http, event("before"))
    with http.stream("GET", "/v1/sessions/s-1/events/live") as response:
        send(http, event("while"))
        lines = (line for line in response.iter_lines() if line.startswith("data: "))
        assert "while" in next(lines)


@pytest.mark.parametrize(
    ("session", "headers", "status", "code"),
    [
        ("nobody", {}, 404, "unknown_session"),
        ("s-1", {"Last-Event-ID": "x"}, 422, "invalid_request"),
        ("s-1", {"Last-Event-ID": "²"}, 422, "invalid_request"),
    ],
)
def test_following_is_refused_before_it_begins(
    http: httpx2.Client, session: str, headers: dict[str, str], status: int, code: str
) -> None:
    send(http, event())
    encoded = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    response = http.get(f"/v1/sessions/{session}/events/live", headers=encoded)
    assert told(response, status)["code"] == code


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("text/markdown; charset=UTF-8", "text/markdown"),
        ("text/plain", "text/plain"),
        ("application/x-www-form-urlencoded", "text/plain"),
        (None, "text/plain"),
    ],
)
def test_a_document_is_markdown_or_plain_text(http: httpx2.Client, sent: str | None, kept: str) -> None:
    headers = {"Content-Type": sent} if sent else {}
    told(http.put("/v1/sessions/s-1/documents/d", content=b"# Title\n\ntext", headers=headers), 201)
    (found,) = told(http.get("/v1/sessions/s-1/events"))["events"]
    assert found["payload"].get("media_type", "text/plain") == kept


def test_a_document_has_a_title_and_a_source(http: httpx2.Client) -> None:
    query = {"title": "标题 & more", "source": "file:notes"}
    told(http.put("/v1/sessions/s-1/documents/d", content=b"text", params=query), 201)
    (found,) = told(http.get("/v1/sessions/s-1/events"))["events"]
    assert (found["payload"]["title"], found["payload"]["source"]) == ("标题 & more", "file:notes")


def test_a_document_of_some_megabytes_is_streamed_in(http: httpx2.Client) -> None:
    pieces = [f"# 标题 {number}\n\n{'句子。' * 3000}\n\n" for number in range(100)]
    text = "".join(pieces)
    made = told(http.put("/v1/sessions/s-1/documents/big", content=(piece.encode() for piece in pieces)), 201)
    assert made["size"] == len(text.encode())
    assert made["chunks"] > 100
    tail = http.get("/v1/sessions/s-1/documents/big", params={"from": len(text) - 5})
    assert tail.content.decode() == text[-5:]


@pytest.mark.parametrize(
    ("content", "content_type"), [(b"\xff\xfe\x00broken", "text/plain"), (b"abc", "text/plain; charset=gbk")]
)
def test_what_is_no_utf_8_is_no_document(http: httpx2.Client, content: bytes, content_type: str) -> None:
    send(http, event())
    response = http.put("/v1/sessions/s-1/documents/d", content=content, headers={"Content-Type": content_type})
    assert told(response, 422)["code"] == "invalid_request"
    assert told(http.get("/v1/sessions/s-1/events"))["head"] == 1
