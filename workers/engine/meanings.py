"""What passages mean, as vectors kept beside the index of their session. They are made behind, by a thread of their
own, so that no prompt waits for them: until they are there, words alone decide."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import structlog
from numpy.typing import NDArray

from workers.embeddings import Embedder, Rows
from workers.llm import ModelFailed

AT_ONCE = 8
"""Texts that are made into vectors at once: a query waits for no more than these."""

ROWS = 4096
Floats = NDArray[np.float64]
log = structlog.get_logger(__name__)


class Vectors:
    """The vectors of one session's passages in their order, a byte a number. Thread-safe."""

    def __init__(self) -> None:
        self.asked = 0
        self._lock = threading.Lock()
        self._done = 0
        self._codes = np.zeros((0, 0), dtype=np.int8)
        self._scales = np.zeros(0, dtype=np.float32)

    def add(self, rows: Rows) -> None:
        scales = np.maximum(np.abs(rows).max(axis=1), 1e-9) / 127
        with self._lock:
            self._make_room(len(rows), rows.shape[1])
            until = self._done + len(rows)
            self._codes[self._done : until] = np.rint(rows / scales[:, None])
            self._scales[self._done : until] = scales
            self._done = until

    def skip(self, count: int) -> None:
        """Passages of which nobody knows what they mean."""
        with self._lock:
            self._make_room(count, self._codes.shape[1])
            self._done += count

    def _make_room(self, count: int, width: int) -> None:
        room = len(self._codes) if self._codes.shape[1] == width else 0
        if self._done + count > room:
            codes = np.zeros((max(64, 2 * (self._done + count)), width), dtype=np.int8)
            scales = np.zeros(len(codes), dtype=np.float32)
            if self._codes.shape[1] == width:
                codes[: self._done], scales[: self._done] = self._codes[: self._done], self._scales[: self._done]
            self._codes, self._scales = codes, scales

    def cosines(self, query: Rows, count: int) -> Floats:
        """For each of the first `count` passages how alike it is to the query; 0 for those not looked at yet."""
        found = np.zeros(count)
        with self._lock:
            codes, scales, done = self._codes, self._scales, min(self._done, count)
        if codes.shape[1] != len(query):
            return found
        for at in range(0, done, ROWS):
            end = min(at + ROWS, done)
            found[at:end] = (codes[at:end].astype(np.float32) @ query) * scales[at:end]
        return found


class Meanings:
    """Makes vectors behind the compiles, those of queries first. Thread-safe; `settle` waits until all that was asked
    for is there."""

    def __init__(self, embedder: Embedder, patience: float = 0.25) -> None:
        """`patience` is how many seconds a prompt waits for what its query means."""
        self._embedder, self._patience = embedder, patience
        self._queries: deque[tuple[str, Future[Rows]]] = deque()
        self._waiting: deque[tuple[Vectors, Sequence[str]]] = deque()
        self._changed = threading.Condition()
        self._busy = self._ready = False
        self._thread: threading.Thread | None = None

    def want(self, vectors: Vectors, start: int, texts: Sequence[str]) -> None:
        """Vectors for the passages from `start` on; those that somebody asked for already are left out."""
        with self._changed:
            new = texts[vectors.asked - start :] if start <= vectors.asked else ()
            vectors.asked += len(new)
            self._waiting.extend((vectors, new[at : at + AT_ONCE]) for at in range(0, len(new), AT_ONCE))
            self._wake()

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # none, or left behind by a fork
            self._thread = threading.Thread(target=self._run, name="promptctx-meanings", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def query(self, text: str) -> Rows | None:
        """The vector of a query; None where the model is not loaded yet. Raises ModelFailed where it fails or is late:
        no prompt waits longer than its patience."""
        if not self._ready:
            return None
        wanted: Future[Rows] = Future()
        with self._changed:
            self._queries.append((text, wanted))
            self._wake()
        try:
            return wanted.result(self._patience)
        except TimeoutError:
            wanted.cancel()
            raise ModelFailed(f"what the query means was not known within {self._patience:g} s") from None
        except Exception as error:
            _tell(error)
            raise ModelFailed(_reason(error)) from None

    def alike(self, cosines: Floats) -> Floats:
        """0 for what has nothing to do with the query, 1 and more for what surely has."""
        far, near = self._embedder.far, self._embedder.near
        return np.maximum(cosines - far, 0.0) / (near - far)

    def settle(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queries or self._waiting))
                asked = self._queries.popleft() if self._queries else None
                batch = self._waiting.popleft() if asked is None else None
                self._busy = batch is not None
            if asked is not None:
                self._answer(*asked)
            if batch is not None:
                self._embed(*batch)
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _embed(self, vectors: Vectors, texts: Sequence[str]) -> None:
        try:
            vectors.add(self._embedder.encode(texts))
            self._ready = True
        except Exception as error:  # whatever a model does, prompts go on without it
            _tell(error)
            vectors.skip(len(texts))

    def _answer(self, text: str, wanted: "Future[Rows]") -> None:
        if wanted.set_running_or_notify_cancel():
            try:
                wanted.set_result(self._embedder.encode([text])[0])
            except Exception as error:
                wanted.set_exception(error)


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, ModelFailed) else type(error).__name__


def _tell(error: Exception) -> None:
    log.warning("embedding.failed", reason=_reason(error))
