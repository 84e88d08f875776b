"""Transcripts of Cursor: a message per line, calls without ids and mostly without results, sub-agents in a folder."""

from collections.abc import Iterator
from pathlib import Path

from promptctx.importers._content import call_of, content_of, text_of
from promptctx.importers._files import OpenedFile, open_file
from promptctx.importers._messages import Dialect, opening, output_event, result_event, user_event
from promptctx.importers._model import ImportedSession, ImportFailed, Json, Sample, Skipped, WireEvent, items, record
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "cursor"
DIALECT = Dialect("cursor")


def matches(sample: Sample) -> bool:
    first = record(sample.head[0]) if sample.kind == "lines" and sample.head else {}
    return "role" in first and isinstance(record(first.get("message")).get("content"), list)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    start = _opening(sample)
    said = next((text_of(one["content"]) for one in start if one["role"] == "user"), "")

    def make(log: Recorder) -> Iterator[WireEvent]:
        for number, value in sample.records():
            yield from _line(log, number, record(value))

    yield imported(
        make, session=_name(sample.path, start), source=SOURCE, path=sample.path, title=title_of(said),
        locale=locale_of(said), mode="react", parent=_parent(sample.path), known=sample.oddities,
    )  # fmt: skip


def _opening(sample: Sample) -> list[dict[str, Json]]:
    """The messages up to the first reply, which stay the same while the transcript grows."""
    found: list[dict[str, Json]] = []
    for _, value in sample.records(sample.oddities):
        line = record(value)
        if "role" in line and (not found or found[-1]["role"] != "assistant"):
            found.append({"role": line["role"], "content": record(line.get("message")).get("content")})
    return found


def _name(path: Path, start: list[dict[str, Json]]) -> str:
    return session_id(SOURCE, stem_of(path), short_hash(opening(list(start))))


def _parent(path: Path) -> str | None:
    """The transcript beside the folder of sub-agents, if it is the only one."""
    if path.parent.name != "subagents":
        return None
    beside = [one for one in sorted(path.parent.parent.glob("*.jsonl")) if one.is_file()]
    if len(beside) != 1:
        return None
    try:
        opened = open_file(beside[0])
        told = isinstance(opened, OpenedFile) and matches(opened)
        return _name(beside[0], _opening(opened)) if isinstance(opened, OpenedFile) and told else None
    except ImportFailed:
        return None


def _line(log: Recorder, number: int, line: dict[str, Json]) -> Iterator[WireEvent]:
    at, role = line.get("timestamp"), line.get("role")
    blocks = items(record(line.get("message")).get("content"))
    kinds = [record(block).get("type") for block in blocks]
    rest = [block for block, kind in zip(blocks, kinds, strict=True) if kind not in ("tool_use", "tool_result")]
    if role == "assistant":
        calls = [call_of(block) for block, kind in zip(blocks, kinds, strict=True) if kind == "tool_use"]
        yield output_event(log, number, content_of(rest), calls, [], at=at)
    elif role == "user":
        for place, (block, kind) in enumerate(zip(blocks, kinds, strict=True)):
            if kind == "tool_result":
                yield result_event(log, f"{number}.{place}", record(block), at, call_id=block.get("tool_use_id"))
        if rest or not blocks:
            yield user_event(log, number, {"content": rest}, at, True)
    else:
        yield log.event(number, f"custom.cursor.{kind_name(line.get('type') or role or 'line')}", line, at=at)
