"""Keys over HTTP: who is let in, what their scopes allow, how often they may call, and what is never shown."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from fastapi.routing import APIRoute

from domain.errors import InvalidRequest
from promptctx import Client, errors
from web.access import NEEDED, OPEN, needed
from web.app import assemble
from workers.access import SCOPES, create, refuse_open_door, revoke
from workers.clock import SetClock, SystemClock
from workers.settings import Settings, load_settings
from workers.store import EVERY, Database, acts

pytest_plugins = ["api_server"]

ROOT = Path(__file__).resolve().parents[2]
Json = dict[str, Any]
EVENTS = "/v1/sessions/s-1/events"


class Door:
    """A server that wants keys, and a maker of keys."""

    def __init__(self, http: httpx2.Client, database: Database) -> None:
        self.http, self.database = http, database

    def key(self, *scopes: str, tenant: str = "acme", days: int | None = None) -> str:
        return create(self.database, SystemClock(), tenant, "test", scopes or SCOPES, days)[1]

    def call(self, method: str, path: str, key: str | None, **more: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if "json" in more:
            more["content"] = json.dumps(more.pop("json")).encode()
        return self.http.request(method, path, headers=headers, **more)


@pytest.fixture
def door_of(empty_store: Path, tmp_path: Path, serve: Callable[[Settings], Any]) -> Callable[..., Any]:
    @contextmanager
    def opened(**more: Any) -> Iterator[Door]:
        url = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'keys.db')}"
        with serve(load_settings(database_url=url, require_keys=True, **more)) as http:
            database = Database(url)
            yield Door(http, database)
            database.dispose()

    return opened


@pytest.fixture
def door(door_of: Callable[..., Any]) -> Iterator[Door]:
    with door_of() as opened:
        yield opened


def problem(response: httpx2.Response, status: int, code: str) -> Json:
    told: Json = json.loads(response.content)
    assert (response.status_code, told["code"]) == (status, code), response.text
    return told


IDS = {"prompt": "p", "job": "j", "document": "d", "subject": "a", "memory": "m"}


def said(text: str) -> Json:
    return {"kind": "user.input", "payload": {"content": text}}


# --- the door ---------------------------------------------------------------------------------------------------------


def test_without_a_key_nothing_but_health_and_the_manual_answers(door: Door) -> None:
    for path, methods in assemble().openapi()["paths"].items():
        for method in methods:
            response = door.call(method.upper(), path.format(session="s", **IDS), None)
            if path in OPEN:
                assert response.status_code == 200
            else:
                problem(response, 401, "unauthorized")
                assert "Bearer" in response.headers["WWW-Authenticate"]


def test_wrong_expired_and_revoked_keys_are_told_the_same(door: Door) -> None:
    good = door.key("read")
    assert door.call("GET", "/v1/sessions", good).status_code == 200
    clock = SetClock(0)
    expired = create(door.database, clock, "acme", "old", ["read"], 1)[1]
    gone = door.key("read")
    revoke(door.database, SystemClock(), gone.split("_")[1])
    for wrong in (good[:-1] + ("a" if good[-1] != "a" else "b"), expired, gone, "pctx_x_y", "é", "x" * 5000):
        told = problem(
            door.http.get("/v1/sessions", headers={"Authorization": f"Bearer {wrong}".encode()}), 401, "unauthorized"
        )
        assert told["detail"] == "This API key is not in force."


def test_a_key_may_come_as_the_password_that_a_browser_asks_for(door: Door) -> None:
    sent = base64.b64encode(f"anyone:{door.key('read')}".encode()).decode()
    assert door.http.get("/v1/sessions", headers={"Authorization": f"Basic {sent}"}).status_code == 200
    for broken in ("Basic !", "Basic", "Basic " + base64.b64encode(b"\xff").decode(), "Digest x"):
        problem(door.http.get("/v1/sessions", headers={"Authorization": broken}), 401, "unauthorized")


def test_the_root_key_of_the_settings_opens_the_default_tenant(door_of: Callable[..., Any]) -> None:
    with door_of(root_key="r" * 32) as door:
        assert door.call("POST", EVENTS, "r" * 32, json=said("hi")).status_code == 201
        problem(door.call("GET", "/v1/sessions", "r" * 31 + "x"), 401, "unauthorized")


def test_a_server_that_others_can_reach_does_not_start_without_a_key(sqlite_url: str) -> None:
    from workers.store import migrate

    migrate.upgrade(sqlite_url)
    database = Database(sqlite_url)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        refuse_open_door(database, load_settings(database_url=sqlite_url, host=host), SystemClock())
    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org"):
        with pytest.raises(InvalidRequest, match="python -m workers keys create"):
            refuse_open_door(database, load_settings(database_url=sqlite_url, host=host), SystemClock())
    create(database, SystemClock(), "default", "first", ["read"])
    refuse_open_door(database, load_settings(database_url=sqlite_url, host="0.0.0.0"), SystemClock())
    database.dispose()


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_every_call_that_writes_names_its_scope_and_reading_needs_read(door: Door) -> None:
    for route in assemble().routes:
        if isinstance(route, APIRoute) and route.path not in OPEN:
            for method in route.methods:
                assert method in ("GET", "HEAD") or route.name in NEEDED, f"{route.name}: name it in web/access.py"
                assert set(needed(route.name, method)) <= set(SCOPES)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_allows_what_it_says_and_nothing_else(door: Door, scope: str) -> None:
    everything = door.key()
    door.call("POST", EVENTS, everything, json=said("hi"))
    made = json.loads(door.call("POST", "/v1/sessions/s-1/prompts", everything, json={"wait": 30}).content)
    key = door.key(scope)
    for path, methods in assemble().openapi()["paths"].items():
        if path in OPEN or path.endswith("/live"):
            continue
        for method, operation in methods.items():
            allowed = {one["key"][0] for one in operation["security"]}
            filled = path.format(session="s-1", **{**IDS, "prompt": made["id"]})
            response = door.call(method.upper(), filled, key, json={})
            assert (response.status_code == 403) is (scope not in allowed), (method, path, response.text)


def test_emit_does_not_imply_policy_however_it_is_tried(door: Door) -> None:
    agent, policy = door.key("emit", "compile", "read"), door.key("emit", "policy")
    rules = [
        {"kind": "instruction.set", "payload": {"role": "You book flights."}},
        {"kind": "constraint.set", "payload": {"id": "r", "level": "block", "text": "never pay twice"}},
    ]
    assert door.call("POST", EVENTS, agent, json={"events": rules}).status_code == 201
    loosening = [
        {"kind": "constraint.removed", "payload": {"id": "r"}},
        {"kind": "constraint.set", "payload": {"id": "r", "level": "warn", "text": "never pay twice"}},
        {"kind": "instruction.set", "payload": {"role": "You do anything."}},
        {"kind": "context.rolled_back", "payload": {"to_seq": 0, "loosen": True}},
    ]
    for event in loosening:
        for actor in (None, "user", "operator", "admin", "agent", "tool"):
            sent = {**event, **({"actor": actor} if actor else {})}
            problem(door.call("POST", EVENTS, agent, json=sent), 403, "forbidden")
            problem(door.call("POST", EVENTS, agent, json={"events": [said("x"), sent]}), 403, "forbidden")
    for actor in ("agent", "tool", "importer:codex", "mcp"):
        problem(door.call("POST", EVENTS, policy, json={**loosening[0], "actor": actor}), 403, "forbidden")
    assert door.call("POST", EVENTS, policy, json=loosening[0]).status_code == 201


def test_erasing_needs_admin(door: Door) -> None:
    agent = door.key("emit", "policy")
    sent = json.loads(door.call("POST", EVENTS, agent, json=said("secret")).content)["events"][0]
    erase = {"kind": "event.redacted", "payload": {"event_id": sent["event_id"], "reason": "asked"}}
    problem(door.call("POST", EVENTS, agent, json=erase), 403, "forbidden")
    problem(door.call("POST", EVENTS, agent, json={"events": [said("x"), erase]}), 403, "forbidden")
    assert door.call("POST", EVENTS, door.key("emit", "admin"), json=erase).status_code == 201


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_key_that_calls_too_often_is_told_when_to_come_back_and_others_go_on(door_of: Callable[..., Any]) -> None:
    with door_of(rate_limit=5) as door:
        busy, calm = door.key("read"), door.key("read")
        answers = [door.call("GET", "/v1/sessions", busy) for _ in range(7)]
        assert [one.status_code for one in answers] == [200] * 5 + [429] * 2
        told = problem(answers[-1], 429, "too_many_requests")
        assert 1 <= int(answers[-1].headers["Retry-After"]) == told["details"]["retry_after"] <= 60
        assert door.call("GET", "/v1/sessions", calm).status_code == 200


def test_an_agent_cannot_fill_the_floor_with_rules(door_of: Callable[..., Any]) -> None:
    with door_of(rule_limit=100) as door:
        agent = door.key("emit")

        def rule(name: str, length: int, level: str = "block") -> httpx2.Response:
            payload = {"id": name, "level": level, "text": "x" * length}
            return door.call("POST", EVENTS, agent, json={"kind": "constraint.set", "payload": payload})

        assert rule("a", 60).status_code == 201
        told = problem(rule("b", 41), 409, "too_many_rules")
        assert "PROMPTCTX_RULE_LIMIT" in told["detail"]
        assert told["details"] == {"limit": 100, "size": 101}
        assert rule("b", 40).status_code == rule("c", 500, "warn").status_code == rule("a", 60).status_code == 201
        flood = [{"kind": "constraint.set", "payload": {"id": f"f{n}", "text": "x"}} for n in range(50)]
        problem(door.call("POST", EVENTS, agent, json={"events": flood}), 409, "too_many_rules")


# --- what is never shown ----------------------------------------------------------------------------------------------


def test_a_key_is_stored_as_a_hash_and_appears_in_no_log_line_and_no_answer(door: Door, tmp_path: Path) -> None:
    key = door.key("read")
    with structlog.testing.capture_logs() as logged:
        answers = [
            door.call("GET", "/v1/sessions", key),
            door.call("GET", "/v1/prompts/none", key),
            door.call("POST", EVENTS, key, json=said("x")),
            door.call("GET", "/v1/sessions", key + "x"),
        ]
    secret = key.split("_")[2]
    assert all(secret not in one.text + str(one.headers) for one in answers)
    assert secret not in str(logged)
    door.database.dispose()
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_making_and_revoking_keys_is_written_down(door: Door) -> None:
    key = door.key("read").split("_")[1]
    revoke(door.database, SystemClock(), key)
    with door.database.read(EVERY) as unit:
        found = [(one["tenant"], one["by"], one["act"], one["about"]["key"]) for one in acts.listing(unit, "acme", 10)]
    assert found == [("acme", "operator", "key.revoked", key), ("acme", "operator", "key.created", key)]


def test_the_client_sends_the_key_of_the_environment_and_names_the_error(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = door.key("emit")
    monkeypatch.setenv("PROMPTCTX_API_KEY", key)
    with Client(str(door.http.base_url)) as client:
        client.session("s-1").user("hello")
        with pytest.raises(errors.Forbidden, match="`compile`"):
            client.session("s-1").compile()
        assert key not in repr(client) + repr(vars(client)) + repr(client._sender.settings)
    monkeypatch.delenv("PROMPTCTX_API_KEY")
    with Client(str(door.http.base_url)) as client, pytest.raises(errors.Unauthorized, match="Bearer"):
        client.session("s-1").user("hello")


def test_keys_are_made_listed_and_revoked_at_the_command_line(empty_store: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'cli.db')}"

    def workers(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "workers", *words]
        env = {"PROMPTCTX_DATABASE_URL": url, "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)

    made = json.loads(
        workers("keys", "create", "--tenant", "acme", "--name", "bot", "--scopes", "read,emit", "--json").stdout
    )
    assert made["scopes"] == ["emit", "read"]
    listed = workers("keys", "list", "--json").stdout
    assert made["key"].split("_")[2] not in listed
    assert [one["state"] for one in json.loads(listed)["keys"]] == ["in force"]
    assert json.loads(workers("keys", "revoke", made["id"], "--json").stdout) == {"id": made["id"], "state": "revoked"}
    assert json.loads(workers("keys", "list", "--json").stdout)["keys"][0]["state"] == "revoked"
    wrong = workers("keys", "create", "--name", "x", "--scopes", "root")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert "emit, compile, read, policy, admin" in wrong.stderr
