"""The calls of a subject's memory."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from promptctx._calls import _query, _segment
from promptctx._http import Call, json_of, to_json

Json = Mapping[str, Any]
SharedBy: TypeAlias = Literal["subject", "tenant"]
_LONG_WORK = 60.0


def _subject(subject: str, *rest: str) -> str:
    return "/".join((f"/v1/subjects/{_segment('subject', subject)}", *rest))


def memories(
    subject: str, query: str | None, scope: SharedBy, closed: bool, limit: int, after: str | None, session: str | None
) -> Call[Json]:
    flag = "true" if closed else None
    asked = _query(query=query, scope=scope, closed=flag, limit=limit, after=after, session=session)
    return Call("GET", _subject(subject, "memories"), json_of, asked)


def memory(subject: str, memory_id: str, scope: SharedBy, session: str | None) -> Call[Json]:
    asked = _query(scope=scope, session=session)
    return Call("GET", _subject(subject, "memories", _segment("memory", memory_id)), json_of, asked)


def forget(subject: str, memory_id: str, reason: str, scope: SharedBy) -> Call[Json]:
    path = _subject(subject, "memories", _segment("memory", memory_id), "forget")
    return Call("POST", path, json_of, _query(scope=scope), to_json({"reason": reason}))


def care(subject: str, dry_run: bool, scope: SharedBy) -> Call[Json]:
    body = to_json({"dry_run": dry_run})
    return Call("POST", _subject(subject, "memory", "care"), json_of, _query(scope=scope), body, patience=_LONG_WORK)


def undo(subject: str, change: str, scope: SharedBy) -> Call[Json]:
    return Call("POST", _subject(subject, "memory", "undo"), json_of, _query(scope=scope), to_json({"change": change}))


def export(subject: str) -> Call[Json]:
    return Call("GET", _subject(subject, "memory"), json_of, patience=_LONG_WORK)


def restore(subject: str, data: Json) -> Call[Json]:
    return Call("POST", _subject(subject, "memory"), json_of, body=to_json(dict(data)), patience=_LONG_WORK)
