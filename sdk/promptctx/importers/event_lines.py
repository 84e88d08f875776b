"""Lines of events as `promptctx export` writes them: the same events again, under the ids that they have."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID, uuid5

from promptctx.importers._model import ImportedSession, ImportFailed, Json, Sample, Skipped, WireEvent, record, text
from promptctx.importers._record import NAMESPACE, new_id

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
        oddities, parent = Counter(sample.oddities), text(about.get("parent"))
        yield ImportedSession(
            new_id(name), SOURCE, text(about.get("title")), sample.path, Lines(sample, name, oddities), oddities,
            text(about.get("subject")), parent and new_id(parent),
        )  # fmt: skip


def _is_event(line: dict[str, Json]) -> bool:
    try:
        UUID(str(line.get("event_id")))
    except ValueError:
        return False
    return isinstance(line.get("kind"), str) and "payload" in line


class Lines:
    """The events of one session, read anew each time."""

    def __init__(self, sample: Sample, session: str, oddities: Counter[str]) -> None:
        self.sample, self.session, self.oddities = sample, session, oddities

    def __iter__(self) -> Iterator[WireEvent]:
        self.oddities.clear()
        self.oddities.update(self.sample.oddities)
        for _, value in self.sample.records():
            line = record(value)
            if line.get("session") == self.session:
                yield self._taken({key: line[key] for key in ENVELOPE if key in line})

    def _taken(self, made: WireEvent) -> WireEvent:
        """An older log may hold what servers refuse now: rules that say nothing are kept beside, ids are made anew."""
        payload = record(made["payload"])
        if _says_nothing(made["kind"], payload):
            self.oddities["rules without a text, kept beside"] += 1
            kind = f"custom.import.{made['kind'].partition('.')[0]}"
            return {**made, "kind": kind, "event_id": str(uuid5(NAMESPACE, f"{made['event_id']}/{kind}"))}
        parent = text(payload.get("parent")) if made["kind"] in ("session.started", "session.forked") else None
        return {**made, "payload": {**payload, "parent": new_id(parent)}} if parent else made


def _says_nothing(kind: Json, payload: dict[str, Json]) -> bool:
    if kind == "constraint.set":
        return not (text(payload.get("text")) or "").strip()
    if kind != "instruction.set" or payload.get("examples"):
        return False
    rules = payload.get("rules")
    said = [payload, *(record(rule) for rule in (rules if isinstance(rules, list) else ()))]
    return not any((text(one.get(key)) or "").strip() for one in said for key in ("role", "output_format", "text"))
