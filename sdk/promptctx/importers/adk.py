"""Sessions of Google's Agent Development Kit: events with parts, and what each changed in the session's state."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from promptctx.importers._content import Content, call_of
from promptctx.importers._messages import output_event, result_event, user_event
from promptctx.importers._model import ImportedSession, Json, Sample, Skipped, WireEvent, items, record, text
from promptctx.importers._record import Recorder, imported, locale_of, session_id, short_hash, title_of
from promptctx.importers.openai_chat import stem_of

SOURCE = "adk"
EVAL = "adk-eval"


def either(fields: dict[str, Json], snake: str, camel: str) -> Json:
    """A field by the name that Python or that JavaScript gives it."""
    return fields.get(snake, fields.get(camel))


def matches(sample: Sample) -> bool:
    fields = record(sample.document) if sample.kind == "document" else {}
    return isinstance(fields.get("events"), list) and bool(fields.keys() & {"app_name", "appName"})


def sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    document = record(sample.document)
    events = [record(event) for event in items(document["events"])]
    app, user = either(document, "app_name", "appName"), either(document, "user_id", "userId")
    parts = [part for event in events for part in parts_of(event)]
    said = next((str(part["text"]) for event in events if event.get("author") == "user" for part in parts_of(event)
                 if text(part.get("text"))), "")  # fmt: skip

    def make(log: Recorder) -> Iterator[WireEvent]:
        telling = Telling(log)
        for index, event in enumerate(events):
            yield from telling.event(index, event)
        rest = {key: value for key, value in document.items() if key != "events"}
        yield log.event("session", "custom.adk.session", rest)

    name = document.get("id") or f"{stem_of(sample.path)}-{short_hash(events[:2])}"
    yield imported(
        make, session=session_id(SOURCE, app, name), source=SOURCE, path=sample.path, title=title_of(said),
        locale=locale_of(said), subject=f"{app}:{user}" if text(user) else None, known=sample.oddities,
        mode="react" if any(either(part, "function_call", "functionCall") for part in parts) else "chat",
    )  # fmt: skip


def result_text(response: Json, wrap: str = "result") -> str:
    """A tool's plain result is wrapped by the framework; the model's view of it is the text inside."""
    inner = response[wrap] if isinstance(response, dict) and response.keys() == {wrap} else response
    return inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)


def parts_of(event: dict[str, Json]) -> list[dict[str, Json]]:
    return [record(part) for part in items(record(event.get("content")).get("parts"))]


@dataclass(slots=True)
class Telling:
    log: Recorder
    agent: str | None = None

    def event(self, index: int, event: dict[str, Json]) -> Iterator[WireEvent]:
        at, author, parts = event.get("timestamp"), text(event.get("author")), parts_of(event)
        answers = [found for part in parts if (found := record(either(part, "function_response", "functionResponse")))]
        others = [part for part in parts if not either(part, "function_response", "functionResponse")]
        if author not in (None, "user", "model", self.agent) and parts:
            self.agent = author
            yield self.log.event(f"{index}.agent", "custom.adk.agent", {"agent": author}, at=at)
        for place, answer in enumerate(answers):
            yield self._answer(f"{index}.{place}", answer, at)
        if others and author == "user":
            yield user_event(self.log, index, {"content": [_shown(part) for part in others]}, at, True)
        elif others:
            yield self._reply(index, others, at)
        if rest := _beside(event, bool(parts)):
            yield self.log.event(f"{index}.more", "custom.adk.event", rest, at=at)

    def _reply(self, index: int, parts: list[dict[str, Json]], at: Json) -> WireEvent:
        calls = [either(part, "function_call", "functionCall") for part in parts]
        thoughts = [{"text": str(part.get("text") or "")} for part in parts if part.get("thought") is True]
        said = [part for part, call in zip(parts, calls, strict=True) if not call and part.get("thought") is not True]
        shown: Content = [_shown(part) for part in said]
        return output_event(self.log, index, shown, [call_of(call) for call in calls if call], thoughts, at=at)

    def _answer(self, position: str, answer: dict[str, Json], at: Json) -> WireEvent:
        shown = {"content": result_text(answer.get("response")), "name": answer.get("name")}
        return result_event(self.log, position, shown, at, call_id=answer.get("id") or "")


def _shown(part: dict[str, Json]) -> dict[str, Any]:
    said = part.get("text")
    return {"type": "text", "text": said} if isinstance(said, str) else {"type": "data", "data": part}


def _beside(event: dict[str, Json], told: bool) -> dict[str, Json]:
    """What an event changed, and all of it if it says nothing else."""
    actions = {key: value for key, value in record(event.get("actions")).items() if value}
    rest = {"actions": actions} if actions else {}
    if told:
        return rest
    return {key: value for key, value in event.items() if key not in ("actions", "timestamp") and value} | rest


# --- evaluations -----------------------------------------------------------------------------------------------------


def eval_matches(sample: Sample) -> bool:
    if sample.kind != "document":
        return False
    first = record((items(sample.document) or [None])[0])
    return "eval_cases" in record(sample.document) or {"query", "expected_tool_use"} <= first.keys()


def eval_sessions(sample: Sample) -> Iterator[ImportedSession | Skipped]:
    """A case that keeps the conversation it was made of is one; a list of questions with wanted answers is none."""
    if isinstance(sample.document, list):
        yield Skipped(sample.path, "questions with wanted answers, not a conversation", EVAL)
        return
    for index, case in enumerate(map(record, items(sample.document["eval_cases"]))):
        rounds = [record(one) for one in items(case.get("conversation"))]
        if rounds:
            yield _case(sample, index, case, rounds)
        else:
            yield Skipped(sample.path, f"case {index} has no conversation", EVAL)


def _case(sample: Sample, index: int, case: dict[str, Json], rounds: list[dict[str, Json]]) -> ImportedSession:
    about = record(case.get("session_input"))
    said = next((str(part["text"]) for one in rounds for part in parts_of({"content": one.get("user_content")})
                 if text(part.get("text"))), "")  # fmt: skip

    def make(log: Recorder) -> Iterator[WireEvent]:
        telling = Telling(log)
        for number, one in enumerate(rounds):
            for place, event in enumerate(_round(one)):
                yield from telling.event(number * 10_000 + place, event)
        yield log.event("case", "custom.adk.case", {key: case[key] for key in case if key != "conversation"})

    user = about.get("user_id")
    return imported(
        make, session=session_id(EVAL, stem_of(sample.path)[:120], case.get("eval_id") or index, short_hash(rounds)),
        source=EVAL, path=sample.path, title=title_of(said), locale=locale_of(said), mode="react",
        subject=f"{about.get('app_name')}:{user}" if text(user) else None, known=sample.oddities,
    )  # fmt: skip


def _round(told: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """One question as events of a session: what was asked, what was done for it, what was answered."""
    at, between = told.get("creation_timestamp"), record(told.get("intermediate_data"))
    yield {"author": "user", "timestamp": at, "content": told.get("user_content")}
    calls = [{"function_call": call} for call in items(between.get("tool_uses"))]
    answers = [{"function_response": answer} for answer in items(between.get("tool_responses"))]
    for parts in (calls, answers, parts_of({"content": told.get("final_response")})):
        if parts:
            yield {"author": "model", "timestamp": at, "content": {"parts": parts}}
