"""Compactions as Claude Code and pi write them down, found in an imported session.

Both keep a summary. pi also keeps the entries from a place in its file on; Claude Code keeps the messages that its
boundary names, if it names some.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.trajectory.sessions import Session
from domain.events import Event, UnknownPayload

PI = "custom.pi.compaction"
CLAUDE, CLAUDE_SUMMARY = "custom.claude_code.compact_boundary", "custom.claude_code.compact_summary"

MESSAGES = ("user.input", "assistant.output", "tool.result")

Json = Any


@dataclass(frozen=True, slots=True)
class Compaction:
    """A tool's own compaction.

    `seq` is its place in the log and `until` that of the next one, or the end. `kept_from` is the seq of the first
    message that the tool kept as it was, if it kept any. `tokens_before` and `tokens_after` are the tool's own counts,
    the latter with the system prompt, the tools and the files that no log shows.
    """

    tool: str
    seq: int
    until: int
    summary: str
    kept_from: int | None
    tokens_before: int | None
    tokens_after: int | None


def compactions(session: Session) -> Iterator[Compaction]:
    """The compactions of a session in order."""
    events = session.events
    places = [event.seq for event in events if event.kind in (PI, CLAUDE)]
    for seq, until in pairwise([*places, len(events) + 1]):
        event = events[seq - 1]
        said = _payload(event)
        following = events[seq : until - 1]
        if event.kind == PI:
            moment = _pi_moment(session.path, said)
            yield Compaction(
                "pi", seq, until, str(said.get("summary") or ""), _since(events[: seq - 1], moment),
                said.get("tokensBefore"), _spent(following),
            )  # fmt: skip
        elif summary := _claude_summary(following):
            about = said.get("compactMetadata") or {}
            moment = _claude_moment(session.path, about)
            yield Compaction(
                "claude-code", seq, until, summary, _since(events[: seq - 1], moment), about.get("preTokens"),
                _spent(following),
            )  # fmt: skip


def _payload(event: Event) -> dict[str, Json]:
    payload = event.payload
    found = payload.data if isinstance(payload, UnknownPayload) else payload.model_dump() if payload else None
    return found if isinstance(found, dict) else {}


def _claude_summary(following: Sequence[Event]) -> str | None:
    for event in following:
        if event.kind == CLAUDE_SUMMARY:
            content = (_payload(event).get("message") or {}).get("content")
            if isinstance(content, list):
                content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
            return content or None
    return None


def _spent(following: Sequence[Event]) -> int | None:
    """Input tokens of the first reply after the compaction, by the provider's count."""
    for event in following:
        usage = _payload(event).get("usage") if event.kind == "assistant.output" else None
        if usage:
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            found: int = sum(usage.get(name) or 0 for name in names)
            if found:
                return found
    return None


# --- what was kept as it was ------------------------------------------------------------------------------------------


def _since(before: Sequence[Event], moment: str | None) -> int | None:
    """The seq of the first message from that moment on, which is how a line of the file is found among events."""
    if moment is None:
        return None
    at = int(datetime.fromisoformat(moment).timestamp() * 1e6)
    said = (event for event in before if event.kind in MESSAGES and event.occurred_at is not None)
    return next((event.seq for event in said if (event.occurred_at or 0) >= at), None)


def _pi_moment(path: Path, said: dict[str, Json]) -> str | None:
    """When the first entry that pi kept was written: it is named by its id, by its place in the file in older logs."""
    lines = _lines(path)
    index, identity = said.get("firstKeptEntryIndex"), said.get("firstKeptEntryId")
    if isinstance(index, int) and 0 <= index < len(lines):
        return _moment(lines[index])
    return next((_moment(line) for line in lines if identity is not None and line.get("id") == identity), None)


def _claude_moment(path: Path, about: dict[str, Json]) -> str | None:
    kept = about.get("preservedMessages") or {}
    segment = about.get("preservedSegment") or {}
    wanted = {*(kept.get("uuids") or ()), segment.get("headUuid")} - {None}
    return min((at for line in _lines(path) if line.get("uuid") in wanted and (at := _moment(line))), default=None)


def _moment(line: dict[str, Json]) -> str | None:
    found = line.get("timestamp")
    return found if isinstance(found, str) else None


def _lines(path: Path) -> list[dict[str, Json]]:
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if text.strip():
            found.append(value if isinstance(value, dict) else {})
    return found
