"""What may happen: the event vocabulary, one frozen payload per kind, in the past tense.

This is the only place where kinds are defined. `Draft` is an event on its way in, `Event` one that the log has
numbered. Kinds nobody knows and schema versions newer than ours become `UnknownPayload`: kept, ordered, skipped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, field_validator

from domain.bounds import FromOne, FromZero
from domain.errors import InvalidEvent
from domain.fields import is_rule
from domain.moments import in_utc

Locale = Literal["zh", "en"]
Level = Literal["block", "warn"]
ResultStatus = Literal["ok", "error", "rejected", "timeout"]
Scope = Literal["session", "subject", "tenant"]


class Value(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# --- content ---------------------------------------------------------------------------------------------------------


class TextPart(Value):
    type: Literal["text"]
    text: str


class ImagePart(Value):
    """An image by URL or by inline base64 `data`; its cost follows its size and `detail`, never its text."""

    type: Literal["image"]
    url: str | None = None
    data: str | None = None
    media_type: str = "image/png"
    width: FromOne | None = None
    height: FromOne | None = None
    detail: Literal["low", "high", "auto"] = "auto"


class DataPart(Value):
    """Any other part, kept as it came (audio, files, citations); rendered as its JSON text."""

    type: Literal["data"]
    data: JsonValue


Part = Annotated[TextPart | ImagePart | DataPart, Field(discriminator="type")]


def _as_parts(value: Any) -> Any:
    if value is None:
        return ()
    if isinstance(value, str):
        return ({"type": "text", "text": value},) if value else ()
    return value


Content = Annotated[tuple[Part, ...], BeforeValidator(_as_parts)]
"""Content parts; a plain string is one text part, an empty string or None is no part."""


class ToolCall(Value):
    """`id` may be empty or repeat within a session: the fold gives each call an id of its own."""

    id: str = ""
    name: str
    arguments: JsonValue = "{}"


class Reasoning(Value):
    """An opaque thinking block. With a signature it is never edited: kept whole and in place, or dropped whole."""

    text: str = ""
    signature: str | None = None
    data: JsonValue = None


# --- payloads --------------------------------------------------------------------------------------------------------


class Payload(Value):
    kind: ClassVar[str]
    schema_version: ClassVar[int] = 1


class SessionStarted(Payload):
    kind = "session.started"
    subject: str | None = None
    mode: str | None = None
    locale: Locale | None = None
    model: str | None = None
    context_window: FromOne | None = None
    reserve_ratio: Annotated[float, Field(ge=0.15, le=0.9)] | None = None
    task_type: Literal["code", "chat", "classify"] | None = None
    time_zone: str | None = None
    parent: str | None = None
    inherit: tuple[Literal["instructions", "plan"], ...] = ()
    title: str | None = None
    source: str | None = None


class RunStarted(Payload):
    kind = "run.started"
    run_id: str
    goal: str = ""
    mode: str | None = None


class RunEnded(Payload):
    kind = "run.ended"
    run_id: str
    status: str = "done"
    result: str = ""


class Rule(Value):
    text: str
    core: bool = False


class Example(Value):
    """One few-shot exchange."""

    user: str
    assistant: str


class InstructionSet(Payload):
    kind = "instruction.set"
    role: str = ""
    rules: tuple[Rule, ...] = ()
    output_format: str = ""
    examples: tuple[Example, ...] = ()
    text: str = ""


class UserInput(Payload):
    kind = "user.input"
    content: Content = ()
    directive: bool = True
    name: str | None = None


class Usage(Value):
    input_tokens: FromZero | None = None
    output_tokens: FromZero | None = None
    cached_tokens: FromZero | None = None


class AssistantOutput(Payload):
    kind = "assistant.output"
    content: Content = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    snapshot_id: str | None = None


class ToolCalled(Payload):
    """A call emitted on its own; it joins the assistant output that `causation_id` names, else it forms one."""

    kind = "tool.called"
    call_id: str = ""
    name: str
    arguments: JsonValue = "{}"


class ToolRegistered(Payload):
    kind = "tool.registered"
    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    required: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    volatility: Literal["stable", "volatile"] = "volatile"

    @field_validator("fields")
    @classmethod
    def _jmespath(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [rule for rule in rules if not is_rule(rule)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no JMESPath expression")
        return rules


class ToolRemoved(Payload):
    kind = "tool.removed"
    name: str


class ToolResult(Payload):
    kind = "tool.result"
    call_id: str = ""
    status: ResultStatus = "ok"
    content: Content = ()
    name: str | None = None
    observed_at: str | None = None


class EnvironmentValue(Value):
    value: JsonValue
    secret: bool = False


class ToolEnvironment(Payload):
    kind = "tool.environment"
    values: dict[str, EnvironmentValue]


class PlanStep(Value):
    id: str
    text: str = ""
    tool: str | None = None
    deps: tuple[str, ...] = ()
    status: Literal["pending", "running", "done", "failed", "skipped"] = "pending"
    retries: FromZero = 0
    reflection: str = ""


class PlanUpdated(Payload):
    kind = "plan.updated"
    task_id: str
    status: str = "running"
    phase: str = ""
    steps: tuple[PlanStep, ...] = ()
    current_step: str | None = None
    interruption: str = ""


class ObservationRecorded(Payload):
    kind = "observation.recorded"
    step_id: str = ""
    tool: str | None = None
    decision: str = ""
    result: str = ""
    failed: bool = False
    facts: tuple[str, ...] = ()


class ConstraintSet(Payload):
    kind = "constraint.set"
    id: str
    level: Level = "block"
    text: str
    pattern: str | None = None
    source: str | None = None


class ConstraintRemoved(Payload):
    kind = "constraint.removed"
    id: str


class ProfileSet(Payload):
    kind = "profile.set"
    key: str
    value: JsonValue
    category: Literal["identity", "preference"] = "preference"
    source: str | None = None


class ProfileUnset(Payload):
    kind = "profile.unset"
    key: str


class BlockDefined(Payload):
    kind = "block.defined"
    label: str
    text: str = ""
    limit: FromOne = 2000
    read_only: bool = False


class BlockEdited(Payload):
    kind = "block.edited"
    label: str
    text: str


class _Memory(Payload):
    id: str
    text: str
    scope: Scope = "subject"
    category: str = "fact"
    memory_kind: Literal["semantic", "episodic", "procedural"] = "semantic"
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    tags: tuple[str, ...] = ()
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    derived_from: tuple[str, ...] = ()

    @field_validator("valid_from", "valid_to")
    @classmethod
    def _utc(cls, told: str | None) -> str | None:
        return in_utc(told) if told else None


class MemoryRecorded(_Memory):
    """A fact about a subject: the same subject and predicate again, with another object, takes its place. It holds from
    `valid_from` until before `valid_to`; both are kept in UTC."""

    kind = "memory.recorded"
    supersedes: tuple[str, ...] = ()


class MemoryRevised(_Memory):
    kind = "memory.revised"


class MemoryRetracted(Payload):
    kind = "memory.retracted"
    id: str
    scope: Scope = "subject"
    reason: str = ""


class MemoryDecided(Payload):
    """What was decided about something that might be worth remembering, and why: what was told (`text`) against what
    was held (`about`, which read `before`). `memory_id` is what stands for it now; a NONE writes nothing else."""

    kind = "memory.decided"
    act: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    reason: str
    text: str
    scope: Scope = "subject"
    memory_id: str | None = None
    about: str | None = None
    before: str | None = None
    method: str = "rules"
    model: str | None = None
    prompt_hash: str | None = None
    derived_from: tuple[str, ...] = ()


class Chunk(Value):
    """A slice of a document: character offsets, and the heading path it stands under."""

    start: FromZero
    end: FromZero
    heading: str = ""


class DocumentAttached(Payload):
    kind = "document.attached"
    document_id: str
    title: str = ""
    source: str = ""
    media_type: str = "text/plain"
    hash: str = ""
    size: FromZero = 0
    first_line: str = ""
    chunks: tuple[Chunk, ...] = ()


class ReferenceExpanded(Payload):
    kind = "reference.expanded"
    reference_id: str
    start: FromZero = 0
    end: FromZero | None = None
    content: Content = ()


class MessagePinned(Payload):
    kind = "message.pinned"
    event_id: str


class MessageUnpinned(Payload):
    kind = "message.unpinned"
    event_id: str


class AnchorMoved(Payload):
    kind = "anchor.moved"
    anchor: Literal["system", "business"]
    from_event: str | None = None
    to_event: str | None = None
    version: FromOne
    reason: str = ""


class SummaryCreated(Payload):
    kind = "summary.created"
    id: str
    text: str
    derived_from: tuple[str, ...]
    method: str = "extractive"
    model: str | None = None
    prompt_hash: str | None = None
    supersedes: tuple[str, ...] = ()


class ContextTrimmed(Payload):
    kind = "context.trimmed"
    snapshot_id: str
    units: tuple[dict[str, JsonValue], ...] = ()
    rounds: FromZero = 0


class ContextTrimRolledBack(Payload):
    kind = "context.trim_rolled_back"
    snapshot_id: str
    strategy: str
    failed_check: str


class ContextCompiled(Payload):
    kind = "context.compiled"
    snapshot_id: str
    version: FromOne
    content_hash: str


class ContextRolledBack(Payload):
    kind = "context.rolled_back"
    to_seq: FromZero
    to_version: FromOne | None = None
    scope: Literal["session", "memory_kept"] = "session"
    reason: str = ""
    loosen: bool = False
    undoes: tuple[str, ...] = ()
    """In a stream that sessions share: the events, one by one, that a rollback of one of them takes
    back. `to_seq` is then the last seq before the first of them, and nothing else goes."""


class SessionForked(Payload):
    kind = "session.forked"
    parent: str
    at_seq: FromZero


class OutputFlagged(Payload):
    kind = "output.flagged"
    snapshot_id: str
    verdict: Literal["bad", "good"] = "bad"
    note: str = ""


class SnapshotLabelled(Payload):
    kind = "snapshot.labelled"
    snapshot_id: str
    label: str
    note: str = ""


class EventRedacted(Payload):
    """`upto` erases all of its stream up to that seq, as when a subject is erased; only the server sets it."""

    kind = "event.redacted"
    event_id: str
    reason: str = ""
    upto: FromOne | None = None


@dataclass(frozen=True, slots=True)
class UnknownPayload:
    """A payload we cannot read: a kind or schema version of a newer release, or a user's own `custom.*`."""

    kind: str
    schema_version: int
    data: JsonValue


AnyPayload = Payload | UnknownPayload

PAYLOADS: Mapping[str, type[Payload]] = {
    model.kind: model
    for model in (
        SessionStarted, RunStarted, RunEnded, InstructionSet, UserInput, AssistantOutput, ToolCalled, ToolRegistered,
        ToolRemoved, ToolResult, ToolEnvironment, PlanUpdated, ObservationRecorded, ConstraintSet, ConstraintRemoved,
        ProfileSet, ProfileUnset, BlockDefined, BlockEdited, MemoryRecorded, MemoryRevised, MemoryRetracted,
        MemoryDecided, DocumentAttached, ReferenceExpanded, MessagePinned, MessageUnpinned, AnchorMoved, SummaryCreated,
        ContextTrimmed, ContextTrimRolledBack, ContextCompiled, ContextRolledBack, SessionForked, OutputFlagged,
        SnapshotLabelled, EventRedacted,
    )
}  # fmt: skip

AUDIT_KINDS = frozenset(
    {
        "context.compiled", "context.trimmed", "context.trim_rolled_back", "anchor.moved", "output.flagged",
        "snapshot.labelled",
    }
)  # fmt: skip

UPCASTS: Mapping[tuple[str, int], Any] = {}
"""(kind, version) -> pure function from that version's payload dict to the next version's."""


# --- envelopes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """An event on its way into the log. Times are integer UTC microseconds."""

    event_id: str
    payload: AnyPayload
    occurred_at: int | None = None
    actor: str | None = None
    run_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None

    @property
    def kind(self) -> str:
        return self.payload.kind


@dataclass(frozen=True, slots=True)
class Event:
    """A fact in the log: `seq` counts 1, 2, 3 … in its stream. A redacted event has no payload."""

    event_id: str
    seq: int
    kind: str
    payload: AnyPayload | None
    recorded_at: int
    occurred_at: int | None = None
    actor: str | None = None
    run_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None

    @property
    def redacted(self) -> bool:
        return self.payload is None


def stream_of(kind: str, payload: AnyPayload) -> Literal["session", "subject", "tenant", "audit"]:
    """The stream an event belongs to when it is sent through a session."""
    if kind in AUDIT_KINDS:
        return "audit"
    if kind.startswith(("profile.", "block.")):
        return "subject"
    if kind.startswith("memory."):
        scope: Scope = getattr(payload, "scope", "subject")
        return scope
    return "session"


def dump_payload(payload: AnyPayload) -> Any:
    """The JSON value of a payload, without the fields that hold their default: what the log stores and hashes."""
    if isinstance(payload, UnknownPayload):
        return payload.data
    return payload.model_dump(exclude_defaults=True)


def read_payload(kind: str, schema_version: int, data: Any) -> AnyPayload:
    """The payload of a stored event: upcast to the current version, or kept as unknown. Never raises."""
    model = PAYLOADS.get(kind)
    if model is None or schema_version > model.schema_version:
        return UnknownPayload(kind, schema_version, data)
    try:
        for version in range(schema_version, model.schema_version):
            data = UPCASTS[kind, version](data)
        return model.model_validate(data)
    except (ValidationError, KeyError, TypeError, ValueError):
        return UnknownPayload(kind, schema_version, data)


def parse_payload(kind: str, schema_version: int, data: Any) -> AnyPayload:
    """The payload of an event that a caller sends. Raises InvalidEvent naming the field that is wrong."""
    model = PAYLOADS.get(kind)
    if model is None or schema_version > model.schema_version:
        _refuse_non_json(kind, data, "payload")
        return UnknownPayload(kind, schema_version, data)
    try:
        for version in range(schema_version, model.schema_version):
            data = UPCASTS[kind, version](data)
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(step) for step in ("payload", *first["loc"]))
        raise InvalidEvent(f"{kind}: {path}: {first['msg']}.", path=path, kind=kind) from None


def _refuse_non_json(kind: str, data: Any, path: str) -> None:
    if isinstance(data, float) and not math.isfinite(data):
        raise InvalidEvent(
            f"{kind}: {path}: NaN and Infinity are not JSON; send null or a number.", path=path, kind=kind
        )
    if isinstance(data, dict):
        for key, item in data.items():
            _refuse_non_json(kind, item, f"{path}.{key}")
    elif isinstance(data, list | tuple):
        for index, item in enumerate(data):
            _refuse_non_json(kind, item, f"{path}.{index}")
