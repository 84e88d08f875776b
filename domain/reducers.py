"""What each kind of event means: one small rule per kind, from the tables before it to the rows it changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain import events as ev
from domain.conversation import CONVERSATION_RULES, message_lookups
from domain.events import Event
from domain.moments import moment
from domain.rows import (
    Block,
    Constraint,
    Document,
    EnvironmentEntry,
    Instruction,
    Lookups,
    Memory,
    Notice,
    Observation,
    Pin,
    Plan,
    ProfileField,
    Refold,
    Run,
    SessionInfo,
    StoredSummary,
    Tool,
)  # fmt: skip

Tables = Mapping[str, Mapping[str, Any]]
Change = tuple[str, str, Any]
"""(table, key, row); a row of None deletes."""

MAX_PINS = 5


def session_started(tables: Tables, event: Event, told: ev.SessionStarted) -> Iterable[Change]:
    before = tables["session"].get("", SessionInfo())
    said = {name: value for name, value in told if value is not None and value != ()}
    yield "session", "", replace(before, **said)


def run_started(tables: Tables, event: Event, told: ev.RunStarted) -> Iterable[Change]:
    for key in tables["runs"]:
        yield "runs", key, None
    yield "runs", told.run_id, Run(told.run_id, told.goal, told.mode, event.seq)
    # A new run proves that nobody waits for the calls of an older one any more.
    for key, call in tables["open_calls"].items():
        if call.run_id != told.run_id and not call.dead:
            yield "open_calls", key, replace(call, dead=True)


def run_ended(tables: Tables, event: Event, told: ev.RunEnded) -> Iterable[Change]:
    ended = tables["runs"].get(told.run_id)
    yield "runs", told.run_id, None
    for key, call in tables["open_calls"].items():
        inside = call.run_id is None and ended is not None and call.seq > ended.seq
        if (call.run_id == told.run_id or inside) and not call.dead:
            yield "open_calls", key, replace(call, dead=True)


def instruction_set(tables: Tables, event: Event, told: ev.InstructionSet) -> Iterable[Change]:
    before = tables["instruction"].get("")
    yield (
        "instruction",
        "",
        Instruction(
            version=before.version + 1 if before else 1,
            event_id=event.event_id,
            seq=event.seq,
            role=told.role,
            rules=told.rules,
            output_format=told.output_format,
            examples=tuple((example.user, example.assistant) for example in told.examples),
            text=told.text,
        ),
    )


def constraint_set(tables: Tables, event: Event, told: ev.ConstraintSet) -> Iterable[Change]:
    row = Constraint(told.id, told.level, told.text, event.seq, event.event_id, told.pattern, told.source)
    yield "constraints", told.id, row


def constraint_removed(tables: Tables, event: Event, told: ev.ConstraintRemoved) -> Iterable[Change]:
    yield "constraints", told.id, None


def tool_registered(tables: Tables, event: Event, told: ev.ToolRegistered) -> Iterable[Change]:
    declared = told.parameters.get("required")
    required = told.required or (tuple(map(str, declared)) if isinstance(declared, list) else ())
    row = Tool(
        told.name, told.description, told.parameters, required, told.fields, told.volatility, event.seq, event.event_id
    )
    yield "tools", told.name, row


def tool_removed(tables: Tables, event: Event, told: ev.ToolRemoved) -> Iterable[Change]:
    yield "tools", told.name, None


def tool_environment(tables: Tables, event: Event, told: ev.ToolEnvironment) -> Iterable[Change]:
    for key, entry in told.values.items():
        yield "environment", key, EnvironmentEntry(entry.value, entry.secret, event.seq, event.event_id)


def plan_updated(tables: Tables, event: Event, told: ev.PlanUpdated) -> Iterable[Change]:
    before = tables["plan"].get("")
    if before is None or before.task_id != told.task_id:
        # Observations live with their task; the log keeps those of the old one.
        for key in tables["observations"]:
            yield "observations", key, None
    steps = told.steps or (before.steps if before and before.task_id == told.task_id else ())
    row = Plan(
        told.task_id, told.status, told.phase, steps, told.current_step, told.interruption, event.seq, event.event_id
    )
    yield "plan", "", row


def observation_recorded(tables: Tables, event: Event, told: ev.ObservationRecorded) -> Iterable[Change]:
    row = Observation(
        told.step_id, told.tool, told.decision, told.result, told.failed, told.facts, event.seq, event.event_id,
        event.recorded_at,
    )  # fmt: skip
    yield "observations", f"{event.seq:012d}", row


def profile_set(tables: Tables, event: Event, told: ev.ProfileSet) -> Iterable[Change]:
    row = ProfileField(told.key, told.value, told.category, event.seq, event.event_id, told.source)
    yield "profile", told.key, row


def profile_unset(tables: Tables, event: Event, told: ev.ProfileUnset) -> Iterable[Change]:
    yield "profile", told.key, None


def block_defined(tables: Tables, event: Event, told: ev.BlockDefined) -> Iterable[Change]:
    yield "blocks", told.label, Block(told.label, told.text, told.limit, told.read_only, event.seq, event.event_id)


def block_edited(tables: Tables, event: Event, told: ev.BlockEdited) -> Iterable[Change]:
    before = tables["blocks"].get(told.label)
    if before is None or before.read_only or len(told.text) > before.limit:
        yield _notice(tables, event, f"block.edited:{told.label}", "an edit of an unknown, read-only or full block")
    else:
        yield "blocks", told.label, replace(before, text=told.text, seq=event.seq, event_id=event.event_id)


def memory_written(tables: Tables, event: Event, told: ev.MemoryRecorded | ev.MemoryRevised) -> Iterable[Change]:
    """What is told again, by its text or by its subject and predicate, takes the place of what was held."""
    revises = isinstance(told, ev.MemoryRevised)
    held = tables["memories"].get(told.id)
    if revises and held is not None and held.closed_by is not None:
        # Somebody revised what they had read before it was taken back. It does not come back by that.
        yield _notice(tables, event, f"memory.revised:{told.id}", "a revision of a memory that had ended before")
        return
    given = told.model_dump(exclude={"supersedes"})
    row = Memory(**given, seq=event.seq, event_id=event.event_id, recorded_at=event.recorded_at)
    begins, ends = moment(told.valid_from), moment(told.valid_to)
    later = begins if begins is not None and begins > event.recorded_at else None
    past = ends is not None and ends <= event.recorded_at
    named = () if isinstance(told, ev.MemoryRevised) else told.supersedes
    for key, old in tables["memories"].items():
        again = not past and (same_fact(old, told) or (not revises and old.text == told.text and _keyless(old)))
        if key != told.id and old.closed_by is None and (key in named or again):
            yield "memories", key, replace(old, closed_by=told.id, closed_at=later)
    yield "memories", told.id, row


def same_fact(one: Any, other: Any) -> bool:
    """Whether both speak of the same subject and predicate."""
    key = (one.subject, one.predicate)
    return None not in key and key == (other.subject, other.predicate)


def _keyless(memory: Memory) -> bool:
    return memory.subject is None or memory.predicate is None


def memory_retracted(tables: Tables, event: Event, told: ev.MemoryRetracted) -> Iterable[Change]:
    if before := tables["memories"].get(told.id):
        yield "memories", told.id, replace(before, closed_by=event.event_id, closed_at=None)


def document_attached(tables: Tables, event: Event, told: ev.DocumentAttached) -> Iterable[Change]:
    row = Document(
        told.document_id, told.title, told.source, told.hash, told.size, told.first_line, event.seq, event.event_id,
        event.recorded_at,
    )  # fmt: skip
    yield "documents", told.document_id, row


def message_pinned(tables: Tables, event: Event, told: ev.MessagePinned) -> Iterable[Change]:
    if told.event_id not in tables["messages"]:
        yield _notice(tables, event, f"pin:{told.event_id}", "a pin of something that is no message of this session")
    elif told.event_id in tables["pins"] or len(tables["pins"]) < MAX_PINS:
        yield "pins", told.event_id, Pin(told.event_id, event.seq)
    else:
        yield _notice(tables, event, "pins:full", f"a pin beyond the {MAX_PINS} allowed")


def message_unpinned(tables: Tables, event: Event, told: ev.MessageUnpinned) -> Iterable[Change]:
    yield "pins", told.event_id, None


def summary_created(tables: Tables, event: Event, told: ev.SummaryCreated) -> Iterable[Change]:
    for old in told.supersedes:
        yield "summaries", old, None
    row = StoredSummary(told.id, told.text, told.derived_from, told.method, told.model, event.seq, event.event_id)
    yield "summaries", told.id, row


def rolled_back(tables: Tables, event: Event, told: ev.ContextRolledBack) -> Iterable[Change]:
    yield "refolds", str(event.seq), Refold(event.seq, told.to_seq, event.event_id)


def redacted(tables: Tables, event: Event, told: ev.EventRedacted) -> Iterable[Change]:
    yield "refolds", str(event.seq), Refold(event.seq, 0, event.event_id, erased=True)


def skipped(tables: Tables, event: Event) -> Iterable[Change]:
    """A kind or version that this release cannot read: `custom.*` is meant to be kept, the rest is worth a notice."""
    if not event.kind.startswith("custom."):
        yield _notice(
            tables, event, f"unknown:{event.kind}", f"events of kind {event.kind} are newer than this release"
        )


def _notice(tables: Tables, event: Event, key: str, text: str) -> Change:
    before = tables["notices"].get(key)
    return "notices", key, Notice(text, before.count + 1 if before else 1, event.seq)


RULES: Mapping[str, Callable[[Tables, Event, Any], Iterable[Change]]] = {
    "session.started": session_started,
    "run.started": run_started,
    "run.ended": run_ended,
    "instruction.set": instruction_set,
    "constraint.set": constraint_set,
    "constraint.removed": constraint_removed,
    "tool.registered": tool_registered,
    "tool.removed": tool_removed,
    "tool.environment": tool_environment,
    "plan.updated": plan_updated,
    "observation.recorded": observation_recorded,
    "profile.set": profile_set,
    "profile.unset": profile_unset,
    "block.defined": block_defined,
    "block.edited": block_edited,
    "memory.recorded": memory_written,
    "memory.revised": memory_written,
    "memory.retracted": memory_retracted,
    "document.attached": document_attached,
    "message.pinned": message_pinned,
    "message.unpinned": message_unpinned,
    "summary.created": summary_created,
    "context.rolled_back": rolled_back,
    "event.redacted": redacted,
    **CONVERSATION_RULES,
}


def lookups(events: Sequence[Event]) -> Lookups:
    """The rows of growing tables that the rules above may ask for."""
    pinned = {event.payload.event_id for event in events if isinstance(event.payload, ev.MessagePinned)}
    found = message_lookups(events)
    return Lookups(found.messages | pinned, found.call_ids)


def loosens(tables: Tables, payload: ev.AnyPayload) -> bool:
    """Whether an event would weaken the rules, or open what another subject keeps: both need the `policy` scope."""
    if isinstance(payload, ev.ConstraintRemoved):
        return True
    if isinstance(payload, ev.InstructionSet):
        return "" in tables["instruction"]
    if isinstance(payload, ev.SessionStarted):
        # Another subject's profile and memory would come into the prompt.
        info, begun = tables["session"].get(""), "" in tables["progress"]
        return begun and payload.subject is not None and payload.subject != (info.subject if info else None)
    if isinstance(payload, ev.ConstraintSet):
        before = tables["constraints"].get(payload.id)
        return (
            before is not None
            and (before.level, before.text) != (payload.level, payload.text)
            and (before.level == "block")
        )
    return False
