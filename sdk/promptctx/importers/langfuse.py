"""Traces of Langfuse: a tree of observations, of which the calls to models are the conversation.

Each call brings its whole prompt in its framework's words; what is new in it is told. Calls with one instruction are
one agent: the first is the session, others are its sub-agents.
"""

import json
from collections.abc import Callable, Iterator

from promptctx.importers._calls import ModelCall, Told, ToolRun, by_instruction
from promptctx.importers._content import text_of
from promptctx.importers._messages import Dialect, first_words
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers._spoken import Message, parsed, spoken, tools_of

SOURCE = "langfuse"
DIALECT = Dialect("langfuse", frozenset({"joins"}))
KEPT = ("id", "parentObservationId", "type", "name", "startTime", "endTime", "level", "statusMessage", "usageDetails")

Steps = list[ModelCall | ToolRun]


def matches(sample: Sample) -> bool:
    fields = record(sample.document) if sample.kind == "document" else {}
    return {"trace", "observations"} <= fields.keys() or _is_view(fields)


def _is_view(fields: dict[str, Json]) -> bool:
    """Messages per observation as the product shows them, each side with whether it could be read."""
    sides = [side for value in fields.values() for side in record(value).values()]
    return bool(sides) and all("success" in record(side) for side in sides)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    if "observations" not in document:
        yield Skipped(
            sample.path, "a trace's messages as Langfuse shows them; the trace itself is what is read", SOURCE
        )
        return
    trace = record(document["trace"])
    observations = sorted(map(record, items(document["observations"])), key=_when)
    agents = by_instruction(_steps(trace, observations))
    if not agents:
        yield Skipped(sample.path, "a trace without a call to a model", SOURCE)
        return
    name = text(trace.get("id")) or short_hash([one.get("id") for one in observations])
    whole, user = session_id(SOURCE, name), text(trace.get("userId"))
    for number, (instruction, steps) in enumerate(agents.items()):
        calls = [step for step in steps if isinstance(step, ModelCall)]
        said = first_words([message for call in calls for message in call.prompt])
        yield imported(
            _maker(steps, None if number else (trace, observations)),
            session=session_id(whole, short_hash(instruction)) if number else whole, source=SOURCE, path=sample.path,
            title=title_of(f"{trace.get('name')}: {said}" if text(trace.get("name")) else said), locale=locale_of(said),
            model=calls[0].model, mode="react", subject=user, parent=whole if number else None, at=calls[0].at,
            known=sample.oddities,
        )  # fmt: skip


def _when(observation: dict[str, Json]) -> tuple[str, str, str]:
    return str(observation.get("startTime")), str(observation.get("endTime")), str(observation.get("id"))


def _maker(
    steps: Steps, beside: tuple[dict[str, Json], list[dict[str, Json]]] | None
) -> Callable[[Recorder], Iterator[WireEvent]]:
    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from Told(log, DIALECT).steps(steps)
        if beside is not None:
            trace, observations = beside
            spans = [{key: one[key] for key in KEPT if one.get(key)} for one in observations]
            rest = {key: value for key, value in trace.items() if key not in ("input", "output") and value}
            yield log.event("trace", "custom.langfuse.trace", {**rest, "observations": spans})

    return make


def _steps(trace: dict[str, Json], observations: list[dict[str, Json]]) -> Iterator[ModelCall | ToolRun]:
    instruction = _instruction(trace, observations)
    calls = [one for one in observations if one.get("type") == "GENERATION"]
    # An agent that was told nothing of its own has what the whole run was told, if only one is told anything.
    told = any(_system(one) for one in calls)
    for observation in observations:
        if observation.get("type") == "GENERATION":
            yield _call(observation, "" if told else instruction)
        elif observation.get("type") == "TOOL":
            yield _run(observation)


def _instruction(trace: dict[str, Json], observations: list[dict[str, Json]]) -> str:
    """The instruction that stands outside the calls: on the agent's span, or on the trace."""
    for one in (*(one for one in observations if one.get("type") != "GENERATION"), trace):
        if said := next((text_of(message["content"]) for message in spoken(one.get("input"), "user")
                         if message["role"] == "system"), ""):  # fmt: skip
            return said
    return ""


def _system(observation: dict[str, Json]) -> str:
    reply = record(parsed(observation.get("output")))
    said = text_of(reply.get("instructions")) if reply.get("object") == "response" else ""
    prompt = spoken(observation.get("input"), "user")
    return next((text_of(one["content"]) for one in prompt if one["role"] == "system"), said)


def _call(observation: dict[str, Json], instruction: str) -> ModelCall:
    prompt: list[Message] = spoken(observation.get("input"), "user")
    if not any(one["role"] == "system" for one in prompt) and (said := _system(observation) or instruction):
        prompt = [{"role": "system", "content": said}, *prompt]
    output = observation.get("output")
    reply = [one for one in spoken(output, "assistant") if one["role"] == "assistant"]
    tools = tools_of(observation.get("input")) or tools_of(output) or _defined(observation)
    usage = record(observation.get("usageDetails"))
    return ModelCall(
        str(observation.get("id")), prompt, reply, tools, observation.get("startTime"), observation.get("endTime"),
        text(observation.get("model")) or text(observation.get("internalModel")),
        {**usage, "input_token_details": {"cache_read": usage.get("input_cached_tokens")}},
    )  # fmt: skip


def _attributes(observation: dict[str, Json]) -> dict[str, Json]:
    return record(record(parsed(observation.get("metadata"))).get("attributes"))


def _defined(observation: dict[str, Json]) -> list[Json]:
    found = _attributes(observation)
    return items(parsed(found.get("gen_ai.tool.definitions"))) or items(
        record(parsed(found.get("model_request_parameters"))).get("function_tools")
    )


def _run(observation: dict[str, Json]) -> ToolRun:
    about = _attributes(observation)
    given, answer = parsed(observation.get("input")), parsed(observation.get("output"))
    inner = record(given)
    arguments = inner["input"] if inner.keys() == {"input"} else given
    content = record(answer).get("content", answer)
    shown = content if isinstance(content, str | list) or content is None else json.dumps(content, ensure_ascii=False)
    name = text(about.get("gen_ai.tool.name")) or str(observation.get("name") or "")
    status = "error" if observation.get("level") == "ERROR" else None
    identity = str(about.get("gen_ai.tool.call.id") or "")
    return ToolRun(str(observation.get("id")), name, arguments, shown, identity, status, observation.get("endTime"))
