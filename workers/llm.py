"""The model port: any endpoint that speaks OpenAI's chat completions. No replay asks it, and no compile unless recall
was told to: what it answered is recorded, with the model that did.
"""

import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2

from domain.canonical import sha256_hex
from domain.errors import InvalidRequest

MOST_BYTES = 1_000_000
"""Of an answer; what is longer is none."""

PROMPTS = Path(__file__).with_name("prompts")


class ModelFailed(Exception):
    """No answer that can be used. `reason` is a few words without anything that was said; `usage` what it cost; `away`
    tells that nothing came back in time."""

    def __init__(self, reason: str, usage: "Usage | None" = None, *, away: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.usage = usage
        self.away = away


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the endpoint counts them."""

    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told to do with a text. `hash` is that of its file."""

    text: str
    hash: str

    def filled(self, **values: object) -> str:
        """With `{name}` replaced for each value given; other braces stay."""
        text = self.text
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text


class Model(Protocol):
    """`name` is recorded with every answer; `seconds` is the longest that one takes."""

    name: str
    seconds: float

    def answer(self, task: str, text: str, limit: int) -> Answer:
        """What the model says of `text`, in at most `limit` tokens. Raises ModelFailed."""
        ...


class Endpoint:
    """A model behind HTTP. Nothing of a key, a question or an answer gets into an error."""

    def __init__(self, base_url: str, model: str, key: str | None = None, seconds: float = 30.0) -> None:
        self.name, self.seconds = model, seconds
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._client = httpx2.Client(headers={"Authorization": f"Bearer {key}"} if key else None)

    def answer(self, task: str, text: str, limit: int) -> Answer:
        messages = [{"role": "system", "content": task}, {"role": "user", "content": text}]
        body = {"model": self.name, "messages": messages, "max_tokens": limit, "temperature": 0}
        return _answer(post(self._client, self._url, body, self.seconds))


class Within:
    """A model whose answers are waited for no longer than so many seconds, whatever it does with its own time."""

    def __init__(self, model: Model, seconds: float) -> None:
        self.name, self.seconds, self._model = model.name, min(seconds, model.seconds), model

    def answer(self, task: str, text: str, limit: int) -> Answer:
        if self.seconds <= 0:
            raise ModelFailed("no time was left to ask")
        wanted: Future[Answer] = Future()

        def ask() -> None:
            try:
                wanted.set_result(self._model.answer(task, text, limit))
            except Exception as error:
                wanted.set_exception(error)

        # Nobody waits for this thread: it ends with the model's own time.
        threading.Thread(target=ask, name="promptctx-model", daemon=True).start()
        try:
            return wanted.result(self.seconds)
        except TimeoutError:
            raise ModelFailed(f"no answer within {self.seconds:.3g} s", away=True) from None


class Rest:
    """Leaves a model alone for a while after nothing came back, so that not every prompt waits in vain."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds, self._until = seconds, 0.0

    @property
    def is_on(self) -> bool:
        return time.monotonic() < self._until

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds


def post(client: httpx2.Client, url: str, body: Mapping[str, Any], seconds: float) -> bytes:
    """What an endpoint answers within a deadline. Raises ModelFailed."""
    until = time.monotonic() + seconds
    try:
        with client.stream("POST", url, json=body, timeout=seconds) as response:
            if response.status_code != 200:
                raise ModelFailed(f"status {response.status_code}")
            return _read(response, until, seconds)
    except httpx2.TimeoutException:
        raise ModelFailed(f"no answer within {seconds:g} s", away=True) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ModelFailed(f"not reached: {type(error).__name__}", away=True) from None


def _read(response: httpx2.Response, until: float, seconds: float) -> bytes:
    """The body within the deadline: a time limit for each piece does not end an answer that drips."""
    found = bytearray()
    for piece in response.iter_bytes():
        found += piece
        if len(found) > MOST_BYTES:
            raise ModelFailed("the answer is too long")
        if time.monotonic() > until:
            raise ModelFailed(f"no answer within {seconds:g} s", away=True)
    return bytes(found)


def _answer(body: bytes) -> Answer:
    try:
        told = json.loads(body)
        text = told["choices"][0]["message"]["content"]
        counted = told.get("usage") or {}
        usage = Usage(_count(counted.get("prompt_tokens")), _count(counted.get("completion_tokens")))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ModelFailed("the answer is no chat completion") from None
    if not isinstance(text, str) or not text.strip():
        raise ModelFailed("the answer is empty", usage)
    if told["choices"][0].get("finish_reason") == "length":
        raise ModelFailed("the answer was cut off", usage)
    return Answer(text, usage)


def _count(given: object) -> int:
    return given if type(given) is int and 0 <= given < 2**53 else 0


def load_prompt(name: str, folder: Path | None) -> Prompt:
    """The prompt of a task: the user's own file of that name, else ours. Raises InvalidRequest for one not readable."""
    own = folder / f"{name}.md" if folder else None
    path = own if own and own.exists() else PROMPTS / f"{name}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The prompt {path} can't be read: {error}.", setting="llm_prompts") from None
    return Prompt(text, sha256_hex(text.encode()))
