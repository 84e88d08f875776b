"""A server in the process, for tests of agents: `Client(transport=FakeServer())`.

The log's rules are the real ones: numbering per stream, the same id again, `expected_seq`. Payloads are not checked,
and nothing is trimmed: a prompt is the whole history as chat messages, and a token is four characters of JSON. Of the
time machine there are flags, labels and the active version; other calls say that they are not in the fake.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import unquote

import httpx2

from promptctx import errors
from promptctx._fake import Json, answer, digest_of, marked, message, paged, render, stats, stream_of

_NOW = "2026-01-01T00:00:00Z"
_SLOTS = ("constraints", "planner", "task_memory", "tool_state", "profile", "recall")


class FakeServer(httpx2.MockTransport):
    """Each of `faults` is raised or answered in place of one request's work; `worker=False` finishes no job."""

    def __init__(self, *, worker: bool = True) -> None:
        super().__init__(self._handle)
        self.worker = worker
        self.faults: list[Exception | httpx2.Response | None] = []
        self.requests: list[httpx2.Request] = []
        self.started: dict[str, Json] = {}
        self.streams: dict[tuple[str, str], list[Json]] = {}
        self.prompts: dict[str, Json] = {}
        self.jobs: dict[str, Json] = {}
        self.documents: dict[tuple[str, str], str] = {}
        self._known: dict[str, tuple[str, Json]] = {}

    def events(self, session: str, stream: str = "session") -> list[Json]:
        """The events of a stream, as the server would tell them."""
        subject = self.started.get(session, {}).get("subject") or f"session:{session}"
        name = {"subject": subject, "tenant": ""}.get(stream, session)
        return self.streams.setdefault((stream, name), [])

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
        told = f"{request.method} {path} is not in the fake: test this against a server, as `make up` starts one."
        return answer({"title": "Not implemented", "status": 501, "code": "not_in_the_fake", "detail": told}, 501)

    def _append(self, request: httpx2.Request, session: str) -> httpx2.Response:
        body = json.loads(request.content)
        drafts: list[Json] = body.get("events", [body])
        expected = body.get("expected_seq", request.url.params.get("expected_seq"))
        known, head = [self._lookup(draft) for draft in drafts], len(self.events(session))
        if expected is not None and int(expected) != head and not all(known):
            raise errors.ConcurrencyConflict(f"Session {session!r} is at {head}, not at {expected}.", head=head)
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
        stream = stream_of(draft)
        events = self.events(session, stream)
        event_id, seq = draft.get("event_id") or f"event-{len(self._known) + 1}", len(events) + 1
        digest = digest_of([draft["kind"], draft["payload"]])
        events.append({**draft, "event_id": event_id, "seq": seq, "recorded_at": _NOW, "digest": digest})
        receipt: Json = {"event_id": event_id, "seq": seq, "stream": stream}
        self._known[event_id] = digest, receipt
        return {**receipt, "duplicate": False}

    def _events(self, request: httpx2.Request, session: str) -> httpx2.Response:
        asked, rows = request.url.params, self.events(self._there(session), request.url.params.get("stream", "session"))
        after, limit = int(asked.get("after", 0)), int(asked.get("limit", 200))
        more = after + limit if after + limit < len(rows) else None
        return answer({"events": rows[after : after + limit], "head": len(rows), "next": more})

    def _there(self, session: str) -> str:
        if session not in self.started:
            raise errors.UnknownSession(f"There is no session {session!r}.")
        return session

    def _sessions(self, request: httpx2.Request) -> httpx2.Response:
        rows = [
            {**started, "id": name, "head": len(self.events(name)), "prompts": len(self._of(name)), "created_at": _NOW}
            for name, started in reversed(self.started.items())
        ]
        text, mode = request.url.params.get("q", "").casefold(), request.url.params.get("mode")
        told = ("id", "subject", "mode", "model", "title", "source")
        rows = [one for one in rows if any(text in str(one.get(name) or "").casefold() for name in told)]
        return paged(request, "sessions", [one for one in rows if not mode or one.get("mode") == mode])

    def _state(self, request: httpx2.Request, session: str) -> httpx2.Response:
        head = len(self.events(self._there(session)))
        return answer({"session": session, "head": head, "seq": head, "slots": {slot: [] for slot in _SLOTS}})

    def _stats(self, request: httpx2.Request, session: str | None = None) -> httpx2.Response:
        names = list(self.started) if session is None else [self._there(session)]
        prompts = [prompt["tokens"] for name in names for prompt in self._of(name)]
        return answer(stats(session, [self.events(name) for name in names], prompts))

    def _of(self, session: str) -> list[Json]:
        return [prompt for prompt in reversed(self.prompts.values()) if prompt["session"] == session]

    def _compile(self, request: httpx2.Request, session: str) -> httpx2.Response:
        asked, job_id = json.loads(request.content), f"job-{len(self.jobs) + 1}"
        job: Json = {"id": job_id, "session": self._there(session), "status": "queued", "prompt": None}
        self.jobs[job_id] = job
        if not self.worker:
            return answer(job, 202)
        prompt = self._prompt_for(session, {key: asked[key] for key in asked if key not in ("wait", "min_seq")})
        job |= {"status": "done", "prompt": prompt["id"]}
        return answer(prompt) if asked.get("wait") else answer({**job, "status": "queued", "prompt": None}, 202)

    def _prompt_for(self, session: str, asked: Json) -> Json:
        head, earlier = len(self.events(session)), self._of(session)
        for prompt in () if asked.get("fresh") else earlier:
            if prompt["request"] == asked and prompt["inputs"] == {"session": head}:
                return prompt
        payload = render(map(message, self.events(session)), asked.get("format", "openai"))
        tokens, version = len(json.dumps(payload)) // 4, len(earlier) + 1
        unit = {"from_seq": 1, "to_seq": head, "units": 1, "tokens": tokens, "disposition": "included"}
        report: Json = {"zones": {"window": tokens}, "budget": asked.get("budget"), "tokens": tokens, "slots": {}}
        made = {
            "id": f"{session}-{version}", "session": session, "version": version, "mode": asked.get("mode") or "chat",
            "format": asked.get("format", "openai"), "model": asked.get("model") or self.started[session].get("model"),
            "budget": asked.get("budget"), "tokens": tokens, "content_hash": digest_of(payload), "payload": payload,
            "request": asked, "inputs": {"session": head}, "created_at": _NOW,
            "report": {**report, "units": [{**unit, "reason": "window", "zone": "window"}], "warnings": []},
        }  # fmt: skip
        return self.prompts.setdefault(made["id"], made)

    def _flagged(self, request: httpx2.Request) -> httpx2.Response:
        asked, only = request.url.params.get("verdict", "bad"), request.url.params.get("session")
        names = list(self.started) if only is None else [self._there(only)]
        found = [one for name in names for one in self._marked(name) if one["verdict"] == asked]
        return answer({"flagged": list(reversed(found))})

    def _labels(self, request: httpx2.Request, session: str) -> httpx2.Response:
        return answer({"session": session, "marked": self._marked(self._there(session))})

    def _active(self, request: httpx2.Request, session: str) -> httpx2.Response:
        self._there(session)
        labelled = [event["payload"] for event in self.events(session, "audit")]
        active = [told["snapshot_id"] for told in labelled if told.get("label") == "active"]
        found = [name for name in reversed(active) if name in self.prompts] or [one["id"] for one in self._of(session)]
        if not found:
            raise errors.UnknownSnapshot(f"No prompt of session {session!r} can be served.", session=session)
        return self._prompt(request, found[0])

    def _marked(self, session: str) -> list[Json]:
        return marked(self.events(session, "audit"), self.prompts)

    def _prompt(self, request: httpx2.Request, prompt: str, rest: str = "") -> httpx2.Response:
        session, _, version = prompt.rpartition("@")
        prompt = f"{session}-{version}" if session else prompt
        if prompt not in self.prompts:
            raise errors.UnknownSnapshot(f"There is no prompt {prompt!r}.")
        found = self.prompts[prompt]
        if rest == "/report":
            return answer(found["report"])
        if rest == "/replay":
            same = {"content_hash": found["content_hash"], "replayed_hash": found["content_hash"]}
            return answer({"prompt": prompt, "identical": True, **same, "first_difference": None, "cause": None})
        if rest == "/dump":
            return answer({**found, "messages": [], "tools": [], "layout": {}})
        form = request.url.params.get("format", found["format"])
        payload = render(map(message, self.events(found["session"])[: found["inputs"]["session"]]), form)
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
    r"/v1/(bundles|replays|stats|work(/retry)?|subjects/[^/]+/memor(y|ies)(/.*)?|prompts/[^/]+/\w[\w-]*"
    r"|sessions/[^/]+/(anchors|bisect|bundle|events/live|labels"
    r"|documents/[^/]+|prompts/active|prune|replays|rollback|stats))"
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
    ("POST", f"{_PROMPT}(/replay)", FakeServer._prompt),
    ("GET", "/v1/jobs/([^/]+)", FakeServer._job),
    ("PUT", f"{_SESSION}/documents/([^/]+)", FakeServer._upload),
    ("GET", f"{_SESSION}/documents/([^/]+)", FakeServer._slice),
    ("GET", "/(?:healthz|readyz)", lambda self, request: answer({"status": "ok"})),
)
