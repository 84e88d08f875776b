"""What the lines of a bundle must be: it may come from anywhere, and its seal only says that nobody cut it off."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domain.bounds import FromOne, FromZero
from domain.errors import InvalidRequest
from domain.requests import LATEST, Format

EARLIEST = -62_135_596_800_000_000
"""The year 1."""

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Short = Annotated[str, Field(max_length=1000)]
Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]
Moment = Annotated[int, Field(ge=EARLIEST, le=LATEST)]


class Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Head(Line):
    session: Name
    prompt: Name | None
    streams: dict[Name, FromZero]


class StreamLine(Line):
    stream: Name
    about: dict[str, Any]


class EventLine(Line):
    """A redacted one has neither payload nor salt."""

    event_id: Name
    seq: FromOne
    kind: Name
    payload: Any = None
    salt: Hex | None = None
    payload_hash: Hex
    schema_version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    recorded_at: Moment
    occurred_at: Moment | None = None
    actor: Short | None = None
    run_id: Short | None = None
    causation_id: Short | None = None
    correlation_id: Short | None = None
    origin: Short | None = None


class DocumentLine(Line):
    hash: Hex
    text: str


class About(Line):
    """What lists show of a prompt."""

    mode: Short
    format: Format
    model: Short | None
    tokens: FromZero
    budget: FromZero


class PromptLine(Line):
    id: Name
    version: FromOne
    parent: Name | None
    view: Short
    about: About
    content_hash: Name
    created_at: Moment
    layout: Any
    body: dict[str, Any]


def check(kind: type[Line], told: Any, number: int) -> None:
    """Raises InvalidRequest naming the line and its field."""
    try:
        kind.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join((f"line {number}", *map(str, first["loc"])))
        raise InvalidRequest(f"{path}: {first['msg']}.", path=path) from None
