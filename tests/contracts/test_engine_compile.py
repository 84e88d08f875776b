"""Compile: pinned requests, jobs in order, snapshots that stay, replays to the byte."""

import re
import threading
import tomllib
import uuid
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_histories import append_valid, compiled, drain, event, histories, said, with_causes

from domain.canonical import content_hash
from domain.errors import InvalidRequest, SnapshotRedacted, Timeout, UnknownJob, UnknownSession, UnknownSnapshot
from domain.modes import SlotSpec, parse_modes
from domain.sources import SourceItem
from domain.timemachine.verdicts import first_difference
from workers.engine import Deps, Engine
from workers.engine import compile as compiling
from workers.store import Database, jobs, packing, streams, work
from workers.strategies import StrategyRegistry

Json = dict[str, Any]

shared_fixtures = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def session(engine: Engine, tenant: str) -> str:
    """A session of some turns, one with a tool."""
    engine.append(
        tenant,
        "s",
        [
            event("session.started", subject="u-1", model="gpt-4o", mode="react", locale="en"),
            event("instruction.set", role="You book trains.", rules=[{"text": "Ask before you pay.", "core": True}]),
            event("constraint.set", id="no-pay", text="never pay more than 100"),
            said("A train to Bern, please."),
            event("assistant.output", tool_calls=[{"id": "c1", "name": "find", "arguments": '{"to":"Bern"}'}]),
            event("tool.result", call_id="c1", content="07:04, 08:04, 09:04", name="find"),
            event("assistant.output", content="There are three."),
            event("profile.set", key="seat", value="window"),
            said("The second."),
        ],
    )
    return "s"


def test_a_request_becomes_a_job_and_the_job_a_prompt(engine: Engine, tenant: str, session: str) -> None:
    job = engine.request_prompt(tenant, session, {"budget": 4000})
    assert (job["status"], job["prompt"], job["error"]) == ("queued", None, None)
    drain(engine)
    done = engine.job(tenant, job["id"])
    assert done["status"] == "done"
    prompt = engine.prompt(tenant, done["prompt"])
    assert prompt["session"] == session
    assert prompt["version"] == 1
    assert prompt["payload"]["messages"][0]["role"] == "system"
    assert "never pay more than 100" in prompt["payload"]["messages"][0]["content"]
    assert prompt["content_hash"] == content_hash(prompt["payload"])
    assert prompt["tokens"] <= prompt["budget"] == 4000
    assert prompt["report"]["ledger"]["closes"]
    assert engine.report(tenant, prompt["id"]) == prompt["report"]
    assert engine.sessions(tenant)["sessions"][0]["prompts"] == 1


def test_an_agent_reads_its_own_writes(engine: Engine, tenant: str, session: str) -> None:
    head = engine.append(tenant, session, [said("and a seat by the window, 7c1f")])["head"]
    prompt = compiled(engine, tenant, min_seq=head)
    assert "7c1f" in str(prompt["payload"])


def test_what_comes_after_the_request_does_not_change_it(engine: Engine, tenant: str, session: str) -> None:
    early = engine.request_prompt(tenant, session, {})
    engine.append(tenant, session, [said("too late 9d0e"), event("profile.set", key="seat", value="too late 9d0e")])
    late = engine.request_prompt(tenant, session, {})
    drain(engine)
    first, second = (engine.prompt(tenant, engine.job(tenant, one["id"])["prompt"]) for one in (early, late))
    assert "9d0e" not in str(first["payload"])
    assert "9d0e" in str(second["payload"])
    assert (first["version"], second["version"], second["parent"]) == (1, 2, first["id"])
    assert engine.replay(tenant, first["id"])["identical"]


def test_the_same_request_at_the_same_heads_has_one_answer(engine: Engine, tenant: str, session: str) -> None:
    first = compiled(engine, tenant, budget=3000)
    assert compiled(engine, tenant, budget=3000)["id"] == first["id"]
    assert compiled(engine, tenant, budget=2999)["id"] != first["id"]
    again = compiled(engine, tenant, budget=3000, fresh=True)
    assert again["id"] != first["id"]
    assert again["content_hash"] == first["content_hash"]
    assert compiled(engine, tenant, budget=3000)["id"] == first["id"]
    assert [one["version"] for one in engine.prompts(tenant, session)["prompts"]] == [3, 2, 1]


def test_inv5_another_store_gives_the_same_bytes(engine: Engine, tenant: str, session: str) -> None:
    source = [*engine.events(tenant, session)["events"], *engine.events(tenant, session, "subject")["events"]]
    names = ("kind", "event_id", "payload", "schema_version")
    for copied in source:
        engine.append(f"{tenant}-2", session, [{name: copied[name] for name in names}])
    at = "2030-01-01T00:00:00Z"
    first, second = (compiled(engine, name, "s", budget=2000, as_of=at) for name in (tenant, f"{tenant}-2"))
    assert first["content_hash"] == second["content_hash"]
    assert first["id"] != second["id"]


@pytest.mark.parametrize("target", ["openai", "anthropic", "text"])
def test_inv10_a_replay_gives_the_same_bytes(engine: Engine, tenant: str, session: str, target: str) -> None:
    prompts = [compiled(engine, tenant, format=target, budget=1500)]
    for number in range(4):
        engine.append(tenant, session, [said(f"more {number} " + "words " * 200)])
        prompts.append(compiled(engine, tenant, format=target, budget=1500))
    for prompt in prompts:
        replayed = engine.replay(tenant, prompt["id"])
        assert replayed["identical"], replayed
        assert replayed["replayed_hash"] == prompt["content_hash"]


@shared_fixtures
@given(
    history=histories,
    picks=st.lists(st.integers(0, 1000), min_size=25, max_size=25),
    cuts=st.lists(st.integers(1, 6), min_size=25, max_size=25),
)
def test_inv10_whatever_happened_a_replay_gives_the_same_bytes(
    engine: Engine, history: list[Json], picks: list[int], cuts: list[int]
) -> None:
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    waiting, done = with_causes(history, picks), []
    for size in cuts:
        batch, waiting = waiting[:size], waiting[size:]
        if batch and append_valid(engine, tenant, "s", batch):
            job = engine.request_prompt(tenant, "s", {"budget": 400, "format": "anthropic" if size % 2 else "openai"})
            done.append(job["id"])
            if size > 3:
                drain(engine)
    drain(engine)
    for name in done:
        job = engine.job(tenant, name)
        if job["status"] == "failed":
            assert job["error"]["code"] == "context_overflow", job
        else:
            assert engine.replay(tenant, job["prompt"])["identical"]
    assert engine.verify(tenant, "s")["ok"]


def test_requests_of_one_view_follow_each_other(engine: Engine, tenant: str, session: str) -> None:
    waiting = []
    for number in range(3):
        engine.append(tenant, session, [said(f"turn {number}")])
        waiting += [engine.request_prompt(tenant, session, {"budget": budget})["id"] for budget in (1000, 2000)]
    drain(engine)
    found = [engine.prompt(tenant, engine.job(tenant, name)["prompt"]) for name in waiting]
    assert [one["version"] for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one["parent"] for one in found] == [None, None, *(one["id"] for one in found[:4])]


def test_a_job_that_fails_says_why_and_the_next_one_runs(engine: Engine, tenant: str, session: str) -> None:
    small = engine.request_prompt(tenant, session, {"budget": 1})
    good = engine.request_prompt(tenant, session, {"budget": 4000})
    drain(engine)
    failed = engine.job(tenant, small["id"])
    assert (failed["status"], failed["prompt"], failed["error"]["code"]) == ("failed", None, "context_overflow")
    assert failed["error"]["details"]["needs"]
    assert engine.job(tenant, good["id"])["status"] == "done"


def test_a_bug_fails_its_job_alone(engine: Engine, tenant: str, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("boom")

    job = engine.request_prompt(tenant, session, {})
    with monkeypatch.context() as patched:
        patched.setattr(compiling, "compile_prompt", broken)
        drain(engine)
    assert engine.job(tenant, job["id"])["error"]["code"] == "internal_error"
    assert compiled(engine, tenant)["version"] == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": -5}, "budget"),
        ({"budget": "many"}, "budget"),
        ({"format": "yaml"}, "format"),
        ({"as_of": "soon"}, "as_of"),
        ({"min_seq": 99}, "min_seq"),
        ({"min_seq": -1}, "min_seq"),
        ({"min_seq": 1.5}, "min_seq"),
        ({"wait": "long"}, "wait"),
        ({"wait": float("nan")}, "wait"),
        ({"fresh": 1}, "fresh"),
        ({"unknown": 1}, "unknown"),
        ({"overrides": {"slots": {"nowhere": {}}}}, "overrides.slots.nowhere.[key]"),
        ({"overrides": {"window_share": 2}}, "overrides.window_share"),
        ([], "body"),
    ],
)
def test_bad_requests_are_refused_with_the_field(
    engine: Engine, tenant: str, session: str, body: Any, path: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.request_prompt(tenant, session, body)
    assert caught.value.details["path"] == path


def test_what_is_not_there_is_said_so(engine: Engine, tenant: str, session: str) -> None:
    with pytest.raises(UnknownSession):
        engine.request_prompt(tenant, "other", {})
    for name in ("x", str(uuid.uuid4()), "\x00" * 36):
        with pytest.raises(UnknownJob):
            engine.job(tenant, name)
        with pytest.raises(UnknownSnapshot):
            engine.prompt(tenant, name)
    prompt = compiled(engine, tenant)
    with pytest.raises(UnknownSnapshot):
        engine.prompt(f"{tenant}-other", prompt["id"])


def test_waiting_ends_when_nobody_works(engine: Engine, tenant: str, session: str, database: Database) -> None:
    job = engine.request_prompt(tenant, session, {})
    assert engine.wait_job(tenant, job["id"], 0.05)["status"] == "queued"
    with database.write(tenant) as unit:  # somebody claims it and goes away
        stream = streams.get(unit, tenant, f"session/{session}")
        assert stream is not None
        assert work.claim(unit, tenant, stream.number, "compile") is not None
    assert engine.job(tenant, job["id"])["status"] == "running"
    with pytest.raises(Timeout):
        engine.run_job(tenant, job["id"], timeout=0.05)


def test_f11_two_workers_store_one_snapshot(engine: Engine, tenant: str, session: str) -> None:
    job = engine.request_prompt(tenant, session, {})
    barrier = threading.Barrier(2)

    def work() -> None:
        barrier.wait()
        engine.run_job(tenant, job["id"])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engine.prompts(tenant, session)["prompts"]) == 1


def test_another_format_is_derived_and_counted(engine: Engine, tenant: str, session: str) -> None:
    prompt = compiled(engine, tenant, budget=4000)
    derived = engine.prompt(tenant, prompt["id"], "anthropic")
    assert derived["derived"]
    assert "system" in derived["payload"]
    direct = compiled(engine, tenant, budget=4000, format="anthropic")
    assert derived["payload"] == direct["payload"]
    assert derived["tokens"] == direct["tokens"]
    assert not engine.prompt(tenant, prompt["id"], "openai")["derived"]
    with pytest.raises(InvalidRequest):
        engine.prompt(tenant, prompt["id"], "yaml")


def test_a_compile_is_told_in_the_audit_stream_and_moves_no_head(engine: Engine, tenant: str, session: str) -> None:
    head = engine.events(tenant, session)["head"]
    first = compiled(engine, tenant, budget=700)
    engine.append(tenant, session, [said("third " + "word " * 150), said("fourth")])
    compiled(engine, tenant, budget=700)
    told = engine.events(tenant, session, "audit")["events"]
    kinds = [one["kind"] for one in told]
    assert kinds[:3] == ["context.compiled", "anchor.moved", "anchor.moved"]
    assert told[0]["payload"] == {"snapshot_id": first["id"], "version": 1, "content_hash": first["content_hash"]}
    assert kinds.count("context.compiled") == 2
    moved = [one["payload"] for one in told if one["kind"] == "anchor.moved"][-1]
    assert (moved["anchor"], moved["version"]) == ("business", 4)
    assert engine.events(tenant, session)["head"] == head + 2
    assert engine.verify(tenant, session)["ok"]


class Shelf:
    """A source that counts how often it is asked."""

    name = "shelf"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def supports(self, slot: str) -> bool:
        return slot == "recall"

    def fetch(self, query: str, spec: SlotSpec) -> list[SourceItem]:
        self.asked.append(query)
        return [SourceItem("k", "trains to Bern leave at four past", "fact", score=0.9)]


class Broken(Shelf):
    name = "broken"

    def fetch(self, query: str, spec: SlotSpec) -> list[SourceItem]:
        raise ValueError("no shelf")


def test_sources_are_asked_once_recorded_and_may_fail(database: Database, tenant: str) -> None:
    engine = Engine(Deps(database))
    shelf = Shelf()
    engine.deps.sources.register(Broken())
    engine.deps.sources.register(shelf)
    engine.append(tenant, "s", [event("session.started", locale="en"), said("When is the train?")])
    prompt = compiled(engine, tenant)
    assert "four past" in str(prompt["payload"])
    assert any("broken" in warning for warning in prompt["report"]["warnings"])
    assert engine.replay(tenant, prompt["id"])["identical"]
    compiled(engine, tenant)
    assert shelf.asked == ["When is the train?"]
    compiled(engine, tenant, fresh=True)
    assert len(shelf.asked) == 2


def test_a_slow_source_costs_its_own_items(database: Database, tenant: str) -> None:
    release = threading.Event()

    class Slow(Shelf):
        name = "slow"

        def fetch(self, query: str, spec: SlotSpec) -> list[SourceItem]:
            release.wait(60)
            return []

    engine = Engine(Deps(database))
    engine.deps.sources.time_limit = 0.05
    engine.deps.sources.register(Slow())
    engine.append(tenant, "s", [said("When?")])
    prompt = compiled(engine, tenant)
    release.set()
    assert any("slow" in warning for warning in prompt["report"]["warnings"])


def test_a_strategy_of_ones_own_shapes_a_prompt_that_replays_without_it(database: Database, tenant: str) -> None:
    engine = Engine(Deps(database))
    engine.deps.strategies.register("shout", lambda text, budget: text[:20].upper())
    asked = {"overrides": {"policy": [{"roles": ["user"], "ladder": ["shout"]}]}}
    engine.append(tenant, "s", [said(f"{turn} is a long story. " * 60) for turn in range(6)])
    prompt = compiled(engine, tenant, budget=1500, **asked)
    assert "3 IS A LONG STORY. 3" in str(prompt["payload"])
    engine.deps.strategies.unregister("shout")
    assert engine.replay(tenant, prompt["id"])["identical"]
    engine.append(tenant, "s", [said("and?")])
    after = compiled(engine, tenant, budget=1500, **asked)
    assert "3 IS A LONG STORY. 3" in str(after["payload"]), "what was made is carried on"
    assert engine.replay(tenant, after["id"])["identical"]


def test_a_what_if_tries_another_summariser_by_its_name(database: Database, tenant: str) -> None:
    engine = Engine(Deps(database))
    engine.append(tenant, "s", [said(f"{turn} is a long story. " * 60) for turn in range(6)])
    prompt = compiled(engine, tenant, budget=1500)
    engine.deps.strategies.register("shout", lambda text, budget: text[:20].upper())
    tried = engine.history.what_if(tenant, prompt["id"], {"summariser": "shout"})
    assert "3 IS A LONG STORY. 3" in str(tried["would"]["payload"])
    assert "3 IS A LONG STORY. 3" not in str(prompt["payload"])
    assert [one["field"] for one in tried["diff"]["request"]] == ["overrides.policy"]
    without = engine.history.what_if(tenant, prompt["id"], {"summariser": "drop"})["would"]
    assert "summary" in prompt["report"]["zones"]
    assert not without["report"]["zones"].get("summary")
    assert engine.prompts(tenant, "s")["prompts"][0]["version"] == 1, "nothing was stored"
    for name in ("none_such", 7, ["drop"]):
        with pytest.raises(InvalidRequest, match=r"summariser: one of fields, .*, drop, shout"):
            engine.history.what_if(tenant, prompt["id"], {"summariser": name})


def test_a_strategy_that_never_ends_costs_itself_only(database: Database, tenant: str) -> None:
    release = threading.Event()
    engine = Engine(Deps(database))
    engine.deps.strategies.time_limit = 0.05
    engine.deps.strategies.register("endless", lambda text, budget: str(release.wait(60)))
    engine.append(tenant, "s", [said(f"{turn} is a long story. " * 60) for turn in range(6)])
    asked = {"overrides": {"policy": [{"roles": ["user"], "ladder": ["endless"]}]}}
    prompt = compiled(engine, tenant, budget=1500, **asked)
    release.set()
    assert any("endless made nothing" in warning for warning in prompt["report"]["warnings"])


@pytest.mark.parametrize("name", ["reference", "superseded", "Loud", ""])
def test_a_strategy_needs_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InvalidRequest):
        StrategyRegistry().register(name, lambda text, budget: text)


def test_a_child_inherits_the_rules_its_parent_had_when_it_was_asked(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "p", [event("constraint.set", id="a", text="rule before 1a")])
    engine.append(tenant, "c", [event("session.started", parent="p"), said("go")])
    engine.append(tenant, "p", [event("constraint.set", id="b", text="rule after 2b")])
    prompt = compiled(engine, tenant, "c")
    assert "rule before 1a" in str(prompt["payload"])
    assert "rule after 2b" in str(prompt["payload"])
    engine.append(tenant, "p", [event("constraint.removed", id="b")])
    assert engine.replay(tenant, prompt["id"])["identical"]
    assert "rule after 2b" not in str(compiled(engine, tenant, "c")["payload"])


def test_sessions_that_name_each_other_as_parents_come_to_an_end(engine: Engine, tenant: str) -> None:
    for name, parent in (("a", "b"), ("b", "a"), ("self", "self")):
        engine.append(tenant, name, [event("session.started", parent=parent), said("go")])
    for name in ("a", "b", "self"):
        assert compiled(engine, tenant, name)["version"] == 1


# --- erasure ----------------------------------------------------------------------------------------------------------


def test_inv11_erasing_an_event_erases_the_prompts_that_show_it(
    engine: Engine, database: Database, tenant: str, session: str
) -> None:
    before = compiled(engine, tenant)
    secret = said("my secret is 55aa")
    engine.append(tenant, session, [secret])
    shows = compiled(engine, tenant)
    engine.append(tenant, session, [event("event.redacted", event_id=secret["event_id"])])
    with pytest.raises(SnapshotRedacted):
        engine.prompt(tenant, shows["id"])
    with pytest.raises(SnapshotRedacted):
        engine.replay(tenant, shows["id"])
    assert engine.replay(tenant, before["id"])["identical"]
    after = compiled(engine, tenant)
    assert "55aa" not in str(after["payload"])
    with database.read(tenant) as unit:

        def every(table: str, column: str) -> list[bytes]:
            found = unit.execute(sa.text(f"SELECT {column} FROM {table} WHERE tenant = '{tenant}'"))
            return [bytes(body) for (body,) in found if body is not None]

        held = [packing.unsqueeze(text) for text in every("texts", "body")]
        held += [str(packing.opened(body)).encode() for body in every("snapshots", "body")]
        held += every("messages", "body") + every("rows", "body") + every("events", "payload")
    assert not any(b"55aa" in body for body in held)


def test_what_was_erased_between_request_and_compile_is_not_compiled(engine: Engine, tenant: str, session: str) -> None:
    secret = said("my secret is 66bb")
    engine.append(tenant, session, [secret])
    drain(engine)
    job = engine.request_prompt(tenant, session, {})
    engine.append(tenant, session, [event("event.redacted", event_id=secret["event_id"])])
    done = engine.run_job(tenant, job["id"])
    assert "66bb" not in str(engine.prompt(tenant, done["prompt"])["payload"])


def test_what_is_erased_while_it_is_compiled_is_compiled_anew(
    engine: Engine, tenant: str, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = said("my secret is 77cc")
    engine.append(tenant, session, [secret])
    job = engine.request_prompt(tenant, session, {}, ring=False)
    real, runs = compiling.compile_prompt, []

    def interrupted(*args: Any) -> Any:
        made = real(*args)
        if not runs:
            engine.append(tenant, session, [event("event.redacted", event_id=secret["event_id"])])
        runs.append(made)
        return made

    monkeypatch.setattr(compiling, "compile_prompt", interrupted)
    done = engine.run_job(tenant, job["id"])
    assert len(runs) == 2
    assert "77cc" in str(runs[0].payload)
    assert "77cc" not in str(engine.prompt(tenant, done["prompt"])["payload"])


# --- state ------------------------------------------------------------------------------------------------------------


def test_the_state_is_what_a_restarted_agent_needs(engine: Engine, tenant: str, session: str) -> None:
    engine.append(
        tenant,
        session,
        [
            event("plan.updated", task_id="t-1", phase="executing", steps=[{"id": "1", "text": "book"}]),
            event("assistant.output", tool_calls=[{"id": "c2", "name": "book", "arguments": "{}"}]),
        ],
    )
    found = engine.state(tenant, session)
    assert found["head"] == found["seq"] == 10
    assert set(found["slots"]) == {"constraints", "planner", "task_memory", "tool_state", "profile", "recall"}
    assert "never pay" in found["slots"]["constraints"][0]["text"]
    assert found["slots"]["profile"][0]["text"] == "seat: window"
    assert found["plan"]["task_id"] == "t-1"
    assert [call["id"] for call in found["open_calls"]] == ["c2"]
    assert found["anchors"]["business"]["version"] == 2
    assert found["instruction"]["role"] == "You book trains."
    import json

    json.dumps(found)


def test_the_state_of_an_empty_session_is_empty(engine: Engine, tenant: str) -> None:
    engine.append(tenant, "s", [event("profile.set", key="k", value=1)])
    found = engine.state(tenant, "s")
    assert (found["head"], found["plan"], found["run"], found["open_calls"]) == (0, None, None, [])
    assert compiled(engine, tenant)["version"] == 1


# --- differences ------------------------------------------------------------------------------------------------------


def test_a_changed_prompt_is_found_and_its_first_difference_shown(
    database: Database, engine: Engine, tenant: str, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.engine import recompile as replaying

    prompt = compiled(engine, tenant)
    real = replaying.compile_prompt

    def other(*args: Any) -> Any:
        made = real(*args)
        made.payload["messages"][0]["content"] += " changed"
        return made

    monkeypatch.setattr(replaying, "compile_prompt", other)
    replayed = engine.replay(tenant, prompt["id"])
    assert not replayed["identical"]
    assert replayed["first_difference"]["path"] == "messages.0.content"
    assert replayed["cause"].startswith("code")


@pytest.mark.parametrize(
    ("stored", "replayed", "path"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, "a.1"),
        ({"a": [1]}, {"a": [1, 2]}, "a.1"),
        ({"a": 1}, {"b": 1}, "a"),
        ({"a": 1}, {"a": 1, "b": None}, "b"),
        ({"a": "xyz"}, {"a": "xyw"}, "a"),
        ({"a": 1}, {"a": "1"}, "a"),
    ],
)
def test_the_first_difference_is_named(stored: Any, replayed: Any, path: str) -> None:
    found = first_difference(stored, replayed)
    assert found is not None
    assert found["path"] == path


def test_equal_payloads_have_no_difference() -> None:
    assert first_difference({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}) is None


def test_job_rows_are_numbered_without_gaps(engine: Engine, tenant: str, session: str, database: Database) -> None:
    names = [engine.request_prompt(tenant, session, {"budget": 900 + place})["id"] for place in range(4)]
    with database.read(tenant) as unit:
        rows = [jobs.get(unit, tenant, name) for name in names]
    assert [row.number for row in rows if row] == [1, 2, 3, 4]


def test_the_page_about_trim_policies_holds(database: Database, tenant: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "trim-policies.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(parse_modes(tomllib.loads(config)["modes"])["support"].policy) == 3
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    engine = Engine(Deps(database))
    for turn in range(4):
        call = event(
            "assistant.output", tool_calls=[{"id": f"c{turn}", "name": "read", "arguments": f'{{"n":{turn}}}'}]
        )
        answer = event("tool.result", call_id=f"c{turn}", content=f"page {turn}\n" + "and so on\n" * 80)
        engine.append(tenant, "s", [said(f"read page {turn}"), call, answer])

    def compile_it(request: Json) -> Json:
        return compiled(engine, tenant, **request)

    names: Json = {"engine": engine, "compile": compile_it}
    exec(compile(example, "docs/trim-policies.md", "exec"), names)
    told = [message["content"] for message in names["prompt"]["payload"]["messages"] if message["role"] == "tool"]
    assert told[:3] == ["page 0", "page 1", "page 2"]


@pytest.mark.parametrize(
    ("waited", "looks_again"), [(0.0, 0.002), (0.01, 0.002), (0.1, 0.01), (0.5, 0.05), (60.0, 0.1)]
)
def test_whoever_waits_looks_again_after_a_tenth_of_the_time_waited(waited: float, looks_again: float) -> None:
    assert compiling.pause(waited) == pytest.approx(looks_again)
