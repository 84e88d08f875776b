"""The checks of a trim: what must be true of a prompt before its cuts are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.anchors import Protected
from domain.rendering.neutral import Neutral
from domain.trimming import Arrangement


@dataclass(frozen=True, slots=True)
class Built:
    """An arrangement as it would be sent; `tokens` counts the payload."""

    messages: tuple[Neutral, ...]
    payload: dict[str, Any]
    tokens: int


def failed_check(built: Built, attempt: Arrangement, protected: Protected, limit: int) -> str | None:
    """The name of the first check that the arrangement fails, or None."""
    if orphaned(built.messages):
        return "orphan"
    if not set(_units(protected)) <= {message.unit for message in built.messages}:
        return "protected"
    if any(not line.derived_from for line in attempt.summary):
        return "lineage"
    if len({unit.seq for unit in attempt.window} & {line.unit for line in attempt.summary}):
        return "accounting"
    if built.tokens > limit:
        return "budget"
    return None


def _units(protected: Protected) -> list[int]:
    return [unit.seq for unit in protected.units]


def orphaned(messages: Sequence[Neutral]) -> list[str]:
    """Ids of calls without an answer right behind them, of answers without a call, and ids that occur twice."""
    found: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.answers in waiting:
                waiting.remove(message.answers)
            else:
                found.append(message.answers or "")
            continue
        found += waiting
        waiting = [call.id for call in message.calls]
        found += [name for name in waiting if name in seen]
        seen.update(waiting)
    return found + waiting
