"""What the server answers, as frozen values. Fields that a newer server adds are left out, not refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from promptctx._http import Call

T = TypeVar("T")


def build(kind: type[T], data: Mapping[str, Any], **more: Any) -> T:
    """A `kind` from the fields it knows."""
    known = {item.name for item in fields(kind) if item.init}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in known}, **more)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an event stands: its number in its stream, and whether the log had it already. `warnings` tell what was
    hardly meant, such as the removal of a rule that is not there."""

    event_id: str
    seq: int
    duplicate: bool = False
    stream: str = "session"
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Appended:
    """The session's head after an append, and a receipt per event."""

    head: int
    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as the log keeps it. A redacted one has no payload."""

    event_id: str
    seq: int
    kind: str
    payload: Any = None
    schema_version: int = 1
    occurred_at: str | None = None
    recorded_at: str | None = None
    actor: str | None = None
    run_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    digest: str | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list: what it said of itself, and how far it is."""

    id: str
    subject: str | None = None
    mode: str | None = None
    model: str | None = None
    title: str | None = None
    source: str | None = None
    head: int = 0
    prompts: int = 0
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt in a list: all but what it says. `zones` are tokens."""

    id: str
    version: int
    mode: str | None = None
    format: str = "openai"
    model: str | None = None
    tokens: int = 0
    budget: int | None = None
    content_hash: str | None = None
    created_at: str | None = None
    parent: str | None = None
    redacted: bool = False
    zones: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """What a restarted agent needs to go on: the six slots, the plan, the open calls, the anchors."""

    session: str
    head: int = 0
    seq: int = 0
    slots: Mapping[str, Any] = field(default_factory=dict)
    plan: Any = None
    open_calls: Any = None
    anchors: Any = None
    run: Any = None
    instruction: Any = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes in tokens, where room was short, and in `recommended` the settings that would have fitted."""

    session: str | None = None
    encodings: Sequence[str] = ()
    sessions: int = 0
    skipped: int = 0
    messages: int = 0
    roles: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] = ()
    slots: Mapping[str, Any] = field(default_factory=dict)
    prompts: Mapping[str, Any] = field(default_factory=dict)
    zones: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    recommended: Mapping[str, Any] = field(default_factory=dict)
    model_calls: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replay:
    """Whether compiling again gave the same bytes; if not, the first difference and its cause. `identical` is None for
    a prompt that was erased."""

    prompt: str
    identical: bool | None
    session: str | None = None
    version: int = 0
    verdict: str = ""
    content_hash: str | None = None
    replayed_hash: str | None = None
    first_difference: Any = None
    cause: str | None = None
    because: Mapping[str, Any] | None = None
    changes: Sequence[Mapping[str, Any]] = ()
    changed_since: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """An uploaded document. `seq` is that of its event, `size` is in bytes."""

    document_id: str
    hash: str = ""
    size: int = 0
    chunks: int = 0
    seq: int = 0


@dataclass(frozen=True, slots=True)
class JobState:
    """A compile job as the server last told it; `answer` is the prompt when it came at once."""

    id: str
    session: str
    status: str = "queued"
    prompt: str | None = None
    error: Mapping[str, Any] | None = None
    created_at: str | None = None
    finished_at: str | None = None
    request_id: str | None = None
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and the call that gets the next part."""

    items: tuple[T, ...]
    next: "Call[Page[T]] | None" = None
