"""Runs of tau-bench and tau2-bench: an agent, a simulated user, and tools, as chat messages."""

from collections.abc import Iterator
from typing import Any

from promptctx.importers._messages import Dialect, first_words, message_events, schema_events
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

TAU = "tau-bench"
TAU2 = "tau2-bench"
TAU_DIALECT = Dialect("tau")
# The provider's raw reply repeats the message, turn_idx its position; cost is the provider's account.
TAU2_DIALECT = Dialect("tau2", frozenset({"raw_data", "turn_idx", "cost", "requestor", "errors", "id"}))


def tau_matches(sample: Sample) -> bool:
    first = record((items(sample.document) or [None])[0])
    return isinstance(first.get("traj"), list) and "task_id" in first


def tau_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    for index, run in enumerate(items(sample.document)):
        fields = record(run)
        messages = items(fields.get("traj"))
        if messages:
            yield _tau_session(sample, fields, messages)
        else:
            yield Skipped(sample.path, f"record {index} has no messages", TAU)


def _tau_session(sample: Sample, run: dict[str, Json], messages: list[Json]) -> ImportedSession:
    def make(log: Recorder) -> Iterator[WireEvent]:
        for index, message in enumerate(messages):
            yield from message_events(log, index, message, TAU_DIALECT)
        yield log.event("outcome", "custom.tau.outcome", {key: run[key] for key in run if key != "traj"})

    stem, task, trial = stem_of(sample.path), run.get("task_id"), run.get("trial", 0)
    return imported(
        make, session=session_id(TAU, stem, "task", task, "trial", trial), source=TAU, path=sample.path,
        title=f"{stem}, task {task}, trial {trial}", locale=locale_of(first_words(messages)), mode="react",
        known=sample.oddities,
    )  # fmt: skip


def tau2_matches(sample: Sample) -> bool:
    document = record(sample.document)
    return isinstance(document.get("simulations"), list) and bool(document.keys() & {"info", "tasks"})


def tau2_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    tasks = {str(record(task).get("id")): task for task in items(document.get("tasks"))}
    for index, simulation in enumerate(items(document["simulations"])):
        fields = record(simulation)
        if items(fields.get("messages")):
            yield _tau2_session(sample, fields, record(document.get("info")), tasks.get(str(fields.get("task_id"))))
        else:
            yield Skipped(sample.path, f"simulation {index} has no messages", TAU2)


def _tau2_session(sample: Sample, simulation: dict[str, Json], info: dict[str, Json], task: Json) -> ImportedSession:
    world, agent = record(info.get("environment_info")), record(info.get("agent_info"))
    messages = items(simulation["messages"])

    def make(log: Recorder) -> Iterator[WireEvent]:
        if policy := world.get("policy"):
            yield log.instruction("policy", str(policy))
        yield from schema_events(log, world.get("tool_defs"), TAU2_DIALECT)
        for index, message in enumerate(messages):
            yield from _tau2_message(log, index, record(message))
        rest = {key: simulation[key] for key in simulation if key != "messages"}
        yield log.event("outcome", "custom.tau2.outcome", {**rest, "task": task, "run": _settings(info)})

    domain, model, name = world.get("domain_name"), agent.get("llm"), str(simulation.get("task_id"))
    run = simulation.get("id") or short_hash(messages[:4])
    return imported(
        make, session=session_id(TAU2, domain, model, session_id(name)[:80], str(run)[:8]), source=TAU2,
        path=sample.path, title=title_of(f"{domain}: {name}"), locale=locale_of(first_words(messages)),
        mode="react", model=model, at=simulation.get("start_time"), known=sample.oddities,
    )  # fmt: skip


def _settings(info: dict[str, Json]) -> dict[str, Json]:
    """How the benchmark was run; the policy is the instruction already, the user's guide was never the agent's."""
    world = record(info.get("environment_info"))
    rest = {key: value for key, value in info.items() if key not in ("environment_info", "user_info")}
    return {**rest, "domain": world.get("domain_name"), "user_llm": record(info.get("user_info")).get("llm")}


def _tau2_message(log: Recorder, index: object, message: dict[str, Json]) -> Iterator[WireEvent]:
    """The simulated user has tools of its own. What it does with them the agent never saw, so it stays beside."""
    role, at = message.get("role"), message.get("timestamp")
    shown: dict[str, Any] = {key: message.get(key) for key in ("content", "tool_calls", "id", "error", "requestor")}
    if role == "user" and items(message.get("tool_calls")):
        log.oddities["tool calls of the user, kept beside the conversation"] += len(message["tool_calls"])
        yield log.event(index, "custom.tau2.user_tool_call", shown, at=at)
    elif role == "tool" and message.get("requestor") == "user":
        yield log.event(index, "custom.tau2.user_tool_result", shown, at=at)
    elif role == "tool" and items(message.get("tool_messages")):
        for place, part in enumerate(message["tool_messages"]):
            yield from _tau2_message(log, f"{index}.{place}", {**record(part), "role": "tool"})
    else:
        named = {**message, "tool_call_id": message.get("id")} if role == "tool" else message
        yield from message_events(log, index, named, TAU2_DIALECT)
