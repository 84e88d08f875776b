"""Whole numbers of any size: each that the API takes has a largest value, says so, and refuses what is beyond it."""

import hashlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from domain.bounds import LARGEST
from domain.events import PAYLOADS
from promptctx import Client, InvalidRequest
from promptctx.cli import app
from promptctx.cli._app import Cli
from promptctx.testing import FakeServer
from web.app import assemble
from web.openapi import describe
from workers.settings import load_settings
from workers.store import migrate

pytest_plugins = ["api_server"]

Json = dict[str, Any]
Path_ = tuple[str | int, ...]

DOCUMENT: Json = describe(assemble())
HUGE = (LARGEST + 1, 2**63 - 1, 2**63, 45250712857913857346660352, -(2**63) - 1)
DIGITS = "9" * 5000
TAKEN = ("NewEvent", "NewEvents", "NewPrompt", "Change", "Against")


def resolved(schema: Json) -> Json:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def integers(schema: Json, path: Path_ = (), within: tuple[int, ...] = ()) -> Iterator[tuple[Path_, Json]]:
    """Every integer of a schema, and where it stands: keys, 0 for an item of a list, `x` for a key of one's own."""
    schema = resolved(schema)
    if id(schema) in within:
        return
    within = (*within, id(schema))
    if schema.get("type") == "integer":
        yield path, schema
    for name in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(name, ()):
            yield from integers(one, path, within)
    for key, one in schema.get("properties", {}).items():
        yield from integers(one, (*path, key), within)
    for name, step in (("items", 0), ("additionalProperties", "x")):
        if isinstance(schema.get(name), dict):
            yield from integers(schema[name], (*path, step), within)


def parameters() -> Iterator[tuple[str, str, Json]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            for one in operation.get("parameters", ()):
                if any(True for _ in integers(one["schema"])):
                    yield method, path, one


PARAMETERS = list(parameters())


def test_every_integer_that_is_taken_has_a_maximum() -> None:
    found = [(f"{method} {path} {one['name']}", one["schema"]) for method, path, one in PARAMETERS]
    found += [(name, {"$ref": f"#/components/schemas/{name}"}) for name in TAKEN]
    bodies = [
        content["schema"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
    ]
    found += [("a body", schema) for schema in bodies]
    walked = [(name, path, told) for name, schema in found for path, told in integers(schema)]
    assert len(walked) > 60
    for name, path, told in walked:
        assert "enum" in told or told.get("maximum", LARGEST + 1) <= LARGEST, f"{name} {path}"
        assert "enum" in told or {"minimum", "exclusiveMinimum"} & told.keys(), f"{name} {path}"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A server on each database, with a session, a prompt and a document."""
    serving = importlib.import_module("api_server").serving
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('numbers') / 'store.db'}"
    else:
        url = request.getfixturevalue("shared_postgres_url")
    migrate.upgrade(url)
    with serving(load_settings(database_url=url, dispatcher="inline", log_level="ERROR")) as http:
        said = {"kind": "user.input", "payload": {"content": "hello"}}
        assert http.post("/v1/sessions/s-1/events", content=json.dumps(said)).status_code == 201
        assert http.put("/v1/sessions/s-1/documents/d-1", content=b"text").status_code == 201
        assert http.post("/v1/sessions/s-1/prompts", content=b'{"wait": 30}').status_code == 200
        yield http


def filled(path: str) -> str:
    for name, value in (("session", "s-1"), ("document", "d-1"), ("prompt", "s-1@1"), ("job", "none")):
        path = path.replace(f"{{{name}}}", value)
    return path


def refusal(response: httpx2.Response) -> Json:
    """The problem, which names a place and says one sentence."""
    assert response.status_code == 422, response.text
    told: Json = json.loads(response.content)
    assert told["detail"].endswith(".")
    assert len(told["detail"]) < 300
    assert "\n" not in told["detail"]
    return told


@pytest.mark.parametrize("one", PARAMETERS, ids=lambda one: f"{one[0]}-{one[1]}-{one[2]['name']}")
def test_a_huge_number_in_a_parameter_is_refused_and_the_largest_is_not_too_much(
    one: tuple[str, str, Json], stored: httpx2.Client
) -> None:
    method, path, told = one
    asked = {p["name"]: "x" for p in DOCUMENT["paths"][path][method]["parameters"] if p["in"] == "query"}
    asked = {name: value for name, value in asked.items() if name in ("text", "event")}
    for value in (*HUGE, DIGITS):
        response = stored.request(method, filled(path), params={**asked, told["name"]: str(value)}, content=b"{}")
        assert refusal(response)["details"]["path"].endswith(told["name"])
    if path.endswith("/live"):
        return
    (largest,) = [schema["maximum"] for _, schema in integers(told["schema"])]
    answer = stored.request(method, filled(path), params={**asked, told["name"]: str(largest)}, content=b"{}")
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("sent", [*map(str, HUGE), DIGITS, "٣", "1e3"], ids=lambda sent: sent[:20])
def test_a_last_event_id_that_is_no_seq_is_refused(sent: str, stored: httpx2.Client) -> None:
    headers = {"Last-Event-ID": sent.encode()}
    assert refusal(stored.get("/v1/sessions/s-1/events/live", headers=headers))["details"]["path"] == "Last-Event-ID"


def nested(path: Path_, value: Any) -> Any:
    """A value that holds another at a path. Of content only images have numbers."""
    for place, step in reversed(list(enumerate(path))):
        value = [value] if step == 0 else {step: value}
        if place and path[place - 1] == 0 and path[0] == "content":
            value["type"] = "image"
    return value


COUNTED = [
    (kind, path)
    for kind, model in PAYLOADS.items()
    for path, _ in integers(DOCUMENT["components"]["schemas"][model.__name__])
]


@pytest.mark.parametrize(("kind", "path"), COUNTED, ids=str)
def test_a_huge_number_in_a_payload_is_refused(kind: str, path: Path_, stored: httpx2.Client) -> None:
    with pytest.raises(ValidationError) as raised:
        PAYLOADS[kind].model_validate(nested(path, LARGEST + 1))
    assert "less_than_equal" in {one["type"] for one in raised.value.errors() if one["loc"][0] == path[0]}
    body = {"kind": kind, "payload": nested(path, HUGE[3])}
    told = refusal(stored.post("/v1/sessions/s-2/events", content=json.dumps(body)))
    assert told["code"] == "invalid_event"


@pytest.mark.parametrize(
    "path", [path for path, _ in integers(DOCUMENT["components"]["schemas"]["NewPrompt"])], ids=lambda one: str(one)
)
def test_a_huge_number_in_a_request_is_refused_also_in_a_what_if(path: Path_, stored: httpx2.Client) -> None:
    for value in HUGE:
        asked = nested(tuple("recall" if step == "x" else step for step in path), value)
        told = refusal(stored.post("/v1/sessions/s-1/prompts", content=json.dumps(asked)))
        assert told["code"] == "invalid_request"
        if path[0] != "min_seq":
            change = {"set": asked, "schema": {}}
            refusal(stored.post("/v1/prompts/s-1@1/what-if", content=json.dumps(change)))


@pytest.mark.parametrize("field", ["schema_version", "expected_seq"])
def test_a_huge_number_in_an_envelope_is_refused(field: str, stored: httpx2.Client) -> None:
    said: Json = {"kind": "user.input", "payload": {"content": "hello"}}
    for value in HUGE:
        body = {**said, field: value} if field == "schema_version" else {"events": [said], field: value}
        assert refusal(stored.post("/v1/sessions/s-2/events", content=json.dumps(body)))["details"]["path"] == field


@pytest.mark.parametrize("name", ["why?event={}", "why?event=subject:{}", "report"])
@pytest.mark.parametrize("value", [*HUGE[1:4], DIGITS[:150]], ids=lambda value: str(value)[:20])
def test_a_huge_number_in_a_name_names_nothing(name: str, value: int | str, stored: httpx2.Client) -> None:
    prompt = f"s-1@{value}" if name == "report" else "s-1@1"
    assert stored.get(f"/v1/prompts/{prompt}/{name.format(value)}").status_code in (404, 422)


# --- bundles ----------------------------------------------------------------------------------------------------------


def sealed(lines: list[Any]) -> bytes:
    data = [json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines]
    seal = {"sha256": hashlib.sha256(b"".join(data)).hexdigest(), "lines": len(data)}
    return b"".join([*data, json.dumps(seal).encode() + b"\n"])


def test_a_bundle_is_refused_whatever_a_line_of_it_holds(stored: httpx2.Client) -> None:
    """Each field of each line in turn: gone, of another type, beyond every bound. Its seal is right."""
    lines = [json.loads(line) for line in stored.get("/v1/sessions/s-1/bundle").content.splitlines()[:-1]]
    for line in lines:
        if "stream" in line:
            line["stream"] = line["stream"].replace("s-1", "s-9")
    lines[0] |= {"session": "s-9", "streams": {}}
    checked = 0
    for number, line in enumerate(lines):
        held = line.get("event") or line.get("prompt") or line
        held = held if isinstance(held, dict) else line
        for field in list(held):
            for value in (HUGE[2], None, {}, "x"):
                kept, held[field] = held[field], value
                answer = stored.post("/v1/bundles", content=sealed(lines))
                held[field] = kept
                assert answer.status_code < 500, (number, field, value, answer.text)
                checked += 1
                if value == 2**63 and type(kept) is int and field not in ("head", "versions"):
                    refusal(answer)
    assert checked > 100


# --- the client and the command line ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*HUGE, int(DIGITS[:4000])], ids=lambda value: str(value)[:20])
def test_the_client_says_what_is_too_large_before_it_sends_anything(value: int) -> None:
    server = FakeServer()
    with Client(transport=server) as client:
        session = client.session("s-1")
        for call in (
            lambda: list(session.events(after=value)),
            lambda: list(client.replays("s-1", first=value)),
            lambda: list(client.replays("s-1", last=value)),
            lambda: session.prune(keep_last=value),
            lambda: session.rollback_plan(to_seq=value),
        ):
            with pytest.raises(InvalidRequest) as raised:
                call()
            assert str(LARGEST) in raised.value.message
    assert server.requests == []


@pytest.mark.parametrize(
    "words",
    [
        ["events", "s-1", "--after"],
        ["replay", "--session", "s-1", "--from"],
        ["replay", "--session", "s-1", "--to"],
        ["rollback", "s-1", "--dry-run", "--to-seq"],
        ["rollback", "s-1", "--dry-run", "--to-version"],
        ["fork", "s-1", "s-3", "--at-seq"],
        ["prune", "s-1", "--keep-last"],
        ["compile", "s-1", "--budget"],
        ["compile", "s-1", "--window"],
        ["label", "s-1@1", "good"],
    ],
    ids=" ".join,
)
def test_the_command_line_says_it_in_one_line(words: list[str], stored: httpx2.Client, tmp_path: Path) -> None:
    for value in (HUGE[0], HUGE[3], DIGITS):
        asked = [*words, str(value)] if words[0] != "label" else ["label", f"s-1@{str(value)[:100]}", "good"]
        told = CliRunner().invoke(app, asked, obj=Cli(url=str(stored.base_url)))
        assert told.exit_code in (1, 2), told.output
        assert len(told.stderr.splitlines()) == 1
        assert "error of promptctx itself" not in told.stderr
