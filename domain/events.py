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

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


# --- content ---------------------------------------------------------------------------------------------------------


class TextPart(Value):
    """Text."""

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
    """The session's defaults. Sent again, it changes what it names."""

    kind = "session.started"
    subject: str | None = None
    """Whom the agent serves: profile and memory are shared by this subject's sessions."""
    mode: str | None = None
    """`chat`, `tool`, `rag`, `react`, or one of your own."""
    locale: Locale | None = None
    """The language of headings."""
    model: str | None = None
    context_window: FromOne | None = None
    """Tokens of the model's window, if the server cannot know."""
    reserve_ratio: Annotated[float, Field(ge=0.15, le=0.9)] | None = None
    """The share of the window that is left for the answer."""
    task_type: Literal["code", "chat", "classify"] | None = None
    """Decides the reserve if no ratio is given: 0.4, 0.3 and 0.2."""
    time_zone: str | None = None
    """An IANA name such as `Europe/Berlin`; times are shown in it."""
    parent: str | None = None
    """The session whose agent called this one: its `block` constraints hold here too."""
    inherit: tuple[Literal["instructions", "plan"], ...] = ()
    """What else of the parent holds here."""
    title: str | None = None
    source: str | None = None
    """Where it was imported from."""


class RunStarted(Payload):
    """A loop of the agent begins."""

    kind = "run.started"
    run_id: str
    goal: str = ""
    """What the loop is for."""
    mode: str | None = None
    """The mode of its prompts."""


class RunEnded(Payload):
    """A loop of the agent is over."""

    kind = "run.ended"
    run_id: str
    status: str = "done"
    result: str = ""


class Rule(Value):
    """A sentence of the instruction."""

    text: str
    core: bool = False
    """May be said once more at the end of a prompt."""


class Example(Value):
    """One few-shot exchange."""

    user: str
    assistant: str


class InstructionSet(Payload):
    """The instruction, whole: the system anchor. Each is a new version; after the first it needs the scope `policy`."""

    kind = "instruction.set"
    role: str = ""
    rules: tuple[Rule, ...] = ()
    output_format: str = ""
    """The form that answers must have."""
    examples: tuple[Example, ...] = ()
    """Few-shot exchanges."""
    text: str = ""
    """Any constant text beside these."""


class UserInput(Payload):
    """What the user said."""

    kind = "user.input"
    content: Content = ()
    directive: bool = True
    """Whether it is the user's newest wish, which every prompt keeps word for word."""
    name: str | None = None
    """Who of several users said it."""


class Usage(Value):
    """What the provider counted."""

    input_tokens: FromZero | None = None
    output_tokens: FromZero | None = None
    cached_tokens: FromZero | None = None


class AssistantOutput(Payload):
    """What the model answered: text, calls, thinking."""

    kind = "assistant.output"
    content: Content = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    snapshot_id: str | None = None
    """The prompt that it answers."""


class ToolCalled(Payload):
    """A call emitted on its own; it joins the assistant output that `causation_id` names, else it forms one."""

    kind = "tool.called"
    call_id: str = ""
    name: str
    arguments: JsonValue = "{}"


class ToolRegistered(Payload):
    """A tool that the model may call. The same name again replaces it."""

    kind = "tool.registered"
    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """A JSON Schema."""
    required: tuple[str, ...] = ()
    """Parameters that a call must have; else those that the schema requires."""
    fields: tuple[str, ...] = ()
    """What matters in its answers, as JMESPath: kept when an answer is made smaller."""
    volatility: Literal["stable", "volatile"] = "volatile"
    """Whether its answers stay true; kept for programs, no prompt depends on it."""

    @field_validator("fields")
    @classmethod
    def _jmespath(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [rule for rule in rules if not is_rule(rule)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no JMESPath expression")
        return rules


class ToolRemoved(Payload):
    """A tool that the model may call no longer."""

    kind = "tool.removed"
    name: str


class ToolResult(Payload):
    """The answer to a call."""

    kind = "tool.result"
    call_id: str = ""
    """The call that it answers."""
    status: ResultStatus = "ok"
    content: Content = ()
    name: str | None = None
    """The tool: it finds the call where `call_id` is missing."""
    observed_at: str | None = None
    """When the tool looked, in ISO 8601."""


class EnvironmentValue(Value):
    """A value that tools share."""

    value: JsonValue
    secret: bool = False
    """Kept for the tools, never shown to a model."""


class ToolEnvironment(Payload):
    """Handles, sessions and settings that tools share, by name."""

    kind = "tool.environment"
    values: dict[str, EnvironmentValue]


class PlanStep(Value):
    """A step of a plan."""

    id: str
    text: str = ""
    tool: str | None = None
    deps: tuple[str, ...] = ()
    """Ids of steps that come first."""
    status: Literal["pending", "running", "done", "failed", "skipped"] = "pending"
    retries: FromZero = 0
    reflection: str = ""
    """What was learnt from a try."""


class PlanUpdated(Payload):
    """The plan as it now stands, whole."""

    kind = "plan.updated"
    task_id: str
    status: str = "running"
    phase: str = ""
    steps: tuple[PlanStep, ...] = ()
    current_step: str | None = None
    """The id of a step."""
    interruption: str = ""
    """Why it does not go on."""


class ObservationRecorded(Payload):
    """What came of a step."""

    kind = "observation.recorded"
    step_id: str = ""
    tool: str | None = None
    decision: str = ""
    """What was decided."""
    result: str = ""
    failed: bool = False
    facts: tuple[str, ...] = ()
    """What is worth keeping of it."""


class ConstraintSet(Payload):
    """A rule. The same id again replaces it; to lower `block` to `warn` needs the scope `policy`."""

    kind = "constraint.set"
    id: str
    level: Level = "block"
    """`block` is in every prompt, whatever the budget; `warn` is trimmed last."""
    text: str
    pattern: str | None = None
    """What it forbids, for programs that check."""
    source: str | None = None
    """Where it comes from."""


class ConstraintRemoved(Payload):
    """A rule that holds no longer; needs the scope `policy`."""

    kind = "constraint.removed"
    id: str


class ProfileSet(Payload):
    """A field of the subject's profile."""

    kind = "profile.set"
    key: str
    value: JsonValue
    category: Literal["identity", "preference"] = "preference"
    source: str | None = None
    """Where it is known from."""


class ProfileUnset(Payload):
    """A field of the profile that is gone."""

    kind = "profile.unset"
    key: str


class BlockDefined(Payload):
    """A core block: a named text of the subject that stands first in the profile."""

    kind = "block.defined"
    label: str
    text: str = ""
    limit: FromOne = 2000
    """The most characters."""
    read_only: bool = False
    """Whether agents may not edit it."""


class BlockEdited(Payload):
    """A core block's new text; of a read-only block, or over its limit, it changes nothing."""

    kind = "block.edited"
    label: str
    text: str


class _Memory(Payload):
    id: str
    text: str
    scope: Scope = "subject"
    """Who shares it: the session, the subject's sessions, or all of the tenant."""
    category: str = "fact"
    """`fact`, `preference`, `episodic`, `procedural`, `tool_failure`, `general`, or your own."""
    memory_kind: Literal["semantic", "episodic", "procedural"] = "semantic"
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    tags: tuple[str, ...] = ()
    subject: str | None = None
    """Of a fact: what it is about."""
    predicate: str | None = None
    """Of a fact: which property."""
    object: str | None = None
    """Of a fact: its value."""
    valid_from: str | None = None
    """ISO 8601."""
    valid_to: str | None = None
    """ISO 8601."""
    derived_from: tuple[str, ...] = ()
    """The events that it was made from."""

    @field_validator("valid_from", "valid_to")
    @classmethod
    def _utc(cls, told: str | None) -> str | None:
        return in_utc(told) if told else None


class MemoryRecorded(_Memory):
    """A fact about a subject: the same subject and predicate again, with another object, takes its place. It holds from
    `valid_from` until before `valid_to`; both are kept in UTC."""

    kind = "memory.recorded"
    supersedes: tuple[str, ...] = ()
    """Ids of memories that it ends."""


class MemoryRevised(_Memory):
    """A memory as it now stands, whole."""

    kind = "memory.revised"


class MemoryRetracted(Payload):
    """A memory that is over. It stays in the log."""

    kind = "memory.retracted"
    id: str
    scope: Scope = "subject"
    reason: str = ""


class MemoryDecided(Payload):
    """What was decided about something that might be worth remembering, and why: what was told (`text`) against what
    was held (`about`, which read `before`). `memory_id` is what stands for it now; a NONE writes nothing else. The
    server writes it."""

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
    """A document was uploaded; `PUT …/documents/{document}` writes it."""

    kind = "document.attached"
    document_id: str
    title: str = ""
    source: str = ""
    media_type: str = "text/plain"
    hash: str = ""
    size: FromZero = 0
    """Bytes."""
    first_line: str = ""
    chunks: tuple[Chunk, ...] = ()


class ReferenceExpanded(Payload):
    """A slice of something that was only referenced comes back into the window."""

    kind = "reference.expanded"
    reference_id: str
    """As the prompt names it."""
    start: FromZero = 0
    """The first character of the slice."""
    end: FromZero | None = None
    """The character behind the slice; without it, all that follows."""
    content: Content = ()
    """The slice itself, if the caller brings it."""


class MessagePinned(Payload):
    """A message that every prompt keeps; five at most."""

    kind = "message.pinned"
    event_id: str


class MessageUnpinned(Payload):
    """A pin is lifted."""

    kind = "message.unpinned"
    event_id: str


class AnchorMoved(Payload):
    """An anchor is another event's now; a compile writes it."""

    kind = "anchor.moved"
    anchor: Literal["system", "business"]
    from_event: str | None = None
    to_event: str | None = None
    version: FromOne
    reason: str = ""


class SummaryCreated(Payload):
    """One text that stands for several events."""

    kind = "summary.created"
    id: str
    text: str
    derived_from: tuple[str, ...]
    """The events that it stands for."""
    method: str = "extractive"
    """`extractive`, `model`, or a word of one's own."""
    model: str | None = None
    prompt_hash: str | None = None
    """Of the prompt that a model wrote it by."""
    supersedes: tuple[str, ...] = ()
    """Ids of summaries that it replaces."""


class ContextTrimmed(Payload):
    """What a trim did, unit by unit; a compile writes it."""

    kind = "context.trimmed"
    snapshot_id: str
    units: tuple[dict[str, JsonValue], ...] = ()
    rounds: FromZero = 0


class ContextTrimRolledBack(Payload):
    """A trim whose result failed a check, so that nothing of it holds; a compile writes it."""

    kind = "context.trim_rolled_back"
    snapshot_id: str
    strategy: str
    failed_check: str


class ContextCompiled(Payload):
    """A prompt was made; a compile writes it."""

    kind = "context.compiled"
    snapshot_id: str
    version: FromOne
    content_hash: str


class ContextRolledBack(Payload):
    """What came after a seq counts no longer. The log keeps it; a rollback of a rollback brings it back."""

    kind = "context.rolled_back"
    to_seq: FromZero
    """The last seq that still counts."""
    to_version: FromOne | None = None
    """The prompt that this is the end of, for the record."""
    scope: Literal["session", "memory_kept"] = "session"
    """`memory_kept` leaves what was remembered since."""
    reason: str = ""
    loosen: bool = False
    """Whether rules set since then go too; needs the scope `policy`."""
    undoes: tuple[str, ...] = ()
    """In a stream that sessions share: the events, one by one, that a rollback of one of them takes
    back. `to_seq` is then the last seq before the first of them, and nothing else goes."""


class SessionForked(Payload):
    """The first event of a session that begins with copies of another one's events."""

    kind = "session.forked"
    parent: str
    """The other session."""
    at_seq: FromZero
    """The last seq that is copied."""


class OutputFlagged(Payload):
    """A judgement on the answer that came of a prompt."""

    kind = "output.flagged"
    snapshot_id: str
    """The prompt."""
    verdict: Literal["bad", "good"] = "bad"
    note: str = ""


class SnapshotLabelled(Payload):
    """A name for a version. The one labelled `active` last is what agents get."""

    kind = "snapshot.labelled"
    snapshot_id: str
    """The prompt."""
    label: str
    note: str = ""


class EventRedacted(Payload):
    """An event's payload is erased for good, and what was derived from it."""

    kind = "event.redacted"
    event_id: str
    reason: str = ""
    upto: FromOne | None = None
    """All of its stream up to this seq, as when a subject is erased; only the server sets it."""


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
    # As `model_dump` does it, without that method's dozen options: this runs for every event.
    found: JsonValue = payload.__pydantic_serializer__.to_python(payload, exclude_defaults=True)
    return found


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
        payload: Payload = model.__pydantic_validator__.validate_python(data)
        return payload
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
