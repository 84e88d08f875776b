"""The calls of the time machine."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx2

from promptctx._calls import _page, _prompt, _query, _session
from promptctx._http import Call, json_of, to_json
from promptctx.values import Page, Replay

Json = Mapping[str, Any]
_LONG_WORK = 300.0


def replays(
    session: str | None, first: int = 1, last: int | None = None, after: str | None = None, *, limit: int = 100
) -> Call[Page[Replay]]:
    following = partial(_following, session, first, last, limit)
    read = partial(_page, key="verdicts", kind=Replay, following=following)
    if session is None:
        return Call("POST", "/v1/replays", read, _query(limit=limit, after=after), patience=_LONG_WORK)
    asked = _query(from_=first, to=last, limit=limit, after=after)
    return Call("POST", _session(session, "replays"), read, asked, patience=_LONG_WORK)


def _following(session: str | None, first: int, last: int | None, limit: int, after: str) -> Call[Page[Replay]]:
    return replays(session, first, last, after, limit=limit)


def what_if(prompt: str, changes: Json, schema: Json | None) -> Call[Json]:
    return Call("POST", _prompt(prompt, "what-if"), json_of, body=to_json(_changes(changes, schema)))


def diff(before: str, after: str | None, changes: Json | None, schema: Json | None) -> Call[Json]:
    body = {**({} if after is None else {"to": after}), **_changes(changes, schema)}
    return Call("POST", _prompt(before, "diff"), json_of, body=to_json(body))


def _changes(changes: Json | None, schema: Json | None) -> dict[str, Any]:
    told = {"set": dict(changes or {}), "schema": dict(schema or {})}
    return {name: value for name, value in told.items() if value}


def blame(prompt: str, text: str | None) -> Call[Json]:
    return Call("GET", _prompt(prompt, "blame"), json_of, _query(text=text))


def why(prompt: str, event: str | int, verify: bool) -> Call[Json]:
    asked = _query(event=str(event), verify="true" if verify else None)
    return Call("GET", _prompt(prompt, "why"), json_of, asked, patience=_LONG_WORK if verify else 0.0)


def provenance(prompt: str, line: int | None) -> Call[Json]:
    return Call("GET", _prompt(prompt, "provenance"), json_of, _query(line=line))


def bisect(session: str, text: str) -> Call[Json]:
    return Call("GET", _session(session, "bisect"), json_of, _query(text=text), patience=_LONG_WORK)


def anchors(session: str) -> Call[Json]:
    return Call("GET", _session(session, "anchors"), json_of)


def rollback_plan(session: str, to_seq: int | None, to_version: int | None, loosen: bool) -> Call[Json]:
    asked = _query(to_seq=to_seq, to_version=to_version, loosen="true" if loosen else None)
    return Call("GET", _session(session, "rollback"), json_of, asked)


def flagged(verdict: str, session: str | None) -> Call[Json]:
    return Call("GET", "/v1/flagged", json_of, _query(verdict=verdict, session=session))


def labels(session: str) -> Call[Json]:
    return Call("GET", _session(session, "labels"), json_of)


def active(session: str, format: str | None) -> Call[Json]:
    return Call("GET", _session(session, "prompts", "active"), json_of, _query(format=format))


def prune(session: str, keep_last: int, sample: int, dry_run: bool) -> Call[Json]:
    asked = _query(keep_last=keep_last, sample=sample, dry_run="true" if dry_run else None)
    return Call("POST", _session(session, "prune"), json_of, asked, patience=_LONG_WORK)


def bundle_of_prompt(prompt: str) -> Call[bytes]:
    return Call("GET", _prompt(prompt, "bundle"), _content, patience=_LONG_WORK)


def bundle_of_session(session: str) -> Call[bytes]:
    return Call("GET", _session(session, "bundle"), _content, patience=_LONG_WORK)


def restore(bundle: bytes) -> Call[Json]:
    kind = {"Content-Type": "application/x-ndjson"}
    return Call("POST", "/v1/bundles", json_of, body=bundle, headers=kind, patience=_LONG_WORK)


def _content(response: httpx2.Response) -> bytes:
    return bytes(response.content)
