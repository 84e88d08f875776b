"""Lines of events as `promptctx export` writes them: the same events again, under the ids that they have."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from promptctx.importers._model import ImportedSession, ImportFailed, Json, Sample, Skipped, WireEvent, record, text

SOURCE = "promptctx"
ENVELOPE = (
    "event_id", "kind", "payload", "occurred_at", "actor", "run_id", "causation_id", "correlation_id", "schema_version",
)  # fmt: skip


def matches(sample: Sample) -> bool:
    first = record(sample.head[0]) if sample.kind == "lines" and sample.head else {}
    return {"session", "event_id", "kind", "payload"} <= first.keys()


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    """One per session named, in the order in which they are."""
    started: dict[str, dict[str, Json]] = {}
    for number, value in sample.records(sample.oddities):
        line = record(value)
        name = text(line.get("session"))
        if name is None or not _is_event(line):
            raise ImportFailed(f"{sample.path}, line {number}: not an event with session, event_id, kind and payload.")
        begun = record(line["payload"]) if line["kind"] == "session.started" else {}
        started[name] = begun | started.get(name, {})
    for name, about in started.items():
        yield ImportedSession(
            name, SOURCE, text(about.get("title")), sample.path, Lines(sample, name), Counter(sample.oddities),
            text(about.get("subject")), text(about.get("parent")),
        )  # fmt: skip


def _is_event(line: dict[str, Json]) -> bool:
    try:
        UUID(str(line.get("event_id")))
    except ValueError:
        return False
    return isinstance(line.get("kind"), str) and "payload" in line


class Lines:
    """The events of one session, read anew each time."""

    def __init__(self, sample: Sample, session: str) -> None:
        self.sample, self.session = sample, session

    def __iter__(self) -> Iterator[WireEvent]:
        for _, value in self.sample.records():
            line = record(value)
            if line.get("session") == self.session:
                yield {key: line[key] for key in ENVELOPE if key in line}
