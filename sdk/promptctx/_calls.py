"""Every call of the HTTP API, written once, and what takes several calls, as steps."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2

from promptctx import errors
from promptctx._http import Call, Pause, Steps, json_of, to_json
from promptctx.values import (
    Appended,
    Document,
    EventRecord,
    JobState,
    Page,
    PromptInfo,
    Receipt,
    Replay,
    SessionInfo,
    State,
    Stats,
    build,
)

T = TypeVar("T")
_CHUNK = 1 << 16
_LONG_WORK = 300.0
_LARGEST = 2**53
"""The largest whole number that a server takes."""


def checked_id(what: str, value: object) -> str:
    """An id as the server allows it: 1 to 200 characters, no control characters, no slash. Of a prompt, it may be
    SESSION@VERSION with the longest of both."""
    longest = 200 + len("@") + 15 if what == "prompt" else 200
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        raise errors.InvalidRequest(f"A {what} id is a string of 1 to {longest} characters.")
    if "/" in value or not all(character >= " " and not "\x7f" <= character <= "\x9f" for character in value):
        raise errors.InvalidRequest(f"A {what} id holds neither control characters nor a slash.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidRequest(f"A {what} id must be valid Unicode, without lone surrogates.") from None
    return value


def _segment(what: str, value: str) -> str:
    """An id as one path segment: dots are encoded too when they alone would mean another folder."""
    checked_id(what, value)
    return "%2E" * len(value) if value in (".", "..") else quote(value, safe="")


def _session(session: str, *rest: str) -> str:
    return "/".join((f"/v1/sessions/{_segment('session', session)}", *rest))


def _prompt(prompt: str, *rest: str) -> str:
    return "/".join((f"/v1/prompts/{_segment('prompt', prompt)}", *rest))


def _query(**values: str | int | None) -> dict[str, str]:
    asked = {key.rstrip("_"): value for key, value in values.items() if value is not None}
    for key, value in asked.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise errors.InvalidRequest(f"{key}: a whole number of at most {_LARGEST}.", path=key)
    return {key: str(value) for key, value in asked.items()}


def _built(kind: type[T]) -> Callable[[httpx2.Response], T]:
    return lambda response: build(kind, json_of(response))


def _page(response: httpx2.Response, key: str, kind: type[T], following: Callable[[Any], Call[Page[T]]]) -> Page[T]:
    data = json_of(response)
    cursor = data.get("next")
    return Page(tuple(build(kind, item) for item in data[key]), None if cursor is None else following(cursor))


# --- the log ---------------------------------------------------------------------------------------------------------


def append(session: str, drafts: Sequence[Mapping[str, Any]], expected_seq: int | None = None) -> Call[Appended]:
    if len(drafts) == 1:
        body, params = to_json(drafts[0]), _query(expected_seq=expected_seq)
    else:
        expected = {} if expected_seq is None else {"expected_seq": expected_seq}
        body, params = to_json({"events": list(drafts), **expected}), {}
    ids = tuple(str(draft["event_id"]) for draft in drafts)
    return Call("POST", _session(session, "events"), _appended, params, body, event_ids=ids)


def _appended(response: httpx2.Response) -> Appended:
    data = json_of(response)
    told = [{**item, "warnings": tuple(item.get("warnings") or ())} for item in data["events"]]
    return Appended(data["head"], tuple(build(Receipt, item) for item in told))


def events(session: str, after: int = 0, *, limit: int = 200, stream: str | None = None) -> Call[Page[EventRecord]]:
    following = partial(events, session, limit=limit, stream=stream)
    read = partial(_page, key="events", kind=EventRecord, following=following)
    return Call("GET", _session(session, "events"), read, _query(after=after, limit=limit, stream=stream))


def head(session: str) -> Call[int]:
    return Call("GET", _session(session, "events"), lambda got: int(json_of(got)["head"]), _query(after=0, limit=1))


def sessions(
    after: str | None = None, *, q: str | None = None, mode: str | None = None, limit: int = 100
) -> Call[Page[SessionInfo]]:
    following = partial(sessions, q=q, mode=mode, limit=limit)
    read = partial(_page, key="sessions", kind=SessionInfo, following=following)
    return Call("GET", "/v1/sessions", read, _query(limit=limit, after=after, q=q, mode=mode))


def state(session: str) -> Call[State]:
    return Call("GET", _session(session, "state"), _built(State))


def stats(session: str | None) -> Call[Stats]:
    path = "/v1/stats" if session is None else _session(session, "stats")
    return Call("GET", path, _built(Stats), patience=_LONG_WORK)


# --- prompts ---------------------------------------------------------------------------------------------------------


def compile(session: str, request: Mapping[str, Any], wait: float = 0.0) -> Call[JobState]:
    body = to_json({**{key: value for key, value in request.items() if value is not None}, "wait": wait})
    fresh = bool(request.get("fresh"))  # asked twice, it would make two versions
    return Call("POST", _session(session, "prompts"), _compiled, body=body, repeatable=not fresh, patience=wait)


def _compiled(response: httpx2.Response) -> JobState:
    data = json_of(response)
    if response.status_code == 202:
        return build(JobState, data)
    return JobState(str(data.get("job") or ""), data["session"], "done", data["id"], answer=data)


def job(job_id: str) -> Call[JobState]:
    return Call("GET", f"/v1/jobs/{_segment('job', job_id)}", _built(JobState))


def prompt(prompt_id: str, format: str | None = None) -> Call[Mapping[str, Any]]:
    return Call("GET", _prompt(prompt_id), json_of, _query(format=format))


def dump(prompt_id: str) -> Call[Mapping[str, Any]]:
    return Call("GET", _prompt(prompt_id, "dump"), json_of)


def prompts(session: str, after: str | int | None = None, *, limit: int = 100) -> Call[Page[PromptInfo]]:
    read = partial(_page, key="prompts", kind=PromptInfo, following=partial(prompts, session, limit=limit))
    return Call("GET", _session(session, "prompts"), read, _query(limit=limit, after=after))


def replay(prompt_id: str) -> Call[Replay]:
    return Call("POST", _prompt(prompt_id, "replay"), _built(Replay))


# --- documents -------------------------------------------------------------------------------------------------------


def document(
    session: str,
    source: "str | os.PathLike[str]",
    *,
    document_id: str | None,
    title: str | None,
    origin: str | None,
) -> Call[Document]:
    """An upload. Text with a line break is text; anything else names a file, which is streamed from the disk."""
    if isinstance(source, str) and "\n" in source:
        content, shown = _utf8(source), None
        name, size, stream = f"text-{sha256(content).hexdigest()[:16]}", len(content), partial(_whole, content)
    else:
        path = Path(source)
        if not path.is_file():
            raise errors.InvalidRequest(f"There is no file {str(source)!r}; text to upload needs a line break in it.")
        name, size, stream = path.name, path.stat().st_size, partial(_read, path)
        shown = name
    kind = "text/markdown" if Path(name).suffix.lower() in (".md", ".markdown") else "text/plain"
    return Call(
        "PUT",
        _session(session, "documents", _segment("document", document_id or name)),
        _built(Document),
        _query(title=title or shown, source=origin),
        stream=stream,
        headers={"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(size)},
    )


def document_text(session: str, document_id: str, start: int, end: int | None) -> Call[str]:
    path = _session(session, "documents", _segment("document", document_id))
    return Call("GET", path, lambda response: response.content.decode(), _query(from_=start, to=end))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise errors.InvalidRequest("A document must be valid Unicode, without lone surrogates.") from None


def _whole(content: bytes) -> Iterator[bytes]:
    yield content


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


# --- what takes several calls ----------------------------------------------------------------------------------------


def finished(state: JobState, timeout: float | None) -> Steps[Mapping[str, Any]]:
    """The prompt of a job, asked for again and again until it is there."""
    started, pause = time.monotonic(), 0.005
    while state.answer is None:
        state = yield from job(state.id).ask()
        if state.status == "done" and state.prompt:
            return (yield from prompt(state.prompt).ask())
        if state.status == "failed":
            raise job_error(state)
        left = float("inf") if timeout is None else started + timeout - time.monotonic()
        if left <= 0:
            raise (yield from _too_late(state, timeout))
        yield Pause(min(pause, left))
        pause = min(pause * 1.5, 0.25)
    return state.answer


def job_error(state: JobState) -> errors.PromptctxError:
    error = state.error or {}
    message = error.get("message") or f"Compile job {state.id} failed and does not say why; see the worker's log."
    return errors.from_code(error.get("code", "error"), message, error.get("details"))


def _too_late(state: JobState, timeout: float | None) -> Steps[errors.Timeout]:
    advice = "is a worker running? `make up` starts a server with one, `python -m workers worker` one more"
    if state.status == "running":
        advice = "a worker has it: give it more time, or look into the worker's log"
    elif state.status == "queued":
        advice = (yield from _busy()) or advice
    return errors.Timeout(
        f"Compile job {state.id} of session {state.session!r} is still {state.status} after {timeout:g} s; {advice}.",
        job=state.id,
        session=state.session,
        job_status=state.status,
    )


def _busy() -> Steps[str | None]:
    """What the server says of its workers, if they are at work; None where it does not say so."""
    try:
        told = yield from Call("GET", "/v1/work", json_of, _query(limit=1)).ask()
    except errors.PromptctxError:
        return None
    if not told.get("at_work"):
        return None
    return (
        f"the workers are busy: the oldest of {told['due']} pieces of work waits {told['oldest_due_seconds']:.0f} s; "
        "wait longer, or start one more with `python -m workers worker`"
    )


def seq_of_version(session: str, version: int) -> Steps[int]:
    """The seq of the session's log that a prompt version was compiled at."""
    page: Call[Page[PromptInfo]] | None = prompts(session)
    while page:
        got = yield from page.ask()
        for item in got.items:
            if item.version == version:
                data = yield from prompt(item.id).ask()
                return _seq_in(data.get("inputs"), session)
        page = got.next
    raise errors.UnknownSnapshot(f"Session {session!r} has no prompt version {version}.", version=version)


def _seq_in(inputs: Any, session: str) -> int:
    found = inputs.get("session") if isinstance(inputs, Mapping) else None
    if isinstance(found, Mapping):
        found = found.get("seq")
    if not isinstance(found, int):
        raise errors.InvalidRequest(f"The prompt does not say at which seq of {session!r} it stands; give `to_seq`.")
    return found
