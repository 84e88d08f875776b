"""What a caller may ask of a compile: all that can change the bytes of a prompt besides the log itself."""

from typing import Annotated, Any, Literal

from pydantic import Field, Strict, ValidationError

from domain.bounds import FromOne, FromZero
from domain.canonical import content_hash
from domain.errors import InvalidRequest
from domain.events import Locale, Value
from domain.policies import Rule

Format = Literal["openai", "anthropic", "text"]
Place = Literal["prefix", "tail"]
SlotName = Literal["constraints", "planner", "task_memory", "tool_state", "profile", "recall"]


LATEST = 253_370_764_800_000_000
"""The last moment a request may ask for: the year 9999, beyond which no calendar goes."""


class SlotOverride(Value):
    """Changes to one slot of the mode; what is None stays as the mode says. Budgets are tokens."""

    token_budget: FromZero | None = None
    top_k: FromZero | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    max_age_hours: Annotated[float, Field(ge=0)] | None = None
    categories: tuple[str, ...] | None = None
    require_tags: tuple[str, ...] | None = None
    hops: Annotated[int, Field(ge=0, le=3)] | None = None


class Overrides(Value):
    slots: dict[SlotName, SlotOverride] = Field(default_factory=dict)
    placement: dict[SlotName, Place] = Field(default_factory=dict)
    global_slot_budget: FromZero | None = None
    window_share: Annotated[float, Field(gt=0, le=1)] | None = None
    low_water: Annotated[float, Field(gt=0, le=1)] | None = None
    reserve_ratio: Annotated[float, Field(ge=0.15, le=0.9)] | None = None
    lending: bool = True
    reinforce_rules: bool | None = None
    policy: tuple[Rule, ...] | None = None
    few_shot_share: Annotated[float, Field(gt=0, le=1)] | None = None
    reinforce_limit: Annotated[int, Field(ge=0, le=3)] = 3


class CompileRequest(Value):
    """`budget` is the input budget in tokens; without it, `window` (or the model's) times (1 - reserve ratio).

    `as_of` is integer UTC microseconds; None means the newest event's `recorded_at`.
    """

    mode: str | None = None
    model: str | None = None
    format: Format = "openai"
    budget: Annotated[FromOne, Strict()] | None = None
    window: Annotated[FromOne, Strict()] | None = None
    query: str | None = None
    as_of: Annotated[int, Field(ge=0, le=LATEST)] | None = None
    preset: Literal["classic"] | None = None
    locale: Locale | None = None
    overrides: Overrides = Overrides()

    def view(self) -> str:
        """The view a request belongs to: prompts of one view follow each other and share their prefix."""
        return content_hash(self.model_dump(exclude={"query", "as_of"}))[:16]


def parse_request(data: Any) -> CompileRequest:
    """The request in a JSON object. Raises InvalidRequest naming the field that is wrong."""
    try:
        return CompileRequest.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(step) for step in first["loc"]) or "body"
        raise InvalidRequest(f"{path}: {first['msg']}.", path=path) from None
