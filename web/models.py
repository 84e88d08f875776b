"""What travels, described for the OpenAPI document alone: nothing is validated against these on its way.

The engine checks what comes in and shapes what goes out; a model in between could only lose a text or a field.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from domain.events import PAYLOADS, Locale
from domain.requests import Format, Overrides
from web.parameters import Counted, Whole

Time = Annotated[str, Field(description="RFC 3339, UTC", examples=["2026-01-31T09:30:00.000000Z"])]
Stream = Literal["session", "subject", "tenant", "audit"]

_PAYLOADS: dict[str, Any] = {
    "anyOf": [*({"$ref": f"#/components/schemas/{model.__name__}"} for model in PAYLOADS.values()), {"type": "object"}]
}


# --- requests --------------------------------------------------------------------------------------------------------


class NewEvent(BaseModel):
    """Something that happened. `kind` decides which payload is right; unknown kinds are stored and skipped."""

    kind: str = Field(description="as in user.input, or custom.* for your own", examples=["user.input"])
    payload: dict[str, Any] = Field(
        {},
        description="by kind: " + ", ".join(f"{kind} = {model.__name__}" for kind, model in PAYLOADS.items()),
        json_schema_extra=_PAYLOADS,
    )
    event_id: str | None = Field(None, description="a UUID, the idempotency key; the server makes one if there is none")
    schema_version: int = Field(1, ge=1, le=2**31 - 1)
    occurred_at: Time | None = Field(None, description="the producer's clock; never used for order")
    actor: str | None = Field(None, description="user, agent, tool, importer, …", max_length=200)
    run_id: str | None = Field(None, max_length=200)
    causation_id: str | None = Field(None, description="the event this one follows from, a UUID")
    correlation_id: str | None = Field(None, max_length=200)


class NewEvents(BaseModel):
    """A batch: all of it is in the log afterwards, or none."""

    events: list[NewEvent] = Field(min_length=1, max_length=10_000)
    expected_seq: Whole | None = Field(None, description="refuse unless the session's head is this")


class NewPrompt(BaseModel):
    """What to compile. Everything is optional: the session's own settings are the defaults."""

    mode: str | None = Field(None, description="chat, tool, rag, react or one of your own")
    model: str | None = None
    format: Format = "openai"
    budget: Counted | None = Field(None, description="input budget in tokens")
    window: Counted | None = Field(None, description="context window of the model; the reserve is taken off it")
    query: str | None = Field(None, description="what to recall; the newest directive if there is none")
    as_of: Time | None = Field(None, description="the moment to compile for; the newest event's if there is none")
    min_seq: Whole | None = Field(None, description="the seq that the compile must have seen")
    fresh: bool = Field(False, description="make a new version even if this one exists")
    preset: Literal["classic"] | None = None
    locale: Locale | None = None
    overrides: Overrides = Overrides()
    wait: float = Field(0, ge=0, le=60, description="seconds to wait for the prompt; 0 answers with the job at once")


# --- answers ---------------------------------------------------------------------------------------------------------


class Problem(BaseModel):
    """A refusal (RFC 9457). `code` is for programs, `detail` is a sentence that says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    details: dict[str, Any]
    request_id: str = Field(description="the same as in the header X-Request-Id and in the server's log")


class Receipt(BaseModel):
    event_id: str
    seq: int = Field(description="the event's number in its stream")
    stream: Stream
    duplicate: bool = Field(description="the log had it already")
    redacted: bool | None = Field(None, description="true if it was erased meanwhile; it was not stored again")
    warnings: list[str] | None = Field(
        None, description="what was hardly meant: a removal of what is not there, core rules that an instruction drops"
    )


class Appended(BaseModel):
    session: str
    head: int = Field(description="the session's newest seq")
    events: list[Receipt] = Field(description="in the order they were sent")


class SessionInfo(BaseModel):
    id: str
    subject: str | None
    mode: str | None
    model: str | None
    title: str | None
    source: str | None
    head: int
    prompts: int
    created_at: Time
    updated_at: Time


class Sessions(BaseModel):
    """Newest first."""

    sessions: list[SessionInfo]
    next: str | None = Field(description="send it as `after` for the next page; null on the last")


class EventRecord(BaseModel):
    """An event as the log keeps it. A redacted one has no payload."""

    event_id: str
    seq: int
    kind: str
    schema_version: int
    payload: Any
    occurred_at: Time | None
    recorded_at: Time
    actor: str | None
    run_id: str | None
    causation_id: str | None
    correlation_id: str | None
    digest: str = Field(description="SHA-256 over the previous digest and this event")
    redacted: bool


class Events(BaseModel):
    events: list[EventRecord]
    head: int
    next: int | None = Field(description="send it as `after` for the next page; null on the last")


class State(BaseModel):
    """What a restarted agent needs to go on."""

    session: str
    head: int
    seq: int = Field(description="the seq that this state stands at")
    slots: dict[str, Any] = Field(description="constraints, planner, task_memory, tool_state, profile, recall")
    plan: Any
    open_calls: Any = Field(description="calls that no result answered yet")
    anchors: Any = Field(description="the protected events: system and business anchor, pins")
    run: Any
    instruction: Any


class JobError(BaseModel):
    code: str
    message: str
    details: dict[str, Any]


class Job(BaseModel):
    """A compile on its way. When it is done, `prompt` names what it made."""

    id: str
    session: str
    status: Literal["queued", "running", "done", "failed"]
    prompt: str | None
    error: JobError | None
    created_at: Time
    finished_at: Time | None
    request_id: str | None = Field(description="of the request that asked for it; the workers' log lines have it too")


class PromptInfo(BaseModel):
    id: str
    version: int
    mode: str
    format: Format
    model: str | None
    tokens: int
    budget: int
    zones: dict[str, int] = Field(description="tokens of its zones, as its encoding counts them")
    content_hash: str
    created_at: Time
    parent: str | None


class Prompts(BaseModel):
    prompts: list[PromptInfo]
    next: str | None = Field(description="send it as `after` for the next page; null on the last")


class Prompt(PromptInfo):
    """A compiled prompt, which never changes.

    `payload` by format: openai `{messages, tools?}`, anthropic `{system?, messages, tools?}`, text `{text}`.
    """

    session: str
    payload: dict[str, Any]
    request: dict[str, Any] = Field(description="all that was asked, defaults filled in")
    inputs: dict[str, Any] = Field(description="the seq of every stream read, versions and hashes of the rest")
    provenance: list[dict[str, Any]] = Field(description="for every message, the events that made it")
    report: dict[str, Any]
    derived: bool = Field(description="rendered on request in another format than the one compiled for")


class Dump(Prompt):
    """All that is stored of a prompt, secrets masked as they are in the prompt."""

    messages: list[dict[str, Any]] = Field(description="before they are rendered for a format")
    tools: list[dict[str, Any]]
    layout: dict[str, Any] = Field(description="what the next prompt of its view carries on")


class Report(BaseModel):
    """Where every unit and item went, by which rule; the sums close."""

    budget: int
    tokens: int
    mode: str
    counting: dict[str, Any]
    zones: dict[str, int]
    floor: dict[str, int]
    slots: dict[str, Any]
    units: list[dict[str, Any]]
    ledger: dict[str, Any]
    trim: dict[str, Any]
    rolled_back: list[dict[str, Any]] = Field([], description="what rollbacks hid since the prompt before")
    warnings: list[str]


class Replay(BaseModel):
    """The verdict on one prompt: compiled again, are the bytes the same, and if not, what made them differ."""

    prompt: str
    session: str
    version: int
    verdict: Literal["identical", "different", "redacted"]
    identical: bool | None
    content_hash: str | None = None
    replayed_hash: str | None = None
    first_difference: dict[str, Any] | None = Field(None, description="path, segment, zone, line, and both texts")
    cause: str | None
    because: dict[str, Any] | None = Field(
        None, description="`kind`: redaction, storage, compiler, schema, tokenizer, config, sources or code"
    )
    changes: list[dict[str, Any]] = Field([], description="the diff from the stored prompt to the replayed one")
    changed_since: list[dict[str, Any]] = Field([], description="what a new compile would be under, if it is another")


class Replays(BaseModel):
    """A page of verdicts, by session and version."""

    verdicts: list[Replay]
    identical: int
    different: int
    redacted: int
    next: str | None = Field(description="send it as `after` for the next page; null on the last")


class Change(BaseModel):
    """A what-if."""

    set: dict[str, Any] = Field(
        {},
        description="fields of a compile request, dotted: budget, slots.recall.top_k …; or summariser: a strategy",
    )
    schema_: dict[str, Any] = Field({}, alias="schema", description="modes of your own by name, as in modes.toml")


class Against(Change):
    to: str | None = Field(None, description="the other prompt; the same one, changed, if there is none")


class Diff(BaseModel):
    """What came, went, moved and changed between two prompts."""

    before: dict[str, Any]
    after: dict[str, Any]
    identical: bool
    request: list[dict[str, Any]] = Field(description="what was asked or set differently")
    zones: list[dict[str, Any]] = Field(description="tokens by zone, where they differ")
    changes: list[dict[str, Any]] = Field(description="by segment, with lines, words, and the cause of each")


class WhatIf(BaseModel):
    prompt: str
    session: str
    version: int
    set: dict[str, Any]
    schema_: dict[str, Any] = Field(alias="schema")
    identical: bool
    would: dict[str, Any] = Field(description="the prompt that it would have been")
    diff: Diff


class Blame(BaseModel):
    prompt: str
    session: str
    version: int
    lines: list[dict[str, Any]] = Field(description="line, segment, zone, text, by, events")


class Why(BaseModel):
    """Where an event went, and the rule and the numbers that decided it."""

    prompt: str
    session: str
    version: int
    event: dict[str, Any]
    disposition: str = Field(
        description="included, summarized, referenced, dropped; later, hidden, redacted, superseded or unseen"
    )
    reason: str
    sentence: str
    numbers: dict[str, Any]
    where: list[dict[str, Any]]
    kept_by: dict[str, Any] = Field(description="what would have kept it, as `set` of a what-if")
    by: dict[str, Any] | None
    decided_by: dict[str, Any] | None = Field(None, description="the version that cut it out, if an earlier one did")
    verified: dict[str, Any] | None = Field(None, description="what was tried and kept it")
    decisions: list[dict[str, Any]] | None = Field(None, description="of a memory, what was decided about it")


class Provenance(BaseModel):
    prompt: str
    session: str
    version: int
    summaries: list[dict[str, Any]] = Field(description="each line of a summary with its originals")


class Bisect(BaseModel):
    session: str
    text: str
    versions: int
    appeared: dict[str, Any] | None
    vanished: dict[str, Any] | None
    turns: list[dict[str, Any]]


class RollbackPlan(BaseModel):
    """What a rollback would do."""

    session: str
    head: int
    to_seq: int
    to_version: int | None
    hides: list[dict[str, Any]] = Field(description="events that would no longer be in force")
    returns: list[int] = Field(description="seqs that would be in force again: it goes back behind a rollback")
    stays: list[dict[str, Any]] = Field(description="events behind the seq that stay: rules only tighten")
    versions_after: list[int]
    takes_back: list[dict[str, Any]] = Field(description="what the session wrote into shared memory since")
    conflicts: list[dict[str, Any]] = Field(description="what stays there, since something newer is about the same")


class Flagged(BaseModel):
    flagged: list[dict[str, Any]] = Field(description="prompt, session, version, verdict, note, flagged_at, by, labels")


class Labels(BaseModel):
    session: str
    marked: list[dict[str, Any]] = Field(description="prompt, version, labels with their notes, verdict, note")


class Pruned(BaseModel):
    session: str
    versions: int
    pruned: int
    proved: int = Field(description="how many were rebuilt to the byte before any went")
    bytes: int
    dry_run: bool


class Restored(BaseModel):
    """What of a bundle was new."""

    session: str
    prompt: str | None
    streams: int
    events: int
    documents: int
    prompts: int


class Anchors(BaseModel):
    session: str
    anchors: list[dict[str, Any]] = Field(
        description="state, version, seq, text, and the unified diff to the one before"
    )


LONGEST_REASON = 1000


class Memories(BaseModel):
    subject: str
    scope: Literal["subject", "tenant"]
    memories: list[dict[str, Any]] = Field(
        description="id, text, category, subject, predicate, object, validity, `current`; `explained` for a query"
    )
    head: Whole
    next: str | None


class MemoryHistory(BaseModel):
    subject: str
    memory: dict[str, Any] | None = Field(description="as it stands; null when a rollback or an erasure took it away")
    history: list[dict[str, Any]] = Field(description="its events, oldest first, decisions among them")
    sources: list[dict[str, Any]] = Field(description="the events that it was made from")


class Forget(BaseModel):
    reason: str = Field("", max_length=LONGEST_REASON)


class Forgotten(BaseModel):
    subject: str
    memory: str
    change: str | None = Field(description="what `undo` takes; null when it had ended before")


class Care(BaseModel):
    dry_run: bool = Field(True, description="only tell what would be done")


class Cared(BaseModel):
    subject: str
    dry_run: bool
    change: str | None = Field(description="what `undo` takes; null when nothing was done")
    steps: list[dict[str, Any]] = Field(description="`merge` or `retire`, the memories and the reason")


class Undo(BaseModel):
    change: str = Field(description="as care, forget or an import gave it, or the id of an event", max_length=100)


class Undone(BaseModel):
    subject: str
    change: str | None = Field(description="by which this can be taken back; null when nothing was to be undone")
    takes_back: list[dict[str, Any]]
    conflicts: list[dict[str, Any]] = Field(description="what stays since a newer event is about it")


class MemoryExport(BaseModel):
    format: Literal["promptctx-memory/1"]
    subject: str = ""
    head: Whole = 0
    memories: list[dict[str, Any]]
    profile: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []


class MemoryImported(BaseModel):
    subject: str
    change: str | None
    events: Whole
    decisions: list[dict[str, Any]] = Field(description="act, reason, text and memory of each")


class Document(BaseModel):
    document_id: str
    hash: str = Field(description="SHA-256 of the bytes")
    size: int
    chunks: int
    seq: int


class Distribution(BaseModel):
    """How sizes in tokens are spread."""

    count: int
    tokens: int = Field(description="the sum")
    mean: float
    median: float
    p95: int
    peak: int
    long_tail: float = Field(description="the share of all tokens that is in the largest 5 % of the items")
    histogram: list[dict[str, int]] = Field(description="how many are at most `to`, and larger than the step before")


class ModelCalls(BaseModel):
    """What models were asked for summaries and the like, and what that cost."""

    calls: int
    tokens_in: int
    tokens_out: int
    failed: dict[str, int] = Field(description="calls that gave nothing of use, by reason")


class Stats(BaseModel):
    """Statistics before tuning."""

    session: str | None = Field(description="null for all sessions")
    encodings: list[str] = Field(description="what the messages were counted in")
    sessions: int
    skipped: int = Field(description="sessions whose log cannot be folded")
    messages: int
    roles: dict[str, Distribution] = Field(description="user, assistant, tool")
    tools: list[dict[str, Any]] = Field(description="of each tool's results; those that cost most come first")
    slots: dict[str, dict[str, Any]] = Field(
        description="items offered; per prompt what the slot wanted and used; `over`: prompts where it wanted more"
    )
    prompts: dict[str, Any] = Field(description="sizes, how full, the share that trimmed, prefix reuse in a view")
    zones: dict[str, dict[str, Any]] = Field(description="sizes, share, and `over`: prompts where it was short of room")
    outputs: Distribution = Field(description="what answers took, as their providers said")
    recommended: dict[str, Any] = Field(description="settings that would have fitted; null where too little was seen")
    model_calls: ModelCalls


class ParkedWork(BaseModel):
    """Work that stopped at an error and waits for an operator."""

    stream: str = Field(description="such as session/s-1")
    kind: str = Field(description="project, compile, summarize, maintenance or index")
    parked_at: str
    reason: str
    seq: int | None = Field(description="of the event that stopped it")


class Work(BaseModel):
    """The backlog of a tenant."""

    due: int = Field(description="pieces of work that wait for a worker")
    oldest_due_seconds: float = Field(description="how long the oldest of them waits; if it grows, nobody works")
    open: int = Field(description="all that is not done: due, at work, or in a pause after a failure")
    at_work: int = Field(description="what a worker has in hand")
    failing: int = Field(description="what failed and will be tried again by itself")
    parked: int = Field(description="what stopped at an error and waits for an operator")
    streams: list[ParkedWork] = Field(description="what is parked, the longest first")


class Retried(BaseModel):
    retried: int = Field(description="pieces of work that are due again")


class Health(BaseModel):
    status: Literal["ok"]


class Ready(BaseModel):
    """The server can do its work."""

    status: Literal["ok"]
    store: str = Field(description="sqlite or postgresql")
    revision: str = Field(description="of the tables")
    lag: int = Field(description="events that are in the log and not in the read-models yet")
    due: int = Field(description="pieces of work that wait for a worker")
    oldest_due_seconds: float = Field(description="how long the oldest of them waits; if it grows, nobody works")
    open: int = Field(description="all that is not done: due, at work, or in a pause after a failure")
    at_work: int = Field(description="what a worker has in hand")
    failing: int = Field(description="what failed and will be tried again by itself")
    parked: int = Field(description="streams whose work stopped at an error and waits for an operator")


REQUESTS: tuple[type[BaseModel], ...] = (
    NewEvent, NewEvents, NewPrompt, Change, Against, Problem, Forget, Care, Undo, MemoryExport, *PAYLOADS.values(),
)  # fmt: skip
"""Models that no endpoint names as its answer: the document gets their schemas from here."""
