"""Chats without tools: BEAM (batches of turns), CrossWOZ (two people, in Chinese), MemoryBank (days per user)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from promptctx.importers._messages import Dialect, first_words, message_events, output_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of

BEAM, CROSSWOZ, MEMORYBANK = "beam", "crosswoz", "memorybank"
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
BEAM_DIALECT = Dialect("beam")
CROSSWOZ_DIALECT = Dialect("crosswoz")
PEOPLE = {"usr": "user", "sys": "assistant"}


# --- BEAM ------------------------------------------------------------------------------------------------------------


def beam_matches(sample: Sample) -> bool:
    first = record((items(sample.document) or [None])[0])
    return isinstance(first.get("turns"), list) and "batch_number" in first


def beam_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    batches = [record(batch) for batch in items(sample.document)]
    messages = [message for batch in batches for turn in items(batch.get("turns")) for message in items(turn)]
    if not messages:
        yield Skipped(sample.path, "no turns in it", BEAM)
        return
    said = first_words(messages)

    def make(log: Recorder) -> Iterator[WireEvent]:
        for index, message in enumerate(messages):
            # An id that is only the position is not worth an event of its own.
            fields = {key: value for key, value in record(message).items() if (key, value) != ("id", index)}
            day = _day(fields.get("time_anchor"))
            yield from message_events(log, index, fields or message, BEAM_DIALECT, at=day)

    yield imported(
        make, session=session_id(BEAM, sample.path.parent.name, short_hash(messages[:2])), source=BEAM,
        path=sample.path, title=title_of(said), locale=locale_of(said), mode="chat", known=sample.oddities,
    )  # fmt: skip


def _day(anchor: Json) -> str | None:
    """The day of an anchor such as March-12-2024, in no locale's words but English."""
    found = re.fullmatch(r"([A-Za-z]+)-(\d{1,2})-(\d{4})", anchor) if isinstance(anchor, str) else None
    if found is None or found[1].lower() not in MONTHS:
        return None
    try:
        return datetime(int(found[3]), MONTHS.index(found[1].lower()) + 1, int(found[2]), tzinfo=UTC).isoformat()
    except ValueError:
        return None


# --- CrossWOZ --------------------------------------------------------------------------------------------------------


def crosswoz_matches(sample: Sample) -> bool:
    for dialogue in record(sample.document).values():
        messages = items(record(dialogue).get("messages"))
        return bool(messages) and record(messages[0]).get("role") in ("usr", "sys")
    return False


def crosswoz_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    for name, dialogue in record(sample.document).items():
        fields = record(dialogue)
        if items(fields.get("messages")):
            yield _crosswoz_session(sample, name, fields)
        else:
            yield Skipped(sample.path, f"dialogue {name} has no messages", CROSSWOZ)


def _crosswoz_session(sample: Sample, name: str, dialogue: dict[str, Json]) -> ImportedSession:
    messages = [{**one, "role": PEOPLE.get(str(one.get("role")))} for one in map(record, dialogue["messages"])]

    def make(log: Recorder) -> Iterator[WireEvent]:
        for index, message in enumerate(messages):
            yield from message_events(log, index, message, CROSSWOZ_DIALECT)
        rest = {key: value for key, value in dialogue.items() if key != "messages"}
        yield log.event("goal", "custom.crosswoz.goal", rest)

    return imported(
        make, session=session_id(CROSSWOZ, name), source=CROSSWOZ, path=sample.path, locale="zh", mode="chat",
        title=title_of(first_words(messages)), known=sample.oddities,
    )  # fmt: skip


# --- MemoryBank ------------------------------------------------------------------------------------------------------


def memorybank_matches(sample: Sample) -> bool:
    for user in record(sample.document).values():
        days = record(record(user).get("history"))
        turns = [turn for day in days.values() for turn in items(day)]
        return bool(turns) and "query" in record(turns[0])
    return False


def memorybank_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    for name, user in record(sample.document).items():
        fields = record(user)
        if record(fields.get("history")):
            yield _memorybank_session(sample, name, fields)
        else:
            yield Skipped(sample.path, f"user {name} has no history", MEMORYBANK)


def _memorybank_session(sample: Sample, name: str, user: dict[str, Json]) -> ImportedSession:
    """One session per user over all days: the log carries the days as times."""
    history = record(user["history"])

    def make(log: Recorder) -> Iterator[WireEvent]:
        for day, turns in history.items():
            for index, turn in enumerate(map(record, items(turns))):
                asked, answered = turn.get("query"), turn.get("response")
                yield user_event(log, f"{day}.{index}.query", {"content": asked}, day, True)
                yield output_event(log, f"{day}.{index}.response", text(answered) or "", [], [], at=day)
        rest = {key: value for key, value in user.items() if key != "history"}
        yield log.event("user", "custom.memorybank.user", rest)

    words = "".join(str(turn) for turns in history.values() for turn in items(turns)[:1])
    return imported(
        make, session=session_id(MEMORYBANK, name), source=MEMORYBANK, path=sample.path, title=title_of(name),
        locale=locale_of(words), mode="chat", subject=f"memorybank:{name}", known=sample.oddities,
    )  # fmt: skip
