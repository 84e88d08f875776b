"""Foreign agent logs as streams of wire events.

    from promptctx.importers import scan

    for found in scan("logs"):
        if isinstance(found, Skipped): print(found.path, found.reason)
        else: post(found.session_id, found.events)

`detect` names a file's format, `read` gives the sessions of one file, `scan` those of a folder. Ids are derived from
session, position and content: the same log twice adds nothing, a grown one only what is new. docs/importers.md tells
what becomes of what.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from promptctx.importers import (
    adk,
    chats,
    claude_code,
    codex,
    copilot,
    cursor,
    deer_flow,
    event_lines,
    gemini,
    hermes,
    inspect_ai,
    kimi,
    langfuse,
    langgraph,
    letta,
    openai_chat,
    opencode,
    openhands,
    openhands_events,
    otlp,
    pi,
    swe,
    tau,
)
from promptctx.importers._files import OpenedFile, open_file
from promptctx.importers._model import ImportedSession, ImportFailed, Sample, Skipped

__all__ = ["FORMATS", "Format", "ImportFailed", "ImportedSession", "Skipped", "detect", "read", "scan"]

Found: TypeAlias = ImportedSession | Skipped


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of log: how it is told, and how it is read."""

    name: str
    called: str
    matches: Callable[[Sample], bool]
    sessions: Callable[[Sample], Iterator[Found]]


FORMATS: tuple[Format, ...] = (
    # The order matters: what says most about itself comes first, plain chat messages last.
    Format("promptctx", "lines of promptctx events", event_lines.matches, event_lines.sessions),
    Format("otlp", "OpenTelemetry spans", otlp.matches, otlp.sessions),
    Format("mini-swe-agent", "mini-swe-agent run", swe.mini_matches, swe.mini_sessions),
    Format("swe-agent", "SWE-agent trajectory", swe.swe_matches, swe.swe_sessions),
    Format("tau2-bench", "tau2-bench result", tau.tau2_matches, tau.tau2_sessions),
    Format("tau-bench", "tau-bench result", tau.tau_matches, tau.tau_sessions),
    Format("claude-code", "Claude Code session", claude_code.matches, claude_code.sessions),
    Format("deer-flow-replay", "deer-flow replay", deer_flow.matches, deer_flow.sessions),
    Format("langgraph", "LangGraph thread", langgraph.matches, langgraph.sessions),
    Format("beam", "BEAM chat", chats.beam_matches, chats.beam_sessions),
    Format("crosswoz", "CrossWOZ dialogues", chats.crosswoz_matches, chats.crosswoz_sessions),
    Format("memorybank", "MemoryBank users", chats.memorybank_matches, chats.memorybank_sessions),
    Format("pi", "pi session", pi.matches, pi.sessions),
    Format("codex", "Codex session", codex.matches, codex.sessions),
    Format("openhands-call", "OpenHands model call", openhands.matches, openhands.sessions),
    Format("adk", "Google ADK session", adk.matches, adk.sessions),
    Format("copilot", "Copilot session", copilot.matches, copilot.sessions),
    Format("kimi", "Kimi session", kimi.matches, kimi.sessions),
    Format("cursor", "Cursor session", cursor.matches, cursor.sessions),
    Format("openhands", "OpenHands event log", openhands_events.matches, openhands_events.sessions),
    Format("gemini", "Gemini session", gemini.matches, gemini.sessions),
    Format("hermes", "Hermes session", hermes.matches, hermes.sessions),
    Format("adk-eval", "Google ADK evaluation", adk.eval_matches, adk.eval_sessions),
    Format("inspect-ai", "Inspect log", inspect_ai.matches, inspect_ai.sessions),
    Format("langfuse", "Langfuse trace", langfuse.matches, langfuse.sessions),
    Format("letta", "Letta agent file", letta.matches, letta.sessions),
    Format("openai", "chat messages", openai_chat.matches, openai_chat.sessions),
    Format("opencode", "opencode storage", opencode.matches, opencode.sessions),
)


def detect(path: str | os.PathLike[str]) -> str | None:
    """The name of a file's format, None if it is no log that anyone knows. Raises ImportFailed for a damaged file."""
    opened = open_file(Path(path))
    found = None if isinstance(opened, Skipped) else _format_of(opened, FORMATS)
    return None if found is None else found.name


def read(path: str | os.PathLike[str], format: str = "auto") -> Iterator[Found]:
    """The sessions of one file, and what of it gives none. Raises ImportFailed for a damaged file, before any event."""
    formats = _wanted(format)
    path = Path(path)
    if path.is_dir():
        yield from scan(path, format)
        return
    if not path.exists():
        raise ImportFailed(f"{path}: no such file.")
    opened = open_file(path)
    if isinstance(opened, Skipped):
        yield opened
    elif (found := _format_of(opened, formats)) is None:
        asked = "not a conversation in a known format" if format == "auto" else f"is no {formats[0].called}"
        yield Skipped(path, asked)
    else:
        yield from found.sessions(opened)


def scan(folder: str | os.PathLike[str], format: str = "auto") -> Iterator[Found]:
    """The sessions of all files under a folder, in the order of their names; a damaged file is skipped like any other.

    Files come before the folders beside them, so that a session precedes its sub-agents.
    """
    _wanted(format)
    folder = Path(folder)
    if not folder.is_dir():
        raise ImportFailed(f"{folder}: no such folder.")
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = Path(place, name)
            try:
                yield from read(path, format)
            except ImportFailed as error:
                yield Skipped(path, str(error).removeprefix(f"{path}: "))


def _wanted(name: str) -> tuple[Format, ...]:
    if name == "auto":
        return FORMATS
    wanted = tuple(found for found in FORMATS if found.name == name)
    if not wanted:
        known = ", ".join(found.name for found in FORMATS)
        raise ImportFailed(f"Unknown format {name!r}; choose auto or one of {known}.")
    return wanted


def _format_of(opened: OpenedFile, formats: tuple[Format, ...]) -> Format | None:
    return next((found for found in formats if found.matches(opened)), None)
