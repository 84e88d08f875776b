"""What stands in paths, queries and headers, and how it is read."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Path, Query
from pydantic import Field

from domain.bounds import LARGEST
from domain.errors import InvalidEvent, InvalidRequest
from domain.requests import Format
from web.bodies import read_json_bytes

MAX_WAIT = 60
"""Seconds that a call may wait for its prompt."""

_ID = r"^[^/\x00-\x1f\x7f-\x9f]+$"
_SAID = "1 to 200 characters, no control characters, no slash; percent-encoded"

MAX_PROMPT = 200 + len("@") + 15
"""Characters of what names a prompt: its id, or SESSION@VERSION with the longest of both."""

SessionId = Annotated[str, Path(max_length=200, pattern=_ID, description=_SAID)]
DocumentId = Annotated[str, Path(max_length=200, pattern=_ID, description=_SAID)]
PromptId = Annotated[str, Path(max_length=MAX_PROMPT, pattern=_ID)]
JobId = Annotated[str, Path(max_length=200, pattern=_ID)]

Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Counted = Annotated[int, Field(ge=1, le=LARGEST)]
"""Whole numbers from 0 or from 1 on that every store holds: each that is taken is one of these, or tighter."""

Limit = Annotated[int, Query(ge=1, le=1000, description="how many at most")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before")]
Seq = Annotated[Whole, Query()]
StreamName = Annotated[
    Literal["session", "subject", "tenant", "audit"], Query(description="which of the session's streams")
]
AsFormat = Annotated[Format | None, Query(description="another format than the one compiled for")]
IfNoneMatch = Annotated[str | None, Header()]
LastEventId = Annotated[
    str | None, Header(description="sent by a reader that was cut off: the seq of the last event that it got")
]

JsonBytes = Annotated[bytes, Depends(read_json_bytes)]


def batch_in(body: dict[str, Any], expected_seq: int | None) -> tuple[list[Any], int | None]:
    """The events of an append, and the head that the caller expects: one event, or a batch under `events`."""
    if "events" not in body:
        return [body], expected_seq
    if extra := body.keys() - {"events", "expected_seq"}:
        path = min(extra)
        raise InvalidRequest(f"{path}: a batch holds `events` and `expected_seq`, no more.", path=path)
    if not isinstance(body["events"], list):
        raise InvalidEvent("events: must be a list of events.", path="events")
    expected = body.get("expected_seq")
    if expected is None:
        return body["events"], expected_seq
    if type(expected) is not int or not 0 <= expected <= LARGEST:
        raise InvalidRequest(f"expected_seq: must be a whole number from 0 to {LARGEST}.", path="expected_seq")
    return body["events"], expected


def seq_in(last_event_id: str) -> int:
    """The seq that a `Last-Event-ID` names."""
    digits = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= len(str(LARGEST))
    if not digits or int(last_event_id) > LARGEST:
        raise InvalidRequest("Last-Event-ID: must be the seq of an event.", path="Last-Event-ID")
    return int(last_event_id)


def request_in(body: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """A compile request without the seconds to wait, and these: they do not change the prompt."""
    for path, value in _numbers(body, ()):
        if not math.isfinite(value):
            told = ".".join(path)
            raise InvalidRequest(f"{told}: NaN and Infinity are not JSON; send null or a number.", path=told)
    asked = dict(body)
    wait = asked.pop("wait", None)
    if wait is None:
        return asked, 0.0
    if type(wait) not in (int, float) or not 0 <= wait <= MAX_WAIT:
        raise InvalidRequest(f"wait: must be a number of seconds from 0 to {MAX_WAIT}.", path="wait", limit=MAX_WAIT)
    return asked, float(wait)


def _numbers(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, float):
        yield path, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from _numbers(item, (*path, str(key)))


def text_type(content_type: str | None) -> str:
    """The media type of an uploaded document: Markdown or plain text. Senders that do not know send what they like."""
    kind, _, rest = (content_type or "").partition(";")
    charset = rest.lower().partition("charset=")[2].partition(";")[0].strip(' "')
    if charset not in ("", "utf-8", "utf8", "us-ascii"):
        raise InvalidRequest(f"content-type: a document is UTF-8, not {charset}.", path="content-type")
    return "text/markdown" if kind.strip().lower() in ("text/markdown", "text/x-markdown") else "text/plain"
