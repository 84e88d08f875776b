"""What a compile leaves behind: the prompt, the layout that the next prompt of its view carries on, and the hash."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.canonical import content_hash
from domain.freezing import Frozen
from domain.policies import Made
from domain.rendering.neutral import Neutral
from domain.summaries import SummaryLine

COMPILER = "0.1"
"""Version of the compiler, of the release that is being made: raised by the first change after a release that gives
other bytes for the same inputs. `tests/golden_histories` guards it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the history is cut and what stands for the part before it. `cut` is the seq of the first unit of the
    window; 0 means that nothing was ever cut. `kept` names units before it that are shown all the same, `shortened`
    the tokens into which units had to fit. `trims` counts the cuts made in this view, `frozen` holds the slot
    items that stay as they are for the rest of a run, and `heads` the seqs of the streams that it was made from.
    `made` holds what strategies made of messages, `removed` the units behind the cut that a policy took out, and
    `trimmed` the newest seqs that the latest trims saw."""

    cut: int = 0
    summary: tuple[SummaryLine, ...] = ()
    trims: int = 0
    kept: tuple[str, ...] = ()
    shortened: tuple[tuple[int, int], ...] = ()
    anchors: tuple[str | None, str | None] = (None, None)
    frozen: Frozen | None = None
    heads: tuple[int, ...] = ()
    made: tuple[Made, ...] = ()
    removed: tuple[int, ...] = ()
    trimmed: tuple[int, ...] = ()

    @property
    def seen(self) -> int:
        """The session's head that it was made at."""
        return self.heads[0] if self.heads else 0

    def dump(self) -> dict[str, Any]:
        return {
            "cut": self.cut,
            "summary": [line.dump() for line in self.summary],
            "trims": self.trims,
            "kept": list(self.kept),
            "shortened": [list(pair) for pair in self.shortened],
            "anchors": list(self.anchors),
            "frozen": self.frozen.dump() if self.frozen else None,
            "heads": list(self.heads),
            "made": [one.dump() for one in self.made],
            "removed": list(self.removed),
            "trimmed": list(self.trimmed),
        }

    @classmethod
    def read(cls, data: Any) -> "Layout | None":
        """The stored layout; None if there is none, or if this release cannot read it, as another wrote it: the next
        prompt is made from the log then, as the first of its view."""
        try:
            return None if data is None else cls.load(data)
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Layout":
        system, business = data["anchors"]
        lines = tuple(SummaryLine.load(line) for line in data["summary"])
        frozen = Frozen.load(data["frozen"]) if data["frozen"] else None
        return cls(
            cut=data["cut"],
            summary=lines,
            trims=data["trims"],
            kept=tuple(data["kept"]),
            shortened=tuple((seq, tokens) for seq, tokens in data["shortened"]),
            anchors=(system, business),
            frozen=frozen,
            heads=tuple(data["heads"]),
            made=tuple(Made(*one) for one in data.get("made", ())),
            removed=tuple(data.get("removed", ())),
            trimmed=tuple(data.get("trimmed", ())),
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    """A compiled prompt. `tokens` counts the rendered payload in the model's tokens, as `budget` does."""

    messages: tuple[Neutral, ...]
    payload: dict[str, Any]
    tokens: int
    budget: int
    mode: str
    model: str | None
    layout: Layout
    provenance: list[dict[str, Any]]
    report: dict[str, Any]

    @property
    def content_hash(self) -> str:
        return content_hash(self.payload)


def provenance(messages: Sequence[Neutral]) -> list[dict[str, Any]]:
    """For every message its zone and the events that made it; where its lines have events of their own, those too."""
    found: list[dict[str, Any]] = []
    for place, message in enumerate(messages):
        row: dict[str, Any] = {
            "message": place,
            "role": message.role,
            "zone": message.zone,
            "events": list(message.sources),
        }
        if message.lines:
            row["lines"] = [list(events) for events in message.lines]
        found.append(row)
    return found
