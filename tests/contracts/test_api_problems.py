"""Every refusal is a problem of RFC 9457 with a code; nothing of the inside ever shows."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from domain import errors
from web import problems
from workers.settings import Settings, load_settings

pytest_plugins = ["api_server"]

Json = dict[str, Any]

EVENTS = "/v1/sessions/s-1/events"
EVENT = b'{"kind": "user.input", "payload": {"content": "hello"}}'


def problem(response: httpx2.Response, status: int, code: str) -> Json:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    found: Json = json.loads(response.content)
    assert set(found) == {"type", "title", "status", "detail", "code", "details", "request_id"}
    assert (found["status"], found["code"]) == (status, code)
    assert found["type"] == f"urn:promptctx:problem:{code}"
    assert found["request_id"] == response.headers["X-Request-Id"]
    return found


@pytest.mark.parametrize("kind", errors.PromptctxError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_domain_is_a_problem_with_its_code_and_status(kind: type[errors.PromptctxError]) -> None:
    answer = problems.of_error(kind("Do this.", path="a.b", text="\ud83d"), "r-1")
    body = json.loads(bytes(answer.body))
    assert answer.status_code == kind.status
    assert (body["code"], body["detail"], body["request_id"]) == (kind.code, "Do this.", "r-1")
    assert body["details"] == {"path": "a.b", "text": "\ud83d"}
    assert ("Retry-After" in answer.headers) == (kind.status in (429, 503))


def test_a_failure_of_the_server_shows_an_id_that_its_log_has_too(broken_http: httpx2.Client) -> None:
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        response = broken_http.get("/v1/sessions")
    found = problem(response, 500, "internal_error")
    assert "Traceback" not in response.text
    assert "Error" not in found["detail"]
    assert found["request_id"] in found["detail"]
    assert [(line["request_id"], line["exc_info"]) for line in logged] == [(found["request_id"], True)]


@pytest.mark.parametrize(
    "store", ["sqlite:///{folder}/not-migrated.db", "postgresql+psycopg://nobody@127.0.0.1:1/nothing"], ids=str
)
def test_a_server_without_its_store_lives_but_is_not_ready(
    serve: Callable[[Settings], AbstractContextManager[httpx2.Client]], tmp_path: Path, store: str
) -> None:
    with serve(load_settings(database_url=store.format(folder=tmp_path), dispatcher="inline")) as http:
        assert http.get("/healthz").status_code == 200
        for response in (http.get("/readyz"), http.get("/v1/sessions"), http.post(EVENTS, content=EVENT)):
            problem(response, 503, "store_unavailable")
            assert response.headers["Retry-After"] == "1"


def test_a_request_id_of_the_caller_is_kept_if_it_is_harmless(http: httpx2.Client) -> None:
    assert http.get("/healthz", headers={"X-Request-Id": "trace-1:a.b"}).headers["X-Request-Id"] == "trace-1:a.b"
    for given in ("", "a b", "<script>", "x" * 101):
        assert http.get("/healthz", headers={"X-Request-Id": given}).headers["X-Request-Id"] != given


@pytest.mark.parametrize("path", ["/v2", "/v1", "/v1/sessions/", "/v1/sessions//events", "/V1/sessions", "/v1/prompts"])
def test_unknown_addresses_are_problems(http: httpx2.Client, path: str) -> None:
    problem(http.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/sessions/s-1/events", "GET, POST"),
        ("PUT", "/v1/sessions", "GET"),
        ("POST", "/v1/sessions/s-1/documents/d", "GET, PUT"),
        ("GET", "/v1/prompts/p/replay", "POST"),
        ("OPTIONS", "/v1/jobs/j", "GET"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(http: httpx2.Client, method: str, path: str, allowed: str) -> None:
    response = http.request(method, path)
    assert allowed in problem(response, 405, "method_not_allowed")["detail"]
    assert response.headers["Allow"] == allowed


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/sessions?limit=0", "limit"),
        ("/v1/sessions?limit=1001", "limit"),
        ("/v1/sessions?limit=many", "limit"),
        ("/v1/sessions?after=nonsense", "after"),
        ("/v1/sessions/s-1/events?after=-1", "after"),
        ("/v1/sessions/s-1/events?after=99999999999999999999", "after"),
        ("/v1/sessions/s-1/events?stream=all", "stream"),
        ("/v1/sessions/s-1/documents/d?from=-1", "from"),
        ("/v1/sessions/s-1/documents/d?to=x", "to"),
        ("/v1/prompts/p?format=xml", "format"),
    ],
)
def test_a_wrong_parameter_is_named(http: httpx2.Client, path: str, named: str) -> None:
    assert problem(http.get(path), 422, "invalid_request")["details"]["path"] == named


@pytest.mark.parametrize(
    "name",
    ["x" * 217, "x" * 10_000, "a%00b", "a%0Ab", "a%7Fb", "a%C2%85b", "a%2Fb", "%2e%2e%2fetc", "%FF", "%ED%A0%80"],
    ids=lambda name: name[:12],
)
def test_an_id_that_cannot_be_one_is_refused(http: httpx2.Client, name: str) -> None:
    for path in (f"/v1/sessions/{name}/events", f"/v1/prompts/{name}", f"/v1/jobs/{name}"):
        problem(http.get(path), 422, "invalid_request")
    problem(http.post(f"/v1/sessions/{name}/events", content=b'{"kind":"user.input"}'), 422, "invalid_request")
    problem(http.put(f"/v1/sessions/s-1/documents/{name}", content=b"text"), 422, "invalid_request")
    assert json.loads(http.get("/v1/sessions").content)["sessions"] == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_not_write(http: httpx2.Client, site: str) -> None:
    sent = {"content": b'{"kind":"user.input"}', "headers": {"Sec-Fetch-Site": site}}
    problem(http.post("/v1/sessions/s-1/events", **sent), 403, "forbidden")  # type: ignore[arg-type]
    assert http.get("/healthz", headers={"Sec-Fetch-Site": site}).status_code == 200


def test_answers_are_never_taken_for_pages(http: httpx2.Client) -> None:
    http.put("/v1/sessions/s-1/documents/d", content=b"<script>alert(1)</script>")
    response = http.get("/v1/sessions/s-1/documents/d")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [{"Host": "rebound.example.org"}, {"Origin": "https://elsewhere.example.org"}, {"Origin": "null"}],
    ids=lambda one: next(iter(one.values())),
)
def test_a_name_or_origin_that_is_not_this_machine_may_not_write(http: httpx2.Client, headers: dict[str, str]) -> None:
    problem(http.post(EVENTS, content=EVENT, headers=headers), 403, "forbidden")
