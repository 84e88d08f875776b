"""Replay: fold the log to what a snapshot was made of, compile again, compare. It writes nothing and asks nobody."""

from collections.abc import Iterable
from typing import Any

from domain.canonical import content_hash
from domain.compiling import compile_prompt
from domain.errors import PromptctxError
from domain.modes import ModeSpec
from domain.requests import parse_request
from domain.snapshots import COMPILER, Layout
from domain.sources import SourceResult
from workers.engine import contexts, prompts
from workers.engine.contexts import Pins, Reach, Tokenizer
from workers.engine.deps import Deps
from workers.store import Unit, log, snapshots, streams
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]

AROUND = 60
"""Characters shown of each side of a difference."""


def replay(deps: Deps, tenant: str, prompt_id: str) -> Json:
    """Whether the same inputs give the same bytes; if not, where they first differ and why."""
    row, _, body = prompts.find(deps, tenant, prompt_id)
    try:
        payload = _compiled_again(deps, tenant, row, body)
    except PromptctxError as failed:
        payload = {"error": {"code": failed.code, "message": failed.message}}
    hashed = content_hash(payload)
    same = hashed == row.content_hash
    return {
        "prompt": row.id,
        "identical": same,
        "content_hash": row.content_hash,
        "replayed_hash": hashed,
        "first_difference": None if same else first_difference(body["payload"], payload),
        "cause": None if same else _cause(deps, tenant, row, body),
    }


def _compiled_again(deps: Deps, tenant: str, row: SnapshotRow, body: Json) -> Json:
    inputs = body["inputs"]
    mode = inputs["mode"]
    pins = Pins(
        tenant=tenant,
        request=parse_request(body["request"]),
        heads=inputs,
        as_of=inputs["as_of"],
        tokenizer=Tokenizer(**inputs["tokenizer"]),
        modes={mode["name"]: ModeSpec.model_validate(mode["spec"])},
    )
    with deps.database.read() as unit:
        layout = (
            snapshots.layout(unit, tenant, row.stream, inputs["parent_layout"]) if inputs["parent_layout"] else None
        )
    parent = Layout.load(layout) if layout is not None else None
    loaded = contexts.load(deps, pins, Reach(parent), from_log=True)
    loaded = loaded.with_sources(tuple(map(SourceResult.load, inputs["sources"])))
    return compile_prompt(loaded.context, pins.request, parent, loaded.count, loaded.plan).payload


def _cause(deps: Deps, tenant: str, row: SnapshotRow, body: Json) -> str:
    inputs = body["inputs"]
    with deps.database.read() as unit:
        if _erased(unit, tenant, row, inputs):
            return "redaction: something that the prompt was compiled from was erased since"
    if inputs["compiler"] != COMPILER:
        return f"code: compiled by version {inputs['compiler']} of the compiler, replayed by {COMPILER}"
    if content_hash(body["payload"]) != row.content_hash:
        return "storage: the stored payload is not the one that was hashed"
    return "code: the compiler gives other bytes for the same inputs"


def _erased(unit: Unit, tenant: str, row: SnapshotRow, inputs: Json) -> bool:
    parent = inputs["parent_layout"]
    if parent and snapshots.layout(unit, tenant, row.stream, parent) is None:
        return True
    for head in (inputs["session"], inputs["subject"], inputs["tenant"], *inputs["parents"]):
        found = streams.get(unit, tenant, head["stream"])
        if found and log.holds_any(unit, tenant, found.number, contexts.ERASING, log.NO_END, after=head["seq"]):
            return True
    return False


def first_difference(stored: Any, replayed: Any, path: str = "") -> Json | None:
    """Where two payloads first differ: the path, and what stands around the place on each side."""
    if type(stored) is not type(replayed) or not isinstance(stored, dict | list | str):
        return None if stored == replayed else _difference(path, stored, replayed)
    if isinstance(stored, str):
        if stored == replayed:
            return None
        pairs = zip(stored, replayed, strict=False)
        at = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(stored), len(replayed)))
        start = max(0, at - AROUND)
        return {**_difference(path, stored[start : at + AROUND], replayed[start : at + AROUND]), "at": at}
    missing = object()
    for key in _keys(stored, replayed):
        left, right = _item(stored, key, missing), _item(replayed, key, missing)
        here = f"{path}.{key}" if path else str(key)
        if left is missing or right is missing:
            return _difference(here, None if left is missing else left, None if right is missing else right)
        if found := first_difference(left, right, here):
            return found
    return None


def _keys(stored: Any, replayed: Any) -> Iterable[Any]:
    if isinstance(stored, dict):
        return [*stored, *(key for key in replayed if key not in stored)]
    return range(max(len(stored), len(replayed)))


def _item(side: Any, key: Any, missing: object) -> Any:
    if isinstance(side, dict):
        return side.get(key, missing)
    return side[key] if key < len(side) else missing


def _difference(path: str, stored: Any, replayed: Any) -> Json:
    return {"path": path, "stored": stored, "replayed": replayed}
