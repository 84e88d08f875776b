"""What the time machine looks at: prompts with their accounts, and the events that they speak of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from domain.timemachine.segments import Segment

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """An event as the log names it. `stream` is `session`, `subject`, `tenant` or `parent`; `about` is what it concerns
    in its slot, such as the id of a constraint. Of an event that a rollback hides or an erasure emptied, `gone` says
    which event did it."""

    event_id: str
    seq: int
    stream: str
    kind: str
    about: str | None = None
    gone: str | None = None

    def named(self) -> dict[str, Any]:
        return {"event_id": self.event_id, "seq": self.seq, "stream": self.stream, "kind": self.kind}


@dataclass(frozen=True)
class Chronicle:
    """The events of a session's streams that a question needs, by id and in order."""

    events: Mapping[str, Told] = field(default_factory=dict)

    def get(self, event_id: str) -> Told | None:
        return self.events.get(event_id)

    @cached_property
    def ordered(self) -> Sequence[Told]:
        return sorted(self.events.values(), key=lambda one: (one.stream, one.seq))


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a unit or item in one prompt, as its report says. `slot` is None for a unit of the history."""

    disposition: str
    reason: str
    tokens: int
    slot: str | None
    entry: Entry


@dataclass(frozen=True)
class Side:
    """One prompt. `heads` are the seqs of the streams it was compiled from, by the names that `Told` uses; `slots` are
    the settings of its slots, overrides applied."""

    name: str
    segments: Sequence[Segment]
    report: Mapping[str, Any]
    request: Mapping[str, Any]
    heads: Mapping[str, int]
    slots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    compiler: str = ""
    tokenizer: str = ""
    schema: str = ""
    version: int | None = None

    @cached_property
    def by_key(self) -> Mapping[str, Segment]:
        return {segment.key: segment for segment in self.segments}

    @cached_property
    def shown(self) -> Mapping[str, Sequence[tuple[Segment, int]]]:
        """Where each event stands: segments with the number of the line."""
        found: dict[str, list[tuple[Segment, int]]] = {}
        for segment in self.segments:
            for number, line in enumerate(segment.lines, 1):
                for event in line.events:
                    found.setdefault(event, []).append((segment, number))
        return found

    @cached_property
    def _fates(self) -> Mapping[str, Sequence[Fate]]:
        found: dict[str, list[Fate]] = {}
        for entry in self.report["units"]:
            for event in entry.get("events", ()):
                found.setdefault(event, []).append(_fate(entry, None))
        for slot, filled in self.report["slots"].items():
            for entry in filled["items"]:
                for event in entry["events"]:
                    found.setdefault(event, []).append(_fate(entry, slot))
        return found

    def fates(self, told: Told) -> Sequence[Fate]:
        """Of an event: as a unit first, then as an item. What lies before all that was looked at is told as a range."""
        if found := self._fates.get(told.event_id):
            return found
        ranges = (entry for entry in self.report["units"] if "events" not in entry)
        inside = (entry for entry in ranges if entry["from_seq"] <= told.seq <= entry["to_seq"])
        return [_fate(entry, None) for entry in inside] if told.stream == "session" else []

    def has_seen(self, told: Told) -> bool:
        return told.seq <= self.heads.get(told.stream, 0)


def _fate(entry: Entry, slot: str | None) -> Fate:
    return Fate(entry["disposition"], entry["reason"], entry["tokens"], slot, entry)
