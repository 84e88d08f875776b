"""Events on their way: queued at once, sent behind the agent's back in order, kept on disk while the server is away.

    with Outbox(Client(), folder=".promptctx-spool") as outbox:
        s = outbox.session("s-1", mode="react")
        s.user("Hello")        # returns the event's id; nothing waits for the server

An event's id is fixed when it is queued, so what is sent twice is in the log once. Queueing never waits for the
network: an agent on asyncio uses the same outbox.
"""

import atexit
import json
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Unpack

from promptctx import _config, errors
from promptctx._http import to_json
from promptctx._track import Draft, EventOptions, SessionOptions, Track, new_id
from promptctx.client import Client
from promptctx.verbs import Verbs

logger = logging.getLogger("promptctx")

LIMIT = 64 * 2**20
BATCH_BYTES = 900_000
LONGEST_PAUSE = 30.0
AWAY = (errors.ServerUnavailable, errors.Timeout)


@dataclass(frozen=True, slots=True)
class Waiting:
    session: str
    draft: Draft
    size: int


class Outbox:
    """Sends what its sessions are told, at most `batch` events a request, at the latest `interval` seconds after.

    `folder` (else `spool` of promptctx.toml) keeps what is not sent yet, readable by its owner only: whoever opens it
    next sends what a dead process left there. Without a folder what waits is in memory. At `limit` bytes of waiting
    events the next one raises ServerUnavailable. `close`, the end of a `with` and the end of the process send the rest.
    """

    def __init__(
        self, client: Client, folder: "str | os.PathLike[str] | None" = None, *, batch: int = 100,
        interval: float = 0.2, limit: int = LIMIT,
    ) -> None:  # fmt: skip
        chosen = folder if folder is not None else _config.read().get("spool")
        self._client, self._batch, self._interval, self._limit = client, max(1, batch), interval, limit
        self._queue: deque[Waiting] = deque()
        self._size = 0
        self._change = threading.Condition()
        self._closing = self._hurry = False
        self._error: errors.PromptctxError | None = None
        self.refused: list[tuple[str, Draft, errors.PromptctxError]] = []
        """Events that the server will never take, with their session and the reason: the others went on."""
        self._spool = None if chosen is None else Spool(Path(chosen))
        for left in self._spool.leftovers() if self._spool else ():
            self._put(left)
        self._thread = threading.Thread(target=self._work, name="promptctx-outbox", daemon=True)
        self._thread.start()
        atexit.register(_close_at_exit, weakref.ref(self))

    def session(self, session_id: str, **options: Unpack[SessionOptions]) -> "OutboxSession":
        """A session whose verbs queue their event and return its id."""
        return OutboxSession(self, Track.of(session_id, options))

    @property
    def waiting(self) -> int:
        """How many events are not in the log yet."""
        with self._change:
            return len(self._queue)

    def put(self, session: str, draft: Draft) -> str:
        """Queue an event as the HTTP API takes it. Raises InvalidEvent for what is no JSON."""
        made = {"event_id": new_id(), **draft}
        self._put(Waiting(session, made, len(to_json(made))))
        return str(made["event_id"])

    def flush(self, timeout: float | None = 10.0) -> None:
        """Wait until all that was queued is in the log. Raises ServerUnavailable; what waits goes on waiting."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._change:
            self._hurry = True
            self._change.notify_all()
            while self._queue:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise self._late()
                self._change.wait(left)

    def close(self, timeout: float = 10.0) -> None:
        """Send the rest and stop. Raises ServerUnavailable if the server is away and nothing keeps what waits."""
        try:
            self.flush(timeout)
        except errors.PromptctxError:
            if self._spool is None:
                raise
            logger.warning("%d events wait in %s for the server to come back", self.waiting, self._spool.folder)
        finally:
            with self._change:
                self._closing = True
                self._change.notify_all()
            self._thread.join(timeout)
            if self._spool:
                self._spool.close(keep=bool(self._queue))

    def __enter__(self) -> "Outbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, one: Waiting) -> None:
        with self._change:
            if self._closing:
                raise errors.InvalidRequest("This outbox is closed; open another one.")
            if self._queue and self._size + one.size > self._limit:
                raise errors.ServerUnavailable(
                    f"{len(self._queue)} events wait for the server and fill the outbox of {self._limit:,} bytes; "
                    "start a server, or give the outbox a higher limit.",
                    event_ids=[one.draft["event_id"]],
                )
            if self._spool:
                self._spool.keep(one)
            self._queue.append(one)
            self._size += one.size
            self._change.notify_all()

    def _late(self) -> errors.PromptctxError:
        ids = [one.draft["event_id"] for one in self._queue]
        told = f"{len(ids)} events are not in the log yet"
        return errors.ServerUnavailable(f"{told}: {self._error.message if self._error else 'no answer'}", event_ids=ids)

    # --- the thread that sends ---

    def _work(self) -> None:
        pause = 0.1
        while batch := self._next():
            try:
                self._client.session(batch[0].session).append([one.draft for one in batch])
            except AWAY as error:
                self._error = error
                with self._change:
                    if self._closing:
                        return
                    self._change.wait_for(lambda: self._closing, pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except errors.PromptctxError as error:
                self._sort_out(batch, error)
            else:
                self._sent(batch)
                pause = 0.1

    def _next(self) -> list[Waiting]:
        """The next events of one session, in order; none when the outbox is closed."""
        with self._change:
            self._change.wait_for(lambda: self._queue or self._closing)
            if self._closing:
                return []
            # A moment later there may be more for the same request.
            self._change.wait_for(
                lambda: self._hurry or self._closing or len(self._queue) >= self._batch, self._interval
            )
            batch: list[Waiting] = []
            size = 0
            for one in self._queue:
                if one.session != self._queue[0].session or len(batch) >= self._batch:
                    break
                if batch and size + one.size > BATCH_BYTES:
                    break
                batch.append(one)
                size += one.size
            return batch

    def _sort_out(self, batch: list[Waiting], error: errors.PromptctxError) -> None:
        """A batch is taken whole or not at all: one by one, only what is at fault is left out."""
        for one in batch:
            if len(batch) > 1:
                try:
                    self._client.session(one.session).append([one.draft])
                except AWAY as away:
                    self._error = away
                    return
                except errors.PromptctxError as told:
                    error = told
                else:
                    self._sent([one])
                    continue
            logger.error("event %s is refused and left out: %s [%s]", one.draft["event_id"], error.message, error.code)
            self.refused.append((one.session, one.draft, error))
            self._sent([one])

    def _sent(self, batch: list[Waiting]) -> None:
        with self._change:
            for one in batch:
                self._queue.popleft()
                self._size -= one.size
            if self._spool:
                self._spool.gone(self._queue)
            if not self._queue:
                self._hurry, self._error = False, None
            self._change.notify_all()


def _close_at_exit(reference: "weakref.ref[Outbox]") -> None:
    outbox = reference()
    if outbox is not None and not outbox._closing:
        try:
            outbox.close(5.0)
        except errors.PromptctxError as error:
            logger.error("events were lost at exit: %s", error.message)


class OutboxSession(Verbs[str]):
    """A session whose verbs return the ids of their events, which are on their way."""

    def __init__(self, outbox: Outbox, track: Track) -> None:
        self._outbox, self._track = outbox, track

    def _emit(self, made: Draft, options: EventOptions) -> str:
        if "expected_seq" in options:
            raise errors.InvalidRequest("What is sent later cannot expect a seq; append it with a Session.")
        while self._track.first:
            self._outbox.put(self.id, self._track.first.pop(0))
        return self._outbox.put(self.id, made)


class Spool:
    """A file of waiting events, one a line, in a folder that only its owner reads. A lock tells that it is in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{new_id()}.jsonl"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(self._path, flags, 0o600), "r+b")
        self._written = 0
        _lock(self._file.fileno())

    def leftovers(self) -> Iterator[Waiting]:
        """What processes that are gone left behind, the oldest first. Each file goes once it was taken over."""
        for path in sorted(self.folder.glob("*.jsonl")):
            if path == self._path or path.is_symlink():
                continue
            with suppress(OSError), path.open("r+b") as file:
                if not _lock(file.fileno()):
                    continue
                for line in file:
                    with suppress(ValueError, KeyError, TypeError):  # half a line is an event that nobody was promised
                        told = json.loads(line)
                        yield Waiting(str(told["session"]), dict(told["draft"]), len(line))
                path.unlink(missing_ok=True)

    def keep(self, one: Waiting) -> None:
        line = to_json({"session": one.session, "draft": one.draft}) + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise errors.ServerUnavailable(f"The event cannot be kept in {self.folder}: {error.strerror}.") from None
        self._written += len(line)

    def gone(self, left: "deque[Waiting]") -> None:
        """Forget what was sent: at once when nothing waits, else when most of the file is of no use any more."""
        if left and self._written < 2 * sum(one.size for one in left) + 2**20:
            return
        self._file.seek(0)
        self._file.truncate()
        self._written = 0
        for one in left:
            self.keep(one)

    def close(self, keep: bool) -> None:
        with suppress(OSError):
            self._file.close()
        if not keep:
            self._path.unlink(missing_ok=True)


def _lock(handle: int) -> bool:
    """Whether the file is ours now; where locks are not known, it is."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


__all__: list[str] = ["Outbox", "OutboxSession"]
