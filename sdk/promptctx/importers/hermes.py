"""Sessions of Hermes: chat messages in a document that says where and when they were."""

from collections.abc import Iterator

from promptctx.importers._messages import Dialect, conversation_events, first_words
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, locale_of, session_id, title_of

SOURCE = "hermes"
DIALECT = Dialect("hermes")
USUAL_ENDS = ("stop", "tool_calls")


def matches(sample: Sample) -> bool:
    fields = record(sample.document) if sample.kind == "document" else {}
    return {"session_id", "session_start", "messages"} <= fields.keys()


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    messages = [_plain(message) for message in items(document["messages"])]
    if not messages:
        yield Skipped(sample.path, "no messages in it", SOURCE)
        return
    told, said = text(document.get("system_prompt")), first_words(messages)

    def make(log: Recorder) -> Iterator[WireEvent]:
        if told:
            yield log.instruction("system_prompt", told)
        yield from conversation_events(log, messages, document.get("tools"), DIALECT)
        rest = {key: value for key, value in document.items() if key not in ("messages", "tools", "system_prompt")}
        yield log.event("session", "custom.hermes.session", rest)

    yield imported(
        make, session=session_id(SOURCE, document["session_id"]), source=SOURCE, path=sample.path,
        title=title_of(said), locale=locale_of(said), model=document.get("model"), mode="react",
        at=document.get("session_start"), known=sample.oddities,
    )  # fmt: skip


def _plain(message: Json) -> Json:
    """A message without the usual way in which a reply ends."""
    fields = record(message)
    if fields.get("finish_reason") in USUAL_ENDS:
        return {key: value for key, value in fields.items() if key != "finish_reason"}
    return message
