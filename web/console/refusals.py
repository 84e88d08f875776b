"""What the console says instead of a page: a refusal in words, or the way to the sign-in."""

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from web.console import rendering, showing
from web.console.visitors import HOME, is_console, visitor_of

SIGN_IN = f"{HOME}/sign-in"


def refused(scope: Scope, status: int, title: str, detail: str, request_id: str) -> Response | None:
    """The page in place of a problem; None where a program asks."""
    if not is_console(scope["path"]):
        return None
    visitor = visitor_of(scope)
    if status == 401:
        return _to_sign_in(scope, part=visitor.part)
    return rendering.page(visitor, "refused.html", status, title=title, detail=detail, request_id=request_id)


def _to_sign_in(scope: Scope, *, part: bool) -> Response:
    headers = Headers(scope=scope)
    if part:
        return Response(status_code=401, headers={**rendering.HEADERS, "HX-Redirect": SIGN_IN})
    if scope["method"] not in ("GET", "HEAD") or "text/event-stream" in headers.get("accept", ""):
        return Response(status_code=401, headers=rendering.HEADERS)
    back = scope.get("raw_path", b"").decode("ascii", "replace")
    query = scope.get("query_string", b"").decode("ascii", "replace")
    to = f"{back}?{query}" if query else back
    return RedirectResponse(f"{SIGN_IN}{showing.query(to=to[:2000])}", 303, headers=rendering.HEADERS)
