"""How snapshots are spelled in the store: what log and texts say is named, and what was spelled otherwise before is
read, carried on and erased all the same."""

from typing import Any

import pytest
import sqlalchemy as sa
from store_histories import compiled, event, said

from workers.engine import Engine, pruning
from workers.store import Database, packing, snapshots, streams, tables
from workers.store.packing import dictionary_hash, opened

Json = dict[str, Any]
SECRET = "the gate code is K7-HORIZON-4471"
WORDS = "many words about trains and seats, which nobody needs to know by heart, "


def talked(engine: Engine, tenant: str) -> tuple[Json, str]:
    """A prompt whose summary carries something said long before, and the id of the event that said it."""
    secret = said(f"{SECRET}. {WORDS * 6}")
    turns = [said(f"Turn {turn}, ORD-{turn * 7919}. {WORDS * 6}") for turn in range(40)]
    engine.append(tenant, "s", [event("session.started", mode="chat"), secret, *turns])
    return compiled(engine, tenant, budget=1500), secret["event_id"]


def stored(database: Database, tenant: str, prompt: Json) -> tuple[bytes, bytes]:
    query = sa.select(tables.snapshots.c.layout, tables.snapshots.c.body).where(tables.snapshots.c.id == prompt["id"])
    with database.read(tenant) as unit:
        layout, body = unit.execute(query).one()
    return bytes(layout), bytes(body)


def read(database: Database, tenant: str, prompt: Json) -> tuple[Any, Json]:
    with database.read(tenant) as unit:
        row = snapshots.get(unit, tenant, prompt["id"])
        assert row is not None
        layout, body = snapshots.layout(unit, tenant, row.stream, row.id), snapshots.body(unit, row)
    assert body is not None
    return layout, body


def forget() -> None:
    """As in another process."""
    snapshots._packed_last.clear()
    snapshots._opened_last.clear()


def spell_as_before(database: Database, tenant: str, prompt: Json) -> None:
    """As an earlier release stored it: every id as its bytes, no dictionary, units by row."""
    layout, body = read(database, tenant, prompt)
    old_layout, _ = packing.pack(layout, {})
    old_body, apart = packing.pack(body, {})
    mine = tables.snapshots.c.id == prompt["id"]
    with database.write(tenant) as unit:
        home = streams.get(unit, tenant, "session/s")
        assert home is not None
        unit.execute(tables.snapshots.update().where(mine).values(layout=old_layout, body=old_body))
        rows = [(key, packing.squeeze(text.encode())) for key, text in apart.items()]
        snapshots._INSERT_TEXT.run(unit, (tenant, home.number), rows)
    forget()


def erase(engine: Engine, tenant: str, event_id: str) -> set[str]:
    """The prompts that went with an event."""
    engine.append(tenant, "s", [event("event.redacted", event_id=event_id)])
    return {one["id"] for one in engine.prompts(tenant, "s")["prompts"] if one["redacted"]}


def test_a_snapshot_names_what_the_log_and_its_texts_say(engine: Engine, database: Database, tenant: str) -> None:
    first, _ = talked(engine, tenant)
    engine.append(tenant, "s", [said(f"One more. {WORDS * 9}") for _ in range(9)])
    second = compiled(engine, tenant, budget=1500)
    assert second["inputs"]["parent_layout"] == first["id"]
    for prompt in (first, second):
        layout, body = stored(database, tenant, prompt)
        held = {bytes(key) for key in _texts(database, tenant)}
        assert dictionary_hash(layout) in held
        # All that it shows, carried lines included, is named by seq: what is left is the prompt before it.
        assert set(opened(body).ids) <= {first["id"]}


def _texts(database: Database, tenant: str) -> list[Any]:
    with database.read(tenant) as unit:
        query = sa.select(tables.texts.c.hash).where(tables.texts.c.tenant == tenant)
        return list(unit.execute(query).scalars())


def test_another_process_carries_on_with_the_same_bytes(engine: Engine, database: Database, tenant: str) -> None:
    first, _ = talked(engine, tenant)
    here = read(database, tenant, first)
    forget()
    assert read(database, tenant, first) == here
    forget()
    engine.append(tenant, "s", [said("And now?")])
    there = compiled(engine, tenant, budget=1500)
    assert there["inputs"]["parent_layout"] == first["id"]
    assert opened(stored(database, tenant, there)[1]).ids == [first["id"]]
    forget()
    assert engine.replay(tenant, there["id"])["identical"]
    assert engine.replay(tenant, first["id"])["identical"]


@pytest.mark.parametrize("spelled_before", [False, True])
def test_what_a_summary_carries_is_erased_in_either_spelling(
    engine: Engine, database: Database, tenant: str, spelled_before: bool
) -> None:
    first, secret = talked(engine, tenant)
    assert SECRET.rpartition(" ")[2] in str(first["payload"])
    engine.append(tenant, "s", [said("And now?")])
    second = compiled(engine, tenant, budget=1500)
    if spelled_before:
        spell_as_before(database, tenant, first)
    assert erase(engine, tenant, secret) == {first["id"], second["id"]}
    held = [packing.unsqueeze(bytes(text)) for text in _bodies(database, tenant)]
    assert not any(b"HORIZON" in text for text in held)
    assert engine.verify(tenant)["ok"]


def _bodies(database: Database, tenant: str) -> list[Any]:
    with database.read(tenant) as unit:
        query = sa.select(tables.texts.c.body).where(tables.texts.c.tenant == tenant)
        return list(unit.execute(query).scalars())


def test_what_an_earlier_release_stored_is_shown_replayed_and_carried_on(
    engine: Engine, database: Database, tenant: str
) -> None:
    first, _ = talked(engine, tenant)
    spell_as_before(database, tenant, first)
    assert engine.prompt(tenant, first["id"]) == first
    assert engine.replay(tenant, first["id"])["identical"]
    engine.append(tenant, "s", [said("And now?")])
    after = compiled(engine, tenant, budget=1500)
    assert after["inputs"]["parent_layout"] == first["id"]
    assert engine.replay(tenant, after["id"])["identical"]
    assert engine.verify(tenant)["ok"]


def test_pruning_keeps_the_text_that_a_layout_was_compressed_with(
    engine: Engine, database: Database, tenant: str
) -> None:
    first, _ = talked(engine, tenant)
    layout, _ = read(database, tenant, first)
    pruning.prune(engine.deps, tenant, "s", keep_last=0)
    forget()
    assert read(database, tenant, first)[0] == layout
    assert engine.prompt(tenant, first["id"])["payload"] == first["payload"]
