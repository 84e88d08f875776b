"""Events for the store's tests: hypothesis strategies, and a few helpers to make and to drain."""

import uuid
from typing import Any

from hypothesis import strategies as st

from domain.errors import InvalidEvent
from workers.engine import Engine

Json = dict[str, Any]

any_text = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["\x00", "\ud800", "a\udfffb", "👩\u200d👩\u200d👧", "\r\n", "𠮷", "{}{{", "<|endoftext|>", "\u2028", ""]
)
worded = any_text.filter(str.strip)
# RFC 8785 spells a float beyond 2**53 as an integer, which is read back as one.
numbers = st.integers(-(2**70), 2**70) | st.floats(-(2.0**53), 2.0**53)
any_json = st.recursive(
    st.none() | st.booleans() | numbers | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)

ids = st.sampled_from(["", "c1", "c2", "call \x00", "k" * 300])


def event(kind: str, /, **payload: Any) -> Json:
    return {"kind": kind, "event_id": str(uuid.uuid4()), "payload": payload}


def said(text: str, **envelope: Any) -> Json:
    return {**event("user.input", content=text), **envelope}


def compiled(engine: Engine, tenant: str, session: str = "s", /, **body: Any) -> Json:
    """The prompt of a request that is run here and now."""
    job = engine.request_prompt(tenant, session, body, ring=False)
    job = engine.run_job(tenant, job["id"])
    assert job["status"] == "done", job["error"]
    return engine.prompt(tenant, job["prompt"])


_kinds = st.one_of(
    st.builds(dict, kind=st.just("user.input"), payload=st.builds(dict, content=any_text)),
    st.builds(
        dict,
        kind=st.just("assistant.output"),
        payload=st.builds(
            dict,
            content=any_text,
            tool_calls=st.lists(st.builds(dict, id=ids, name=st.just("f"), arguments=any_json), max_size=3),
        ),
    ),
    st.builds(
        dict, kind=st.just("tool.result"), payload=st.builds(dict, call_id=ids, content=any_text, name=st.just("f"))
    ),
    st.builds(dict, kind=st.just("tool.called"), payload=st.builds(dict, call_id=ids, name=st.just("f"))),
    st.builds(
        dict,
        kind=st.just("constraint.set"),
        payload=st.builds(dict, id=any_text, level=st.sampled_from(["block", "warn"]), text=worded),
    ),
    st.builds(dict, kind=st.just("plan.updated"), payload=st.builds(dict, task_id=st.sampled_from(["a", "b"]))),
    st.builds(dict, kind=st.just("observation.recorded"), payload=st.builds(dict, result=any_text)),
    st.builds(dict, kind=st.just("instruction.set"), payload=st.builds(dict, role=worded)),
    st.builds(dict, kind=st.just("run.started"), payload=st.builds(dict, run_id=st.sampled_from(["r1", "r2"]))),
    st.builds(dict, kind=st.just("run.ended"), payload=st.builds(dict, run_id=st.sampled_from(["r1", "r2"]))),
    st.builds(dict, kind=st.just("profile.set"), payload=st.builds(dict, key=any_text, value=any_json)),
    st.builds(
        dict,
        kind=st.just("memory.recorded"),
        payload=st.builds(dict, id=any_text, text=any_text, scope=st.sampled_from(["session", "subject", "tenant"])),
    ),
    st.builds(dict, kind=st.just("custom.any"), payload=any_json),
    st.builds(dict, kind=st.just("future.kind"), payload=any_json),
    st.builds(dict, kind=st.just("context.rolled_back"), payload=st.builds(dict, to_seq=st.integers(0, 12))),
)
events = st.builds(lambda one, key: {**one, "event_id": str(key)}, _kinds, st.uuids())
histories = st.lists(events, min_size=1, max_size=25)


def with_causes(history: list[Json], picks: list[int]) -> list[Json]:
    """Some events name an earlier one as their cause."""
    return [
        {**one, "causation_id": history[pick % place]["event_id"]} if place and pick % 3 == 0 else one
        for place, (one, pick) in enumerate(zip(history, picks, strict=False))
    ]


def append_valid(engine: Engine, tenant: str, session: str, batch: list[Json]) -> list[Json]:
    """Append the events that are accepted, one by one if one is not: a rollback may go past the head."""
    try:
        engine.append(tenant, session, batch)
    except InvalidEvent:
        if len(batch) == 1:
            return []
        return [one for event in batch for one in append_valid(engine, tenant, session, [event])]
    return batch


def drain(engine: Engine) -> None:
    """Everything that is due, as a worker would."""
    while engine.sweep():
        pass
