"""What an importer gives back, and the one error it raises."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Json: TypeAlias = Any
"""Whatever a foreign log holds: importers check every shape before they rely on it."""

WireEvent: TypeAlias = dict[str, Any]
"""One event as `POST /v1/sessions/{id}/events` takes it."""


class ImportFailed(ValueError):
    """A log that cannot be read at all: one sentence that names the file and, where there is one, the line."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that gives no session, and why. `quiet`: nobody would have taken it for a log (a licence, an image)."""

    path: Path
    reason: str
    format: str | None = None
    quiet: bool = False


@dataclass(slots=True)
class ImportedSession:
    """One session of a log. `events` is lazy and may be read again; `oddities` is complete once it was read through."""

    session_id: str
    source: str
    title: str | None
    path: Path
    events: Iterable[WireEvent]
    oddities: Counter[str] = field(default_factory=Counter)
    subject: str | None = None
    parent: str | None = None


class Sample(Protocol):
    """A file as the formats see it: a JSON document, lines of JSON, or a stream of server-sent events."""

    @property
    def path(self) -> Path: ...

    @property
    def kind(self) -> str: ...

    @property
    def document(self) -> Json: ...

    @property
    def head(self) -> list[Json]: ...

    @property
    def oddities(self) -> Counter[str]: ...

    def records(self, oddities: Counter[str] | None = None) -> Iterator[tuple[int, Json]]: ...


def record(value: Json) -> dict[str, Json]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Json) -> list[Json]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Json) -> str | None:
    """The value if it is a string with something in it."""
    return value if isinstance(value, str) and value else None
