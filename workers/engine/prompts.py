"""Prompts as they are stored, and as they are shown."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from domain import rendering
from domain.canonical import content_hash
from domain.counting import Counter
from domain.errors import ContextOverflow, InvalidRequest, ReplayMismatch, SnapshotRedacted, UnknownSnapshot
from domain.events import TextPart
from domain.masking import masked_value
from domain.rendering.neutral import Neutral
from domain.requests import CompileRequest, Format
from domain.rows import Message, Tool, dump_row, load_row
from domain.snapshots import COMPILER, Prompt
from domain.timemachine.verdicts import PROBE
from workers.clock import format_time
from workers.engine import display, recompile
from workers.engine.contexts import Loaded, Tokenizer
from workers.engine.deps import Deps
from workers.engine.drafts import is_uuid
from workers.engine.reading import cursor, page_size, session_row
from workers.store import Unit, snapshots, streams
from workers.store.jobs import JobRow
from workers.store.packing import Said
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]

NAMESPACE = uuid.UUID("6f1d8a5e-3c0f-5b7a-9d43-1a8e2f6c7b90")
FORMATS: tuple[Format, ...] = ("openai", "anthropic", "text")

_NEUTRAL = TypeAdapter(tuple[Neutral, ...])


def snapshot_id(job: JobRow) -> str:
    """The same job gives the same id, however often it is run; two fresh ones of one key do not."""
    return str(uuid.uuid5(NAMESPACE, f"{job.tenant}/{job.id}"))


def snapshot_about(job: JobRow, prompt: Prompt) -> Json:
    return {
        "mode": prompt.mode,
        "format": job.request.get("format", "openai"),
        "model": prompt.model,
        "tokens": prompt.tokens,
        "budget": prompt.budget,
        "anchors": list(prompt.layout.anchors),
        "zones": prompt.report["zones"],
    }


def snapshot_body(job: JobRow, prompt: Prompt, loaded: Loaded, parent: str | None) -> Json:
    """All of a snapshot but its layout: enough to compile it again, and to show it without."""
    tokenizer, mode = loaded.tokenizer, prompt.mode
    sources = [result.dump() for result in loaded.context.sources]
    return {
        "request": job.request,
        "inputs": {
            **job.heads,
            "as_of": job.as_of,
            "parent_layout": parent,
            "sources": sources,
            "compiler": COMPILER,
            "tokenizer": {
                "encoding": tokenizer.encoding,
                "factor": tokenizer.factor,
                "exact": tokenizer.exact,
                "probe": loaded.count.text(PROBE),
            },
            "mode": {"name": mode, "spec": loaded.spec},
            "hashes": {
                "config": content_hash(_asked(job.request))[:16],
                "sources": content_hash(sources)[:16],
            },
        },
        **rendered(prompt, loaded),
        "provenance": prompt.provenance,
        "report": {**prompt.report, "warnings": [*prompt.report["warnings"], *_of_the_model(prompt, tokenizer)]},
    }


def _of_the_model(prompt: Prompt, tokenizer: Tokenizer) -> Iterable[str]:
    if prompt.model is not None and not tokenizer.known:
        yield (
            f"no tokenizer is known for model {prompt.model!r}: its tokens were taken as those of"
            f" {tokenizer.encoding} times {tokenizer.factor:g}"
        )


def _asked(request: Json) -> Json:
    return CompileRequest.model_validate(request).model_dump(mode="json", exclude_defaults=True)


def said(messages: Iterable[Message], places: Mapping[str, int]) -> dict[str, Said]:
    """What a snapshot need not repeat: the ids and the texts of the session's own messages, and the ids of others of
    which the places are known."""
    return {event_id: Said(seq) for event_id, seq in places.items()} | {
        message.event_id: Said(
            message.seq, [part.text if isinstance(part, TextPart) else None for part in message.parts]
        )
        for message in messages
    }


def listing(deps: Deps, tenant: str, session: str, limit: int, after: str | None) -> Json:
    """The prompts of a session, newest first; `next` is an opaque cursor."""
    size = page_size(limit)
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        found = snapshots.listing(unit, tenant, home.number, size + 1, cursor(after))
    page = found[:size]
    return {"prompts": list(map(_listed, page)), "next": str(page[-1].version) if len(found) > size else None}


def _listed(row: SnapshotRow) -> Json:
    told = ("mode", "format", "model", "tokens", "budget")
    return {
        "id": row.id,
        "version": row.version,
        **{name: row.about[name] for name in told},
        "zones": row.about.get("zones", {}),
        "content_hash": row.content_hash,
        "created_at": format_time(row.created_at),
        "parent": row.parent,
        "redacted": row.redacted_at is not None,
    }


def find(deps: Deps, tenant: str, prompt_id: str) -> tuple[SnapshotRow, str, Json]:
    """The snapshot, the name of its session, and its body; it is named by id or as `SESSION@VERSION`. Raises
    UnknownSnapshot and SnapshotRedacted."""
    with deps.database.read(tenant) as unit:
        row = snapshots.get(unit, tenant, prompt_id) if is_uuid(prompt_id) else _by_version(unit, tenant, prompt_id)
        home = streams.by_number(unit, tenant, row.stream) if row else None
        body = snapshots.body(unit, row) if row else None
    if row is None or home is None:
        raise UnknownSnapshot(
            f"No prompt {prompt_id!r}: name one by its id or as SESSION@VERSION;"
            " `promptctx prompts SESSION` lists them.",
            prompt=prompt_id,
        )
    if body is None:
        raise SnapshotRedacted(
            "This prompt showed something that was erased since; it can no longer be shown or replayed.",
            prompt=prompt_id, redacted_at=format_time(row.redacted_at),
        )  # fmt: skip
    if "payload" not in body:
        body = {**body, **_rebuilt(deps, tenant, row, body)}
    return row, home.name, body


def _rebuilt(deps: Deps, tenant: str, row: SnapshotRow, body: Json) -> Json:
    """What a pruned prompt said, made again. Raises ReplayMismatch when that is not what was hashed."""
    made = recompile.recorded(deps, tenant, row, body)
    if made.prompt.content_hash != row.content_hash:
        raise ReplayMismatch(
            f"Version {row.version} was pruned, and what it was made from no longer gives the same bytes.",
            prompt=row.id, content_hash=row.content_hash, replayed_hash=made.prompt.content_hash,
        )  # fmt: skip
    return rendered(made.prompt, made.loaded)


def rendered(prompt: Prompt, loaded: Loaded) -> Json:
    """What a snapshot says, which follows from its inputs."""
    tools = loaded.context.session.tables["tools"]
    return {
        "messages": _NEUTRAL.dump_python(prompt.messages, exclude_defaults=True),
        "tools": [dump_row("tools", row) for _, row in sorted(tools.items())],
        "payload": prompt.payload,
    }


def _by_version(unit: Unit, tenant: str, name: str) -> SnapshotRow | None:
    session, _, version = name.rpartition("@")
    if not session or not version.isascii() or not version.isdigit() or len(version) > 15:
        return None
    home = streams.get(unit, tenant, f"session/{session}")
    return snapshots.by_version(unit, tenant, home.number, int(version)) if home else None


def _inputs(deps: Deps, row: SnapshotRow, inputs: Json) -> Json:
    """As people are shown them: what sources answered is stored as it came, and masked only when it is rendered."""
    shown = {**inputs, "as_of": format_time(inputs["as_of"])}
    if not inputs["sources"]:
        return shown
    with deps.database.read(row.tenant) as unit:
        home = streams.by_number(unit, row.tenant, row.stream)
        assert home is not None
        mask = display.mask_of(unit, home, ())
    return {**shown, "sources": masked_value(inputs["sources"], mask)}


def prompt(deps: Deps, tenant: str, prompt_id: str, target: str | None = None) -> Json:
    """The prompt as it was sent; in another format as it would be, counted anew."""
    if target is not None and target not in FORMATS:
        raise InvalidRequest(f"format: one of {', '.join(FORMATS)}.", path="format")
    row, session, body = find(deps, tenant, prompt_id)
    shown = {
        **_listed(row),
        "session": session,
        "payload": body["payload"],
        "request": {**_request(body), "as_of": format_time(body["inputs"]["as_of"])},
        "inputs": _inputs(deps, row, body["inputs"]),
        "provenance": body["provenance"],
        "report": body["report"],
        "derived": False,
    }
    del shown["redacted"]
    return shown if target in (None, row.about["format"]) else {**shown, **_derived(deps, body, row, target)}


def _request(body: Json) -> Json:
    return CompileRequest.model_validate(body["request"]).model_dump(mode="json")


def _derived(deps: Deps, body: Json, row: SnapshotRow, target: Any) -> Json:
    messages = _NEUTRAL.validate_python(body["messages"])
    tools: list[Tool] = [load_row("tools", data) for data in body["tools"]]
    payload = rendering.render(messages, tools, target)
    told = body["inputs"]["tokenizer"]
    count = Counter(deps.tokens.counter(told["encoding"]), told["encoding"], target, told["factor"])
    tokens, budget = count.scaled(count.payload(payload, messages)), row.about["budget"]
    if tokens > budget:
        raise ContextOverflow(
            f"As {target} this prompt has {tokens} tokens, over its budget of {budget}; compile it in that format.",
            needs={"payload": tokens}, budget=budget,
        )  # fmt: skip
    hashed = content_hash(payload)
    return {"format": target, "tokens": tokens, "payload": payload, "content_hash": hashed, "derived": True}


def report(deps: Deps, tenant: str, prompt_id: str) -> Json:
    _, _, body = find(deps, tenant, prompt_id)
    found: Json = body["report"]
    return found
