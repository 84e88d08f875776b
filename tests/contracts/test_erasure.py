"""Erasure: what was erased is gone with all that was made from it, and nothing brings it back."""

import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_histories import drain, event, said

from domain.errors import InvalidEvent, SnapshotRedacted
from workers.engine import Engine
from workers.store import Database

Json = dict[str, Any]
SORTS = st.sampled_from(["summary", "memory", "plain"])
SECRET = "my number is 0151-2345678"


def everything(database: Database, tenant: str) -> str:
    """All that the store holds of a tenant, as one text."""
    found: list[str] = []
    with database.read(tenant) as unit:
        for table in ("events", "rows", "messages", "texts", "document_blocks", "streams", "jobs"):
            for row in unit.execute(sa.text(f"SELECT * FROM {table} WHERE tenant = :t"), {"t": tenant}):
                found += [bytes(one).decode("latin-1") if isinstance(one, bytes) else str(one) for one in row]
    return "\n".join(found)


def compiled(engine: Engine, tenant: str, session: str = "s", **body: Any) -> Json:
    job = engine.request_prompt(tenant, session, {"budget": 4000, **body})
    done = engine.run_job(tenant, job["id"])
    return engine.prompt(tenant, done["prompt"])


def redact(engine: Engine, tenant: str, event_id: str, session: str = "s") -> Json:
    return engine.append(tenant, session, [event("event.redacted", event_id=event_id, reason="asked for")])


def gone(engine: Engine, tenant: str, session: str = "s") -> set[str]:
    places = ("session", "subject", "tenant")
    pages = [engine.events(tenant, session, place, 0, 1000)["events"] for place in places]
    return {one["event_id"] for page in pages for one in page if one["redacted"]}


def test_f70_a_redaction_takes_along_what_was_made_from_the_event(
    engine: Engine, tenant: str, database: Database
) -> None:
    secret, other = said(SECRET), said("the weather is fine")
    summary = event("summary.created", id="sum-1", text=SECRET, derived_from=[secret["event_id"]])
    merged = event("summary.created", id="sum-2", text=SECRET, derived_from=["sum-1"], supersedes=["sum-1"])
    kept = event("summary.created", id="sum-3", text="fine weather", derived_from=[other["event_id"]])
    memory = {**event("memory.recorded", id="m1", text=SECRET), "causation_id": secret["event_id"]}
    shared = {**event("memory.recorded", id="m2", text=SECRET, scope="tenant"), "causation_id": memory["event_id"]}
    fact = {**event("memory.recorded", id="m3", text="likes trains"), "causation_id": other["event_id"]}
    engine.append(tenant, "s", [event("session.started", subject="ann"), secret, other, summary, merged, kept])
    engine.append(tenant, "s", [memory, shared, fact])
    slice_of = event("reference.expanded", reference_id="e2", content=SECRET)
    engine.append(tenant, "s", [slice_of])
    drain(engine)
    before = compiled(engine, tenant)

    redact(engine, tenant, secret["event_id"])
    drain(engine)
    expected = {one["event_id"] for one in (secret, summary, merged, memory, shared, slice_of)}
    assert gone(engine, tenant) == expected
    assert SECRET not in everything(database, tenant)
    with pytest.raises(SnapshotRedacted, match="erased"):
        engine.prompt(tenant, before["id"])
    with pytest.raises(SnapshotRedacted):
        engine.replay(tenant, before["id"])
    report = engine.verify(tenant)
    assert report["ok"], report["problems"]
    assert SECRET not in str(compiled(engine, tenant))
    reasons = [one["payload"]["reason"] for one in engine.events(tenant, "s", "subject")["events"][-1:]]
    assert reasons == ["made from what was erased"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 11), st.sampled_from(["summary", "memory", "plain"])), min_size=4, max_size=12
    ),
    victim=st.integers(0, 11),
)
def test_inv11_exactly_the_derivatives_reachable_are_erased(
    engine: Engine, edges: list[tuple[int, str]], victim: int
) -> None:
    """A random graph in which each event is made from an earlier one, or from none."""
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    made: list[Json] = []
    parents: list[int | None] = []
    for place, (pick, sort) in enumerate(edges):
        parent = pick % place if place and sort != "plain" else None
        parents.append(parent)
        source = made[parent]["event_id"] if parent is not None else None
        if parent is None:
            made.append(said(f"text {place}"))
        elif sort == "summary":
            made.append(event("summary.created", id=f"s{place}", text="t", derived_from=[source]))
        else:
            made.append({**event("memory.recorded", id=f"m{place}", text="t"), "causation_id": source})
    for one in made:
        engine.append(tenant, "s", [one])
    at = victim % len(made)
    reachable = {at}
    for place, parent in enumerate(parents):
        if parent in reachable:
            reachable.add(place)
    redact(engine, tenant, made[at]["event_id"])
    assert gone(engine, tenant) == {made[place]["event_id"] for place in reachable}
    drain(engine)
    assert engine.verify(tenant)["ok"]


def test_what_was_erased_does_not_come_back(engine: Engine, tenant: str, database: Database) -> None:
    secret = said(SECRET)
    memory = {**event("memory.recorded", id="m1", text=SECRET), "causation_id": secret["event_id"]}
    engine.append(tenant, "s", [said("before"), secret, memory])
    drain(engine)
    redact(engine, tenant, secret["event_id"])
    again = engine.append(tenant, "s", [secret, memory])["events"]
    assert [(one["duplicate"], one["redacted"]) for one in again] == [(True, True), (True, True)]
    engine.append(tenant, "s", [event("context.rolled_back", to_seq=2)])
    drain(engine)
    engine.rebuild(tenant)
    assert SECRET not in everything(database, tenant)
    assert SECRET not in str(compiled(engine, tenant))
    assert engine.verify(tenant)["ok"]


def test_nothing_can_be_made_from_an_erased_event(engine: Engine, tenant: str) -> None:
    """A summariser that read the text before it was erased comes too late."""
    secret = said(SECRET)
    engine.append(tenant, "s", [secret])
    redact(engine, tenant, secret["event_id"])
    late = event("summary.created", id="x", text=SECRET, derived_from=[secret["event_id"]])
    with pytest.raises(InvalidEvent, match="erased"):
        engine.append(tenant, "s", [late])


def test_a_redaction_sent_again_repairs_what_verify_finds(engine: Engine, tenant: str, database: Database) -> None:
    secret = said(SECRET)
    engine.append(tenant, "s", [secret])
    drain(engine)
    before = compiled(engine, tenant)
    first = redact(engine, tenant, secret["event_id"])
    assert len(first["events"]) == 1
    assert redact(engine, tenant, secret["event_id"])["head"] == 3
    drain(engine)
    assert engine.verify(tenant)["ok"]
    assert before["id"] in {one["id"] for one in engine.prompts(tenant, "s")["prompts"] if one["redacted"]}


def test_what_a_fork_made_from_its_copy_goes_with_the_original(engine: Engine, tenant: str, database: Database) -> None:
    secret = said(SECRET)
    own = event("summary.created", id="own", text=SECRET, derived_from=[secret["event_id"]])
    engine.append(tenant, "s", [said("hello"), secret])
    engine.append(tenant, "fork", [event("session.forked", parent="s", at_seq=2)])
    engine.append(tenant, "fork", [own])
    drain(engine)
    redact(engine, tenant, secret["event_id"])
    drain(engine)
    assert own["event_id"] in gone(engine, tenant, "fork")
    assert SECRET not in everything(database, tenant)
    assert engine.verify(tenant)["ok"]
