"""Sessions whose history no longer fits, for the tests of what a model is asked then."""

from typing import Any

from store_histories import compiled, event, said

from workers.engine import Engine, Outcome, summarizing, sweeping
from workers.store import streams

Json = dict[str, Any]

BUDGET = {"budget": 3000, "locale": "en"}


def talk(first: int, last: int) -> list[Json]:
    text = "Turn {}: about the trip, the train, the hotel, the weather there and what else is to be seen. " * 4
    return [said(text.format(*[number] * 4)) for number in range(first, last)]


def cut(engine: Engine, tenant: str, more: int = 40) -> Json:
    """A session whose history no longer fits, and its newest prompt."""
    head = engine.append(tenant, "s", [event("session.started", locale="en")])["head"]
    engine.append(tenant, "s", talk(head, head + more))
    drain(engine)
    return compiled(engine, tenant, "s", **BUDGET)


def summaries(engine: Engine, tenant: str) -> list[Json]:
    return [one for one in engine.events(tenant, "s", limit=1000)["events"] if one["kind"] == "summary.created"]


def drain(engine: Engine) -> None:
    """All that asks no model."""
    while sweeping.sweep(engine.deps, kinds=("compile", "project")):
        pass


def summarize(engine: Engine, tenant: str) -> None:
    """What is due in this session alone: the store holds work of others as well."""
    with engine.deps.database.read(tenant) as unit:
        home = streams.get(unit, tenant, "session/s")
    assert home is not None
    while summarizing.summarize(engine.deps, tenant, home.number) is Outcome.MORE:
        pass
    drain(engine)
