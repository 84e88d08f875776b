"""The fake server's time machine: what can be told honestly of prompts that hold the whole history.

What needs a compiler or a memory is not in the fake: what-if, blame, bisect, bundles, rollbacks that reach into memory.
"""

import json
from collections.abc import Sequence

import httpx2

from promptctx import errors
from promptctx._fake import Json, answer, marked
from promptctx._fake_diffs import diff, why
from promptctx._fake_past import ROLLBACK, Side, plan, verdict


def lacking(sentence: str) -> errors.PromptctxError:
    """What only a server can answer."""
    error = errors.PromptctxError(sentence)
    error.code, error.status = "not_in_the_fake", 501
    return error


class TimeMachine:
    """Flags, labels, diff, why, replays, rollbacks and forks of what a fake server holds."""

    def __init__(self) -> None:
        self.started: dict[str, Json] = {}
        self.streams: dict[tuple[str, str], list[Json]] = {}
        self.prompts: dict[str, Json] = {}
        self.documents: dict[tuple[str, str], str] = {}
        self._origins: dict[tuple[str, str, int], tuple[str, int]] = {}
        """Of each event in a shared stream: the session that it came through, and where that stood."""

    def events(self, session: str, stream: str = "session") -> list[Json]:
        """The events of a stream, as the server would tell them."""
        return self.streams.setdefault((stream, self._name(session, stream)), [])

    def _name(self, session: str, stream: str) -> str:
        subject = self.started.get(session, {}).get("subject") or f"session:{session}"
        return {"subject": str(subject), "tenant": ""}.get(stream, session)

    def _there(self, session: str) -> str:
        if session not in self.started:
            raise errors.UnknownSession(f"There is no session {session!r}.")
        return session

    def _of(self, session: str) -> list[Json]:
        return [prompt for prompt in reversed(self.prompts.values()) if prompt["session"] == session]

    def _found(self, prompt: str) -> Json:
        """By its id, or as SESSION@VERSION."""
        session, _, version = prompt.rpartition("@")
        name = f"{session}-{version}" if session else prompt
        if name not in self.prompts:
            raise errors.UnknownSnapshot(
                f"No prompt {prompt!r}: name one by its id or as SESSION@VERSION;"
                " `promptctx prompts SESSION` lists them.",
                prompt=prompt,
            )
        return self.prompts[name]

    def _side(self, prompt: Json) -> Side:
        return Side(prompt, self.events(prompt["session"])[: prompt["inputs"]["session"]["seq"]])

    # --- judging ---

    def _flagged(self, request: httpx2.Request) -> httpx2.Response:
        asked, only = request.url.params.get("verdict", "bad"), request.url.params.get("session")
        names = list(self.started) if only is None else [self._there(only)]
        found = [one for name in names for one in self._marked(name) if one["verdict"] == asked]
        return answer({"flagged": list(reversed(found))})

    def _labels(self, request: httpx2.Request, session: str) -> httpx2.Response:
        return answer({"session": session, "marked": self._marked(self._there(session))})

    def _marked(self, session: str) -> list[Json]:
        return marked(self.events(session, "audit"), self.prompts)

    def _labelled(self, session: str) -> str:
        """The prompt that is served: the one labelled `active` last, else the newest."""
        events = self.events(self._there(session), "audit")
        active = [event["payload"]["snapshot_id"] for event in events if event["payload"].get("label") == "active"]
        found = [name for name in reversed(active) if name in self.prompts] or [one["id"] for one in self._of(session)]
        if not found:
            raise errors.UnknownSnapshot(f"No prompt of session {session!r} can be served.", session=session)
        return str(found[0])

    # --- explaining ---

    def _diff(self, request: httpx2.Request, prompt: str) -> httpx2.Response:
        body = json.loads(request.content or b"{}")
        before = self._found(prompt)
        if body.get("set") or body.get("schema"):
            raise lacking("A what-if needs a compiler, which the fake server lacks: ask a server.")
        return answer(diff(self._side(before), self._side(self._found(body.get("to") or prompt))))

    def _why(self, request: httpx2.Request, prompt: str) -> httpx2.Response:
        side, asked = self._side(self._found(prompt)), request.url.params.get("event", "")
        place, _, number = asked.rpartition(":")
        for stream in ("session", "subject", "tenant"):
            for event in self.events(side.prompt["session"], stream):
                if asked == event["event_id"] or (number == str(event["seq"]) and (place or "session") == stream):
                    return answer(why(side, event, stream))
        sentence = f"No event {asked!r} in what this prompt reads: name it by id, by seq, or as subject:12."
        raise errors.InvalidRequest(sentence, path="event")

    def _replay(self, request: httpx2.Request, prompt: str) -> httpx2.Response:
        return answer(verdict(self._side(self._found(prompt))))

    def _replays(self, request: httpx2.Request, session: str | None = None) -> httpx2.Response:
        asked, names = request.url.params, [session] if session is not None else list(self.started)
        first, last = int(asked.get("from", 1)), int(asked.get("to", 10**9))
        found = [one for name in names for one in reversed(self._of(self._there(name)))]
        found = [one for one in found if first <= one["version"] <= last]
        after, limit = int(asked.get("after", 0)), int(asked.get("limit", 100))
        told = [verdict(self._side(one)) for one in found[after : after + limit]]
        same = sum(one["identical"] for one in told)
        more = str(after + limit) if after + limit < len(found) else None
        return answer({"verdicts": told, "identical": same, "different": len(told) - same, "redacted": 0, "next": more})

    # --- going back ---

    def _plan(self, request: httpx2.Request, session: str) -> httpx2.Response:
        asked, versions = request.url.params, {one["version"]: one for one in self._of(self._there(session))}
        to_seq, version = (int(asked[name]) if name in asked else None for name in ("to_seq", "to_version"))
        if version is not None:
            if version not in versions and to_seq is None:
                raise errors.InvalidRequest(f"to_version: no version {version} that can be read.", path="to_version")
            at = versions[version]["inputs"]["session"]["seq"] if version in versions else to_seq
            to_seq, version = (at, version) if to_seq in (None, at) else (to_seq, None)
        if to_seq is None:
            raise errors.InvalidRequest("Say where to roll back to: to_version or to_seq.", path="to_seq")
        told = plan(session, self.events(session), list(versions), to_seq, version, asked.get("loosen") == "true")
        self._memory_stays(session, to_seq)
        return answer(told)

    def _allow(self, session: str, drafts: Sequence[Json]) -> None:
        """Rollbacks and forks that can be done; nothing is appended before all of them are found to be."""
        forks = any(draft["kind"] == "session.forked" for draft in drafts)
        for draft in drafts:
            kind, told = draft["kind"], draft["payload"]
            if forks and kind not in ("session.forked", "session.started"):
                sentence = f"{kind}: with session.forked goes nothing but session.started; send it afterwards."
                raise errors.InvalidEvent(sentence, path="kind")
            if kind == ROLLBACK:
                _whole(told, "to_seq")
                if told.get("undoes"):
                    raise errors.InvalidEvent("payload.undoes: the server fills this in.", path="payload.undoes")
                if told.get("scope") != "memory_kept":
                    self._memory_stays(session, told["to_seq"])
            if kind == "session.forked":
                _whole(told, "at_seq")
                self._forkable(session, told, begins=draft is drafts[0] and not self.events(session))

    def _memory_stays(self, session: str, to_seq: int) -> None:
        came = [key for key, (name, seq) in self._origins.items() if name == session and seq > to_seq]
        if came:
            stream, name, seq = came[0]
            kind = self.streams[stream, name][seq - 1]["kind"]
            raise lacking(
                f"This rollback would take {kind} back from memory, which the fake server cannot: "
                "give scope='memory_kept', or test it against a server, as `make up` starts one."
            )

    def _forkable(self, session: str, told: Json, *, begins: bool) -> None:
        parent, at_seq = told.get("parent"), told["at_seq"]
        if not begins:
            raise errors.InvalidEvent(
                "session.forked: a fork begins a session; this one has events already.", path="kind"
            )
        if parent not in self.started:
            raise errors.UnknownSession(f"No session {parent!r} to fork.", session=parent)
        head = len(self.events(parent))
        if at_seq > head:
            sentence = f"payload.at_seq: the session {parent!r} is at seq {head}, not yet at {at_seq}."
            raise errors.InvalidEvent(sentence, path="payload.at_seq", head=head)

    def _fork(self, session: str, told: Json) -> None:
        """The session begins with copies of its parent's events, with their ids and documents."""
        parent, at_seq = told["parent"], told["at_seq"]
        for event in self.events(parent)[:at_seq]:
            self.events(session).append(dict(event))
            if event["kind"] == "session.started":
                self.started[session] |= event["payload"]
            if event["kind"] == "document.attached":
                name = event["payload"]["document_id"]
                self.documents[session, name] = self.documents[parent, name]
        if not self.started[session].get("subject"):
            self._fork_private(parent, session, at_seq)

    def _fork_private(self, parent: str, session: str, at_seq: int) -> None:
        """A session without a subject has a private one, which is part of it."""
        for event in list(self.streams.get(("subject", f"session:{parent}"), ())):
            seq = self._origins["subject", f"session:{parent}", event["seq"]][1]
            if seq <= at_seq:
                self.events(session, "subject").append(dict(event))
                self._origins["subject", f"session:{session}", event["seq"]] = (session, seq)


def _whole(told: Json, name: str) -> None:
    """Of payloads, which are not checked otherwise, only the seq that all depends on."""
    if type(told.get(name)) is not int or told[name] < 0:
        raise errors.InvalidEvent(f"payload.{name}: a whole number, 0 or more.", path=f"payload.{name}")
