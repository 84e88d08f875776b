"""A server in the process, for tests of agents: `Client(transport=FakeServer())`.

The log's rules are the real ones: numbering per stream, the same id again, `expected_seq`, rollbacks and forks.
Payloads are hardly checked, and nothing is trimmed: a prompt is the whole history as chat messages, and a token is four
characters of JSON. The time machine diffs two prompts, says why an event is in one, replays, plans a rollback, and
knows flags and labels; what needs a compiler or memory says that it is not in the fake.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import unquote

import httpx2

from promptctx import errors
from promptctx._fake import Json, answer, digest_of, message, paged, render, stats, stream_of
from promptctx._fake_history import TimeMachine, lacking
from promptctx._fake_past import ROLLBACK, in_force, report
from promptctx._fake_rules import judged, refuse_empty, refuse_name, refuse_request, warnings

_NOW = "2026-01-01T00:00:00Z"
_SLOTS = ("constraints", "planner", "task_memory", "tool_state", "profile", "recall")


class FakeServer(TimeMachine, httpx2.MockTransport):
    """A server for `Client(transport=…)` and `AsyncClient(transport=…)`: real rules, untrimmed prompts.

    Each of `faults` is raised or answered in place of one request's work; `worker=False` finishes no job. `requests`
    holds what it was asked.
    """

    def __init__(self, *, worker: bool = True) -> None:
        TimeMachine.__init__(self)
        httpx2.MockTransport.__init__(self, self._handle)
        self.worker = worker
        self.faults: list[Exception | httpx2.Response | None] = []
        self.requests: list[httpx2.Request] = []
        self.jobs: dict[str, Json] = {}
        self._known: dict[str, tuple[str, Json]] = {}

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return fault
        try:
            return self._route(request)
        except errors.PromptctxError as error:
            told = {"detail": error.message, "code": error.code, "details": dict(error.details)}
            return answer({"title": type(error).__name__, "status": error.status, **told}, error.status)

    def _route(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        for method, pattern, act in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == request.method:
                return act(self, request, *map(unquote, filter(None, found.groups())))
        if not re.fullmatch(_BEYOND, path):
            told = f"There is no {path} here; docs/api.md lists what there is."
            return answer({"title": "Not found", "status": 404, "code": "not_found", "detail": told}, 404)
        raise lacking(
            f"{request.method} {path} is not in the fake: test this against a server, as `make up` starts one."
        )

    def _append(self, request: httpx2.Request, session: str) -> httpx2.Response:
        body = json.loads(request.content)
        drafts: list[Json] = body.get("events", [body])
        expected = body.get("expected_seq", request.url.params.get("expected_seq"))
        known, head = [self._lookup(draft) for draft in drafts], len(self.events(session))
        if expected is not None and int(expected) != head and not all(known):
            raise errors.ConcurrencyConflict(f"Session {session!r} is at {head}, not at {expected}.", head=head)
        for draft in drafts:
            refuse_empty(draft)
        if not head:
            refuse_name(session)
        self._allow(session, [draft for draft, receipt in zip(drafts, known, strict=True) if not receipt])
        self.started.setdefault(session, {})
        receipts = [self._add(session, draft) for draft in drafts]
        return answer({"session": session, "head": len(self.events(session)), "events": receipts}, 201)

    def _lookup(self, draft: Json) -> Json | None:
        if not isinstance(draft.get("kind"), str) or "payload" not in draft:
            raise errors.InvalidEvent("An event needs a kind and a payload.", path="kind")
        digest, receipt = self._known.get(draft.get("event_id", ""), ("", None))
        if receipt and digest != digest_of([draft["kind"], draft["payload"]]):
            raise errors.EventConflict(f"Event {draft['event_id']} is in the log with other content.", **receipt)
        return receipt

    def _add(self, session: str, draft: Json) -> Json:
        if found := self._lookup(draft):
            return {**found, "duplicate": True}
        if draft["kind"] == "session.started":
            self.started[session] |= draft["payload"]
        if draft["kind"] == "session.forked":
            self._fork(session, draft["payload"])
        stream = stream_of(draft)
        events = self.events(session, stream)
        told = list(warnings(in_force(events), draft)) if judged(draft["kind"]) else []
        event_id, seq = draft.get("event_id") or f"event-{len(self._known) + 1}", len(events) + 1
        digest = digest_of([draft["kind"], draft["payload"]])
        events.append({**draft, "event_id": event_id, "seq": seq, "recorded_at": _NOW, "digest": digest})
        if stream in ("subject", "tenant"):
            self._origins[stream, self._name(session, stream), seq] = (session, len(self.events(session)))
        receipt: Json = {"event_id": event_id, "seq": seq, "stream": stream}
        if draft["kind"] == ROLLBACK and draft["payload"].get("scope") != "memory_kept":
            receipt |= {"takes_back": [], "conflicts": []}
        self._known[event_id] = digest, receipt
        return {**receipt, "duplicate": False, **({"warnings": told} if told else {})}

    def _events(self, request: httpx2.Request, session: str) -> httpx2.Response:
        asked, rows = request.url.params, self.events(self._there(session), request.url.params.get("stream", "session"))
        after, limit = int(asked.get("after", 0)), int(asked.get("limit", 200))
        more = after + limit if after + limit < len(rows) else None
        return answer({"events": rows[after : after + limit], "head": len(rows), "next": more})

    def _sessions(self, request: httpx2.Request) -> httpx2.Response:
        about = ("subject", "mode", "model", "title", "source")
        rows: list[Json] = [
            {
                "id": name, **{key: started.get(key) for key in about}, "head": len(self.events(name)),
                "prompts": len(self._of(name)), "created_at": _NOW, "updated_at": _NOW,
            }
            for name, started in reversed(self.started.items())
        ]  # fmt: skip
        text, mode = request.url.params.get("q", "").casefold(), request.url.params.get("mode")
        rows = [one for one in rows if any(text in str(one[key] or "").casefold() for key in ("id", *about))]
        return paged(request, "sessions", [one for one in rows if not mode or one["mode"] == mode])

    def _state(self, request: httpx2.Request, session: str) -> httpx2.Response:
        head = len(self.events(self._there(session)))
        return answer({"session": session, "head": head, "seq": head, "slots": {slot: [] for slot in _SLOTS}})

    def _stats(self, request: httpx2.Request, session: str | None = None) -> httpx2.Response:
        names = list(self.started) if session is None else [self._there(session)]
        prompts = [prompt["tokens"] for name in names for prompt in self._of(name)]
        return answer(stats(session, [self.events(name) for name in names], prompts))

    def _compile(self, request: httpx2.Request, session: str) -> httpx2.Response:
        asked, job_id = json.loads(request.content), f"job-{len(self.jobs) + 1}"
        refuse_request(asked)
        job: Json = {"id": job_id, "session": self._there(session), "status": "queued", "prompt": None}
        self.jobs[job_id] = job
        if not self.worker:
            return answer(job, 202)
        prompt = self._prompt_for(session, {key: asked[key] for key in asked if key not in ("wait", "min_seq")})
        job |= {"status": "done", "prompt": prompt["id"]}
        return answer(prompt) if asked.get("wait") else answer({**job, "status": "queued", "prompt": None}, 202)

    def _prompt_for(self, session: str, asked: Json) -> Json:
        inputs = {
            name: {"stream": f"{name}/{self._name(session, name)}", "seq": len(self.events(session, name))}
            for name in ("session", "subject", "tenant")
        }
        earlier = self._of(session)
        for prompt in () if asked.get("fresh") else earlier:
            if prompt["request"] == asked and prompt["inputs"] == inputs:
                return prompt
        form, events = asked.get("format", "openai"), in_force(self.events(session))
        payload = render(map(message, events), form)
        tokens, version = len(json.dumps(payload)) // 4, len(earlier) + 1
        made = {
            "id": f"{session}-{version}", "session": session, "version": version, "mode": asked.get("mode") or "chat",
            "format": form, "model": asked.get("model") or self.started[session].get("model"),
            "budget": asked.get("budget"), "tokens": tokens, "content_hash": digest_of(payload), "payload": payload,
            "request": asked, "inputs": inputs, "created_at": _NOW,
            "report": report(events, tokens, asked.get("budget")),
        }  # fmt: skip
        return self.prompts.setdefault(made["id"], made)

    def _active(self, request: httpx2.Request, session: str) -> httpx2.Response:
        return self._prompt(request, self._labelled(session))

    def _prompt(self, request: httpx2.Request, prompt: str, rest: str = "") -> httpx2.Response:
        found = self._found(prompt)
        if rest == "/report":
            return answer(found["report"])
        if rest == "/dump":
            return answer({**found, "messages": [], "tools": [], "layout": {}})
        form = request.url.params.get("format", found["format"])
        payload = render(self._side(found).shown.values(), form)
        return answer({**found, "format": form, "payload": payload, "derived": form != found["format"]})

    def _job(self, request: httpx2.Request, job: str) -> httpx2.Response:
        if job not in self.jobs:
            raise errors.UnknownJob(f"There is no job {job!r}.")
        return answer(self.jobs[job])

    def _upload(self, request: httpx2.Request, session: str, document: str) -> httpx2.Response:
        self.documents[session, document] = request.content.decode()
        told = {"document_id": document, "hash": hashlib.sha256(request.content).hexdigest(), "chunks": 1}
        self.started.setdefault(session, {})
        added = self._add(session, {"kind": "document.attached", "payload": {**told, "size": len(request.content)}})
        return answer({**told, "size": len(request.content), "seq": added["seq"]}, 201)

    def _slice(self, request: httpx2.Request, session: str, document: str) -> httpx2.Response:
        if (session, document) not in self.documents:
            raise errors.UnknownDocument(f"Session {session!r} has no document {document!r}.")
        start, end = (request.url.params.get(key) for key in ("from", "to"))
        text = self.documents[session, document][int(start or 0) : int(end) if end else None]
        return httpx2.Response(200, content=text.encode(), headers={"Content-Type": "text/plain; charset=utf-8"})


_Act: TypeAlias = Callable[..., httpx2.Response]
_SESSION, _PROMPT = "/v1/sessions/([^/]+)", "/v1/prompts/([^/]+)"
_BEYOND = (
    r"/v1/(bundles|work(/retry)?|subjects/[^/]+/memor(y|ies)(/.*)?|prompts/[^/]+/\w[\w-]*"
    r"|sessions/[^/]+/(anchors|bisect|bundle|events/live|prune))"
)
"""What a server answers and the fake does not."""

_ROUTES: Sequence[tuple[str, str, _Act]] = (
    ("POST", f"{_SESSION}/events", FakeServer._append),
    ("GET", f"{_SESSION}/events", FakeServer._events),
    ("GET", "/v1/sessions", FakeServer._sessions),
    ("GET", f"{_SESSION}/state", FakeServer._state),
    ("GET", f"{_SESSION}/stats", FakeServer._stats),
    ("GET", "/v1/stats", FakeServer._stats),
    ("POST", f"{_SESSION}/prompts", FakeServer._compile),
    ("GET", f"{_SESSION}/prompts", lambda self, asked, name: paged(asked, "prompts", self._of(self._there(name)))),
    ("GET", f"{_SESSION}/labels", FakeServer._labels),
    ("GET", f"{_SESSION}/prompts/active", FakeServer._active),
    ("GET", "/v1/flagged", FakeServer._flagged),
    ("GET", f"{_PROMPT}(/report|/dump)?", FakeServer._prompt),
    ("POST", f"{_PROMPT}/replay", FakeServer._replay),
    ("POST", f"{_PROMPT}/diff", FakeServer._diff),
    ("GET", f"{_PROMPT}/why", FakeServer._why),
    ("POST", f"{_SESSION}/replays", FakeServer._replays),
    ("POST", "/v1/replays", FakeServer._replays),
    ("GET", f"{_SESSION}/rollback", FakeServer._plan),
    ("GET", "/v1/jobs/([^/]+)", FakeServer._job),
    ("PUT", f"{_SESSION}/documents/([^/]+)", FakeServer._upload),
    ("GET", f"{_SESSION}/documents/([^/]+)", FakeServer._slice),
    ("GET", "/(?:healthz|readyz)", lambda self, request: answer({"status": "ok"})),
)
