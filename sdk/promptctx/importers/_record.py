"""Making wire events: deterministic ids, times in UTC, and a count of everything odd on the way."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid5

from promptctx.importers._model import ImportedSession, Json, WireEvent, text

NAMESPACE = UUID("6f0a4b52-4f0e-5d0c-9c1b-1f6f3a0f7a55")
"""Never changed: every id of an imported event depends on it."""

PAYLOAD_LIMIT = 2**20
LONGEST_ID = 200

Make = Callable[["Recorder"], Iterator[WireEvent]]


def canonical(value: Json) -> str:
    """One spelling per value, in ASCII, so that lone surrogates and key order do no harm to ids."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def short_hash(value: Json) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:8]


def session_id(*parts: Json) -> str:
    """A readable, URL-safe id; what had to be cut or replaced is told apart by a hash at the end."""
    whole = "-".join(str(part) for part in parts)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", whole).strip("-.")
    # Brackets and the like are only punctuation; a lost letter (of another script, say) may be all that differs.
    if safe and len(safe) <= LONGEST_ID and not any(char.isalnum() and not char.isascii() for char in whole):
        return safe
    return f"{safe[: LONGEST_ID - 9].rstrip('-.') or 'session'}-{short_hash(whole)}"


def new_id(name: str) -> str:
    """A session's id as a server takes it for a new one: not `..`, nor what reads as SESSION@VERSION."""
    unfit = name in (".", "..") or re.search(r"@[0-9]+\Z", name)
    return f"{session_id(name)[: LONGEST_ID - 9]}-{short_hash(name)}" if unfit else name


def kind_name(value: Json) -> str:
    """A word of a foreign log as the last part of a `custom.*` kind."""
    word = re.sub(r"[^a-z0-9_]+", "_", str(value).lower()).strip("_")
    return word[:60] or "unknown"


def utc(value: Json) -> str | None:
    """A time of a log (ISO 8601, or seconds, milliseconds or microseconds of the epoch) as RFC 3339 in UTC.

    A time without a zone is taken as UTC.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            scale = next((unit for unit in (1e6, 1e3) if abs(value) > unit * 1e8), 1)
            moment = datetime.fromtimestamp(value / scale, UTC)
        else:
            return None
        return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def locale_of(sample: str) -> str:
    """zh if a good part of the text is Chinese; kana would make it Japanese."""
    letters = [char for char in sample if char.isalpha()]
    chinese = sum("\u4e00" <= char <= "\u9fff" for char in letters)
    kana = sum("\u3040" <= char <= "\u30ff" for char in letters)
    return "zh" if letters and chinese > 0.2 * len(letters) and not kana else "en"


def title_of(sample: str) -> str | None:
    """The first line of a text, short enough for a list."""
    line = next((line.strip() for line in sample.splitlines() if line.strip()), "")
    return (line if len(line) <= 100 else line[:99] + "…") or None


@dataclass(slots=True)
class Recorder:
    """The wire events of one session, and what was odd about them."""

    session: str
    oddities: Counter[str]
    instructed: bool = False
    _before: str = ""
    _open: Counter[str] = field(default_factory=Counter)
    _used: set[str] = field(default_factory=set)

    def event(
        self, position: object, kind: str, payload: Json, *, actor: str = "importer", at: Json = None,
        cause: str | None = None,
    ) -> WireEvent:  # fmt: skip
        """An event whose id follows from the session, its position in the log and its content."""
        made: WireEvent = {"kind": kind, "payload": payload, "actor": actor}
        if (moment := self._moment(at)) is not None:
            made["occurred_at"] = moment
        if cause is not None:
            made["causation_id"] = cause
        content = canonical(made)
        if len(content) > PAYLOAD_LIMIT:
            self.oddities["payloads that may be over 1 MiB"] += 1
        digest = hashlib.sha256(content.encode()).hexdigest()
        return {"event_id": str(uuid5(NAMESPACE, canonical([self.session, str(position), digest]))), **made}

    def instruction(self, position: object, said: str, at: Json = None) -> WireEvent:
        """The first system text is the session's instruction.

        A later one would replace it, and importers have no right to loosen rules: it is kept beside.
        """
        if self.instructed or not said.strip():
            self.oddities["system messages after the first" if said.strip() else "empty system messages"] += 1
            return self.event(position, "custom.import.instruction", {"text": said}, at=at)
        self.instructed = True
        return self.event(position, "instruction.set", {"text": said}, at=at)

    def called(self, call_id: str) -> None:
        if not call_id:
            self.oddities["calls without an id"] += 1
        elif call_id in self._used:
            self.oddities["call ids used again"] += 1
        self._used.add(call_id)
        self._open[call_id] += 1

    def answered(self, call_id: str) -> None:
        if self._open[call_id] > 0:
            self._open[call_id] -= 1
        else:
            self.oddities["results without a call"] += 1

    def close(self) -> None:
        if waiting := sum(self._open.values()):
            self.oddities["calls without a result"] += waiting

    def _moment(self, at: Json) -> str | None:
        if at is None:
            return None
        moment = utc(at)
        if moment is None:
            self.oddities["times that cannot be read"] += 1
            return None
        if moment < self._before:
            self.oddities["times that run backwards"] += 1
        self._before = moment
        return moment


@dataclass(slots=True)
class LazyEvents:
    """The events of a session, made anew each time they are read."""

    session: str
    started: dict[str, Json]
    make: Make
    oddities: Counter[str]
    at: Json = None
    known: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[WireEvent]:
        self.oddities.clear()
        self.oddities.update(self.known)
        recorder = Recorder(self.session, self.oddities)
        yield recorder.event("start", "session.started", self.started, at=self.at)
        yield from self.make(recorder)
        recorder.close()


def imported(
    make: Make, *, session: str, source: str, path: Path, mode: str, locale: str, title: str | None = None,
    model: Json = None, subject: str | None = None, parent: str | None = None, at: Json = None,
    known: Counter[str] | None = None,
) -> ImportedSession:  # fmt: skip
    """A session that begins with `session.started`; `known` are the oddities of its file as a whole."""
    given = {
        "source": source, "title": title, "mode": mode, "locale": locale, "model": text(model), "subject": subject,
        "parent": parent,
    }  # fmt: skip
    started = {key: value for key, value in given.items() if value is not None}
    oddities: Counter[str] = Counter(known or {})
    events = LazyEvents(session, started, make, oddities, at, Counter(known or {}))
    return ImportedSession(session, source, title, path, events, oddities, subject, parent)
