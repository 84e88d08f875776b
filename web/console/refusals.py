"""What the console says instead of a page: a refusal in words, or the way to the sign-in."""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from domain.errors import ContextOverflow, InvalidRequest, PromptctxError
from web.console import rendering, showing
from web.console.visitors import HOME, Visitor, is_console, visitor_of

SIGN_IN = f"{HOME}/sign-in"
MAX_BACK = 16_000
"""Characters of an address that a sign-in leads back to. A longer one is not cut, for it would be another address."""


def refused(scope: Scope, status: int, title: str, detail: str, request_id: str) -> Response | None:
    """The page in place of a problem; None where a program asks."""
    if not is_console(scope["path"]):
        return None
    visitor = visitor_of(scope)
    if status == 401:
        return _to_sign_in(scope, part=visitor.part)
    told = {"title": title, "detail": detail, "request_id": request_id, "back": _back(scope["path"])}
    return rendering.page(visitor, "refused.html", status, **told)


def corrected(visitor: Visitor, template: str, shown: Mapping[str, Any], error: PromptctxError) -> Response:
    """A form as it was filled in, with what is wrong in it. Raises the error where no other value would help."""
    if not isinstance(error, InvalidRequest | ContextOverflow):
        raise error
    field = "budget" if isinstance(error, ContextOverflow) else str(error.details.get("path", ""))
    return rendering.page(visitor, template, error.status, **{**shown, "wrong": (field, error.message)})


def _back(path: str) -> tuple[str, str] | None:
    """The page of the session or of the prompt that a refused page belongs to, and its name."""
    kind, _, rest = path.removeprefix(f"{HOME}/").partition("/")
    name, _, page = rest.partition("/")
    known = {"sessions": "The session", "prompts": "The prompt"}
    if kind not in known or not name or not page:
        return None
    return f"{HOME}/{kind}/{showing.segment(name)}", known[kind]


def _to_sign_in(scope: Scope, *, part: bool) -> Response:
    headers = Headers(scope=scope)
    if part:
        return Response(status_code=401, headers={**rendering.HEADERS, "HX-Redirect": SIGN_IN})
    if scope["method"] not in ("GET", "HEAD") or "text/event-stream" in headers.get("accept", ""):
        return Response(status_code=401, headers=rendering.HEADERS)
    back = scope.get("raw_path", b"").decode("ascii", "replace")
    query = scope.get("query_string", b"").decode("ascii", "replace")
    to = f"{back}?{query}" if query else back
    query = showing.query(to=to if len(to) <= MAX_BACK else HOME)
    return RedirectResponse(f"{SIGN_IN}{query}", 303, headers=rendering.HEADERS)
