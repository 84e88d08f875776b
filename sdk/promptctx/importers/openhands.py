"""Logs of OpenHands' model calls: the whole prompt of one call, the tools it had, and the reply."""

from collections.abc import Iterator

from promptctx.importers._messages import Dialect, conversation_events, first_words, message_events
from promptctx.importers._model import ImportedSession, Sample, Skipped, WireEvent, items, record
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "openhands-call"
DIALECT = Dialect("openhands", frozenset({"provider_specific_fields"}))
TAKEN = ("messages", "tools")


def matches(sample: Sample) -> bool:
    fields = record(sample.document) if sample.kind == "document" else {}
    return {"messages", "kwargs", "response"} <= fields.keys() and isinstance(fields["messages"], list)


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    call = record(sample.document)
    messages = items(call["messages"])
    response = record(call["response"])
    said = first_words(messages)

    def make(log: Recorder) -> Iterator[WireEvent]:
        yield from conversation_events(log, messages, call.get("tools"), DIALECT)
        for index, choice in enumerate(items(response.get("choices"))):
            known = {"at": call.get("timestamp"), "model": response.get("model"), "usage": response.get("usage")}
            message = {"role": "assistant", **record(record(choice).get("message"))}
            yield from message_events(log, f"reply.{index}", message, DIALECT, **known)
        rest = {key: value for key, value in call.items() if key not in TAKEN}
        kept = {**rest, "response": {key: response[key] for key in response if key != "choices"}}
        kept["kwargs"] = {key: value for key, value in record(call["kwargs"]).items() if key != "tools"}
        yield log.event("call", "custom.openhands.call", kept)

    yield imported(
        make, session=session_id(SOURCE, stem_of(sample.path), short_hash(messages)), source=SOURCE,
        path=sample.path, title=title_of(said), locale=locale_of(said), model=response.get("model"), mode="react",
        known=sample.oddities,
    )  # fmt: skip
