"""The OpenAPI document: as it lies in docs/, and true to what the server answers."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, TypeAdapter

from domain.errors import PromptctxError
from domain.events import PAYLOADS
from domain.requests import CompileRequest, Overrides
from promptctx.testing import FakeServer
from web import models
from web.app import assemble
from web.openapi import describe, text_of

pytest_plugins = ["api_server"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    return describe(assemble())


def test_the_document_is_the_one_in_docs(document: Json) -> None:
    """After a change of the interface: `python -m web.openapi > docs/openapi.json`."""
    assert text_of(document) == (DOCS / "openapi.json").read_text(encoding="utf-8")


def test_all_references_lead_somewhere(document: Json) -> None:
    text = json.dumps(document)
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', text)) <= set(document["components"]["schemas"])


def test_every_call_may_be_refused_with_a_problem(document: Json) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["default"]["content"]
            assert "422" not in operation["responses"]


def test_every_kind_of_event_is_described(document: Json) -> None:
    assert {model.__name__ for model in PAYLOADS.values()} <= set(document["components"]["schemas"])


def test_all_that_can_be_asked_of_a_compile_is_described() -> None:
    own = {"min_seq", "fresh", "wait"}
    assert set(models.NewPrompt.model_fields) == set(CompileRequest.model_fields) | own
    assert models.NewPrompt.model_fields["overrides"].annotation is Overrides


def test_every_endpoint_and_every_error_code_stands_in_the_manual(document: Json) -> None:
    manual = (DOCS / "api.md").read_text(encoding="utf-8")
    for path in document["paths"]:
        assert path in manual
    for kind in PromptctxError.__subclasses__():
        assert f"`{kind.code}`" in manual


def test_the_server_gives_the_document_and_a_page_of_it_that_needs_no_network(
    http: httpx2.Client, document: Json
) -> None:
    assert json.loads(http.get("/openapi.json").content) == document
    page = http.get("/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert all(path in page.text for path in document["paths"])
    assert "<script" not in page.text
    assert "://" not in page.text
    linked = set(re.findall(r'href="#([^"]+)"', page.text))
    assert linked <= set(re.findall(r'id="([^"]+)"', page.text))


def test_the_answers_are_what_the_document_says(http: httpx2.Client) -> None:
    def check(kind: type[BaseModel], method: str, path: str, status: int = 200, content: bytes | None = None) -> Json:
        response = http.request(method, path, content=content)
        assert response.status_code == status, response.text
        told: Json = json.loads(response.content)
        required = {name for name, field in kind.model_fields.items() if field.is_required()}
        assert required <= set(told) <= set(kind.model_fields), path
        TypeAdapter(kind).validate_python(told)
        return told

    batch = [
        {"kind": "session.started", "payload": {"subject": "u-1"}},
        {"kind": "user.input", "payload": {"content": "hello"}, "occurred_at": "2026-01-31T09:30:00+08:00"},
        {"kind": "profile.set", "payload": {"key": "city", "value": "北京"}},
    ]
    check(models.Appended, "POST", "/v1/sessions/s-1/events", 201, json.dumps({"events": batch}).encode())
    check(models.Sessions, "GET", "/v1/sessions")
    check(models.Events, "GET", "/v1/sessions/s-1/events")
    check(models.State, "GET", "/v1/sessions/s-1/state")
    check(models.Job, "POST", "/v1/sessions/s-1/prompts", 202, b"{}")
    made = check(models.Prompt, "POST", "/v1/sessions/s-1/prompts", 200, b'{"wait": 30}')
    check(models.Prompt, "GET", f"/v1/prompts/{made['id']}?format=text")
    check(models.Prompts, "GET", "/v1/sessions/s-1/prompts")
    check(models.Dump, "GET", f"/v1/prompts/{made['id']}/dump")
    check(models.Stats, "GET", "/v1/sessions/s-1/stats")
    check(models.Stats, "GET", "/v1/stats")
    check(models.Report, "GET", f"/v1/prompts/{made['id']}/report")
    check(models.Replay, "POST", f"/v1/prompts/{made['id']}/replay")
    check(models.Document, "PUT", "/v1/sessions/s-1/documents/d", 201, b"text")
    check(models.Health, "GET", "/healthz")
    check(models.Ready, "GET", "/readyz")
    check(models.Problem, "GET", "/v1/prompts/none", 404)


def test_the_fake_server_tells_what_it_lacks_from_what_there_is_not(document: Json) -> None:
    with httpx2.Client(transport=FakeServer(), base_url="http://fake") as fake:
        for path, methods in document["paths"].items():
            for method in methods:
                reply = fake.request(method, re.sub(r"{\w+}", "x", path), content=b"{}")
                assert "not_found" not in reply.text.split('"'), f"{method} {path}"
