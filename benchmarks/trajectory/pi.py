"""Sessions of the pi coding agent as wire events, as long as the client's importers only recognise them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

FORMAT = "pi"
Wire = dict[str, Any]


def events(path: Path) -> Iterator[Wire]:
    """The messages of a session; what it says about its own compactions is left out, so the history stays whole."""
    yield _event(path, 0, "session.started", {"source": FORMAT, "mode": "react", "locale": "en"})
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        record = json.loads(line) if line.strip() else {}
        message = record.get("message")
        if record.get("type") == "message" and isinstance(message, dict):
            kind, payload = _told(message)
            if kind:
                yield _event(path, number, kind, payload)


def _told(message: Wire) -> tuple[str, Wire]:
    parts = message.get("content") or []
    parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
    content = [{"type": "text", "text": part["text"]} for part in parts if part.get("type") == "text"]
    calls = [
        {"id": part.get("id", ""), "name": part.get("name", ""), "arguments": part.get("arguments", {})}
        for part in parts
        if part.get("type") == "toolCall"
    ]
    match message.get("role"):
        case "user":
            return "user.input", {"content": content}
        case "assistant" if content or calls:
            return "assistant.output", {"content": content, "tool_calls": calls}
        case "toolResult":
            status = "error" if message.get("isError") else "ok"
            return "tool.result", {"call_id": message.get("toolCallId", ""), "content": content, "status": status}
        case _:
            return "", {}


def _event(path: Path, number: int, kind: str, payload: Wire) -> Wire:
    return {"event_id": str(uuid5(NAMESPACE_URL, f"{path.name}:{number}")), "kind": kind, "payload": payload}
