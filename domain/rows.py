"""What a folded stream holds: one frozen row type per table.

Every row names the event that made it (`event_id`, `seq`), so that each line of a prompt leads back to the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import JsonValue, TypeAdapter

from domain.events import Level, Part, PlanStep, Reasoning, Rule

Role = Literal["user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the fold has come; `units` and `messages` count what the window ever held, `answers` names the newest
    tool answers by id, unit and seq."""

    head: int = 0
    recorded_at: int = 0
    units: int = 0
    messages: int = 0
    answers: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Refold:
    """A rollback or redaction at `seq`: what was derived before it from a head beyond `upto` is stale."""

    seq: int
    upto: int
    event_id: str = ""
    erased: bool = False


@dataclass(frozen=True, slots=True)
class SessionInfo:
    subject: str | None = None
    mode: str | None = None
    locale: str | None = None
    model: str | None = None
    context_window: int | None = None
    reserve_ratio: float | None = None
    task_type: str | None = None
    time_zone: str | None = None
    parent: str | None = None
    inherit: tuple[str, ...] = ()
    title: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    run_id: str
    goal: str
    mode: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """The system anchor; `version` counts the `instruction.set` events in force."""

    version: int
    event_id: str
    seq: int
    role: str = ""
    rules: tuple[Rule, ...] = ()
    output_format: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class BusinessAnchor:
    """The newest directive of the user."""

    version: int
    event_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Constraint:
    id: str
    level: Level
    text: str
    seq: int
    event_id: str
    pattern: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    required: tuple[str, ...]
    fields: tuple[str, ...]
    volatility: str
    seq: int
    event_id: str


@dataclass(frozen=True, slots=True)
class EnvironmentEntry:
    value: JsonValue
    secret: bool
    seq: int
    event_id: str


@dataclass(frozen=True, slots=True)
class Plan:
    task_id: str
    status: str
    phase: str
    steps: tuple[PlanStep, ...]
    current_step: str | None
    interruption: str
    seq: int
    event_id: str


@dataclass(frozen=True, slots=True)
class Observation:
    step_id: str
    tool: str | None
    decision: str
    result: str
    failed: bool
    facts: tuple[str, ...]
    seq: int
    event_id: str
    recorded_at: int


@dataclass(frozen=True, slots=True)
class RecentCall:
    """The newest answer of one tool with one set of arguments; a newer one supersedes it."""

    tool: str
    status: str
    preview: str
    seq: int
    event_id: str
    recorded_at: int
    observed_at: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as rendered: `id` is unique in the session, whatever the log said."""

    id: str
    name: str
    arguments: JsonValue


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without an answer yet; `dead` when no answer can come any more."""

    id: str
    raw_id: str
    name: str
    arguments: JsonValue
    unit: int
    seq: int
    index: int
    event_id: str
    run_id: str | None = None
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the window. `unit` is the seq of the first message of its unit.

    `answers` names the call that a tool message answers; a tool message without it is an orphan and never rendered.
    `reference` marks material that came back on request: rendered as reference, never as the user's wish.
    """

    event_id: str
    seq: int
    unit: int
    role: Role
    recorded_at: int
    parts: tuple[Part, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    status: str | None = None
    name: str | None = None
    reasoning: tuple[Reasoning, ...] = ()
    model: str | None = None
    provider: str | None = None
    run_id: str | None = None
    directive: bool = False
    reference: bool = False
    observed_at: str | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pin:
    event_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class ProfileField:
    key: str
    value: JsonValue
    category: str
    seq: int
    event_id: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    label: str
    text: str
    limit: int
    read_only: bool
    seq: int
    event_id: str


@dataclass(frozen=True, slots=True)
class Memory:
    """`closed_by` names what ended its validity: a superseding memory or a retraction; it holds until `closed_at` where
    that begins later. History is never deleted. `derived_from` are the ids of the events that it was made from."""

    id: str
    text: str
    category: str
    importance: float
    seq: int
    event_id: str
    recorded_at: int
    scope: str = "subject"
    memory_kind: Literal["semantic", "episodic", "procedural"] = "semantic"
    tags: tuple[str, ...] = ()
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    derived_from: tuple[str, ...] = ()
    closed_by: str | None = None
    closed_at: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    source: str
    hash: str
    size: int
    first_line: str
    seq: int
    event_id: str
    recorded_at: int


@dataclass(frozen=True, slots=True)
class StoredSummary:
    id: str
    text: str
    derived_from: tuple[str, ...]
    method: str
    model: str | None
    seq: int
    event_id: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the fold skipped or repaired, kept where a person can see it."""

    text: str
    count: int
    seq: int


@dataclass(frozen=True, slots=True)
class CallId:
    """How often a call id was used in the session."""

    uses: int


TABLES: Mapping[str, type[Any]] = {
    "progress": Progress,
    "refolds": Refold,
    "session": SessionInfo,
    "runs": Run,
    "instruction": Instruction,
    "business": BusinessAnchor,
    "constraints": Constraint,
    "tools": Tool,
    "environment": EnvironmentEntry,
    "plan": Plan,
    "observations": Observation,
    "recent_calls": RecentCall,
    "open_calls": OpenCall,
    "call_ids": CallId,
    "messages": Message,
    "pins": Pin,
    "profile": ProfileField,
    "blocks": Block,
    "memories": Memory,
    "documents": Document,
    "summaries": StoredSummary,
    "notices": Notice,
}

LOOKED_UP = frozenset({"call_ids", "messages"})
"""Tables that grow with the history: the projection loads single rows of them by key, never the whole."""

_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {name: TypeAdapter(row) for name, row in TABLES.items()}


def dump_row(table: str, row: Any) -> Any:
    """The JSON value of a row, without the fields that hold their default."""
    return _ADAPTERS[table].dump_python(row, exclude_defaults=True)


def load_row(table: str, data: Any) -> Any:
    """The row that `dump_row` wrote."""
    return _ADAPTERS[table].validate_python(data)


@dataclass(frozen=True, slots=True)
class Lookups:
    """Keys of the growing tables that a batch of events needs."""

    messages: frozenset[str] = field(default_factory=frozenset)
    call_ids: frozenset[str] = field(default_factory=frozenset)
