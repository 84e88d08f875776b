"""Spans of model calls as events: by each convention, in pieces and twice, through the API and from a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from promptctx.importers import ImportedSession, read

pytest_plugins = ["api_server"]

Json = dict[str, Any]

CALL = {"id": "c1", "name": "weather", "arguments": {"city": "Beijing"}}


def attribute(key: str, value: Any) -> Json:
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def span(number: int, *attributes: Json, events: Any = ()) -> Json:
    start = 1_790_000_000_000_000_000 + number * 1_000_000_000
    common = [attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.conversation.id", "trip")]
    return {
        "traceId": "t" * 32, "spanId": f"{number:016x}", "name": "chat gpt-4o", "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 5), "attributes": [*common, *attributes], "events": list(events),
    }  # fmt: skip


def document(*spans: Json) -> Json:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def part(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts)}


def text(said: str) -> Json:
    return {"type": "text", "content": said}


ASKED = part("user", text("How is the weather?"))
CALLED = part("assistant", {"type": "tool_call", **CALL})
ANSWERED = part("tool", {"type": "tool_call_response", "id": "c1", "response": "22 degrees"})
REPLIED = part("assistant", text("It is sunny."))
THANKS = part("user", text("Thank you"))


def conventional(number: int, prompt: list[Json], reply: list[Json]) -> Json:
    return span(
        number, attribute("gen_ai.system_instructions", json.dumps([text("You are brief.")])),
        attribute("gen_ai.input.messages", json.dumps(prompt)), attribute("gen_ai.output.messages", json.dumps(reply)),
        attribute("gen_ai.request.model", "gpt-4o"), attribute("gen_ai.usage.input_tokens", 21),
    )  # fmt: skip


FIRST = conventional(1, [ASKED], [CALLED])
SECOND = conventional(2, [ASKED, CALLED, ANSWERED], [REPLIED])
THIRD = conventional(3, [ASKED, CALLED, ANSWERED, REPLIED, THANKS], [part("assistant", text("You are welcome."))])

OPENLLMETRY = span(
    1, attribute("llm.request.type", "chat"), attribute("gen_ai.prompt.0.role", "user"),
    attribute("gen_ai.prompt.0.content", "How is the weather?"), attribute("gen_ai.completion.0.role", "assistant"),
    attribute("gen_ai.completion.0.content", "It is sunny."),
)  # fmt: skip
OPENINFERENCE = span(
    1, attribute("openinference.span.kind", "LLM"), attribute("llm.input_messages.0.message.role", "user"),
    attribute("llm.input_messages.0.message.content", "How is the weather?"),
    attribute("llm.output_messages.0.message.role", "assistant"),
    attribute("llm.output_messages.0.message.content", "It is sunny."),
)  # fmt: skip
EVENTS = span(
    1,
    events=[
        {"name": "gen_ai.user.message", "attributes": [attribute("content", "How is the weather?")]},
        {"name": "gen_ai.choice", "attributes": [attribute("message", json.dumps({"content": "It is sunny."}))]},
    ],
)

Session = Callable[..., ImportedSession]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    def of(*spans: Json) -> ImportedSession:
        file = tmp_path / "spans.json"
        file.write_text(json.dumps(document(*spans)))
        (found,) = read(file)
        assert isinstance(found, ImportedSession)
        return found

    return of


def told(events: Any) -> list[tuple[str, Any]]:
    return [(one["kind"], one["payload"].get("content")) for one in events if not one["kind"].startswith("custom.")]


@pytest.mark.parametrize("one", [OPENLLMETRY, OPENINFERENCE, EVENTS])
def test_each_convention_is_read(session: Session, one: Json) -> None:
    found = session(one)
    assert found.session_id == "otel-trip"
    assert told(found.events)[1:] == [("user.input", "How is the weather?"), ("assistant.output", "It is sunny.")]


def test_what_every_prompt_repeats_is_told_once_and_calls_keep_their_answers(session: Session) -> None:
    events = list(session(THIRD, FIRST, SECOND).events)
    assert [kind for kind, _ in told(events)] == [
        "session.started", "instruction.set", "user.input", "assistant.output", "tool.result", "assistant.output",
        "user.input", "assistant.output",
    ]  # fmt: skip
    call = next(one["payload"]["tool_calls"][0] for one in events if one["payload"].get("tool_calls"))
    assert (call["id"], json.loads(call["arguments"])) == ("c1", {"city": "Beijing"})
    result = next(one["payload"] for one in events if one["kind"] == "tool.result")
    assert (result["call_id"], result["content"]) == ("c1", "22 degrees")
    usage = [one["payload"]["usage"] for one in events if one["kind"] == "custom.otel.call"]
    assert [one["input_tokens"] for one in usage] == [21, 21, 21]


def test_spans_that_come_one_by_one_and_twice_make_the_log_that_one_batch_makes(http: httpx2.Client) -> None:
    for one in (FIRST, SECOND, FIRST, THIRD, SECOND):
        answer = http.post("/v1/traces", json=document(one))
        assert (answer.status_code, answer.json()) == (200, {})
    (name,) = [one["id"] for one in http.get("/v1/sessions").json()["sessions"] if one["id"].startswith("otel-trip")]
    events = http.get(f"/v1/sessions/{name}/events?limit=1000").json()["events"]
    assert [kind for kind, _ in told(events)] == [
        "session.started", "instruction.set", "user.input", "assistant.output", "tool.result", "assistant.output",
        "user.input", "assistant.output",
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b'{"resourceSpans": 1}', b"{", b"\xff"])
def test_what_is_no_trace_is_refused_in_one_sentence(http: httpx2.Client, body: bytes) -> None:
    answer = http.post("/v1/traces", content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


def test_protobuf_is_refused_with_what_to_set(http: httpx2.Client) -> None:
    answer = http.post("/v1/traces", content=b"\x0a", headers={"Content-Type": "application/x-protobuf"})
    assert "http/json" in answer.json()["detail"]


def test_hostile_spans_are_no_failure_of_the_server(http: httpx2.Client) -> None:
    odd = [
        {"spans": None}, span(1, {"key": None, "value": None}), span(2, attribute("gen_ai.prompt.x.0", "1")),
        span(3, attribute("gen_ai.input.messages", "[" * 5000)), span(4, attribute("gen_ai.prompt.0", "a"),
        attribute("gen_ai.prompt.0.role.deep", "b")), {"attributes": [1, 2]}, 7,
        {**span(5), "startTimeUnixNano": "9" * 400},
    ]  # fmt: skip
    for one in odd:
        assert http.post("/v1/traces", json=document(one)).status_code == 200  # type: ignore[arg-type]
