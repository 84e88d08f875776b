"""Erasing a subject: nothing of it is left in the store, the chains hold, others keep what is theirs."""

from typing import Any

import pytest
from store_histories import drain, event, said
from test_erasure import SECRET, compiled, everything

from domain.errors import InvalidEvent, InvalidRequest, SnapshotRedacted
from workers.engine import Engine, erasing
from workers.engine import documents as documents_module
from workers.store import Database

Json = dict[str, Any]


def filled(engine: Engine, tenant: str) -> dict[str, Json]:
    """Ann in two sessions, a sub-agent and a fork; Bob in one. The prompts by session."""
    for session, subject in (("ann-1", "ann"), ("ann-2", "ann"), ("bob-1", "bob")):
        text = SECRET if subject == "ann" else "nothing to hide"
        engine.append(tenant, session, [event("session.started", subject=subject, title=text)])
        engine.append(tenant, session, [said(f"{text} {number} " * 10) for number in range(3)])
        engine.append(tenant, session, [event("profile.set", key="city", value=text)])
    engine.append(tenant, "ann-1", [event("constraint.set", id="c", level="block", text=SECRET)])
    engine.append(tenant, "ann-1", [event("memory.recorded", id="m", text=SECRET, scope="tenant")])
    engine.append(tenant, "helper", [event("session.started", subject="helper", parent="ann-1"), said("help")])
    engine.append(tenant, "fork", [event("session.forked", parent="ann-2", at_seq=3)])
    engine.put_document(tenant, "ann-1", "letter", [SECRET.encode()], title=SECRET)
    drain(engine)
    prompts = {name: compiled(engine, tenant, name) for name in ("bob-1", "helper")}
    return prompts | {name: compiled(engine, tenant, name, query=SECRET) for name in ("ann-1", "ann-2")}


def test_f70_nothing_of_an_erased_subject_is_left(engine: Engine, tenant: str, database: Database) -> None:
    prompts = filled(engine, tenant)
    assert SECRET in everything(database, tenant)
    told = engine.erase(tenant, "ann", "asked for")
    drain(engine)
    assert told["sessions"] == ["ann-1", "ann-2", "fork"]
    assert told["elsewhere"]["events"] == 1
    assert SECRET not in everything(database, tenant)
    report = engine.verify(tenant)
    assert report["ok"], report["problems"]
    for name in ("ann-1", "ann-2", "helper"):
        with pytest.raises(SnapshotRedacted, match="erased"):
            engine.replay(tenant, prompts[name]["id"])
    assert engine.replay(tenant, prompts["bob-1"]["id"])["identical"]
    (done,) = engine.erasures(tenant)
    assert (done["subject"], done["reason"]) == ("ann", "asked for")
    assert done["finished_at"]


def test_a_dry_run_tells_the_same_and_erases_nothing(engine: Engine, tenant: str, database: Database) -> None:
    filled(engine, tenant)
    before = everything(database, tenant)
    would = engine.erase(tenant, "ann", dry_run=True)
    assert everything(database, tenant) == before
    assert engine.erasures(tenant) == []
    done = engine.erase(tenant, "ann")
    same = ("sessions", "streams", "events", "prompts")
    assert [would[name] for name in same] == [done[name] for name in same]


def test_what_was_erased_is_not_stored_again_and_the_session_goes_on(
    engine: Engine, tenant: str, database: Database
) -> None:
    filled(engine, tenant)
    again = [one for one in engine.events(tenant, "ann-1")["events"] if one["kind"] == "user.input"]
    engine.erase(tenant, "ann")
    wire = [{name: one[name] for name in ("event_id", "kind", "payload")} for one in again]
    receipts = engine.append(tenant, "ann-1", wire)["events"]
    assert all(one["redacted"] for one in receipts)
    engine.append(tenant, "ann-1", [event("context.rolled_back", to_seq=3)])
    engine.append(tenant, "ann-1", [said("hello again")])
    drain(engine)
    engine.rebuild(tenant)
    assert SECRET not in everything(database, tenant)
    prompt = compiled(engine, tenant, "ann-1")
    assert prompt["payload"]["messages"][-1]["content"] == "hello again"
    assert engine.verify(tenant)["ok"]


def test_an_interrupted_erasure_is_finished_by_asking_again(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(engine, tenant)

    def killed(*told: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(erasing.log, "erase_between", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.erase(tenant, "ann")
    monkeypatch.undo()
    assert [one["finished_at"] for one in engine.erasures(tenant)] == [None]
    found = engine.verify(tenant)["problems"]
    assert {one["check"] for one in found} == {"erasure"}
    assert "workers erase" in found[0]["hint"]
    engine.erase(tenant, "ann")
    assert [bool(one["finished_at"]) for one in engine.erasures(tenant)] == [True]
    assert SECRET not in everything(database, tenant)
    assert engine.verify(tenant)["ok"]


def test_an_unknown_subject_is_said_so(engine: Engine, tenant: str) -> None:
    with pytest.raises(InvalidRequest, match="Nothing is known"):
        engine.erase(tenant, "nobody")


def test_only_the_server_empties_a_stream(engine: Engine, tenant: str) -> None:
    one = said("hi")
    engine.append(tenant, "s", [one])
    with pytest.raises(InvalidEvent, match="upto"):
        engine.append(tenant, "s", [event("event.redacted", event_id=one["event_id"], upto=1)])


def test_a_redacted_document_can_no_longer_be_read(engine: Engine, tenant: str, database: Database) -> None:
    engine.put_document(tenant, "s", "letter", [SECRET.encode()])
    engine.put_document(tenant, "other", "copy", [SECRET.encode()])
    (attached,) = engine.events(tenant, "s")["events"]
    engine.append(tenant, "s", [event("event.redacted", event_id=attached["event_id"])])
    with pytest.raises(Exception, match="No document"):
        engine.get_document(tenant, "s", "letter")
    assert engine.get_document(tenant, "other", "copy") == SECRET


def test_blocks_of_an_upload_that_failed_are_swept(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*told: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    engine.put_document(tenant, "s", "kept", [b"kept"])
    monkeypatch.setattr(documents_module.append, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.put_document(tenant, "s", "lost", [b"lost half-way"])
    monkeypatch.undo()
    assert documents_module.sweep_uploads(engine.deps) == 0, "it may still go on"
    assert documents_module.sweep_uploads(engine.deps, older_than=-1) == 1
    assert engine.get_document(tenant, "s", "kept") == "kept"
    engine.put_document(tenant, "s", "lost", [b"lost half-way"])
    assert engine.get_document(tenant, "s", "lost") == "lost half-way"


def moved(engine: Engine, tenant: str) -> Json:
    """A session that was Ann's and is Bob's now, whose memory got something of hers; a prompt that shows it."""
    engine.append(
        tenant, "s", [said(f"{SECRET} said before anyone was told"), event("profile.set", key="x", value=SECRET)]
    )
    engine.append(tenant, "s", [event("session.started", subject="ann"), (told := said(SECRET))])
    engine.append(tenant, "s", [event("session.started", subject="bob"), said("I am Bob"), said(f"you said {SECRET}")])
    memories = [
        event("memory.recorded", id="hers", text=SECRET, derived_from=[told["event_id"]]),
        event("memory.recorded", id="his", text="Bob likes tea", category="identity"),
    ]
    engine.append(tenant, "s", memories)
    engine.append(tenant, "bob-1", [event("session.started", subject="bob"), said("hello")])
    drain(engine)
    return compiled(engine, tenant, "bob-1", query="my number")


def test_a_session_that_was_a_subjects_for_a_while_goes_whole_and_the_other_subject_keeps_its_memory(
    engine: Engine, tenant: str, database: Database
) -> None:
    shown = moved(engine, tenant)
    assert SECRET in str(shown["payload"])
    would = engine.erase(tenant, "ann", dry_run=True)
    assert would["sessions"] == ["s"]
    told = engine.erase(tenant, "ann")
    drain(engine)
    assert (told["sessions"], told["elsewhere"]) == (["s"], {"events": 1, "prompts": 1})
    assert SECRET not in everything(database, tenant)
    assert "Bob likes tea" in everything(database, tenant)
    with pytest.raises(SnapshotRedacted, match="erased"):
        engine.replay(tenant, shown["id"])
    engine.append(tenant, "s", [said("hello again")])
    assert "hello again" in str(compiled(engine, tenant, "s")["payload"])
    assert engine.session(tenant, "s")["subject"] == "bob"
    report = engine.verify(tenant)
    assert report["ok"], report["problems"]


def test_what_is_erased_with_the_newer_subject_of_a_session_is_what_it_held_in_every_spell(
    engine: Engine, tenant: str, database: Database
) -> None:
    moved(engine, tenant)
    told = engine.erase(tenant, "bob")
    drain(engine)
    assert told["sessions"] == ["bob-1", "s"]
    assert SECRET not in everything(database, tenant)
    report = engine.verify(tenant)
    assert report["ok"], report["problems"]


def test_an_interrupted_erasure_of_a_moved_session_is_finished_by_asking_again(
    engine: Engine, tenant: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(engine, tenant)
    real, done = erasing.log.erase_between, list[int]()

    def killed(unit: Any, of: str, stream: int, after: int, upto: int) -> None:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(upto)
        real(unit, of, stream, after, upto)

    monkeypatch.setattr(erasing, "PIECE", 1)
    monkeypatch.setattr(erasing.log, "erase_between", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.erase(tenant, "ann")
    monkeypatch.undo()
    assert not engine.verify(tenant)["ok"]
    assert engine.erase(tenant, "ann")["sessions"] == ["s"]
    drain(engine)
    assert SECRET not in everything(database, tenant)
    assert engine.verify(tenant)["ok"]
