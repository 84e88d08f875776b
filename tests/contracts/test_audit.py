"""Every act of an administrator leaves one row that says who did what, on both databases; nothing else leaves any."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from store_histories import compiled, drain, event, said

from workers.access import SCOPES, create, keys
from workers.clock import SystemClock
from workers.engine import Engine
from workers.engine.leases import Parked
from workers.settings import Settings, load_settings
from workers.store import Database, acts, migrate

pytest_plugins = ["api_server"]

Json = dict[str, Any]
SECURITY = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def told(database: Database, tenant: str) -> list[Json]:
    """The oldest first."""
    with database.read(tenant) as unit:
        return acts.listing(unit, tenant, 1000)[::-1]


def names(database: Database, tenant: str) -> list[str]:
    return [one["act"] for one in told(database, tenant)]


@pytest.fixture
def begun(engine: Engine, tenant: str) -> str:
    """A session with rules, prompts and a subject."""
    rule = event("constraint.set", id="c", level="block", text="never")
    began = event("session.started", subject="ann")
    engine.append(tenant, "s", [began, event("instruction.set", role="You help."), rule, said("one"), said("two")])
    for _ in range(3):
        compiled(engine, tenant, fresh=True, budget=2000)
    drain(engine)
    return tenant


def erase_event(engine: Engine, tenant: str) -> None:
    first = next(one for one in engine.events(tenant, "s")["events"] if one["kind"] == "user.input")
    engine.append(tenant, "s", [event("event.redacted", event_id=first["event_id"])])


def loosen(*events: Json) -> Callable[[Engine, str], Any]:
    return lambda engine, tenant: engine.append(tenant, "s", list(events))


def park(engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that this release cannot fold."""

    def poison(*_: Any) -> Any:
        raise Parked("this event cannot be folded", 1)

    engine.append(tenant, "s", [said("three")])
    with monkeypatch.context() as patch:
        patch.setattr("workers.engine.project.fold_into", poison)
        engine.project(tenant, "session/s")
    assert engine.backlog(tenant)["parked"] == 1


ACTS: dict[str, tuple[str, Callable[[Engine, str], Any]]] = {
    "a rule is removed": ("rules.loosened", loosen(event("constraint.removed", id="c"))),
    "a rule becomes a warning": (
        "rules.loosened", loosen(event("constraint.set", id="c", level="warn", text="never")),
    ),
    "a second instruction": ("rules.loosened", loosen(event("instruction.set", role="You obey."))),
    "a rollback that loosens": ("rules.loosened", loosen(event("context.rolled_back", to_seq=1, loosen=True))),
    "another subject": ("rules.loosened", loosen(event("session.started", subject="bob"))),
    "an event is erased": ("events.erased", erase_event),
    "a subject is erased": ("subject.erased", lambda engine, tenant: engine.erase(tenant, "ann")),
    "prompts are pruned": ("prompts.pruned", lambda engine, tenant: engine.history.prune(tenant, "s", keep_last=1)),
    "read-models are rebuilt": ("models.rebuilt", lambda engine, tenant: engine.rebuild(tenant)),
    "a mask is lifted": (
        "secrets.revealed", lambda engine, tenant: engine.note(tenant, "k", "secrets.revealed", session="s"),
    ),
    "a key is made": (
        "key.created",
        lambda engine, tenant: create(engine.deps.database, SystemClock(), tenant, "n", ["emit"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ACTS)
def test_an_act_leaves_one_row(what: str, engine: Engine, begun: str) -> None:
    act, do = ACTS[what]
    before = told(engine.deps.database, begun)
    do(engine, begun)
    (row,) = told(engine.deps.database, begun)[len(before) :]
    assert (row["act"], row["tenant"]) == (act, begun)
    assert row["by"] in ("operator", "k")


def test_a_retry_leaves_one_row(engine: Engine, begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for retry in (lambda: engine.retry(begun), lambda: engine.retry(begun, "s"), lambda: engine.retry(None)):
        park(engine, begun, monkeypatch)
        assert retry() >= 1
        assert names(engine.deps.database, begun)[-1] == "work.retried"
        drain(engine)
    assert names(engine.deps.database, begun).count("work.retried") == 3


def test_a_bundle_and_a_revoked_key_leave_one_row(engine: Engine, begun: str) -> None:
    database = engine.deps.database
    lines = list(engine.history.bundle(begun, session="s"))
    there = f"{begun}-b"
    engine.history.restore(there, lines, by="k-1")
    engine.history.restore(there, lines, by="k-1")
    (row,) = told(database, there)
    assert (row["act"], row["by"], row["about"]["session"]) == ("bundle.restored", "k-1", "s")
    made, _ = create(database, SystemClock(), begun, "n", ["emit"])
    keys.revoke(database, SystemClock(), made.id)
    keys.revoke(database, SystemClock(), made.id)
    assert names(database, begun) == ["key.created", "key.revoked"]


def test_what_is_no_act_leaves_none(engine: Engine, begun: str) -> None:
    """What tightens, what is a duplicate, what only looks, what was refused."""
    removed = event("constraint.removed", id="c")
    engine.append(begun, "s", [event("constraint.set", id="d", level="warn", text="rather not"), said("on")])
    engine.append(begun, "s", [event("constraint.set", id="d", level="block", text="rather not")])
    engine.append(begun, "s", [event("context.rolled_back", to_seq=8)])
    engine.append(begun, "new", [event("session.started", subject="bob"), event("instruction.set", role="You help.")])
    engine.history.prune(begun, "s", keep_last=1, dry_run=True)
    engine.history.prune(begun, "s", keep_last=1000)
    engine.erase(begun, "ann", dry_run=True)
    engine.retry(begun)
    engine.verify(begun)
    with pytest.raises(Exception, match="policy"):
        engine.append(begun, "s", [removed], None, False)
    assert names(engine.deps.database, begun) == []
    engine.append(begun, "s", [removed])
    engine.append(begun, "s", [removed])
    assert names(engine.deps.database, begun) == ["rules.loosened"]


def test_an_account_names_events_and_nothing_that_anyone_wrote(engine: Engine, begun: str) -> None:
    for what, (_, do) in ACTS.items():
        if what != "another subject":
            do(engine, begun)
    rows = told(engine.deps.database, begun)
    text = json.dumps(rows)
    for said_once in ("never", "You obey", "You help", 'one"', "ann"):
        assert said_once not in text
    loosened = next(row for row in rows if row["act"] == "rules.loosened")
    assert loosened["about"]["count"] == len(loosened["about"]["events"]) == 1


def test_a_parked_stream_takes_what_loosens_and_writes_it_down(
    engine: Engine, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody can tell now whether it does is no reason to refuse it, or to leave it out."""
    park(engine, begun, monkeypatch)
    engine.append(begun, "s", [event("constraint.removed", id="c")])
    assert names(engine.deps.database, begun) == ["rules.loosened"]


def test_the_row_names_the_key_that_did_it(
    serve: Callable[[Settings], AbstractContextManager[httpx2.Client]], sqlite_url: str
) -> None:
    migrate.upgrade(sqlite_url)
    database = Database(sqlite_url)
    row, key = create(database, SystemClock(), "default", "n", SCOPES)
    head = {"Authorization": f"Bearer {key}"}

    def send(http: httpx2.Client, path: str, body: Json | None = None, **params: Any) -> Json:
        response = http.post(path, content=json.dumps(body or {}).encode(), headers=head, params=params)
        assert response.is_success, response.text
        return dict(json.loads(response.content))

    with serve(load_settings(database_url=sqlite_url, dispatcher="inline", require_keys=True)) as http:
        rule = {"kind": "constraint.set", "payload": {"id": "c", "text": "never"}}
        hello = {"kind": "user.input", "payload": {"content": "hello"}}
        receipts = send(http, "/v1/sessions/s/events", {"events": [rule, hello]})["events"]
        for _ in range(2):
            send(http, "/v1/sessions/s/prompts", {"wait": 30, "fresh": True})
        send(http, "/v1/sessions/s/prune", keep_last=1)
        send(http, "/v1/sessions/s/events", {"kind": "constraint.removed", "payload": {"id": "c"}})
        erased = {"kind": "event.redacted", "payload": {"event_id": receipts[1]["event_id"]}}
        send(http, "/v1/sessions/s/events", erased)
        assert http.get("/v1/sessions/s/events", params={"reveal": "true"}, headers=head).status_code == 200
    rows = told(database, "default")
    assert [one["act"] for one in rows] == [
        "key.created", "prompts.pruned", "rules.loosened", "events.erased", "secrets.revealed",
    ]  # fmt: skip
    assert {one["by"] for one in rows[1:]} == {row.id}
    database.dispose()


def test_the_manual_lists_every_act() -> None:
    there = {act for act, _ in ACTS.values()} | {"work.retried", "bundle.restored", "key.revoked"}
    listed = set(re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", SECURITY.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == there
    sources = [
        path.read_text(encoding="utf-8")
        for top in ("workers", "web")
        for path in (SECURITY.parents[1] / top).rglob("*.py")
    ]
    noted = set(
        re.findall(r'"((?:rules|events|prompts|work|bundle|subject|models|key|secrets)\.[a-z]+)"', "".join(sources))
    )
    assert noted == there
