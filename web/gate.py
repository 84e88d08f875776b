"""The gate that every request passes: it gets an id, its path, origin and key are checked, its body may not dawdle,
and no failure is shown."""

import re
from urllib.parse import unquote_to_bytes, urlsplit

import anyio
import structlog
import uuid_utils
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.errors import Forbidden, InvalidRequest, PromptctxError, SlowRequest
from web import problems
from web.access import admitted
from workers import tracing
from workers.settings import Settings

REQUEST_ID = "X-Request-Id"
_GIVEN = re.compile(r"[A-Za-z0-9._:-]{1,100}", re.ASCII)
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = _READING | {"DELETE", "PATCH", "POST", "PUT"}

UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""What is asked every few seconds for nobody's sake."""

logger = structlog.get_logger(__name__)


class Gate:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get(REQUEST_ID))
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _Answer(send, request_id)
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if scope["path"] in UNTRACED:
                await self._pass(scope, receive, answer, headers)
            else:
                await self._traced(scope, receive, answer, headers)

    async def _traced(self, scope: Scope, receive: Receive, answer: "_Answer", headers: Headers) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "HTTP"
        told = {"http__request__method": method, "request_id": answer.request_id}
        with tracing.span(method, parent=headers.get("traceparent"), kind="server", **told) as span:
            await self._pass(scope, receive, answer, headers)
            if (route := getattr(scope.get("route"), "path_format", None)) is not None:
                span.named(f"{method} {route}")
                span.tell(http__route=route)
            span.tell(http__response__status_code=answer.status)

    async def _pass(self, scope: Scope, receive: Receive, answer: "_Answer", headers: Headers) -> None:
        try:
            check(scope, headers)
            scope["state"]["caller"] = await admitted(scope, headers)
            await self.app(scope, _Patient(receive, _patience(scope)).receive, answer.send)
        except PromptctxError as error:
            told = problems.of_error(error, answer.request_id)
            await problems.shown(scope, told)(scope, receive, answer.send)
        except ClientDisconnect:
            logger.debug("the client went away", path=scope["path"])
        except Exception:
            logger.exception("request failed", method=scope["method"], path=scope["path"])
            if answer.started:
                raise
            told = problems.unexpected(answer.request_id)
            await problems.shown(scope, told)(scope, receive, answer.send)


class _Patient:
    """Waits for a request's body, but not for ever: whoever sends a byte an hour holds a connection and a file."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive, self._seconds = receive, seconds
        self._whole = False

    async def receive(self) -> Message:
        if self._whole:
            # What comes now is the end of the connection, which may be long in coming.
            return await self._receive()
        try:
            with anyio.fail_after(self._seconds):
                message = await self._receive()
        except TimeoutError:
            raise SlowRequest(
                f"Nothing more of the body came for {self._seconds:g} s; send it again, faster.", seconds=self._seconds
            ) from None
        self._whole = not message.get("more_body", False)
        return message


class _Answer:
    """Sends on, with the request's id among the headers, and remembers whether anything was sent."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.started = False
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID] = self.request_id
            # Texts of strangers are sent here: a browser must not take one for a page.
            headers["X-Content-Type-Options"] = "nosniff"
        await self._send(message)


def check(scope: Scope, headers: Headers) -> None:
    """Refuses what routing would misread: after it the path is decoded, and an id could pass for another."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if b"%2f" in raw.lower():
        raise InvalidRequest("path: an id holds no slash, encoded or not.", path="path")
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("path: not UTF-8 behind the percent signs.", path="path") from None
    host = headers.get("Host", "")
    if _is_own_machine(scope) and _name_of(host) not in _OWN_NAMES:
        # A name that somebody points at this machine would make its pages pages of ours.
        raise Forbidden("This server answers to localhost only; bind it to another host to reach it by name.")
    foreign = headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    origin = headers.get("Origin")
    if scope["method"] not in _READING and (foreign or (origin and urlsplit(origin).netloc != host)):
        # The server on one's own machine takes any content type: without this, any page could write to it.
        raise Forbidden("Pages of other sites may not write here.")


def _patience(scope: Scope) -> float:
    settings: Settings | None = getattr(scope["app"].state, "settings", None)
    return settings.body_timeout if settings is not None else 30.0


_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def _is_own_machine(scope: Scope) -> bool:
    """Whether the server is bound to the loopback address, which only this machine reaches."""
    settings: Settings | None = getattr(scope["app"].state, "settings", None) if "app" in scope else None
    return settings is not None and not settings.is_public


def _name_of(host: str) -> str:
    return urlsplit(f"//{host}").hostname or ""


def _request_id(given: str | None) -> str:
    return given if given and _GIVEN.fullmatch(given) else str(uuid_utils.uuid7())
