"""Invariants 5 and 10: the same inputs give the same bytes, here, again, and in another process."""

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from checkers import system_text
from histories import HOUR, Log, World, compiled, compiled_from
from hypothesis import given
from hypothesis import strategies as st
from worlds import budgets, examples, formats, locales, worlds

from domain.canonical import canonical_json, parse_json
from domain.errors import ContextOverflow
from domain.events import Event, dump_payload, read_payload
from domain.rows import dump_row, load_row
from domain.snapshots import Layout
from domain.sources import SourceItem, SourceResult
from domain.state import ContextState

HERE = Path(__file__).resolve().parent


def outcome(*args: Any, **asked: Any) -> Any:
    """The content hash and report of a compile, or why it was refused."""
    compile_it = compiled if isinstance(args[0], World) else compiled_from
    try:
        prompt = compile_it(*args, **asked)
    except ContextOverflow as overflow:
        return dict(overflow.details)
    return prompt.content_hash, prompt.report, prompt.provenance, prompt.layout.dump()


def shuffled(state: ContextState, chance: random.Random) -> ContextState:
    """The same rows, entered in another order."""

    def mixed(rows: dict[str, Any]) -> dict[str, Any]:
        keys = list(rows)
        chance.shuffle(keys)
        return {key: rows[key] for key in keys}

    return ContextState({name: mixed(rows) for name, rows in state.tables.items()})


def stored(state: ContextState) -> ContextState:
    """The rows as they come back from a database."""
    return ContextState(
        {
            name: {key: load_row(name, parse_json(canonical_json(dump_row(name, row)))) for key, row in rows.items()}
            for name, rows in state.tables.items()
        }
    )


def logged(log: Log) -> Log:
    """The events as they come back from the log."""
    return Log(log.name, [reread(event) for event in log.events])


def reread(event: Event) -> Event:
    if event.payload is None:
        return event
    data = parse_json(canonical_json(dump_payload(event.payload)))
    version = getattr(event.payload, "schema_version", 1)
    return replace(event, payload=read_payload(event.kind, version, data))


def states(world: World) -> list[ContextState]:
    return [log.state for log in (world.session, world.subject, world.tenant, *world.parents)]


@examples(60)
@given(worlds(), formats, locales, budgets, st.randoms(use_true_random=False))
def test_the_order_in_which_rows_and_sources_came_does_not_matter(
    world: World, target: str, locale: str, budget: int, chance: random.Random
) -> None:
    given_states = states(world)
    other_way = [shuffled(state, chance) for state in given_states]
    asked = {"format": target, "locale": locale, "budget": budget}
    first = outcome(given_states, None, world.sources, **asked)
    assert outcome(other_way, None, world.sources[::-1], **asked) == first


def test_the_order_in_which_sources_were_registered_does_not_matter() -> None:
    log = Log()
    log.user("what do you know of me?")
    for slot in ("profile", "tool_state", "recall"):
        found = [
            SourceResult(name, slot, (SourceItem("k", f"{name} says so", score=0.9),))  # type: ignore[arg-type]
            for name in ("crm", "kb", "web")
        ]
        hashes = {compiled(World(log, sources=order), mode="react").content_hash for order in permutations(found)}
        assert len(hashes) == 1


@examples(60)
@given(worlds(), formats, locales, budgets)
def test_what_was_stored_and_read_again_compiles_to_the_same_bytes(
    world: World, target: str, locale: str, budget: int
) -> None:
    asked = {"format": target, "locale": locale, "budget": budget}
    first = outcome(world, **asked)
    again = World(*map(logged, (world.session, world.subject, world.tenant)), list(map(logged, world.parents)))
    assert outcome(replace(again, sources=world.sources), **asked) == first
    assert outcome([stored(state) for state in states(world)], None, world.sources, **asked) == first


@examples(60)
@given(worlds(), formats, budgets)
def test_a_compile_changes_nothing_that_it_was_given(world: World, target: str, budget: int) -> None:
    given_states = states(world)
    before = [stored(state) for state in given_states]
    outcome(given_states, None, world.sources, format=target, budget=budget)
    assert given_states == before


@examples(60)
@given(worlds(max_size=20), formats, st.sampled_from([400, 900, 2000]))
def test_a_layout_that_was_stored_and_read_again_is_carried_on_alike(world: World, target: str, budget: int) -> None:
    parent = _layout(world.session.upto(len(world.session.events) * 2 // 3), target, budget)
    if parent is None:
        return
    reloaded = Layout.load(parse_json(canonical_json(parent.dump())))
    assert reloaded == parent
    asked = {"format": target, "budget": budget}
    assert outcome(world, parent=reloaded, **asked) == outcome(world, parent=parent, **asked)


@pytest.mark.parametrize("preset", ["classic", None])
def test_what_a_run_froze_comes_back_from_storage_as_it_was(preset: str | None) -> None:
    log, subject = Log(), Log("s")
    log.add("session.started", mode="react")
    log.add("run.started", run_id="r")
    log.user("go")
    log.add("observation.recorded", step_id="1", result="seen")
    log.calls("c1")
    log.answer("c1", "fine")
    subject.add("memory.recorded", id="m", text="likes tea", category="identity", tags=("x",))
    source = SourceResult("crm", "profile", (SourceItem("k", "likes cake", "identity", tags=("x",)),))
    world = World(log, subject, sources=(source,))
    slots = {"profile": {"require_tags": ("x",)}}
    asked: dict[str, Any] = {"preset": preset, "overrides": {"slots": slots}}
    first = compiled(world, **asked)
    reloaded = Layout.load(parse_json(canonical_json(first.layout.dump())))
    assert reloaded == first.layout
    later = log.events[-1].recorded_at + 30 * HOUR
    again = compiled(world, parent=reloaded, as_of=later, **asked)
    assert system_text(again.payload, "openai") == system_text(first.payload, "openai")


def _layout(log: Log, target: str, budget: int) -> Layout | None:
    try:
        return compiled(log, format=target, budget=budget).layout
    except ContextOverflow:
        return None


IN_ANOTHER_PROCESS = """
import json, sys
import pytest
from checkers import system_text
from histories import HOUR, Log, World, compiled
log = Log()
for kind, payload in json.loads(sys.stdin.read()):
    log.add(kind, **payload)
print(json.dumps([compiled(log, format=target, budget=900).content_hash for target in ("openai", "anthropic", "text")]))
"""

STORY: list[tuple[str, dict[str, Any]]] = [
    ("session.started", {"mode": "react", "time_zone": "Asia/Shanghai"}),
    *(("constraint.set", {"id": name, "text": f"rule {name}", "level": "warn"}) for name in "zyxab"),
    *(("tool.registered", {"name": name, "description": f"does {name}"}) for name in "zyxab"),
    *(("tool.environment", {"values": {name: {"value": {"b": 1, "a": name}} for name in "zyxab"}}) for _ in "x"),
    *(
        step
        for turn in range(12)
        for step in (
            ("user.input", {"content": f"Wie wird das Wetter am Tag {turn}? ÄÖÜ " * 3}),
            ("assistant.output", {"tool_calls": [{"id": f"c{turn}", "name": "z", "arguments": {"b": 1, "a": turn}}]}),
            ("tool.result", {"call_id": f"c{turn}", "content": "sunny " * 30}),
        )
    ),
]


def hashes_with(environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        input=json.dumps(STORY),
        env={**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{HERE}", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_hash_seed_time_zone_and_locale_of_the_process_do_not_matter() -> None:
    here = Log()
    for kind, payload in STORY:
        here.add(kind, **payload)
    expected = [compiled(here, format=target, budget=900).content_hash for target in ("openai", "anthropic", "text")]
    assert hashes_with({"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8"}) == expected
    assert hashes_with({"PYTHONHASHSEED": "2", "TZ": "America/New_York", "LC_ALL": "C"}) == expected
