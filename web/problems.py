"""Every refusal as a problem of RFC 9457, with two members of our own: `code` for programs and `details`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from domain.errors import InvalidRequest, PromptctxError, SlowRequest, TooManyRequests, Unauthorized
from web.bodies import to_json
from web.console.refusals import refused

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"
"""Seconds after which it is worth to ask again when the database or the broker was away."""


class Problem(Response):
    media_type = MEDIA_TYPE

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(to_json(told), told["status"])
        self.told = told


def shown(scope: Scope, found: Problem) -> Response:
    """The problem as whoever asks can read it: people at the console get a page."""
    told = found.told
    return refused(scope, told["status"], told["title"], told["detail"], told["request_id"]) or found


def of_error(error: PromptctxError, request_id: str) -> Problem:
    title = _words(type(error).__name__)
    answer = problem(error.status, error.code, title, error.message, request_id, error.details)
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        answer.headers["Retry-After"] = RETRY_AFTER
    elif isinstance(error, TooManyRequests):
        answer.headers["Retry-After"] = str(error.details.get("retry_after", RETRY_AFTER))
    elif isinstance(error, Unauthorized):
        # Programs send a bearer's key; a browser can only ask its user for a password.
        answer.headers["WWW-Authenticate"] = 'Bearer realm="promptctx", Basic realm="promptctx: the password is a key"'
    elif isinstance(error, SlowRequest):
        answer.headers["Connection"] = "close"
    return answer


def unexpected(request_id: str) -> Problem:
    """What went wrong stands in the log under the id, never in the answer."""
    detail = f"Something failed that should not; the server's log says what under the request id {request_id}."
    return problem(500, "internal_error", "Internal error", detail, request_id)


def problem(
    status: int, code: str, title: str, detail: str, request_id: str, details: Mapping[str, Any] | None = None
) -> Problem:
    body = {
        "type": f"urn:promptctx:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "details": dict(details or {}),
        "request_id": request_id,
    }
    return Problem(body)


def install(app: FastAPI) -> None:
    app.add_exception_handler(PromptctxError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_route)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, PromptctxError)
    return shown(request.scope, of_error(error, request.state.request_id))


async def _invalid(request: Request, error: Exception) -> Response:
    """A parameter in the path or the query that is not what it should be. Its value is not repeated."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    path = ".".join(str(step) for step in first["loc"][1:])
    told = "neither a slash nor control characters" if first["type"] == "string_pattern_mismatch" else first["msg"]
    refusal = InvalidRequest(f"{path}: {told}.", path=path)
    return shown(request.scope, of_error(refusal, request.state.request_id))


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, method, request_id = request.url.path, request.method, request.state.request_id
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"There is nothing at {path[:200]}; /docs lists what there is."
        return shown(request.scope, problem(404, "not_found", "Not found", detail, request_id))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods(request))
        detail = f"{method} is not possible at {path[:200]}; possible is {allowed}."
        answer = problem(405, "method_not_allowed", "Method not allowed", detail, request_id)
        answer.headers["Allow"] = allowed
        return shown(request.scope, answer)
    title = HTTPStatus(error.status_code).phrase
    return shown(request.scope, problem(error.status_code, "http_error", title, f"{error.detail}", request_id))


def _methods(request: Request) -> list[str]:
    """All methods of the path; the router stops at the first route whose path fits."""
    found: set[str] = set()
    for method in ("DELETE", "GET", "PATCH", "POST", "PUT"):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            found.add(method)
    return sorted(found)


def _words(name: str) -> str:
    """`UnknownSession` as `Unknown session`."""
    spaced = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return spaced.strip().capitalize()
