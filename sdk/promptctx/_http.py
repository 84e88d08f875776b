"""A call to the server as data, and the two thin senders that carry calls: one waits, one awaits.

`Call` describes one request and how to read its answer. `Steps` is a generator of calls (and pauses) that returns a
value: what takes several calls is written once, and both senders run it.
"""

import asyncio
import json
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import httpx2
import stamina

from promptctx import _config, errors

# What is tried again is told to those who set up logging; to others the bare name of that event would say nothing.
logging.getLogger("stamina").addHandler(logging.NullHandler())

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8765"
DEFAULT_TIMEOUT = 10.0
DEFAULT_RETRIES = 4
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_PERHAPS_SENT = (httpx2.ReadError, httpx2.WriteError, httpx2.CloseError, httpx2.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `repeatable` calls may be sent again when it is unknown whether the first one arrived."""

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    stream: Callable[[], Iterator[bytes]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    patience: float = 0.0
    event_ids: tuple[str, ...] = ()

    def ask(self) -> "Steps[T]":
        answer: T = yield self
        return answer


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds before the next call."""

    seconds: float


Steps: TypeAlias = Generator[Call[Any] | Pause, Any, T]


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the server is and how long to try. The key is never shown."""

    url: httpx2.URL
    timeout: float
    retries: int
    api_key: str | None = field(repr=False)

    @classmethod
    def of(cls, url: str | None, timeout: float | None, retries: int | None, api_key: str | None) -> "Settings":
        """What is given, else what the environment says, else `promptctx.toml`, else the defaults."""
        file = _config.read()
        address = url or os.environ.get("PROMPTCTX_URL") or file.get("url") or DEFAULT_URL
        timeout = float(file.get("timeout", DEFAULT_TIMEOUT) if timeout is None else timeout)
        retries = int(file.get("retries", DEFAULT_RETRIES) if retries is None else retries)
        try:
            parsed = httpx2.URL(address.rstrip("/"))
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise errors.InvalidRequest(f"The server address is no URL: {error}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise errors.InvalidRequest(f"The server address must look like {DEFAULT_URL}.")
        key = api_key or os.environ.get("PROMPTCTX_API_KEY") or None
        if key is not None and not (key.isascii() and key.isprintable()):
            raise errors.InvalidRequest("The API key may hold printable ASCII characters only.")
        return cls(parsed, timeout, retries, key)

    @property
    def place(self) -> str:
        """The address without what it may carry of names and passwords."""
        return str(httpx2.URL(scheme=self.url.scheme, host=self.url.host, port=self.url.port))

    def client_options(self) -> dict[str, Any]:
        """A server on this machine is never asked through a proxy."""
        return {
            "base_url": self.url,
            "timeout": self._time_limit(0.0),
            "headers": {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {},
            "trust_env": self.url.host not in _LOOPBACK,
        }

    def request_options(self, call: Call[Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} if call.body is not None else {}
        return {
            "method": call.method,
            "url": call.path,
            "params": dict(call.params) or None,
            "headers": {**headers, **call.headers},
            "timeout": self._time_limit(call.patience),
        }

    def _time_limit(self, patience: float) -> httpx2.Timeout:
        return httpx2.Timeout(self.timeout + patience, connect=min(self.timeout, 5.0))

    def attempts(self, call: Call[Any]) -> Any:
        """Event ids are fixed before the first try, so a second one cannot append twice."""
        return stamina.retry_context(
            on=lambda error: _worth_another_try(call, error),
            attempts=self.retries + 1,
            timeout=None,
            wait_initial=0.1,
            wait_max=2.0,
            wait_jitter=0.1,
        )


class _Busy(Exception):
    """The server said 429 or 503: it did nothing and may be asked again."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(str(response.status_code))
        self.response = response


def _worth_another_try(call: Call[Any], error: Exception) -> bool | float:
    if isinstance(error, _Busy):
        after = error.response.headers.get("Retry-After", "")
        return min(float(after), 5.0) if after.isascii() and after.isdigit() else True
    return isinstance(error, _UNSENT) or (call.repeatable and isinstance(error, _PERHAPS_SENT))


def _checked(response: httpx2.Response) -> httpx2.Response:
    if response.status_code in (429, 503):
        raise _Busy(response)
    return response


def _understood(call: Call[T], response: httpx2.Response) -> T:
    if response.is_success:
        return call.read(response)
    try:
        problem = json.loads(response.content)
    except ValueError:
        problem = None
    raise errors.from_problem(response.status_code, problem)


def _gave_up(settings: Settings, call: Call[Any], error: Exception) -> NoReturn:
    details = {"event_ids": list(call.event_ids)} if call.event_ids else {}
    if isinstance(error, _Busy):
        _understood(call, error.response)
    if isinstance(error, httpx2.TimeoutException) and not isinstance(error, _UNSENT):
        raise errors.Timeout(
            f"The server at {settings.place} did not answer within {settings.timeout + call.patience:g} s; "
            "it may have done the work all the same. Ask again, or give the client a longer timeout.",
            **details,
        ) from None
    raise errors.ServerUnavailable(
        f"No promptctx server answers at {settings.place} ({type(error).__name__}); "
        "start one with `make up`, or set PROMPTCTX_URL.",
        **details,
    ) from None


class Sender:
    """Sends calls and waits."""

    def __init__(self, settings: Settings, transport: httpx2.BaseTransport | None = None) -> None:
        self.settings = settings
        self._http = httpx2.Client(transport=transport, **settings.client_options())

    def run(self, steps: Steps[T]) -> T:
        answer: Any = None
        failed: errors.PromptctxError | None = None
        while True:
            try:
                step = steps.throw(failed) if failed else steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            failed = None
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                answer = None
            else:
                try:
                    answer = self.send(step)
                except errors.PromptctxError as error:
                    failed = error

    def send(self, call: Call[T]) -> T:
        try:
            for attempt in self.settings.attempts(call):
                with attempt:
                    return _understood(call, self._once(call))
        except (httpx2.TransportError, _Busy) as error:
            _gave_up(self.settings, call, error)
        raise AssertionError("unreachable")

    def _once(self, call: Call[Any]) -> httpx2.Response:
        content = call.stream() if call.stream else call.body
        return _checked(self._http.request(content=content, **self.settings.request_options(call)))

    def close(self) -> None:
        self._http.close()


class AsyncSender:
    """Sends calls and awaits."""

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.settings = settings
        self._http = httpx2.AsyncClient(transport=transport, **settings.client_options())

    async def run(self, steps: Steps[T]) -> T:
        answer: Any = None
        failed: errors.PromptctxError | None = None
        while True:
            try:
                step = steps.throw(failed) if failed else steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            failed = None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                answer = None
            else:
                try:
                    answer = await self.send(step)
                except errors.PromptctxError as error:
                    failed = error

    async def send(self, call: Call[T]) -> T:
        try:
            async for attempt in self.settings.attempts(call):
                with attempt:
                    return _understood(call, await self._once(call))
        except (httpx2.TransportError, _Busy) as error:
            _gave_up(self.settings, call, error)
        raise AssertionError("unreachable")

    async def _once(self, call: Call[Any]) -> httpx2.Response:
        content = _in_turn(call.stream()) if call.stream else call.body
        return _checked(await self._http.request(content=content, **self.settings.request_options(call)))

    async def close(self) -> None:
        await self._http.aclose()


async def _in_turn(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def json_of(response: httpx2.Response) -> Any:
    """The JSON of an answer, lone surrogates included."""
    try:
        return json.loads(response.content)
    except ValueError:
        raise errors.PromptctxError(
            "The server's answer is not JSON; check that PROMPTCTX_URL is the address of a promptctx server."
        ) from None


def to_json(value: Any) -> bytes:
    """JSON in UTF-8; lone surrogates stay as escapes. Raises InvalidEvent naming the field that is no JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        path = _path_of_no_json(value)
        raise errors.InvalidEvent(f"{path}: this is not JSON: {error}.", path=path) from None


def _path_of_no_json(value: Any, path: str = "", depth: int = 0) -> str:
    """The path of the first value that JSON cannot hold, or of the place where the search gives up."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    for key, item in items if depth < 50 else ():
        if not _is_json(item):
            return _path_of_no_json(item, f"{path}.{key}" if path else str(key), depth + 1)
    return path or "body"


def _is_json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
