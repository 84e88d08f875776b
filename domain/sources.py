"""Context sources: where a slot's items may come from besides the read-models.

What a source returned is recorded with the snapshot, so that a replay never asks it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from domain.modes import SlotSpec
from domain.requests import SlotName


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One item of a source. `score` 0..1 ranks it in `recall`; None lets the lexical score decide.

    What was said by somebody names the `speaker`, and when in `at` (microseconds UTC); it is shown under its day, in
    the `order` it was said in, and `follows` the key of the item that it goes on from. `events` made it. `in_time`
    tells that it is of a time that the query names, `by_named` that whoever said it is named there, which its score
    counts for it.

    `through` tells over which facts it was found from what the query names, by the events that told them.

    A passage of a document names the `reference` that expands it, its `title`, and the `part` it stands in, from which
    character to before which.
    """

    key: str
    text: str
    category: str = "general"
    importance: float = 0.5
    score: float | None = None
    tags: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    at: int | None = None
    speaker: str = ""
    follows: str = ""
    order: tuple[int, ...] = ()
    in_time: bool = False
    by_named: bool = False
    through: tuple[str, ...] = ()
    reference: str = ""
    title: str = ""
    part: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What one source gave for one slot; `error` says why it gave nothing, `note` how it found what it gave. A model
    may have named `queries` to look for as well, and `ordered_by` names the one that told the order."""

    source: str
    slot: SlotName
    items: tuple[SourceItem, ...] = ()
    error: str | None = None
    note: str | None = None
    queries: tuple[str, ...] = ()
    ordered_by: str | None = None

    def dump(self) -> dict[str, Any]:
        told = [_told(item) for item in self.items]
        found = {"source": self.source, "slot": self.slot, "items": told, "error": self.error}
        more = {"note": self.note, "queries": list(self.queries), "ordered_by": self.ordered_by}
        return found | {name: value for name, value in more.items() if value}

    @classmethod
    def load(cls, data: dict[str, Any]) -> "SourceResult":
        return cls(
            data["source"], data["slot"], tuple(map(_item, data["items"])), data["error"], data.get("note"),
            tuple(data.get("queries", ())), data.get("ordered_by"),
        )  # fmt: skip


_DEFAULTS: Mapping[str, Any] = {one.name: one.default for one in fields(SourceItem)}


def _told(item: SourceItem) -> dict[str, Any]:
    return {name: value for name, default in _DEFAULTS.items() if (value := getattr(item, name)) != default}


def _item(data: dict[str, Any]) -> SourceItem:
    told: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return SourceItem(**told)


class ContextSource(Protocol):
    """Registered at run time; may do any I/O within the time limit it is given."""

    name: str

    def supports(self, slot: SlotName) -> bool: ...

    def fetch(self, query: str, spec: SlotSpec) -> Sequence[SourceItem]: ...
