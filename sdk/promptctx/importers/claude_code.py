"""Claude Code sessions: a line per content block, a tree by parentUuid, sub-agents in files or chains of their own.

Every event depends only on the lines up to its own, so that a session imported while it is still being written gets
exactly the missing events later. That is why a reply is not collected until it ends: its first text or call makes the
`assistant.output`, and a call on a later line of the same reply joins it as `tool.called`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from promptctx.importers._claude_lines import ENVELOPE, Chain
from promptctx.importers._content import text_of
from promptctx.importers._model import ImportedSession, ImportFailed, Json, Sample, Skipped, WireEvent, record, text
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "claude-code"
UUID_LIKE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def matches(sample: Sample) -> bool:
    if sample.kind == "lines":
        return any(_is_line(record(value)) for value in sample.head)
    return sample.path.name.endswith(".meta.json") and "agentType" in record(sample.document)


def _is_line(fields: dict[str, Json]) -> bool:
    if fields.get("type") == "file-history-snapshot" or (fields.get("type") == "summary" and "leafUuid" in fields):
        return True
    return "sessionId" in fields and text(fields.get("type")) is not None and bool(fields.keys() & ENVELOPE)


@dataclass(slots=True)
class Outline:
    """What has to be known of a file before its first event is made."""

    first: Json = None
    session: str | None = None
    agent: str | None = None
    chains: dict[str, str] = field(default_factory=dict)
    """uuid of a line on a side chain -> uuid of the line its chain begins with."""
    talk: dict[str, list[Json]] = field(default_factory=dict)
    """per chain: first prompt, model of the first reply, time of the first line."""

    def see(self, fields: dict[str, Json]) -> None:
        self.first = self.first or fields
        self.session = self.session or text(fields.get("sessionId"))
        if fields.get("type") not in ("user", "assistant"):
            self.chain_of(fields)
            return
        said, model, at = self.talk.setdefault(self.chain_of(fields), ["", None, fields.get("timestamp")])
        message = record(fields.get("message"))
        # Only what stands before the second reply counts: it stays the same while the log grows.
        if fields["type"] == "assistant":
            model = model or text(message.get("model")) or ""
        elif not said and model is None and not fields.get("isMeta") and not fields.get("isCompactSummary"):
            said = prompt_of(message.get("content"))
        self.talk[self.chain_of(fields)] = [said, model, at]

    def chain_of(self, fields: dict[str, Json]) -> str:
        """The side chain a line stands on, "" for the main one. In a sub-agent's own file all is main."""
        uuid = text(fields.get("uuid"))
        if self.agent is not None or fields.get("isSidechain") is not True or uuid is None:
            return ""
        parent = text(fields.get("parentUuid"))
        return self.chains.setdefault(uuid, self.chains.get(parent or "", uuid))


def prompt_of(content: Json) -> str:
    """The words of a prompt; what tools returned is no prompt."""
    if isinstance(content, list):
        content = [part for part in content if record(part).get("type") == "text"]
    said = text_of(content) if content else ""
    return "" if said.startswith(("<", "[")) else said


def agent_of(path: Path, head: list[Json]) -> str | None:
    """The id of the sub-agent whose own file this is."""
    for fields in map(record, head):
        if (agent := text(fields.get("agentId"))) and fields.get("isSidechain") is True:
            return agent if path.stem.startswith("agent-") or path.parent.name == "subagents" else None
    return None


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    if sample.kind == "document":
        yield Skipped(sample.path, "details of a sub-agent, read with its session", SOURCE, quiet=True)
        return
    outline = Outline(agent=agent_of(sample.path, sample.head))
    for _, value in sample.records(sample.oddities):
        outline.see(record(value))
    if not outline.talk:
        yield Skipped(sample.path, "no message in it yet", SOURCE)
        return
    identity, parent = _identities(sample.path, outline)
    for chain in sorted(outline.talk, key=bool):  # the main one first, the others as they began
        if chain:
            yield _session(sample, outline, chain, session_id(identity, "sidechain", chain[:36]), identity)
        else:
            yield _session(sample, outline, chain, identity, parent)


def _identities(path: Path, outline: Outline) -> tuple[str, str | None]:
    """This file's session, and for a sub-agent's file the session that called it."""
    if outline.agent is None:
        return _main_identity(path, outline), None
    above = outline.session
    if above is None or above == f"agent-{outline.agent}":
        above = path.parent.parent.name
    parent = session_id(SOURCE, above)
    return session_id(parent, "agent", outline.agent), parent


def _main_identity(path: Path, outline: Outline) -> str:
    if outline.session and UUID_LIKE.fullmatch(outline.session):
        return session_id(SOURCE, outline.session)
    return session_id(SOURCE, outline.session or stem_of(path), short_hash(outline.first))


def _session(sample: Sample, outline: Outline, chain: str, name: str, parent: str | None) -> ImportedSession:
    said, model, at = outline.talk[chain]

    def make(log: Recorder) -> Iterator[WireEvent]:
        if chain == "":
            yield from _agent_details(sample.path, outline, log)
        lines = Chain(log)
        seen = Outline(agent=outline.agent)
        for number, value in sample.records():
            fields = record(value)
            if seen.chain_of(fields) == chain:
                yield from lines.line(number, fields, value)
        lines.end()

    return imported(
        make, session=name, source=SOURCE, path=sample.path, title=title_of(said), locale=locale_of(said),
        model=model, mode="react", parent=parent, at=at, known=sample.oddities,
    )  # fmt: skip


def _agent_details(path: Path, outline: Outline, log: Recorder) -> Iterator[WireEvent]:
    beside = path.with_suffix(".meta.json")
    if outline.agent is None or not beside.is_file():
        return
    try:
        details = json.loads(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise ImportFailed(f"{beside}: not JSON.") from None
    yield log.event("agent", "custom.claude_code.agent", {"details": details})
