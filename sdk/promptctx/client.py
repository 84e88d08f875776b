"""The way in: a client knows the server, and opens sessions."""

from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Unpack

import httpx2

from promptctx import _calls, _history, _memory
from promptctx._http import AsyncSender, Sender, Settings
from promptctx._memory import SharedBy
from promptctx._track import SessionOptions, Track
from promptctx.prompt import AsyncJob, AsyncPrompt, Format, Job, Prompt
from promptctx.session import AsyncSession, Session, async_pages, pages
from promptctx.values import Replay, SessionInfo, Stats, build


class Client:
    """A client of a promptctx server.

    `url` is else PROMPTCTX_URL, else that of promptctx.toml, else http://127.0.0.1:8765; `api_key` is else
    PROMPTCTX_API_KEY. `timeout` (10 seconds) holds for each request; connection errors and a busy server are tried
    `retries` (4) times more. `transport` is any httpx2
    transport, such as `promptctx.testing.FakeServer()`. A client may be shared by threads; a session belongs to one.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float | None = None,
        api_key: str | None = None,
        transport: httpx2.BaseTransport | None = None,
        retries: int | None = None,
    ) -> None:
        self._sender = Sender(Settings.of(url, timeout, retries, api_key), transport)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._sender.settings.place}>"

    def session(self, session_id: str, **options: Unpack[SessionOptions]) -> Session:
        """Open a session, new or not. Nothing is sent yet: the options go out with the first event or compile."""
        return Session(self._sender, Track.of(session_id, options))

    def sessions(self, q: str | None = None, *, mode: str | None = None, limit: int = 100) -> Iterator[SessionInfo]:
        """All sessions, newest first, `limit` per request; those whose id, subject, title … holds `q`, or of a mode."""
        return pages(self._sender, _calls.sessions(q=q, mode=mode, limit=limit))

    def prompt(self, prompt_id: str, format: Format | None = None) -> Prompt:
        """A compiled prompt by its id, in its own format or derived into another."""
        return build(Prompt, self._sender.send(_calls.prompt(prompt_id, format)), _sender=self._sender)

    def dump(self, prompt_id: str) -> Mapping[str, Any]:
        """All that is stored of a prompt: beside what it tells itself, its neutral messages and its layout."""
        return self._sender.send(_calls.dump(prompt_id))

    def stats(self, session: str | None = None) -> Stats:
        """Sizes of what a session, or all of them, stored and compiled, and the settings that follow from them."""
        return self._sender.send(_calls.stats(session))

    def diff(
        self,
        before: str,
        after: str | None = None,
        *,
        changes: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """What changed between two prompts, or from one to what it would be with `changes`; each with its cause."""
        return self._sender.send(_history.diff(before, after, changes, schema))

    def replays(
        self, session: str | None = None, *, first: int = 1, last: int | None = None, limit: int = 100
    ) -> Iterator[Replay]:
        """The verdict on every prompt of a session, or of all of them: compiled again, are the bytes the same?"""
        return pages(self._sender, _history.replays(session, first, last, limit=limit))

    def flagged(self, verdict: Literal["bad", "good"] = "bad", *, session: str | None = None) -> Mapping[str, Any]:
        """The work list: prompts whose answers were flagged, the newest flag first."""
        return self._sender.send(_history.flagged(verdict, session))

    def restore(self, bundle: bytes) -> Mapping[str, Any]:
        """Import a bundle that another server made; the same one again changes nothing."""
        return self._sender.send(_history.restore(bundle))

    def memories(
        self,
        subject: str,
        query: str | None = None,
        *,
        scope: SharedBy = "subject",
        closed: bool = False,
        limit: int = 100,
        after: str | None = None,
        session: str | None = None,
    ) -> Mapping[str, Any]:
        """What is remembered of a subject, the newest first; what answers a query with its score explained. Of a
        `session` of the subject what it keeps to itself."""
        return self._sender.send(_memory.memories(subject, query, scope, closed, limit, after, session))

    def memory(
        self, subject: str, memory_id: str, *, scope: SharedBy = "subject", session: str | None = None
    ) -> Mapping[str, Any]:
        """One memory: how it stands, all that happened to it, and the events that it was made from."""
        return self._sender.send(_memory.memory(subject, memory_id, scope, session))

    def forget_memory(
        self, subject: str, memory_id: str, reason: str = "", *, scope: SharedBy = "subject"
    ) -> Mapping[str, Any]:
        """End a memory; `change` of the answer is what `undo_memory` takes."""
        return self._sender.send(_memory.forget(subject, memory_id, reason, scope))

    def care_for_memory(self, subject: str, *, dry_run: bool = True, scope: SharedBy = "subject") -> Mapping[str, Any]:
        """Merge what says the same and end what is over; unless `dry_run` is false, only tell what would be done."""
        return self._sender.send(_memory.care(subject, dry_run, scope))

    def undo_memory(self, subject: str, change: str, *, scope: SharedBy = "subject") -> Mapping[str, Any]:
        """Take back what care, a forgetting or an import did, or one event of the memory by its id."""
        return self._sender.send(_memory.undo(subject, change, scope))

    def export_memory(self, subject: str) -> Mapping[str, Any]:
        """All that is kept of a subject: memories, profile and core blocks, as JSON."""
        return self._sender.send(_memory.export(subject))

    def import_memory(self, subject: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Import an export; what is held already is left as it is, and the same again changes nothing."""
        return self._sender.send(_memory.restore(subject, data))

    def job(self, job_id: str) -> Job:
        """A compile job by its id."""
        return Job(self._sender, self._sender.send(_calls.job(job_id)))

    def close(self) -> None:
        """Close the connections; leaving a `with` block does so, too."""
        self._sender.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """The same for asyncio: what talks to the server is awaited, lists are asynchronous iterators."""

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float | None = None,
        api_key: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        retries: int | None = None,
    ) -> None:
        self._sender = AsyncSender(Settings.of(url, timeout, retries, api_key), transport)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._sender.settings.place}>"

    def session(self, session_id: str, **options: Unpack[SessionOptions]) -> AsyncSession:
        """Open a session, new or not. Nothing is sent yet: the options go out with the first event or compile."""
        return AsyncSession(self._sender, Track.of(session_id, options))

    def sessions(
        self, q: str | None = None, *, mode: str | None = None, limit: int = 100
    ) -> AsyncIterator[SessionInfo]:
        """All sessions, newest first, `limit` per request; those whose id, subject, title … holds `q`, or of a mode."""
        return async_pages(self._sender, _calls.sessions(q=q, mode=mode, limit=limit))

    async def prompt(self, prompt_id: str, format: Format | None = None) -> AsyncPrompt:
        """A compiled prompt by its id, in its own format or derived into another."""
        return build(AsyncPrompt, await self._sender.send(_calls.prompt(prompt_id, format)), _sender=self._sender)

    async def dump(self, prompt_id: str) -> Mapping[str, Any]:
        """All that is stored of a prompt: beside what it tells itself, its neutral messages and its layout."""
        return await self._sender.send(_calls.dump(prompt_id))

    async def stats(self, session: str | None = None) -> Stats:
        """Sizes of what a session, or all of them, stored and compiled, and the settings that follow from them."""
        return await self._sender.send(_calls.stats(session))

    async def diff(
        self,
        before: str,
        after: str | None = None,
        *,
        changes: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """What changed between two prompts, or from one to what it would be with `changes`; each with its cause."""
        return await self._sender.send(_history.diff(before, after, changes, schema))

    def replays(
        self, session: str | None = None, *, first: int = 1, last: int | None = None, limit: int = 100
    ) -> AsyncIterator[Replay]:
        """The verdict on every prompt of a session, or of all of them: compiled again, are the bytes the same?"""
        return async_pages(self._sender, _history.replays(session, first, last, limit=limit))

    async def flagged(
        self, verdict: Literal["bad", "good"] = "bad", *, session: str | None = None
    ) -> Mapping[str, Any]:
        """The work list: prompts whose answers were flagged, the newest flag first."""
        return await self._sender.send(_history.flagged(verdict, session))

    async def restore(self, bundle: bytes) -> Mapping[str, Any]:
        """Import a bundle that another server made; the same one again changes nothing."""
        return await self._sender.send(_history.restore(bundle))

    async def memories(
        self,
        subject: str,
        query: str | None = None,
        *,
        scope: SharedBy = "subject",
        closed: bool = False,
        limit: int = 100,
        after: str | None = None,
        session: str | None = None,
    ) -> Mapping[str, Any]:
        """What is remembered of a subject, the newest first; what answers a query with its score explained. Of a
        `session` of the subject what it keeps to itself."""
        return await self._sender.send(_memory.memories(subject, query, scope, closed, limit, after, session))

    async def memory(
        self, subject: str, memory_id: str, *, scope: SharedBy = "subject", session: str | None = None
    ) -> Mapping[str, Any]:
        """One memory: how it stands, all that happened to it, and the events that it was made from."""
        return await self._sender.send(_memory.memory(subject, memory_id, scope, session))

    async def forget_memory(
        self, subject: str, memory_id: str, reason: str = "", *, scope: SharedBy = "subject"
    ) -> Mapping[str, Any]:
        """End a memory; `change` of the answer is what `undo_memory` takes."""
        return await self._sender.send(_memory.forget(subject, memory_id, reason, scope))

    async def care_for_memory(
        self, subject: str, *, dry_run: bool = True, scope: SharedBy = "subject"
    ) -> Mapping[str, Any]:
        """Merge what says the same and end what is over; unless `dry_run` is false, only tell what would be done."""
        return await self._sender.send(_memory.care(subject, dry_run, scope))

    async def undo_memory(self, subject: str, change: str, *, scope: SharedBy = "subject") -> Mapping[str, Any]:
        """Take back what care, a forgetting or an import did, or one event of the memory by its id."""
        return await self._sender.send(_memory.undo(subject, change, scope))

    async def export_memory(self, subject: str) -> Mapping[str, Any]:
        """All that is kept of a subject: memories, profile and core blocks, as JSON."""
        return await self._sender.send(_memory.export(subject))

    async def import_memory(self, subject: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Import an export; what is held already is left as it is, and the same again changes nothing."""
        return await self._sender.send(_memory.restore(subject, data))

    async def job(self, job_id: str) -> AsyncJob:
        """A compile job by its id."""
        return AsyncJob(self._sender, await self._sender.send(_calls.job(job_id)))

    async def close(self) -> None:
        """Close the connections; leaving an `async with` block does so, too."""
        await self._sender.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
