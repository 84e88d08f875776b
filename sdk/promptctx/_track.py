"""What a session object remembers between calls, and the drafts it sends: the sync and the async session share it."""

import json
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypedDict

import uuid_utils

from promptctx import _calls, errors
from promptctx._http import Steps
from promptctx.values import Receipt

logger = logging.getLogger("promptctx")

Draft: TypeAlias = dict[str, Any]
_NAMESPACE = uuid.UUID("6f1d6a0e-4f0b-5c57-9a2e-7d1c0a5b3e11")


class SessionOptions(TypedDict, total=False):
    """What `session.started` may say; all of it is optional."""

    subject: str
    mode: str
    locale: Literal["zh", "en"]
    model: str
    context_window: int
    reserve_ratio: float
    task_type: Literal["code", "chat", "classify"]
    time_zone: str
    parent: str
    inherit: Sequence[Literal["instructions", "plan"]]
    title: str
    source: str


class EventOptions(TypedDict, total=False):
    """What every verb takes besides its own arguments: the envelope of the event.

    `event_id` makes the verb safe to repeat across restarts; without it each call is a new event. `expected_seq`
    refuses the append when the session's head is another one.
    """

    event_id: str
    occurred_at: str | datetime
    actor: str
    run_id: str
    causation_id: str
    correlation_id: str
    expected_seq: int


def new_id() -> str:
    return str(uuid_utils.uuid7())


def refuse_unknown(given: Iterable[str], known: Iterable[str], call: str) -> None:
    """Raises TypeError, as Python does of a call without `**options`: what nobody reads would be lost in silence."""
    taken = list(known)
    for name in given:
        if name not in taken:
            near = [one for one in taken if sorted(one) == sorted(name)] or get_close_matches(name, taken, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(taken)}."
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; {hint}")


def id_of(session: str, kind: str, payload: Mapping[str, Any]) -> str:
    """The same id for the same content, so that whoever opens a session again repeats nothing."""
    text = json.dumps([session, kind, payload], sort_keys=True, separators=(",", ":"), default=str)
    return str(uuid.uuid5(_NAMESPACE, text))


def with_id(options: EventOptions) -> tuple[str, EventOptions]:
    """The event's id, made here if the caller gave none; as nobody can repeat that one, the event carries its time."""
    given = options.get("event_id")
    if given:
        return given, options
    event_id = new_id()
    return event_id, {"occurred_at": datetime.now(UTC), **options, "event_id": event_id}


def draft(
    kind: str, payload: Any, options: EventOptions, *, schema_version: int = 1, actor: str | None = None
) -> Draft:
    """An event on its way. The time is this process's clock, unless the caller gave an id and thus may repeat it."""
    made: Draft = {"kind": kind, "payload": payload, "event_id": options.get("event_id") or new_id()}
    if schema_version != 1:
        made["schema_version"] = schema_version
    when = options.get("occurred_at")
    if when is None and "event_id" not in options:
        when = datetime.now(UTC)
    envelope = {
        "occurred_at": when.isoformat() if isinstance(when, datetime) else when,
        "actor": options.get("actor", actor),
        **{key: options.get(key) for key in ("run_id", "causation_id", "correlation_id")},
    }
    return {**made, **{key: value for key, value in envelope.items() if value is not None}}


def content_draft(session: str, kind: str, payload: Mapping[str, Any]) -> Draft:
    """An event whose id is its content: without a time, so that sending it again is sending the same."""
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in payload.items()}
    return {"kind": kind, "payload": given, "event_id": id_of(session, kind, given)}


@dataclass(slots=True)
class Track:
    """Where one session object stands: the head it has seen, its run, its last prompt, what it sends first, and the
    warnings of prompts that were logged: each is once, not at every turn."""

    id: str
    first: list[Draft] = field(default_factory=list)
    seq: int = 0
    run_id: str | None = None
    prompt_id: str | None = None
    warned: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, session: str, options: SessionOptions, call: str = "session") -> "Track":
        refuse_unknown(options, SessionOptions.__annotations__, call)
        given = {key: value for key, value in options.items() if value is not None}
        first = [content_draft(session, "session.started", given)] if given else []
        return cls(_calls.checked_id("session", session), first)

    def snapshot(self, prompt: Any = None) -> str:
        """The id of the prompt that is meant: the one given (an id or a prompt), else the last of this session."""
        meant = prompt if isinstance(prompt, str) else getattr(prompt, "id", None) if prompt else self.prompt_id
        if not meant:
            raise errors.InvalidRequest("No prompt is meant: this session object has compiled none yet; name one.")
        return str(meant)

    def append(self, drafts: Sequence[Draft], expected_seq: int | None = None) -> Steps[tuple[Receipt, ...]]:
        """Send drafts, after what must stand before them; the receipts are those of `drafts`."""
        before = list(self.first)
        if not before and not drafts:
            return ()
        appended = yield from _calls.append(self.id, [*before, *drafts], expected_seq).ask()
        self.first = [one for one in self.first if one not in before]
        self.seq = max(self.seq, appended.head)
        for receipt in appended.receipts:
            for warning in receipt.warnings:
                logger.warning("event %s of %s: %s", receipt.seq, self.id, warning)
        return appended.receipts[len(before) :]

    def append_one(self, made: Draft, options: EventOptions) -> Steps[Receipt]:
        receipts = yield from self.append([made], options.get("expected_seq"))
        return receipts[0]
