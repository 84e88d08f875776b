"""Compiling again what was compiled before: from its inputs as they were recorded, or with some of them changed.

It writes nothing and asks nobody: the log is folded to the recorded heads, and sources answer what they answered then.
Only what the log itself offers for recall is looked up again, where the changes leave something other than it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from domain.compiling import compile_prompt
from domain.errors import InvalidRequest
from domain.modes import ModeSpec, parse_modes
from domain.policies import TEXT_STRATEGIES, UNIT_STRATEGIES, Made, Rule, Step
from domain.requests import CompileRequest, parse_request
from domain.snapshots import Layout, Prompt
from domain.sources import SourceResult
from workers.engine import contexts, recalling
from workers.engine.contexts import Loaded, Pins, Reach, Tokenizer
from workers.engine.deps import Deps
from workers.store import snapshots
from workers.store.snapshots import SnapshotRow

Json = dict[str, Any]


SUMMARISER = "summariser"


@dataclass(frozen=True, slots=True)
class Again:
    """A prompt compiled again, with the request and all that was loaded for it."""

    prompt: Prompt
    request: CompileRequest
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be different. `request` holds fields of a compile request by their dotted names, `schema` modes of
    one's own by name."""

    request: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summariser(self) -> str | None:
        """What is to make messages smaller instead of what did: no field of a request."""
        found: str | None = self.request.get(SUMMARISER)
        return found

    def __bool__(self) -> bool:
        return bool(self.request or self.schema)


def recorded(deps: Deps, tenant: str, row: SnapshotRow, body: Json) -> Again:
    """Compiled from the recorded inputs alone."""
    request, parent = parse_request(body["request"]), _parent(deps, tenant, row, body)
    made = _made(deps, tenant, row)
    return _compiled(deps, _pins(tenant, body, request), parent, body, lambda loaded: loaded.as_recorded(made))


def changed(deps: Deps, tenant: str, row: SnapshotRow, body: Json, changes: Changes) -> Again:
    """A what-if: as it would have been with another request or schema. What begins another view has no parent there."""
    before = parse_request(body["request"])
    request = _summarised(deps, with_changes(body["request"], changes.request), changes.summariser)
    pins = _pins(tenant, body, request)
    modes = {**deps.modes, **(pins.modes or {}), **parse_modes(changes.schema, "schema")}
    tokenizer = pins.tokenizer if request.model == before.model else None
    mode = body["inputs"]["mode"]["name"]
    same = request == before and modes[mode] == (pins.modes or {})[mode]
    same_view = same or (request.view() == before.view() and not changes.schema)
    parent = _parent(deps, tenant, row, body) if same_view else None
    made = _made(deps, tenant, row)
    pins = replace(pins, modes=modes, tokenizer=tokenizer)

    def asked_anew(loaded: Loaded) -> Loaded:
        if same:  # The index has grown since and scores otherwise: what was found then is what counts.
            return loaded.with_made(made)
        # What the log offers hangs on where the window begins, which the changes may move.
        others = (result for result in loaded.context.sources if result.source != recalling.NAME)
        return loaded.with_made(made).with_sources((*others, *recalling.fetch(deps, pins, loaded, parent)))

    return _compiled(deps, pins, parent, body, asked_anew)


def with_changes(asked: Mapping[str, Any], changes: Mapping[str, Any]) -> CompileRequest:
    """The request with fields set by their dotted names; what is no field of the request is one of its overrides."""
    made: Json = CompileRequest.model_validate(asked).model_dump(mode="json", exclude_none=True)
    for path, value in changes.items():
        steps = path.split(".")
        if path == SUMMARISER:
            continue
        if steps[0] not in CompileRequest.model_fields:
            steps = ["overrides", *steps]
        place = made
        for step in steps[:-1]:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise InvalidRequest(f"{path}: {step} is not an object.", path=path)
        place[steps[-1]] = value
    return parse_request(made)


def _summarised(deps: Deps, request: CompileRequest, name: str | None) -> CompileRequest:
    """The request with this strategy as the first for every message that a trim makes smaller."""
    if name is None:
        return request
    known = (*TEXT_STRATEGIES, *UNIT_STRATEGIES, *sorted(deps.strategies.registered()))
    if name not in known:
        raise InvalidRequest(f"{SUMMARISER}: one of {', '.join(known)}.", path=SUMMARISER)
    policy = (Rule(ladder=(Step(use=name),)),)
    return request.model_copy(update={"overrides": request.overrides.model_copy(update={"policy": policy})})


def _pins(tenant: str, body: Json, request: CompileRequest) -> Pins:
    inputs = body["inputs"]
    told = inputs["tokenizer"]
    return Pins(
        tenant=tenant,
        request=request,
        heads=inputs,
        as_of=inputs["as_of"] if request.as_of is None else request.as_of,
        tokenizer=Tokenizer(told["encoding"], told["factor"], told["exact"]),
        modes={inputs["mode"]["name"]: ModeSpec.model_validate(inputs["mode"]["spec"])},
    )


def _parent(deps: Deps, tenant: str, row: SnapshotRow, body: Json) -> Layout | None:
    parent = body["inputs"]["parent_layout"]
    return _layout(deps, tenant, row, parent) if parent else None


def _made(deps: Deps, tenant: str, row: SnapshotRow) -> tuple[Made, ...]:
    """What strategies of users gave when the prompt was compiled."""
    own = _layout(deps, tenant, row, row.id)
    return own.made if own else ()


def _layout(deps: Deps, tenant: str, row: SnapshotRow, prompt_id: str) -> Layout | None:
    with deps.database.read(tenant) as unit:
        layout = snapshots.layout(unit, tenant, row.stream, prompt_id)
    return Layout.read(layout)


def _compiled(deps: Deps, pins: Pins, parent: Layout | None, body: Json, recorded: Callable[[Loaded], Loaded]) -> Again:
    loaded = contexts.load(deps, pins, Reach(parent), from_log=True)
    loaded = loaded.with_sources(tuple(map(SourceResult.load, body["inputs"]["sources"])))
    loaded = recorded(loaded)
    prompt = compile_prompt(loaded.context, pins.request, parent, loaded.count, loaded.plan)
    return Again(prompt, pins.request, loaded)
