"""The API is asked whatever its own OpenAPI document allows, and more: no answer is a failure of the server.

`make test-security`; it takes a minute or two, so `make test` leaves it out.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from web.app import assemble
from workers.settings import load_settings
from workers.store import migrate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contracts"))

from api_server import serving  # type: ignore[import-not-found]

pytestmark = pytest.mark.security

SEEN = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="session")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A server with a session that has something of everything."""
    path = tmp_path_factory.mktemp("fuzz") / "store.db"
    migrate.upgrade(f"sqlite:///{path}")
    with serving(load_settings(database_url=f"sqlite:///{path}", log_level="ERROR")) as http:
        yield http
    shutil.rmtree(path.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def known(fuzzed: httpx2.Client) -> dict[str, str]:
    for text in ("hello", "what is the weather?"):
        event = {"kind": "user.input", "payload": {"content": text}}
        assert fuzzed.post("/v1/sessions/s-1/events", content=json.dumps(event)).status_code == 201
    fuzzed.put("/v1/sessions/s-1/documents/d-1", content="一份文件".encode())
    prompt = json.loads(fuzzed.post("/v1/sessions/s-1/prompts", content=b'{"wait": 30}').content)
    job = json.loads(fuzzed.post("/v1/sessions/s-1/prompts", content=b'{"query": "x"}').content)
    return {"session": "s-1", "document": "d-1", "prompt": prompt["id"], "job": job["id"]}


schema = schemathesis.openapi.from_dict(assemble().openapi())


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: object, value: object) -> bytes:
    """A file of JSON lines: whatever was made up for it, a value to a line."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in (value if isinstance(value, list) else [value]))


# A stream of events never ends; its refusals are those of the page that it follows.
OPERATIONS = [one.ok() for one in schema.exclude(path_regex="/live$").get_all_operations()]
CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
@pytest.mark.parametrize("of", ["whatever", "what is there"])
def test_no_call_makes_the_server_fail(
    operation: schemathesis.APIOperation, of: str, fuzzed: httpx2.Client, known: dict[str, str]
) -> None:
    @SEEN
    @given(case=operation.as_strategy())
    def check(case: schemathesis.Case) -> None:
        if of == "what is there":
            case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
        case.call_and_validate(base_url=str(fuzzed.base_url).rstrip("/"), checks=CHECKS, timeout=60)

    check()
