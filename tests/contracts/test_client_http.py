"""How the client talks to the server: retries that cannot append twice, time limits, keys that are not told."""

import asyncio
import json
from collections.abc import Iterator

import httpx2
import pytest
import stamina

from promptctx import AsyncClient, Client, InvalidRequest, PromptctxError, ServerUnavailable, StoreUnavailable, Timeout
from promptctx.testing import FakeServer


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=9, cap=True):
        yield


def busy(code: str = "store_unavailable") -> httpx2.Response:
    problem = {"code": code, "detail": "The database does not answer.", "status": 503}
    return httpx2.Response(503, json=problem, headers={"Retry-After": "0"})


def faults() -> list[Exception | httpx2.Response | None]:
    return [httpx2.ConnectError("refused"), httpx2.RemoteProtocolError("cut off"), busy(), httpx2.ReadError("reset")]


def test_an_event_tried_again_is_the_same_event() -> None:
    server = FakeServer()
    server.faults = faults()
    receipt = Client(transport=server).session("s").user("hi")
    assert len(server.requests) == 5
    assert {json.loads(request.content)["event_id"] for request in server.requests} == {receipt.event_id}
    assert len(server.events("s")) == 1


def test_the_twin_tries_again_too() -> None:
    server = FakeServer()
    server.faults = faults()

    async def send() -> None:
        await AsyncClient(transport=server).session("s").document("a\nb")

    asyncio.run(send())
    assert [request.content for request in server.requests][-1] == b"a\nb"


def test_a_server_that_stays_away_is_named_with_the_events_in_doubt() -> None:
    server = FakeServer()
    server.faults = [httpx2.ConnectError("refused")] * 9
    client = Client("http://me:secret@example.test:8765/base", transport=server, retries=2)
    with pytest.raises(ServerUnavailable, match=r"http://example\.test:8765 .*PROMPTCTX_URL") as caught:
        client.session("s").user("hi")
    assert len(server.requests) == 3
    assert caught.value.details["event_ids"] == [json.loads(server.requests[0].content)["event_id"]]
    assert "secret" not in str(caught.value) + repr(client)


def test_a_server_that_stays_busy_is_told_in_its_own_words() -> None:
    server = FakeServer()
    server.faults = [busy()] * 9
    with pytest.raises(StoreUnavailable, match="database"):
        Client(transport=server, retries=1).session("s").user("hi")


def test_a_slow_answer_is_a_timeout_and_not_tried_again() -> None:
    server = FakeServer()
    server.faults = [httpx2.ReadTimeout("slow")]
    with pytest.raises(Timeout, match="within 3 s") as caught:
        Client(transport=server, timeout=3).session("s").user("hi")
    assert len(server.requests) == 1
    assert caught.value.details["event_ids"]


def test_a_fresh_compile_that_may_have_arrived_is_not_asked_twice() -> None:
    server = FakeServer()
    session = Client(transport=server).session("s")
    session.user("hi")
    server.faults = [httpx2.ReadError("reset")]
    with pytest.raises(ServerUnavailable):
        session.compile(fresh=True)
    server.faults = [httpx2.ReadError("reset")]
    assert session.compile().result(timeout=0).version == 1


def test_every_request_has_a_time_limit() -> None:
    server = FakeServer()
    session = Client(transport=server, timeout=7).session("s")
    session.user("hi")
    session.compile(wait=5)
    limits = [request.extensions["timeout"] for request in server.requests]
    assert [limit["read"] for limit in limits] == [7, 12]
    assert all(limit["connect"] == 5 for limit in limits)


def test_the_key_and_the_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPTCTX_URL", "https://ctx.example.test/api/")
    monkeypatch.setenv("PROMPTCTX_API_KEY", "k-123")
    server = FakeServer()
    client = Client(transport=server)
    with pytest.raises(PromptctxError):
        client.job("j")
    (request,) = server.requests
    assert str(request.url) == "https://ctx.example.test/api/v1/jobs/j"
    assert request.headers["Authorization"] == "Bearer k-123"
    assert "k-123" not in repr(client) + repr(vars(client)) + repr(client._sender.settings)


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://x", "http://", "nonsense"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        Client(url)


@pytest.mark.parametrize("key", ["a\nb", "ключ"])
def test_a_key_that_no_header_can_carry_is_refused_without_telling_it(key: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Client(api_key=key)
    assert key not in str(caught.value)


def test_an_answer_that_is_not_ours_says_so() -> None:
    server = FakeServer()
    server.faults = [httpx2.Response(200, text="<html>hello</html>"), httpx2.Response(404, text="not here")]
    client = Client(transport=server)
    for _ in range(2):
        with pytest.raises(PromptctxError, match="PROMPTCTX_URL"):
            client.job("j")
