"""Context sources: where a slot's items may come from besides the read-models.

What a source returned is recorded with the snapshot, so that a replay never asks it again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from domain.modes import SlotSpec
from domain.requests import SlotName


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One item of a source. `score` 0..1 ranks it in `recall`; None lets the lexical score decide."""

    key: str
    text: str
    category: str = "general"
    importance: float = 0.5
    score: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What one source gave for one slot; `error` says why it gave nothing."""

    source: str
    slot: SlotName
    items: tuple[SourceItem, ...] = ()
    error: str | None = None

    def dump(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def load(cls, data: dict[str, Any]) -> "SourceResult":
        items = tuple(SourceItem(**{**item, "tags": tuple(item["tags"])}) for item in data["items"])
        return cls(data["source"], data["slot"], items, data["error"])


class ContextSource(Protocol):
    """Registered at run time; may do any I/O within the time limit it is given."""

    name: str

    def supports(self, slot: SlotName) -> bool: ...

    def fetch(self, query: str, spec: SlotSpec) -> Sequence[SourceItem]: ...
