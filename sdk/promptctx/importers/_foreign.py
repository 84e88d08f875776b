"""Logs of other tools that are told by their shape but not read yet: naming them keeps them from being misread."""

from promptctx.importers._model import Json, Sample, items, record

KIMI_TYPES = ("context.append_message", "context.append_loop_event", "config.update", "llm.request", "turn.prompt")


def _first(sample: Sample) -> dict[str, Json]:
    if sample.kind == "lines":
        return record(sample.head[0]) if sample.head else {}
    return record(sample.document)


def _types(sample: Sample) -> set[str]:
    return {str(record(value).get("type")) for value in sample.head} if sample.kind == "lines" else set()


def copilot(sample: Sample) -> bool:
    return sample.kind == "lines" and bool(_types(sample) & {"session.start", "assistant.turn_start", "user.message"})


def cursor(sample: Sample) -> bool:
    first = _first(sample)
    return sample.kind == "lines" and "role" in first and isinstance(record(first.get("message")).get("content"), list)


def kimi(sample: Sample) -> bool:
    return sample.kind == "lines" and bool(_types(sample) & set(KIMI_TYPES))


def openhands(sample: Sample) -> bool:
    """Events of its SDK; the logs of its model calls are read by `openhands`."""
    first = _first(sample)
    return sample.kind == "lines" and "source" in first and str(first.get("kind")).endswith("Event")


def gemini(sample: Sample) -> bool:
    first = _first(sample)
    message = record((items(first.get("messages")) or [None])[0])
    return "projectHash" in first or ("sessionId" in first and message.get("type") in ("user", "gemini"))


def hermes(sample: Sample) -> bool:
    fields = _first(sample)
    return {"session_id", "session_start", "messages"} <= fields.keys()


def opencode(sample: Sample) -> bool:
    """One object per session, message and part, in a folder each."""
    fields = _first(sample) if sample.kind == "document" else {}
    if "projectID" in fields and "directory" in fields:
        return True
    if ("sessionID" in fields and "role" in fields) or ("messageID" in fields and "type" in fields):
        return True
    return isinstance(fields.get("type"), str) and {"id", "time"} <= fields.keys() and _is_part(fields)


def _is_part(fields: dict[str, Json]) -> bool:
    return bool(fields.keys() & {"messageID", "callID", "text", "state"}) and "role" not in fields


def adk_eval(sample: Sample) -> bool:
    if "eval_cases" in _first(sample):
        return True
    first = record((items(sample.document) or [None])[0])
    return {"query", "expected_tool_use"} <= first.keys()


def inspect_ai(sample: Sample) -> bool:
    if sample.kind == "archive":
        return sample.path.suffix == ".eval"
    fields = _first(sample)
    if {"eval", "plan"} <= fields.keys() or {"eval", "samples"} <= fields.keys():
        return True
    events = items(fields.get("events"))
    return bool(events) and {"event", "timestamp"} <= record(events[0]).keys()


def langfuse(sample: Sample) -> bool:
    fields = _first(sample)
    if {"trace", "observations"} <= fields.keys():
        return True
    sides = [side for value in fields.values() for side in record(value).values()]
    return bool(sides) and all("success" in record(side) for side in sides)


def letta(sample: Sample) -> bool:
    """An agent file; some hold their JSON inside one JSON string."""
    document = sample.document if sample.kind == "document" else None
    if isinstance(document, str):
        return sample.path.suffix == ".af" or '"core_memory"' in document
    fields = record(document)
    return "core_memory" in fields or {"agents", "blocks", "tools"} <= fields.keys()
