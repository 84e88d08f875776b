"""Modes: which slots a prompt shows, how much of each, in which order and where. Data, in TOML."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from domain.bounds import FromZero
from domain.errors import InvalidRequest
from domain.events import Value
from domain.policies import Rule
from domain.requests import CompileRequest, Place, SlotName

SLOTS: tuple[SlotName, ...] = ("constraints", "planner", "task_memory", "tool_state", "profile", "recall")
"""The six slots by priority: when room is short, the last loses first."""

STABLE = frozenset({"constraints", "profile"})
"""Slots of which no item is volatile, unless a source of the operator's gave it."""

VOLATILE = frozenset({"planner", "task_memory", "recall"})
"""Slots of which every item is volatile: their placeholder stands where the items will."""

GLOBAL_SLOT_BUDGET = 2400
WINDOW_SHARE = 0.9
LOW_WATER = 0.85

BUILTIN = """
[chat]
slots = [
  { slot = "constraints", token_budget = 200 },
  { slot = "profile", token_budget = 300, top_k = 10, categories = ["identity", "preference"] },
  { slot = "recall", token_budget = 400, top_k = 3, min_score = 0.4, categories = ["episodic", "fact", "general"] },
]

[tool]
slots = [
  { slot = "constraints", token_budget = 200 },
  { slot = "profile", token_budget = 250, top_k = 8 },
  { slot = "tool_state", token_budget = 350, top_k = 6, required = true },
  { slot = "recall", token_budget = 250, top_k = 2, min_score = 0.5 },
]

[rag]
slots = [
  { slot = "constraints", token_budget = 200 },
  { slot = "profile", token_budget = 300, top_k = 8 },
  { slot = "recall", token_budget = 400, top_k = 3, min_score = 0.4 },
]

[react]
freeze = "run"
slots = [
  { slot = "constraints", token_budget = 280, required = true },
  { slot = "planner", token_budget = 300, required = true },
  { slot = "task_memory", token_budget = 350, top_k = 8, max_age_hours = 24 },
  { slot = "tool_state", token_budget = 350, top_k = 8, required = true },
  { slot = "profile", token_budget = 250, top_k = 6 },
  { slot = "recall", token_budget = 200, top_k = 2, min_score = 0.5, categories = ["episodic", "fact", "general", "tool_failure"] },
]
"""  # noqa: E501


class SlotSpec(Value):
    """One slot of a mode. `top_k` 0 = no cut, `max_age_hours` 0 = none, `token_budget` in tokens. `hops` is over how
    many facts recall goes from what the query names, 0 = none."""

    slot: SlotName
    token_budget: FromZero
    top_k: FromZero = 0
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_age_hours: Annotated[float, Field(ge=0)] = 0.0
    categories: tuple[str, ...] = ()
    require_tags: tuple[str, ...] = ()
    hops: Annotated[int, Field(ge=0, le=3)] = 2
    required: bool = False
    place: Place | None = None


class ModeSpec(Value):
    """`policy` says what a trim does to which messages, the first rule that fits deciding. `few_shot_share` is how much
    of the input budget the few-shot block may take; without it all examples are part of the floor."""

    slots: tuple[SlotSpec, ...]
    freeze: Literal["run"] | None = None
    policy: tuple[Rule, ...] = ()
    few_shot_share: Annotated[float, Field(gt=0, le=1)] | None = None


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode as a request sees it: overrides applied, budgets and shares decided."""

    name: str
    slots: tuple[SlotSpec, ...]
    asked: str
    classic: bool
    global_slot_budget: int
    window_share: float
    low_water: float
    freeze: bool = False
    lending: bool = True
    policy: tuple[Rule, ...] = ()
    few_shot_share: float | None = None

    def place(self, slot: SlotName, *, volatile: bool) -> Place:
        """Where a slot's items stand: stable ones in the prefix, volatile ones at the tail, unless told otherwise."""
        if self.classic:
            return "prefix"
        for spec in self.slots:
            if spec.slot == slot and spec.place:
                return spec.place
        return "tail" if volatile else "prefix"

    def placeholder_place(self, slot: SlotName) -> Place:
        return self.place(slot, volatile=slot in VOLATILE)


def parse_modes(tables: Mapping[str, Any], file: str = "built-in modes") -> dict[str, ModeSpec]:
    """Modes from TOML tables by name. Raises InvalidRequest naming the file and the key that is wrong."""
    return {name: _parse_mode(name, table, file) for name, table in tables.items()}


def _parse_mode(name: str, table: Any, file: str) -> ModeSpec:
    try:
        return ModeSpec.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(("modes", name, *map(str, first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"{file}: {path}: {message}.", path=path) from None


BUILTIN_MODES: Mapping[str, ModeSpec] = parse_modes(tomllib.loads(BUILTIN))


def resolve_mode(asked: str | None, modes: Mapping[str, ModeSpec], request: CompileRequest) -> Mode:
    """The mode to use: an unknown one falls back to `chat`, which the report says."""
    wanted = asked or "chat"
    name = wanted if wanted in modes else "chat"
    overrides = request.overrides
    return Mode(
        name=name,
        slots=tuple(_override(spec, request) for spec in modes[name].slots),
        asked=wanted,
        classic=request.preset == "classic",
        global_slot_budget=(
            GLOBAL_SLOT_BUDGET if overrides.global_slot_budget is None else overrides.global_slot_budget
        ),
        window_share=WINDOW_SHARE if overrides.window_share is None else overrides.window_share,
        low_water=LOW_WATER if overrides.low_water is None else overrides.low_water,
        freeze=modes[name].freeze == "run",
        lending=overrides.lending,
        few_shot_share=modes[name].few_shot_share if overrides.few_shot_share is None else overrides.few_shot_share,
        policy=modes[name].policy if overrides.policy is None else overrides.policy,
    )


def _override(spec: SlotSpec, request: CompileRequest) -> SlotSpec:
    changed = request.overrides.slots.get(spec.slot)
    told = {} if changed is None else {name: value for name, value in changed if value is not None}
    if place := request.overrides.placement.get(spec.slot):
        told["place"] = place
    return spec.model_copy(update=told)
