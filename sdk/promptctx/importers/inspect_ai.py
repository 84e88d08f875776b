"""Logs of Inspect: a JSON document, a zip of documents (`.eval`), or the bare events of a run.

A sample's messages are what is told; its events bring tools, usage and times. Texts that the log keeps apart
(`attachment://…`) are put back. Nothing is unpacked to disk: a member of an archive is read into memory, under a limit.
"""

import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from promptctx.importers._calls import ModelCall, Told, ToolRun, by_instruction
from promptctx.importers._files import parse
from promptctx.importers._messages import Dialect, first_words, message_events, schema_events
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

SOURCE = "inspect-ai"
DIALECT = Dialect("inspect", frozenset({"id", "source", "function", "model", "tool_error", "metadata"}))
MAX_MEMBER = 128 * 2**20
"""A document of an archive, unpacked."""
MAX_ARCHIVE = 2**30
MAX_MEMBERS = 100_000
STATUSES = {"timeout": "timeout", "approval": "rejected"}

Fields = dict[str, Json]


def matches(sample: Sample) -> bool:
    if sample.kind == "archive":
        return sample.path.suffix == ".eval" or bool(_names(sample.path) & {"header.json", "_journal/start.json"})
    fields = record(sample.document) if sample.kind == "document" else {}
    if {"eval", "plan"} <= fields.keys() or {"eval", "samples"} <= fields.keys():
        return True
    return {"event", "timestamp"} <= record((items(fields.get("events")) or [None])[0]).keys()


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    if sample.kind == "archive":
        yield from _archive_sessions(sample)
        return
    document = record(sample.document)
    if "eval" not in document:
        yield from _event_sessions(sample, document)
        return
    samples = [record(one) for one in items(document.get("samples"))]
    if not samples:
        yield Skipped(sample.path, "a log without samples", SOURCE)
    for one in samples:
        yield _sample_session(sample, record(document["eval"]), one)


# --- archives --------------------------------------------------------------------------------------------------------


def _names(path: Path) -> set[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return set()


def _archive_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    names = [name for name in _members(sample.path) if name.startswith("samples/") and name.endswith(".json")]
    about = record(_member(sample.path, ("header.json", "_journal/start.json"), sample.oddities))
    if not names:
        yield Skipped(sample.path, "an archive without samples", SOURCE)
    for name in names:
        one = record(_member(sample.path, (name,), sample.oddities))
        yield _sample_session(sample, record(about.get("eval")), one)


def _members(path: Path) -> list[str]:
    """The names in an archive, in order. Raises ImportFailed for one that would unpack to more than may be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ImportFailed(f"{path}: a damaged archive: {error}.") from None
    whole = sum(member.file_size for member in listed)
    if len(listed) > MAX_MEMBERS or whole > MAX_ARCHIVE:
        raise ImportFailed(
            f"{path}: an archive of {len(listed):,} files and {whole:,} bytes unpacked; the limits are {MAX_MEMBERS:,} "
            f"and {MAX_ARCHIVE:,}. Split it."
        )
    return sorted(member.filename for member in listed)


def _member(path: Path, names: tuple[str, ...], oddities: Counter[str]) -> Json:
    """The first document of these names that is there, else None."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((name for name in names if name in archive.NameToInfo), None)
            if name is None:
                return None
            if archive.getinfo(name).file_size > MAX_MEMBER:
                raise ImportFailed(f"{path}: {name} unpacks to more than {MAX_MEMBER:,} bytes.")
            with archive.open(name) as file:
                # Never more than was declared, and never more than the limit, whatever the archive says of itself.
                raw = file.read(MAX_MEMBER + 1)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ImportFailed(f"{path}: a damaged archive: {error}.") from None
    except (NotImplementedError, RuntimeError) as error:
        raise ImportFailed(f"{path}: packed in a way that cannot be read here ({error}).") from None
    except Exception as error:
        if type(error).__name__ not in ("error", "LZMAError"):
            raise
        raise ImportFailed(f"{path}: a damaged archive: {error}.") from None
    if len(raw) > MAX_MEMBER:
        raise ImportFailed(f"{path}: {name} unpacks to more than {MAX_MEMBER:,} bytes.")
    return parse(raw, Path(f"{path}!{name}"), None, oddities)


# --- samples ---------------------------------------------------------------------------------------------------------


def _sample_session(sample: Sample, about: Fields, one: Fields) -> ImportedSession | Skipped:
    kept = record(record(one.get("transcript")).get("content")) | record(one.get("attachments"))
    messages = [_chat(record(_whole(message, kept))) for message in items(one.get("messages"))]
    if not messages:
        return Skipped(sample.path, f"sample {one.get('id')} has no messages", SOURCE)
    events = [record(event) for event in items(one.get("events")) or items(record(one.get("transcript")).get("events"))]
    calls = [event for event in events if event.get("event") == "model"]
    said, task = first_words(messages), str(about.get("task") or stem_of(sample.path))

    def make(log: Recorder) -> Iterator[WireEvent]:
        tools = schema_events(log, _whole(next((call.get("tools") for call in calls), None), kept), DIALECT)
        replies = _replies(calls)
        for index, message in enumerate(messages):
            if message.get("role") != "system":
                yield from tools
            yield from message_events(log, index, message, DIALECT, **_known(message, replies))
        yield log.event("sample", "custom.inspect.sample", _beside(one) | {"task": task, "model": about.get("model")})

    run = about.get("eval_id") or about.get("run_id")
    return imported(
        make, session=session_id(SOURCE, task, run, one.get("id"), one.get("epoch"), short_hash(messages[:4])),
        source=SOURCE, path=sample.path, title=title_of(f"{task}: {said}"), locale=locale_of(said), mode="react",
        model=_model_name(about.get("model")), at=about.get("created"), known=sample.oddities,
    )  # fmt: skip


def _model_name(value: Json) -> str | None:
    """Without the provider before it."""
    return value.rpartition("/")[2] if isinstance(value, str) else None


def _beside(one: Fields) -> Fields:
    """What a sample has beside its messages: events and output tell them again, an attachment stands in its place."""
    told = ("messages", "events", "transcript", "attachments", "message_pool", "call_pool", "input", "output")
    return {key: value for key, value in one.items() if key not in told and value not in (None, "", [], {})}


def _whole(value: Json, kept: Fields) -> Json:
    """The value with the texts that the log keeps apart in their places."""
    if isinstance(value, str):
        name = value.partition("://")[2] if value.startswith(("attachment://", "tc://")) else ""
        return kept.get(name, value) if name else value
    if isinstance(value, list):
        return [_whole(one, kept) for one in value]
    if isinstance(value, dict):
        return {key: _whole(one, kept) for key, one in value.items()}
    return value


def _chat(message: Fields) -> Fields:
    """A message with calls, names and failures as chat messages have them."""
    made = dict(message)
    if message.get("role") == "assistant":
        made["tool_calls"] = [_call(record(call)) for call in items(message.get("tool_calls"))]
        blocks = items(message.get("content"))
        thoughts = [_thought(block) for block in map(record, blocks) if block.get("type") == "reasoning"]
        if thoughts:
            made["content"] = [block for block in blocks if record(block).get("type") != "reasoning"]
            made["thinking_blocks"] = thoughts
    elif message.get("role") == "tool":
        made["name"] = message.get("function")
        failed = record(made.pop("error", None))
        if failed:
            made["status"] = STATUSES.get(str(failed.get("type")), "error")
            made["tool_failure"] = failed
            # What the model is shown of a call that gave nothing is the failure.
            made["content"] = message.get("content") or failed.get("message")
    return made


def _call(call: Fields) -> Fields:
    return {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}


def _thought(block: Fields) -> Fields:
    if block.get("redacted") is True:
        return {"type": "redacted_thinking", "data": block.get("reasoning")}
    return {"type": "thinking", "thinking": block.get("reasoning"), "signature": block.get("signature")}


def _replies(calls: list[Fields]) -> dict[str, Fields]:
    """message id -> the model's call that it came of"""
    found: dict[str, Fields] = {}
    for call in calls:
        for choice in items(record(call.get("output")).get("choices")):
            if name := text(record(record(choice).get("message")).get("id")):
                found[name] = call
    return found


def _known(message: Fields, replies: dict[str, Fields]) -> dict[str, Any]:
    call = replies.get(str(message.get("id")), {})
    output = record(call.get("output"))
    known = {"at": call.get("completed"), "model": output.get("model"), "usage": _usage(output.get("usage"))}
    return {**{key: value for key, value in known.items() if value}, "status": message.get("status")}


def _usage(usage: Json) -> Fields:
    """Input here counts what was not read from a cache for some providers only; it is told as the log has it."""
    fields = record(usage)
    return {**fields, "input_token_details": {"cache_read": fields.get("input_tokens_cache_read")}} if fields else {}


# --- bare events -----------------------------------------------------------------------------------------------------


def _event_sessions(sample: Sample, document: Fields) -> Iterator[ImportedSession | Skipped]:
    """A run without samples: one session per agent, as the calls to the model tell them apart."""
    steps = [step for place, event in enumerate(items(document["events"])) if (step := _step(place, record(event)))]
    agents = by_instruction(steps)
    if not agents:
        yield Skipped(sample.path, "events without a call to a model", SOURCE)
        return
    whole = session_id(SOURCE, stem_of(sample.path), short_hash(document["events"][:4]))
    for number, (instruction, told) in enumerate(agents.items()):
        prompt = next((step.prompt for step in told if isinstance(step, ModelCall)), [])
        said = first_words(list(prompt))
        yield imported(
            _teller(told), session=session_id(whole, short_hash(instruction)) if number else whole, source=SOURCE,
            path=sample.path, title=title_of(said), locale=locale_of(said), mode="react",
            model=next((step.model for step in told if isinstance(step, ModelCall)), None),
            parent=whole if number else None, known=sample.oddities,
        )  # fmt: skip


def _teller(steps: list[ModelCall | ToolRun]) -> Any:
    return lambda log: Told(log, DIALECT).steps(steps)


def _step(place: int, event: Fields) -> ModelCall | ToolRun | None:
    at, done = event.get("timestamp"), event.get("completed")
    if event.get("event") == "model":
        output = record(event.get("output"))
        reply = [_chat(record(record(one).get("message"))) for one in items(output.get("choices"))[:1]]
        prompt = [_chat(record(one)) for one in items(event.get("input"))]
        model, usage = _model_name(event.get("model")), _usage(output.get("usage"))
        return ModelCall(str(place), prompt, reply, event.get("tools"), at, done or at, model, usage)
    if event.get("event") == "tool":
        failed = record(event.get("error"))
        status = STATUSES.get(str(failed.get("type")), "error") if failed else None
        name, content = str(event.get("function") or ""), event.get("result") or failed.get("message")
        return ToolRun(
            str(place), name, event.get("arguments"), content, str(event.get("id") or ""), status, done or at
        )
    return None
