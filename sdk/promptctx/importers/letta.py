"""Agent files of Letta: instruction, memory blocks, tools and messages; some are JSON inside a JSON string."""

import json
from collections.abc import Iterator

from promptctx.importers._content import text_of
from promptctx.importers._messages import MAPPED, Dialect, left_over, message_events, schema_events, user_event
from promptctx.importers._model import (
    ImportedSession,
    ImportFailed,
    Json,
    Sample,
    Skipped,
    WireEvent,
    items,
    record,
    text,
)  # fmt: skip
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "letta"
DIALECT = Dialect(
    "letta",
    frozenset({"type", "id", "otid", "agent_id", "created_at", "updated_at", "group_id", "tool_returns", "model"}),
)
APART = ("messages", "tools", "core_memory", "blocks", "system")

Fields = dict[str, Json]


def matches(sample: Sample) -> bool:
    document = sample.document if sample.kind == "document" else None
    if isinstance(document, str):
        return sample.path.suffix == ".af" or '"core_memory"' in document
    fields = record(document)
    return "core_memory" in fields or {"agents", "blocks", "tools"} <= fields.keys()


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(_unwrapped(sample))
    agents = items(document.get("agents")) if "agents" in document else [document]
    if not agents:
        yield Skipped(sample.path, "an agent file without agents", SOURCE)
    for number, agent in enumerate(map(record, agents)):
        yield _agent_session(sample, document, agent, number)


def _unwrapped(sample: Sample) -> Json:
    if not isinstance(sample.document, str):
        return sample.document
    try:
        return json.loads(sample.document)
    except (ValueError, RecursionError):
        raise ImportFailed(f"{sample.path}: an agent file whose text is not JSON.") from None


def _agent_session(sample: Sample, document: Fields, agent: Fields, number: int) -> ImportedSession:
    messages = [record(message) for message in items(agent.get("messages"))]
    tools, blocks = _of(document, agent, "tool"), _of(document, agent, "block") or items(agent.get("core_memory"))
    settings = record(agent.get("llm_config"))
    said = next((typed for one in messages if one.get("role") == "user" and (typed := _typed(one))), "")
    name = text(agent.get("name")) or stem_of(sample.path)

    def make(log: Recorder) -> Iterator[WireEvent]:
        if not any(one.get("role") == "system" for one in messages[:1]) and text(agent.get("system")):
            yield log.instruction("system", str(agent["system"]))
        yield from _block_events(log, blocks)
        for index, message in enumerate(messages):
            yield from _message(log, index, message)
            if index == 0:
                yield from _schemas(log, tools)
        if not messages:
            yield from _schemas(log, tools)
        rest = {key: value for key, value in agent.items() if key not in APART}
        yield log.event("agent", "custom.letta.agent", rest)

    return imported(
        make, session=session_id(SOURCE, name, number, short_hash([one.get("content") for one in messages[:5]])),
        source=SOURCE, path=sample.path, title=title_of(said or name), locale=locale_of(said), mode="react",
        model=settings.get("model"), known=sample.oddities,
    )  # fmt: skip


def _of(document: Fields, agent: Fields, kind: str) -> list[Json]:
    """An agent's own tools or blocks: newer files list them once, by id, for all agents."""
    shared = items(document.get(f"{kind}s"))
    if "agents" not in document:
        return items(agent.get(f"{kind}s"))
    wanted = set(map(str, items(agent.get(f"{kind}_ids"))))
    return [one for one in shared if str(record(one).get("id")) in wanted]


def _block_events(log: Recorder, blocks: list[Json]) -> Iterator[WireEvent]:
    for place, block in enumerate(map(record, blocks)):
        label, limit = text(block.get("label")), block.get("limit")
        said = text(block.get("value")) or ""
        if label is None:
            yield log.event(f"block.{place}", "custom.letta.block", block)
            continue
        limited = isinstance(limit, int) and not isinstance(limit, bool) and limit > 0
        payload = {
            "label": label, "text": said, "limit": limit if limited else max(len(said), 2000),
            "read_only": block.get("read_only") is True,
        }  # fmt: skip
        yield log.event(f"block.{place}", "block.defined", payload)


def _schemas(log: Recorder, tools: list[Json]) -> Iterator[WireEvent]:
    yield from schema_events(log, [record(tool).get("json_schema") or tool for tool in tools], DIALECT)


def _typed(message: Fields) -> str:
    """What a person typed: Letta wraps it in JSON that says what kind of message it is."""
    said = text_of(message.get("content"))
    try:
        wrapped = record(json.loads(said)) if said.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        wrapped = {}
    if not wrapped:
        return said
    return str(wrapped.get("message") or "") if wrapped.get("type", "user_message") == "user_message" else ""


def _message(log: Recorder, index: int, message: Fields) -> Iterator[WireEvent]:
    at = message.get("created_at")
    if message.get("role") != "user":
        yield from message_events(log, index, message, DIALECT, at=at, model=message.get("model"))
        return
    # Heartbeats, logins and the like stand in the user's place, but nobody asked them.
    event = user_event(log, index, message, at, bool(_typed(message)))
    yield event
    if rest := left_over(message, MAPPED | DIALECT.repeats):
        yield log.event(f"{index}.extra", "custom.letta.message_extra", rest, at=at, cause=event["event_id"])
