"""One session as an agent uses it: the verbs, compile, the reads; sync and async with the same names.

`session.started` goes out with the first event or compile of a session object, and only if the object was given
options; its id is its content, so that opening the same session again adds nothing.
"""

import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias, Unpack

from promptctx import _calls, _history, errors
from promptctx._http import AsyncSender, Call, Sender, Steps, T
from promptctx._track import Draft, EventOptions, SessionOptions, Track, content_draft, draft, new_id, refuse_unknown
from promptctx.prompt import AsyncJob, AsyncPrompt, Format, Job, Prompt
from promptctx.values import Document, EventRecord, JobState, Page, PromptInfo, Receipt, State, build
from promptctx.verbs import Verbs

Stream: TypeAlias = Literal["session", "subject", "tenant", "audit"]

_ROLLBACK = ("to_version", "to_seq", "scope", "reason", "loosen")


class _Shared:
    """What both sessions are made of."""

    _track: Track

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._track.id!r} at seq {self._track.seq}>"

    @property
    def seq(self) -> int:
        """The session's head as far as this object has seen it; `compile` waits until the server has read so far."""
        return self._track.seq

    @property
    def prompt_id(self) -> str | None:
        """The last prompt this object was given: `record`, `flag` and `label` mean it."""
        return self._track.prompt_id


def _compile(track: Track, request: Mapping[str, Any], wait: float) -> Steps[JobState]:
    yield from track.append([])
    read = {"min_seq": track.seq} if track.seq else {}
    return (yield from _calls.compile(track.id, {**read, **request}, wait).ask())


def _fork(track: Track, child: Track, at_seq: int | None) -> Steps[None]:
    if at_seq is None:
        at_seq = track.seq or (yield from _calls.head(track.id).ask())
    origin = content_draft(child.id, "session.forked", {"parent": track.id, "at_seq": at_seq})
    child.first.insert(0, origin)
    yield from child.append([])


def _rollback(
    track: Track, to_seq: int | None, to_version: int | None, payload: Mapping[str, Any], options: EventOptions
) -> Steps[Receipt]:
    refuse_unknown(options, (*_ROLLBACK, *EventOptions.__annotations__), "rollback")
    if to_seq is None:
        if to_version is None:
            raise errors.InvalidRequest("Say where to roll back to: to_version or to_seq.")
        to_seq = yield from _calls.seq_of_version(track.id, to_version)
    version = {} if to_version is None else {"to_version": to_version}
    made = draft("context.rolled_back", {"to_seq": to_seq, **version, **payload}, options)
    return (yield from track.append_one(made, options))


class Batch(Verbs[str]):
    """Events that go out together when the block ends, all or none. Verbs return the ids of their events."""

    def __init__(self, sender: Sender, track: Track, expected_seq: int | None) -> None:
        self._sender, self._track, self._expected_seq = sender, track, expected_seq
        self._drafts: list[Draft] = []
        self.receipts: tuple[Receipt, ...] = ()

    def _emit(self, made: Draft, options: EventOptions) -> str:
        return _collect(self._drafts, made, options)

    def __enter__(self) -> "Batch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._drafts:
            self.receipts = self._sender.run(self._track.append(self._drafts, self._expected_seq))


class AsyncBatch(Verbs[str]):
    """Events that go out together when the block ends, all or none. Verbs return the ids of their events."""

    def __init__(self, sender: AsyncSender, track: Track, expected_seq: int | None) -> None:
        self._sender, self._track, self._expected_seq = sender, track, expected_seq
        self._drafts: list[Draft] = []
        self.receipts: tuple[Receipt, ...] = ()

    def _emit(self, made: Draft, options: EventOptions) -> str:
        return _collect(self._drafts, made, options)

    async def __aenter__(self) -> "AsyncBatch":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._drafts:
            self.receipts = await self._sender.run(self._track.append(self._drafts, self._expected_seq))


def _collect(drafts: list[Draft], made: Draft, options: EventOptions) -> str:
    if "expected_seq" in options:
        raise errors.InvalidRequest("A batch is appended as a whole: give expected_seq to batch().")
    drafts.append(made)
    return str(made["event_id"])


class Session(_Shared, Verbs[Receipt]):
    """A session. Each verb appends one event and returns its receipt."""

    def __init__(self, sender: Sender, track: Track) -> None:
        self._sender = sender
        self._track = track

    def _emit(self, made: Draft, options: EventOptions) -> Receipt:
        return self._sender.run(self._track.append_one(made, options))

    def batch(self, *, expected_seq: int | None = None) -> Batch:
        """`with s.batch() as b:` sends what `b` was told in one request, all or nothing."""
        return Batch(self._sender, self._track, expected_seq)

    def append(self, events: Sequence[Mapping[str, Any]], *, expected_seq: int | None = None) -> tuple[Receipt, ...]:
        """Events as the HTTP API takes them, in one request, all or none; those without an id get one."""
        made = [{"event_id": new_id(), **event} for event in events]
        return self._sender.run(self._track.append(made, expected_seq))

    def head(self) -> int:
        """The number of the session's newest event, as the server has it."""
        return self._sender.send(_calls.head(self.id))

    def compile(
        self,
        *,
        budget: int | None = None,
        window: int | None = None,
        mode: str | None = None,
        model: str | None = None,
        format: Format = "openai",
        query: str | None = None,
        as_of: str | None = None,
        fresh: bool = False,
        preset: Literal["classic"] | None = None,
        locale: Literal["zh", "en"] | None = None,
        overrides: Mapping[str, Any] | None = None,
        min_seq: int | None = None,
        wait: float = 0.0,
    ) -> Job:
        """Ask for a prompt of at most `budget` tokens; the job is there at once, `job.result()` waits for the prompt.

        The prompt holds at least what this object has seen appended. `wait` lets the server answer with the prompt
        itself if it is ready within so many seconds.
        """
        request = {
            "budget": budget, "window": window, "mode": mode, "model": model, "format": format, "query": query,
            "as_of": as_of, "fresh": fresh or None, "preset": preset, "locale": locale, "overrides": overrides,
            **({} if min_seq is None else {"min_seq": min_seq}),
        }  # fmt: skip
        return Job(self._sender, self._sender.run(_compile(self._track, request, wait)), self._track)

    def document(
        self,
        path_or_text: "str | os.PathLike[str]",
        *,
        document_id: str | None = None,
        title: str | None = None,
        source: str | None = None,
    ) -> Document:
        """Upload a file (streamed), or text that has at least one line break, for the prompt to refer to."""
        call = _calls.document(self.id, path_or_text, document_id=document_id, title=title, origin=source)
        self._sender.run(self._track.append([]))
        return self._sender.send(call)

    def document_text(self, document_id: str, start: int = 0, end: int | None = None) -> str:
        """A slice of a document, by character offsets."""
        return self._sender.send(_calls.document_text(self.id, document_id, start, end))

    def rollback(
        self,
        *,
        to_version: int | None = None,
        to_seq: int | None = None,
        scope: Literal["session", "memory_kept"] = "session",
        reason: str = "",
        loosen: bool = False,
        **options: Unpack[EventOptions],
    ) -> Receipt:
        """Let what came after a prompt version, or after a seq, count no longer. The log keeps it.

        Rules set since then stay in force unless `loosen` is given, which needs the scope `policy`.
        """
        payload = {"scope": scope, "reason": reason, "loosen": loosen}
        return self._sender.run(_rollback(self._track, to_seq, to_version, payload, options))

    def fork(self, session_id: str, *, at_seq: int | None = None, **options: Unpack[SessionOptions]) -> "Session":
        """A new session that begins as this one was at `at_seq` (else: as it is). This one is untouched."""
        child = Track.of(session_id, options, "fork")
        self._sender.run(_fork(self._track, child, at_seq))
        return Session(self._sender, child)

    def bisect(self, text: str) -> Mapping[str, Any]:
        """The first version in which a text appeared, the first in which it vanished, and what did it."""
        return self._sender.send(_history.bisect(self.id, text))

    def anchors(self) -> Mapping[str, Any]:
        """Every version of the instruction, with what it changed."""
        return self._sender.send(_history.anchors(self.id))

    def rollback_plan(
        self, *, to_version: int | None = None, to_seq: int | None = None, loosen: bool = False
    ) -> Mapping[str, Any]:
        """What `rollback` would hide, keep and take back, without doing it."""
        return self._sender.send(_history.rollback_plan(self.id, to_seq, to_version, loosen))

    def labels(self) -> Mapping[str, Any]:
        """The versions that have labels or flags."""
        return self._sender.send(_history.labels(self.id))

    def active(self, format: Format | None = None) -> Prompt:
        """The prompt that agents get: the version labelled `active` last, else the newest."""
        return build(Prompt, self._sender.send(_history.active(self.id, format)), _sender=self._sender)

    def prune(self, *, keep_last: int = 100, sample: int = 20, dry_run: bool = False) -> Mapping[str, Any]:
        """Take the bytes of prompts that are neither labelled nor flagged nor among the last; all rebuild on demand."""
        return self._sender.send(_history.prune(self.id, keep_last, sample, dry_run))

    def bundle(self) -> bytes:
        """The whole session with all its versions as one file for another server; secrets masked."""
        return self._sender.send(_history.bundle_of_session(self.id))

    def state(self) -> State:
        """The six slots, the plan, the open calls and the anchors as they stand."""
        return self._sender.send(_calls.state(self.id))

    def events(self, after: int = 0, *, stream: Stream | None = None, limit: int = 200) -> Iterator[EventRecord]:
        """The log from `after` on, in order, `limit` events per request."""
        return pages(self._sender, _calls.events(self.id, after, limit=limit, stream=stream))

    def prompts(self, *, limit: int = 100) -> Iterator[PromptInfo]:
        """The prompts compiled for this session, newest first."""
        return pages(self._sender, _calls.prompts(self.id, limit=limit))


class AsyncSession(_Shared, Verbs[Coroutine[Any, Any, Receipt]]):
    """A session. Each verb appends one event and returns an awaitable receipt."""

    def __init__(self, sender: AsyncSender, track: Track) -> None:
        self._sender = sender
        self._track = track

    def _emit(self, made: Draft, options: EventOptions) -> Coroutine[Any, Any, Receipt]:
        return self._sender.run(self._track.append_one(made, options))

    def batch(self, *, expected_seq: int | None = None) -> AsyncBatch:
        """`async with s.batch() as b:` sends what `b` was told in one request, all or nothing."""
        return AsyncBatch(self._sender, self._track, expected_seq)

    async def append(
        self, events: Sequence[Mapping[str, Any]], *, expected_seq: int | None = None
    ) -> tuple[Receipt, ...]:
        """Events as the HTTP API takes them, in one request, all or none; those without an id get one."""
        made = [{"event_id": new_id(), **event} for event in events]
        return await self._sender.run(self._track.append(made, expected_seq))

    async def head(self) -> int:
        """The number of the session's newest event, as the server has it."""
        return await self._sender.send(_calls.head(self.id))

    async def compile(
        self,
        *,
        budget: int | None = None,
        window: int | None = None,
        mode: str | None = None,
        model: str | None = None,
        format: Format = "openai",
        query: str | None = None,
        as_of: str | None = None,
        fresh: bool = False,
        preset: Literal["classic"] | None = None,
        locale: Literal["zh", "en"] | None = None,
        overrides: Mapping[str, Any] | None = None,
        min_seq: int | None = None,
        wait: float = 0.0,
    ) -> AsyncJob:
        """Ask for a prompt of at most `budget` tokens; the job is there at once, `job.result()` waits for the prompt.

        The prompt holds at least what this object has seen appended. `wait` lets the server answer with the prompt
        itself if it is ready within so many seconds.
        """
        request = {
            "budget": budget, "window": window, "mode": mode, "model": model, "format": format, "query": query,
            "as_of": as_of, "fresh": fresh or None, "preset": preset, "locale": locale, "overrides": overrides,
            **({} if min_seq is None else {"min_seq": min_seq}),
        }  # fmt: skip
        return AsyncJob(self._sender, await self._sender.run(_compile(self._track, request, wait)), self._track)

    async def document(
        self,
        path_or_text: "str | os.PathLike[str]",
        *,
        document_id: str | None = None,
        title: str | None = None,
        source: str | None = None,
    ) -> Document:
        """Upload a file (streamed), or text that has at least one line break, for the prompt to refer to."""
        call = _calls.document(self.id, path_or_text, document_id=document_id, title=title, origin=source)
        await self._sender.run(self._track.append([]))
        return await self._sender.send(call)

    async def document_text(self, document_id: str, start: int = 0, end: int | None = None) -> str:
        """A slice of a document, by character offsets."""
        return await self._sender.send(_calls.document_text(self.id, document_id, start, end))

    async def rollback(
        self,
        *,
        to_version: int | None = None,
        to_seq: int | None = None,
        scope: Literal["session", "memory_kept"] = "session",
        reason: str = "",
        loosen: bool = False,
        **options: Unpack[EventOptions],
    ) -> Receipt:
        """Let what came after a prompt version, or after a seq, count no longer. The log keeps it.

        Rules set since then stay in force unless `loosen` is given, which needs the scope `policy`.
        """
        payload = {"scope": scope, "reason": reason, "loosen": loosen}
        return await self._sender.run(_rollback(self._track, to_seq, to_version, payload, options))

    async def fork(
        self, session_id: str, *, at_seq: int | None = None, **options: Unpack[SessionOptions]
    ) -> "AsyncSession":
        """A new session that begins as this one was at `at_seq` (else: as it is). This one is untouched."""
        child = Track.of(session_id, options, "fork")
        await self._sender.run(_fork(self._track, child, at_seq))
        return AsyncSession(self._sender, child)

    async def bisect(self, text: str) -> Mapping[str, Any]:
        """The first version in which a text appeared, the first in which it vanished, and what did it."""
        return await self._sender.send(_history.bisect(self.id, text))

    async def anchors(self) -> Mapping[str, Any]:
        """Every version of the instruction, with what it changed."""
        return await self._sender.send(_history.anchors(self.id))

    async def rollback_plan(
        self, *, to_version: int | None = None, to_seq: int | None = None, loosen: bool = False
    ) -> Mapping[str, Any]:
        """What `rollback` would hide, keep and take back, without doing it."""
        return await self._sender.send(_history.rollback_plan(self.id, to_seq, to_version, loosen))

    async def labels(self) -> Mapping[str, Any]:
        """The versions that have labels or flags."""
        return await self._sender.send(_history.labels(self.id))

    async def active(self, format: Format | None = None) -> AsyncPrompt:
        """The prompt that agents get: the version labelled `active` last, else the newest."""
        return build(AsyncPrompt, await self._sender.send(_history.active(self.id, format)), _sender=self._sender)

    async def prune(self, *, keep_last: int = 100, sample: int = 20, dry_run: bool = False) -> Mapping[str, Any]:
        """Take the bytes of prompts that are neither labelled nor flagged nor among the last; all rebuild on demand."""
        return await self._sender.send(_history.prune(self.id, keep_last, sample, dry_run))

    async def bundle(self) -> bytes:
        """The whole session with all its versions as one file for another server; secrets masked."""
        return await self._sender.send(_history.bundle_of_session(self.id))

    async def state(self) -> State:
        """The six slots, the plan, the open calls and the anchors as they stand."""
        return await self._sender.send(_calls.state(self.id))

    def events(self, after: int = 0, *, stream: Stream | None = None, limit: int = 200) -> AsyncIterator[EventRecord]:
        """The log from `after` on, in order, `limit` events per request."""
        return async_pages(self._sender, _calls.events(self.id, after, limit=limit, stream=stream))

    def prompts(self, *, limit: int = 100) -> AsyncIterator[PromptInfo]:
        """The prompts compiled for this session, newest first."""
        return async_pages(self._sender, _calls.prompts(self.id, limit=limit))


def pages(sender: Sender, first: Call[Page[T]]) -> Iterator[T]:
    """All items of a list, page by page."""
    call: Call[Page[T]] | None = first
    while call:
        page = sender.send(call)
        yield from page.items
        call = page.next


async def async_pages(sender: AsyncSender, first: Call[Page[T]]) -> AsyncIterator[T]:
    """All items of a list, page by page."""
    call: Call[Page[T]] | None = first
    while call:
        page = await sender.send(call)
        for item in page.items:
            yield item
        call = page.next
