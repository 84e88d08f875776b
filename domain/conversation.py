"""How the conversation folds: messages, calls paired with answers by id, units, and the business anchor.

Call ids of foreign logs repeat, are empty or are missing. Each call gets an id of its own here, so that everything
after the fold may rely on them; a healthy id is kept as it came.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain import events as ev
from domain.canonical import canonical_json, sha256_hex
from domain.events import Event
from domain.rows import (
    BusinessAnchor,
    Call,
    CallId,
    Lookups,
    Message,
    Notice,
    OpenCall,
    RecentCall,
)
from domain.text import opening

Tables = Mapping[str, Mapping[str, Any]]
Change = tuple[str, str, Any]

_HEALTHY = re.compile(r"(?!.*_\d+-\d+$)[!-~]{1,64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

KEPT_CALLS = 16
"""Recent calls that the tool state remembers."""

PREVIEW = 400
"""Characters of an answer that the tool state shows; the whole stands in the window and in the log."""


def user_input(tables: Tables, event: Event, told: ev.UserInput) -> Iterable[Change]:
    cause = tables["messages"].get(event.causation_id or "")
    # An answer to a pending call (an approval, say) stays with its call.
    unit = cause.unit if cause is not None and cause.calls else event.seq
    directive = told.directive and bool(told.content) and _may_direct(tables, event)
    yield _message(event, unit, "user", parts=told.content, name=told.name, directive=directive)
    if directive:
        before = tables["business"].get("")
        yield "business", "", BusinessAnchor(before.version + 1 if before else 1, event.event_id, event.seq)


def _may_direct(tables: Tables, event: Event) -> bool:
    """Whether the words are the user's: a tool never directs, an agent only what it called, or what has no user yet."""
    if event.actor == "tool":
        return False
    session = tables["session"].get("")
    called = session is not None and session.parent is not None
    return event.actor != "agent" or called or "" not in tables["business"]


def assistant_output(tables: Tables, event: Event, told: ev.AssistantOutput) -> Iterable[Change]:
    calls: list[Call] = []
    uses: dict[str, int] = {}
    for index, call in enumerate(told.tool_calls):
        before = uses.get(call.id, _uses(tables, call.id))
        uses[call.id] = before + 1
        made = Call(_unique(call.id, before, event.seq, index), call.name, call.arguments)
        calls.append(made)
        yield _opened(event, made, call.id, event.seq, index)
    for raw, count in uses.items():
        yield "call_ids", raw, CallId(count)
    yield _message(
        event, event.seq, "assistant", parts=told.content, calls=tuple(calls), reasoning=told.reasoning,
        model=told.model, provider=told.provider,
    )  # fmt: skip


def tool_called(tables: Tables, event: Event, told: ev.ToolCalled) -> Iterable[Change]:
    before = _uses(tables, told.call_id)
    made = Call(_unique(told.call_id, before, event.seq, 0), told.name, told.arguments)
    cause: Message | None = tables["messages"].get(event.causation_id or "")
    if cause is not None and cause.role == "assistant":
        joined = replace(cause, calls=(*cause.calls, made), also=(*cause.also, event.event_id))
        yield "messages", cause.event_id, joined
        table, key, call = _opened(event, made, told.call_id, cause.unit, len(cause.calls))
        yield table, key, replace(call, event_id=cause.event_id)  # the message that shows it
    else:
        yield _message(event, event.seq, "assistant", calls=(made,))
        yield _opened(event, made, told.call_id, event.seq, 0)
    yield "call_ids", told.call_id, CallId(before + 1)


def tool_result(tables: Tables, event: Event, told: ev.ToolResult) -> Iterable[Change]:
    call = _answered(tables["open_calls"].values(), told)
    if call is None:
        yield _message(event, event.seq, "tool", parts=told.content, status=told.status, name=told.name)
        before = tables["notices"].get("orphan")
        text = "answers came for calls that nobody made or that were answered before; they are never rendered"
        yield "notices", "orphan", Notice(text, before.count + 1 if before else 1, event.seq)
        return
    yield "open_calls", call.id, None
    yield _message(
        event, call.unit, "tool", parts=told.content, answers=call.id, status=told.status, name=call.name,
        observed_at=told.observed_at,
    )  # fmt: skip
    yield from _remembered(tables, event, told, call)


def reference_expanded(tables: Tables, event: Event, told: ev.ReferenceExpanded) -> Iterable[Change]:
    if told.content:
        yield _message(event, event.seq, "user", parts=told.content, name=told.reference_id, reference=True)


def _remembered(tables: Tables, event: Event, told: ev.ToolResult, call: OpenCall) -> Iterable[Change]:
    """The tool state keeps the newest answer per tool and arguments, and the newest few of all."""
    key = sha256_hex(canonical_json([call.name, arguments_text(call.arguments)]))[:24]
    text = " ".join(part.text for part in told.content if isinstance(part, ev.TextPart))
    yield (
        "recent_calls",
        key,
        RecentCall(
            call.name,
            told.status,
            opening(text, PREVIEW),
            event.seq,
            event.event_id,
            event.recorded_at,
            told.observed_at,
        ),
    )
    others = sorted((row.seq, old) for old, row in tables["recent_calls"].items() if old != key)
    for _, old in others[: max(0, len(others) - KEPT_CALLS + 1)]:
        yield "recent_calls", old, None


def _answered(waiting: Iterable[OpenCall], told: ev.ToolResult) -> OpenCall | None:
    """The call that an answer belongs to: the newest unit that waits for this id, in it the first call.

    An answer without an id takes the first waiting call of its tool's name, else the first of the newest unit.
    """
    open_calls = list(waiting)
    calls = [call for call in open_calls if call.raw_id == told.call_id]
    if not told.call_id:
        calls = [call for call in calls or open_calls if told.name in (None, call.name)] or calls
    if not calls:
        return None
    newest = max(call.unit for call in calls)
    return min((call for call in calls if call.unit == newest), key=lambda call: (call.index, call.seq))


def arguments_text(arguments: Any) -> str:
    """The arguments as the string that goes on the wire."""
    if isinstance(arguments, str):
        return arguments
    return canonical_json(arguments).decode()


def _uses(tables: Tables, raw_id: str) -> int:
    row: CallId | None = tables["call_ids"].get(raw_id)
    return row.uses if row else 0


def _unique(raw_id: str, uses: int, seq: int, index: int) -> str:
    """The raw id where it is healthy and new, else one of our own, which no id that is kept can look like."""
    if not uses and _HEALTHY.fullmatch(raw_id):
        return raw_id
    return f"{_UNSAFE.sub('_', raw_id[:40]) or 'call'}_{seq}-{index}"


def _opened(event: Event, call: Call, raw_id: str, unit: int, index: int) -> Change:
    row = OpenCall(call.id, raw_id, call.name, call.arguments, unit, event.seq, index, event.event_id, event.run_id)
    return "open_calls", call.id, row


def _message(event: Event, unit: int, role: Any, **given: Any) -> Change:
    row = Message(event.event_id, event.seq, unit, role, event.recorded_at, run_id=event.run_id, **given)
    return "messages", event.event_id, row


CONVERSATION_RULES: Mapping[str, Callable[[Tables, Event, Any], Iterable[Change]]] = {
    "user.input": user_input,
    "assistant.output": assistant_output,
    "tool.called": tool_called,
    "tool.result": tool_result,
    "reference.expanded": reference_expanded,
}


def message_lookups(events: Sequence[Event]) -> Lookups:
    """The messages that these events name as their cause, and the call ids they use."""
    causes = {event.causation_id for event in events if event.causation_id}
    ids: set[str] = set()
    for event in events:
        if isinstance(event.payload, ev.AssistantOutput):
            ids.update(call.id for call in event.payload.tool_calls)
        elif isinstance(event.payload, ev.ToolCalled):
            ids.add(event.payload.call_id)
    return Lookups(frozenset(causes), frozenset(ids))
