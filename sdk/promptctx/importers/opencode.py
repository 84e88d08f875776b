"""Sessions of opencode: a folder of JSON files, one per session, message and part, that name each other.

    storage/session/PROJECT/SESSION.json   storage/message/SESSION/*.json   storage/part/[MESSAGE/]*.json

The session's file is what is imported; the others are read with it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from promptctx.importers._content import Content, call_of, content_of
from promptctx.importers._files import OpenedFile, open_file
from promptctx.importers._messages import Dialect, output_event, result_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, record, text
from promptctx.importers._record import Recorder, imported, kind_name, locale_of, session_id, title_of

SOURCE = "opencode"
DIALECT = Dialect("opencode")
SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
FAILED = ("error", "failed")
SPOKEN = ("text", "reasoning", "tool", "file")

Fields = dict[str, Json]


def matches(sample: Sample) -> bool:
    fields = record(sample.document) if sample.kind == "document" else {}
    return _is_session(fields) or _belongs(fields)


def _is_session(fields: Fields) -> bool:
    return "projectID" in fields and "directory" in fields


def _belongs(fields: Fields) -> bool:
    """Whether it is a message or a part of one."""
    if ("sessionID" in fields and "role" in fields) or ("messageID" in fields and "type" in fields):
        return True
    part = bool(fields.keys() & {"messageID", "callID", "text", "state"}) and "role" not in fields
    return part and isinstance(fields.get("type"), str) and {"id", "time"} <= fields.keys()


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    about = record(sample.document)
    if not _is_session(about):
        yield Skipped(sample.path, "a piece of an opencode session, read with the session's file", SOURCE, quiet=True)
        return
    storage, name = sample.path.absolute().parent.parent.parent, text(about.get("id")) or ""
    messages = sorted(_inside(storage, "message", name), key=_when)
    if not messages:
        yield Skipped(sample.path, "a session without messages beside it", SOURCE)
        return
    parts = {str(one.get("id")): list(_parts(storage, one)) for one in messages}
    said = next((text(part.get("text")) or "" for one in messages if one.get("role") == "user"
                 for part in parts[str(one.get("id"))]), "")  # fmt: skip

    def make(log: Recorder) -> Iterator[WireEvent]:
        for message in messages:
            yield from _message(log, message, parts[str(message.get("id"))])
        yield log.event("session", "custom.opencode.session", about)

    parent = text(about.get("parentID"))
    yield imported(
        make, session=session_id(SOURCE, name), source=SOURCE, path=sample.path,
        title=title_of(text(about.get("title")) or said), locale=locale_of(said), model=_model(messages),
        mode="react", parent=parent and session_id(SOURCE, parent), at=_when(about)[0] or None, known=sample.oddities,
    )  # fmt: skip


def _inside(storage: Path, kind: str, name: str) -> Iterator[Fields]:
    """The documents of a folder that an id names. Ids are words, never paths, and no link leads out of the storage."""
    folder = storage / kind / name if name else storage / kind
    if (name and not SAFE_NAME.fullmatch(name)) or not folder.is_dir():
        return
    for path in sorted(folder.glob("*.json")):
        if path.is_file() and path.resolve().is_relative_to(storage.resolve()):
            opened = open_file(path)
            if isinstance(opened, OpenedFile):
                yield {"id": path.stem, **record(opened.document)}


def _parts(storage: Path, message: Fields) -> Iterator[Fields]:
    """The parts of a message; older versions keep the parts of all messages in one folder. Their names are in order."""
    name = str(message.get("id"))
    yield from _inside(storage, "part", name)
    yield from (part for part in _inside(storage, "part", "") if part.get("messageID") == name)


def _when(fields: Fields) -> tuple[Any, str]:
    time = record(fields.get("time")).get("created")
    return (time if isinstance(time, int | float) else 0, str(fields.get("id")))


def _model(messages: list[Fields]) -> str | None:
    return next((found for one in messages if (found := _named(one, "modelID"))), None)


def _named(message: Fields, key: str) -> str | None:
    return text(message.get(key)) or text(record(message.get("model")).get(key))


def _message(log: Recorder, message: Fields, parts: list[Fields]) -> Iterator[WireEvent]:
    name, at, role = str(message.get("id")), record(message.get("time")).get("created"), message.get("role")
    spoken: Content = content_of([part for part in parts if part.get("type") in ("text", "file")])
    if not parts and role == "user":
        spoken = str(record(message.get("summary")).get("body") or "")  # older versions kept short prompts there only
    if role == "user":
        yield user_event(log, name, {"content": spoken}, at, True)
    else:
        tools = [part for part in parts if part.get("type") == "tool"]
        thoughts = [{"text": str(part.get("text") or "")} for part in parts if part.get("type") == "reasoning"]
        tokens = record(message.get("tokens"))
        yield output_event(
            log, name, spoken, [_call(part) for part in tools], thoughts, at=at, model=_named(message, "modelID"),
            provider=_named(message, "providerID"),
            usage={**tokens, "input_token_details": {"cache_read": record(tokens.get("cache")).get("read")}},
        )  # fmt: skip
        for part in tools:
            yield from _answer(log, name, part)
    for place, part in enumerate(parts):
        if part.get("type") not in SPOKEN:
            yield log.event(f"{name}.{place}", f"custom.opencode.{kind_name(part.get('type') or 'part')}", part, at=at)


def _call(part: Fields) -> dict[str, Any]:
    return call_of(
        {"id": part.get("callID"), "name": part.get("tool"), "input": record(part.get("state")).get("input")}
    )


def _answer(log: Recorder, name: str, part: Fields) -> Iterator[WireEvent]:
    state = record(part.get("state"))
    if "output" not in state and state.get("status") not in FAILED:
        return  # it was still running when the log was read
    shown = {"content": state.get("output", state.get("error")), "name": part.get("tool")}
    status = "error" if state.get("status") in FAILED else None
    at = record(state.get("time")).get("end")
    yield result_event(log, f"{name}.{part.get('id')}", shown, at, status, part.get("callID"))
