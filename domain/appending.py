"""What is told of an event on its way in: a refusal when it says nothing, a warning when it changes nothing or lets
more go than was named. What the log holds already is never judged here.
"""

from collections.abc import Iterator

from domain.errors import InvalidEvent
from domain.events import (
    AnyPayload,
    ConstraintRemoved,
    ConstraintSet,
    InstructionSet,
    MessagePinned,
    MessageUnpinned,
    TextPart,
    ToolRemoved,
    UserInput,
)
from domain.reducers import Tables
from domain.rows import Instruction


def refuse_empty(payload: AnyPayload) -> None:
    """Raises InvalidEvent for an instruction or a rule without a word in it."""
    if isinstance(payload, InstructionSet) and not _says(payload):
        raise InvalidEvent(
            "instruction.set: payload: an instruction says at least one of role, rules, output_format, examples and"
            " text; it replaces the one before whole.",
            path="payload",
            kind=payload.kind,
        )
    if isinstance(payload, ConstraintSet) and not payload.text.strip():
        raise InvalidEvent(
            "constraint.set: payload.text: a rule needs a text; take a rule back with constraint.removed.",
            path="payload.text",
            kind=payload.kind,
        )


def _says(told: InstructionSet) -> bool:
    texts = (told.role, told.output_format, told.text, *(rule.text for rule in told.rules))
    return bool(told.examples) or any(text.strip() for text in texts)


def says_nothing(payload: AnyPayload) -> bool:
    """Whether it is a user's message without content: logs have such, and so they are only warned of."""
    return type(payload) is UserInput and all(
        isinstance(part, TextPart) and (not part.text or part.text.isspace()) for part in payload.content
    )


def warnings(tables: Tables, payload: AnyPayload) -> Iterator[str]:
    """What the caller should know of an event that was taken all the same, in the state that it meets."""
    if says_nothing(payload):
        yield "the user's message is empty: prompts show it as (empty)"
    if isinstance(payload, ConstraintRemoved) and payload.id not in tables["constraints"]:
        yield f"no rule {payload.id!r} is set in this session: nothing was removed"
    if isinstance(payload, ToolRemoved) and payload.name not in tables["tools"]:
        yield f"no tool {payload.name!r} is registered in this session: nothing was removed"
    if isinstance(payload, MessageUnpinned) and payload.event_id not in tables["pins"]:
        yield f"no message {payload.event_id!r} is pinned in this session: nothing was unpinned"
    if isinstance(payload, MessagePinned) and payload.event_id not in tables["messages"]:
        yield f"no message {payload.event_id!r} is in this session: nothing was pinned"
    if isinstance(payload, InstructionSet):
        yield from _dropped(tables["instruction"].get(""), payload)


def _dropped(before: Instruction | None, told: InstructionSet) -> Iterator[str]:
    if before is None:
        return
    core = [sum(rule.core for rule in one.rules) for one in (before, told)]
    gone = ["the role"] if before.role and not told.role else []
    gone += [f"{core[0] - core[1]} core rule{'s' * (core[0] - core[1] > 1)}"] if core[0] > core[1] else []
    if gone:
        yield f"an instruction replaces the one before whole: {' and '.join(gone)} of that one no longer hold"
