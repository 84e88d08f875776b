"""What passages mean, as vectors kept beside the index of their session. They are made behind, by a thread of their
own, so that no prompt waits for them: until they are there, words alone decide. Those of messages are kept in the
store."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import structlog
from numpy.typing import NDArray

from domain.recall.index import Index, Ints
from workers.embeddings import Embedder, Rows
from workers.llm import ModelFailed

AT_ONCE = 8
"""Texts that are made into vectors at once: a query waits for no more than these."""

ROWS = 4096
_HEAD, _SCALE = 4, 4
"""Bytes of a row that tell how long its vectors are, and of a vector that tell its scale."""

LONGEST_NAME = 200
Floats = NDArray[np.float64]
log = structlog.get_logger(__name__)


def coded(rows: Rows) -> bytes:
    """Vectors as they are kept: how long they are, then of each its scale and a byte a number."""
    scales = np.maximum(np.abs(rows).max(axis=1, initial=0.0, keepdims=True), 1e-9).astype(np.float32) / 127
    codes = np.rint(rows / scales).astype(np.int8)
    return _length(rows.shape[1]) + np.hstack([scales.view(np.uint8), codes.view(np.uint8)]).tobytes()


def _length(width: int) -> bytes:
    return (width << 8).to_bytes(_HEAD, "little")


UNKNOWN = _length(0)
"""Stands for what nobody knows the meaning of."""


class Vectors:
    """The vectors of one session's passages in their order, a byte a number. Thread-safe."""

    def __init__(self) -> None:
        self.asked = 0
        self.seq = 0
        """Up to which message they were read from the store."""
        self._lock = threading.Lock()
        self._done = 0
        self._codes = np.zeros((0, 0), dtype=np.int8)
        self._scales = np.zeros(0, dtype=np.float32)

    def add(self, rows: Rows) -> None:
        with self._lock:
            self._put(np.arange(self._done, self._done + len(rows)), coded(rows)[_HEAD:], rows.shape[1])

    def put(self, index: Index, seqs: Sequence[int], kept: Sequence[bytes]) -> None:
        """What the store keeps of the messages with these seqs; what the index does not hold is left out."""
        width = max(int.from_bytes(body[:_HEAD], "little") >> 8 for body in kept)
        mark, record = _length(width), width + _SCALE
        held = [(seq, body) for seq, body in zip(seqs, kept, strict=True) if body[:_HEAD] == mark] if width else []
        counts = np.array([(len(body) - _HEAD) // record for _, body in held], dtype=np.int64)
        places, inside = index.places(np.array([seq for seq, _ in held], dtype=np.int64), counts)
        records = np.frombuffer(b"".join(body[_HEAD:] for _, body in held), dtype=np.uint8).reshape(-1, record)
        with self._lock:
            self._put(places[inside], records[inside].tobytes(), width)
            self.seq = max(self.seq, seqs[-1])

    def _put(self, places: Ints, records: bytes, width: int) -> None:
        if not len(places):
            return
        self._make_room(int(places.max()) + 1, width)
        found = np.frombuffer(records, dtype=np.uint8).reshape(-1, _SCALE + width)
        self._scales[places] = np.ascontiguousarray(found[:, :_SCALE]).view(np.float32)[:, 0]
        self._codes[places] = found[:, _SCALE:].view(np.int8)

    def skip(self, count: int) -> None:
        """Passages of which nobody knows what they mean."""
        with self._lock:
            self._make_room(self._done + count, self._codes.shape[1])

    def _make_room(self, until: int, width: int) -> None:
        room = len(self._codes) if self._codes.shape[1] == width else 0
        if until > room:
            codes = np.zeros((max(64, 2 * until), width), dtype=np.int8)
            scales = np.zeros(len(codes), dtype=np.float32)
            if self._codes.shape[1] == width:
                codes[: self._done], scales[: self._done] = self._codes[: self._done], self._scales[: self._done]
            self._codes, self._scales = codes, scales
        self._done = max(self._done, until)

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
        self._queries: deque[tuple[Sequence[str], Future[Rows]]] = deque()
        self._batches: deque[tuple[Sequence[str], Future[Rows]]] = deque()
        self._waiting: deque[tuple[Vectors, Sequence[str]]] = deque()
        self._changed = threading.Condition()
        self._busy = self._ready = self._loading = False
        self._thread: threading.Thread | None = None

    @property
    def model(self) -> str:
        return self._embedder.name[:LONGEST_NAME]

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
            self._load()
            return None
        wanted: Future[Rows] = Future()
        with self._changed:
            self._queries.append(([text], wanted))
            self._wake()
        try:
            return wanted.result(self._patience)[0]  # type: ignore[no-any-return]
        except TimeoutError:
            wanted.cancel()
            raise ModelFailed(f"what the query means was not known within {self._patience:g} s") from None
        except Exception as error:
            _tell(error)
            raise ModelFailed(_reason(error)) from None

    def _load(self) -> None:
        """Ask for anything, once, so that the model is there for the next query."""
        with self._changed:
            if not self._loading:
                self._loading = True
                self._batches.append(([" "], Future()))
                self._wake()

    def encoded(self, texts: Sequence[str]) -> Rows:
        """A vector for each text, when no query waits. Raises ModelFailed."""
        found: list[Rows] = []
        for at in range(0, len(texts), AT_ONCE):
            wanted: Future[Rows] = Future()
            with self._changed:
                self._batches.append((texts[at : at + AT_ONCE], wanted))
                self._wake()
            try:
                found.append(wanted.result())
            except Exception as error:
                _tell(error)
                raise ModelFailed(_reason(error)) from None
        return np.concatenate(found)

    def alike(self, cosines: Floats) -> Floats:
        """0 for what has nothing to do with the query, 1 and more for what surely has."""
        far, near = self._embedder.far, self._embedder.near
        return np.maximum(cosines - far, 0.0) / (near - far)

    def settle(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._batches and not self._waiting and not self._busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queries or self._batches or self._waiting))
                # Whoever waits comes first, and of those who wait the one who waits with a prompt.
                asked = self._queries or self._batches
                answer = asked.popleft() if asked else None
                batch = self._waiting.popleft() if answer is None else None
                self._busy = True
            if answer is not None:
                self._answer(*answer)
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

    def _answer(self, texts: Sequence[str], wanted: "Future[Rows]") -> None:
        if wanted.set_running_or_notify_cancel():
            try:
                wanted.set_result(self._embedder.encode(texts))
                self._ready = True
            except Exception as error:
                self._loading = False
                wanted.set_exception(error)


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, ModelFailed) else type(error).__name__


def _tell(error: Exception) -> None:
    log.warning("embedding.failed", reason=_reason(error))
