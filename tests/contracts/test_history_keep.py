"""Keeping and passing on: flags, labels, the active version, pruning, bundles."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_histories import compiled, drain, event, said

from domain.errors import InvalidRequest, ReplayMismatch, UnknownDocument, UnknownSnapshot
from workers.engine import Deps, Engine, bundled_documents, bundles, recompile
from workers.store import Database, migrate

Json = dict[str, Any]
WORDS = "many words about trains and seats "


@pytest.fixture
def trip(engine: Engine, tenant: str) -> list[Json]:
    """Six versions under a budget that trims, one of them with a secret in its window."""
    engine.append(
        tenant,
        "s",
        [
            event("session.started", subject="u-1", model="gpt-4o", mode="react", locale="zh"),
            event("instruction.set", role="You book trains."),
            event("tool.environment", values={"token": {"value": "hunter2-hunter2", "secret": True}}),
            event("tool.registered", name="find", description="finds trains"),
            event("profile.set", key="seat", value="window"),
        ],
    )
    made = []
    for turn in range(6):
        engine.append(
            tenant,
            "s",
            [
                said(f"turn {turn} {WORDS * 25} hunter2-hunter2"),
                event("assistant.output", tool_calls=[{"id": f"c{turn}", "name": "find", "arguments": "{}"}]),
                event("tool.result", call_id=f"c{turn}", content=f"found {turn} \ud83d {{}}"),
            ],
        )
        made.append(compiled(engine, tenant, budget=900))
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Engine]:
    """An empty server."""
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    migrate.upgrade(url)
    database = Database(url)
    yield Engine(Deps(database))
    database.dispose()


def mark(engine: Engine, tenant: str, kind: str, prompt: Json, **more: Any) -> None:
    engine.append(tenant, prompt["session"], [event(kind, snapshot_id=prompt["id"], **more)])


# --- flags and labels -------------------------------------------------------------------------------------------------


def test_flags_make_a_work_list_and_the_newest_counts(engine: Engine, tenant: str, trip: list[Json]) -> None:
    engine.append(tenant, "other", [said("Hello.")])
    other = compiled(engine, tenant, "other")
    mark(engine, tenant, "output.flagged", trip[1], note="wrong train")
    mark(engine, tenant, "output.flagged", other)
    mark(engine, tenant, "output.flagged", trip[2])
    mark(engine, tenant, "output.flagged", trip[2], verdict="good")
    found = engine.history.flagged(tenant)["flagged"]
    assert [(one["session"], one["version"], one["note"]) for one in found] == [
        ("other", 1, ""),
        ("s", 2, "wrong train"),
    ]
    assert [one["version"] for one in engine.history.flagged(tenant, "good")["flagged"]] == [3]
    assert [one["session"] for one in engine.history.flagged(tenant, session="s")["flagged"]] == ["s"]
    assert engine.history.flagged(f"{tenant}-2")["flagged"] == []


def test_a_label_names_a_version_and_active_is_what_agents_get(engine: Engine, tenant: str, trip: list[Json]) -> None:
    assert engine.history.active(tenant, "s")["version"] == 6
    mark(engine, tenant, "snapshot.labelled", trip[3], label="good", note="the one")
    mark(engine, tenant, "snapshot.labelled", trip[3], label="active")
    mark(engine, tenant, "snapshot.labelled", trip[1], label="active")
    assert engine.history.active(tenant, "s")["version"] == 2
    assert engine.history.active(tenant, "s", "anthropic")["format"] == "anthropic"
    marked = engine.history.labels(tenant, "s")["marked"]
    assert [(one["version"], list(one["labels"])) for one in marked] == [(2, ["active"]), (4, ["good", "active"])]
    engine.append(tenant, "new", [said("Hi.")])
    assert engine.history.labels(tenant, "new")["marked"] == []
    with pytest.raises(UnknownSnapshot):
        engine.history.active(tenant, "new")


def test_an_erased_prompt_is_never_active(engine: Engine, tenant: str, trip: list[Json]) -> None:
    mark(engine, tenant, "snapshot.labelled", trip[0], label="active")
    (first,) = [one for one in engine.events(tenant, "s")["events"] if one["kind"] == "user.input"][:1]
    engine.append(tenant, "s", [event("event.redacted", event_id=first["event_id"])])
    drain(engine)
    shown = {one["version"]: one["redacted"] for one in engine.prompts(tenant, "s")["prompts"]}
    assert shown[1]
    found = [version for version, redacted in shown.items() if not redacted]
    if found:
        assert engine.history.active(tenant, "s")["version"] == max(found)
    else:
        with pytest.raises(UnknownSnapshot):
            engine.history.active(tenant, "s")


# --- prune ------------------------------------------------------------------------------------------------------------


def test_a_pruned_prompt_is_rebuilt_when_it_is_asked_for(engine: Engine, tenant: str, trip: list[Json]) -> None:
    mark(engine, tenant, "snapshot.labelled", trip[1], label="good")
    mark(engine, tenant, "output.flagged", trip[2])
    tried = engine.history.prune(tenant, "s", keep_last=1, dry_run=True)
    found = engine.history.prune(tenant, "s", keep_last=1)
    assert (tried["pruned"], found["pruned"], found["proved"], found["versions"]) == (3, 3, 3, 6)
    assert (tried["bytes"], found["bytes"] > 0) == (0, True)
    for before in trip:
        after = engine.prompt(tenant, before["id"])
        assert after["payload"] == before["payload"]
        assert after["report"] == before["report"]
        assert engine.dump(tenant, before["id"])["messages"]
        assert engine.replay(tenant, before["id"])["identical"]
    assert engine.history.prune(tenant, "s", keep_last=1)["pruned"] == 0
    engine.append(tenant, "s", [said("on")])
    assert compiled(engine, tenant, budget=900)["version"] == 7


def test_nothing_is_pruned_that_would_not_come_back(
    engine: Engine, tenant: str, trip: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recompile.compile_prompt

    def other(*args: Any) -> Any:
        made = real(*args)
        made.payload["messages"][0]["content"] += " changed"
        return made

    with monkeypatch.context() as patched:
        patched.setattr(recompile, "compile_prompt", other)
        with pytest.raises(ReplayMismatch, match="nothing was pruned"):
            engine.history.prune(tenant, "s", keep_last=0)
    assert engine.prompt(tenant, trip[0]["id"])["payload"] == trip[0]["payload"]
    engine.history.prune(tenant, "s", keep_last=0)
    with monkeypatch.context() as patched:
        patched.setattr(recompile, "compile_prompt", other)
        with pytest.raises(ReplayMismatch, match="was pruned"):
            engine.prompt(tenant, trip[0]["id"])


def test_an_erasure_finds_what_was_pruned(engine: Engine, tenant: str, trip: list[Json]) -> None:
    engine.history.prune(tenant, "s", keep_last=0)
    first = next(one for one in engine.events(tenant, "s")["events"] if one["kind"] == "user.input")
    engine.append(tenant, "s", [event("event.redacted", event_id=first["event_id"])])
    drain(engine)
    assert {one["version"]: one["redacted"] for one in engine.prompts(tenant, "s")["prompts"]}[1]


# --- bundles ----------------------------------------------------------------------------------------------------------


def test_a_bundle_replays_on_an_empty_server(engine: Engine, tenant: str, trip: list[Json], elsewhere: Engine) -> None:
    lines = list(engine.history.bundle(tenant, prompt=trip[3]["id"]))
    told = elsewhere.history.restore("t", lines)
    assert (told["session"], told["prompt"], told["prompts"]) == ("s", trip[3]["id"], 4)
    for prompt in trip[:4]:
        assert elsewhere.prompt("t", prompt["id"])["payload"] == prompt["payload"]
        assert elsewhere.replay("t", prompt["id"])["identical"]
    assert elsewhere.verify("t")["ok"]
    again = elsewhere.history.restore("t", lines)
    assert (again["streams"] >= 0, again["events"], again["prompts"]) == (True, 0, 0)
    elsewhere.append("t", "s", [said("on")])
    assert compiled(elsewhere, "t", budget=900)["version"] == 5


def test_a_session_travels_whole(engine: Engine, tenant: str, trip: list[Json], elsewhere: Engine) -> None:
    mark(engine, tenant, "output.flagged", trip[5], note="wrong")
    engine.history.prune(tenant, "s", keep_last=2)
    elsewhere.history.restore("t", engine.history.bundle(tenant, session="s"))
    page = elsewhere.history.replays("t", "s")
    assert (page["identical"], page["different"]) == (6, 0)
    assert elsewhere.history.flagged("t")["flagged"][0]["note"] == "wrong"


def test_a_bundle_holds_no_secret(engine: Engine, tenant: str, trip: list[Json]) -> None:
    for lines in (engine.history.bundle(tenant, prompt=trip[5]["id"]), engine.history.bundle(tenant, session="s")):
        assert b"hunter2" not in b"".join(lines)


def test_a_bundle_that_was_cut_or_changed_is_refused_whole(
    engine: Engine, tenant: str, trip: list[Json], elsewhere: Engine
) -> None:
    lines = list(engine.history.bundle(tenant, prompt=trip[2]["id"]))
    bad = [
        lines[:-1],
        lines[:5] + lines[6:],
        [*lines, lines[1]],
        [line.replace(b"turn 1", b"turn 9") for line in lines],
        [b"{}\n", *lines[1:]],
        [b"not json\n"],
        [],
    ]
    for changed in bad:
        with pytest.raises(InvalidRequest):
            elsewhere.history.restore("t", changed)
    assert elsewhere.sessions("t")["sessions"] == []


def test_a_bundle_is_not_mixed_with_another_session_of_its_name(
    engine: Engine, tenant: str, trip: list[Json], elsewhere: Engine
) -> None:
    elsewhere.append("t", "s", [said("mine")])
    with pytest.raises(InvalidRequest, match="with other events"):
        elsewhere.history.restore("t", engine.history.bundle(tenant, session="s"))
    assert elsewhere.events("t", "s")["head"] == 1


def test_a_bundle_says_what_it_is_in_its_first_line(engine: Engine, tenant: str, trip: list[Json]) -> None:
    first = json.loads(next(engine.history.bundle(tenant, prompt=trip[0]["id"])))
    assert (first["format"], first["session"], first["versions"]) == ("promptctx-bundle", "s", 1)


def test_a_bundle_carries_the_documents_that_its_events_tell_of(engine: Engine, tenant: str, elsewhere: Engine) -> None:
    old, text = "The old timetable.", "Zug 火车 at four. " * 9_000
    engine.put_document(tenant, "s", "times", [old.encode()])
    engine.put_document(tenant, "s", "times", [text.encode()], "Times", "shelf", "text/markdown")
    engine.put_document(tenant, "s", "keys", [b"the key is sk-" + b"a1B2" * 10])
    engine.append(tenant, "s", [said("When?")])
    prompt = compiled(engine, tenant, budget=2_000)
    engine.put_document(tenant, "s", "later", [b"After the prompt."])
    lines = list(engine.history.bundle(tenant, prompt=prompt["id"]))
    assert [json.loads(one)["left_out"]["reason"] for one in lines if b'"left_out"' in one] == ["it holds a secret"]
    told = elsewhere.history.restore("t", lines)
    assert told["documents"] == 2
    assert elsewhere.get_document("t", "s", "times") == text
    for name in ("keys", "later"):
        with pytest.raises(UnknownDocument):
            elsewhere.get_document("t", "s", name)
    assert elsewhere.replay("t", prompt["id"])["identical"]
    assert elsewhere.history.restore("t", lines)["documents"] == 0


def test_a_bundle_with_another_document_than_was_hashed_is_refused(
    engine: Engine, tenant: str, elsewhere: Engine
) -> None:
    engine.put_document(tenant, "s", "times", [b"At four."])
    lines = [json.loads(one) for one in engine.history.bundle(tenant, session="s")][:-1]
    for text in ("At five.", "\ud83d"):
        forged = [{"document": {**one["document"], "text": text}} if "document" in one else one for one in lines]
        with pytest.raises(InvalidRequest, match="the document is not the one that was hashed"):
            elsewhere.history.restore("t", bundles._sealed(forged))


def test_a_bundle_leaves_out_documents_beyond_its_bound(
    engine: Engine, tenant: str, elsewhere: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled_documents, "LARGEST", 10)
    engine.put_document(tenant, "s", "long", [b"More than ten bytes."])
    engine.put_document(tenant, "s", "short", [b"Ten bytes."])
    assert elsewhere.history.restore("t", engine.history.bundle(tenant, session="s"))["documents"] == 1
    assert elsewhere.get_document("t", "s", "short") == "Ten bytes."
