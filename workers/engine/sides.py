"""Prompts as the time machine looks at them: stored ones, and those that were compiled again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from domain.canonical import parse_json
from domain.history import effective
from domain.modes import ModeSpec, resolve_mode
from domain.rendering.neutral import Neutral
from domain.requests import CompileRequest, parse_request
from domain.rows import load_row
from domain.snapshots import COMPILER
from domain.timemachine.segments import SECTIONED, Known, segments
from domain.timemachine.sides import Chronicle, Side, Told
from domain.timemachine.verdicts import PROBE, Conditions
from workers.engine.deps import Deps
from workers.engine.recompile import Again
from workers.store import Unit, log, streams
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]

NEUTRAL = TypeAdapter(tuple[Neutral, ...])
ABOUT = ("id", "key", "label", "name", "task_id", "event_id", "document_id")
MARKED = frozenset(
    {
        "constraint.set", "constraint.removed", "profile.set", "profile.unset", "tool.registered", "tool.removed",
        "memory.recorded", "memory.revised", "memory.retracted", "block.defined", "block.edited", "message.pinned",
        "message.unpinned", "plan.updated", "instruction.set",
    }
)  # fmt: skip
"""Kinds of which a newer event may take the place of an older one about the same thing."""


def stored(row: SnapshotRow, body: Json) -> Side:
    """A prompt as it was sent."""
    return _side(row, body, NEUTRAL.validate_python(body["messages"]), {})


def both(row: SnapshotRow, body: Json, other: SnapshotRow, later: Json) -> tuple[Side, Side]:
    """Two stored prompts, to be compared: a message that both show in the same way is there without its lines."""
    same = _same(body["messages"], later["messages"])
    known: Known = {}
    left, right = (_differing(one["messages"], held) for one, held in zip((body, later), same, strict=True))
    return _side(row, body, left, known), _side(other, later, right, known)


def _same(before: Sequence[Json], after: Sequence[Json]) -> tuple[dict[int, Neutral], dict[int, Neutral]]:
    """By their places on both sides the messages that are the same, but for those that hold sections."""
    held: dict[Any, list[int]] = {}
    for place, one in enumerate(before):
        held.setdefault((one["zone"], *one.get("sources", ())), []).append(place)
    left, right = dict[int, Neutral](), dict[int, Neutral]()
    for place, one in enumerate(after):
        places = held.get((one["zone"], *one.get("sources", ())), ())
        there = next((at for at in places if at not in left and before[at] == one), None)
        if there is not None and one["zone"] not in SECTIONED:
            bare = Neutral(one["role"], one["zone"], sources=tuple(one.get("sources", ())))
            left[there] = right[place] = bare
    return left, right


def _differing(messages: Sequence[Json], same: Mapping[int, Neutral]) -> list[Neutral]:
    read = iter(NEUTRAL.validate_python([one for place, one in enumerate(messages) if place not in same]))
    return [same[place] if place in same else next(read) for place in range(len(messages))]


def _side(row: SnapshotRow, body: Json, messages: Sequence[Neutral], known: Known) -> Side:
    inputs = body["inputs"]
    then = conditions(body)
    return Side(
        name=row.id,
        segments=segments(messages, [load_row("tools", one) for one in body["tools"]], known),
        report=body["report"],
        request=parse_request(body["request"]).model_dump(mode="json", exclude_defaults=True),
        heads=heads_of(inputs),
        slots=slots_of(inputs["mode"], parse_request(body["request"])),
        compiler=then.compiler, tokenizer=then.tokenizer, schema=then.schema,
        version=row.version,
    )  # fmt: skip


def again(name: str, body: Json, made: Again) -> Side:
    """A prompt that was compiled again, from the inputs of `body`, and never stored."""
    tokenizer, mode = made.loaded.tokenizer, {"name": made.prompt.mode, "spec": made.loaded.spec}
    told = {"encoding": tokenizer.encoding, "factor": tokenizer.factor, "probe": made.loaded.count.text(PROBE)}
    request = made.request.model_dump(mode="json", exclude_defaults=True)
    now = Conditions.of(COMPILER, told, mode, request, ())
    tools = [row for _, row in sorted(made.loaded.context.session.tables["tools"].items())]
    return Side(
        name=name,
        segments=segments(made.prompt.messages, tools),
        report=made.prompt.report,
        request=request,
        heads=heads_of(body["inputs"]),
        slots=slots_of(mode, made.request),
        compiler=now.compiler, tokenizer=now.tokenizer, schema=now.schema,
    )  # fmt: skip


def conditions(body: Json) -> Conditions:
    """What a stored prompt was compiled under."""
    inputs = body["inputs"]
    request = parse_request(body["request"]).model_dump(mode="json", exclude_defaults=True)
    return Conditions.of(inputs["compiler"], inputs["tokenizer"], inputs["mode"], request, inputs["sources"])


def conditions_now(deps: Deps, body: Json, model: str | None) -> Conditions:
    """What the same request would be compiled under today, but for its sources, which are not asked again."""
    inputs = body["inputs"]
    choice = deps.tokens.choice(model or deps.default_model)
    told: Json = {"encoding": choice.name, "factor": choice.safety_factor}
    if "probe" in inputs["tokenizer"]:
        told["probe"] = deps.tokens.counter(choice.name)(PROBE)
    name = inputs["mode"]["name"]
    spec = deps.modes[name].model_dump(exclude_defaults=True) if name in deps.modes else None
    request = parse_request(body["request"]).model_dump(mode="json", exclude_defaults=True)
    return Conditions.of(COMPILER, told, {"name": name, "spec": spec}, request, inputs["sources"])


def heads_of(inputs: Json) -> dict[str, int]:
    found = {name: inputs[name]["seq"] for name in ("session", "subject", "tenant")}
    for place, parent in enumerate(inputs["parents"]):
        found[parent_name(place)] = parent["seq"]
    return found


def parent_name(place: int) -> str:
    return "parent" if place == 0 else f"parent {place + 1}"


def slots_of(mode: Json, request: CompileRequest) -> Mapping[str, Mapping[str, Any]]:
    spec = {mode["name"]: ModeSpec.model_validate(mode["spec"])}
    return {one.slot: one.model_dump() for one in resolve_mode(mode["name"], spec, request).slots}


# Events ---------------------------------------------------------------------------------------------------------------


def chronicle(unit: Unit, tenant: str, bodies: Iterable[Json], ids: Iterable[str]) -> Chronicle:
    """The events of these ids, and all that came between the heads of the prompts, in all the streams they read."""
    wanted = [log.pack_id(one) for one in dict.fromkeys(ids)]
    found: dict[str, Told] = {}
    for name, stream_id, low, high in _spans(bodies):
        row = streams.get(unit, tenant, stream_id)
        if row is None:
            continue
        gone = hidden(unit, tenant, row.number, high)
        for one in log.named(unit, tenant, row.number, wanted, low, high, MARKED):
            event = told(one, name, gone)
            found[event.event_id] = event
    return Chronicle(found)


def _spans(bodies: Iterable[Json]) -> list[tuple[str, str, int, int]]:
    """(name, stream, lowest head, highest head) of every stream that any of the prompts read."""
    spans: dict[str, tuple[str, int, int]] = {}
    for body in bodies:
        inputs = body["inputs"]
        heads = [(name, inputs[name]) for name in ("session", "subject", "tenant")]
        heads += [(parent_name(place), head) for place, head in enumerate(inputs["parents"])]
        for name, head in heads:
            _, low, high = spans.get(head["stream"], (name, head["seq"], head["seq"]))
            spans[head["stream"]] = name, min(low, head["seq"]), max(high, head["seq"])
    return [(name, stream, low, high) for stream, (name, low, high) in spans.items()]


def hidden(unit: Unit, tenant: str, stream: int, upto: int) -> Mapping[int, str]:
    """The events up to a seq that are not in force there, each with what hides it."""
    if not log.refolds(unit, tenant, stream, upto):
        return {}
    headers = list(log.headers(unit, tenant, stream, upto))
    in_force, found = set(effective(headers)), {}
    rollbacks = [one for one in headers if one.kind == "context.rolled_back"]
    for header in headers:
        if header.seq not in in_force:
            by = next((one for one in reversed(rollbacks) if one.seq > header.seq), None)
            found[header.seq] = by.event_id if by else "redacted"
    return found


def told(one: log.Outline, stream: str, gone: Mapping[int, str]) -> Told:
    about = _about(one) if one.kind in MARKED else None
    mark = "redacted" if one.erased else gone.get(one.seq)
    return Told(one.event_id, one.seq, stream, one.kind, about, mark)


def _about(one: log.Outline) -> str | None:
    data = parse_json(one.payload) if one.payload is not None else None
    if not isinstance(data, dict):
        return None
    return next((str(data[name]) for name in ABOUT if isinstance(data.get(name), str)), None)
