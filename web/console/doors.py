"""Signing in with an API key, where keys are required, and out again."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from domain.errors import Unauthorized
from web.access import Callers
from web.console.rendering import page
from web.console.visitors import HOME, KEY, Forms, Visitors, is_console, put_cookie
from workers.access import Access

pages = APIRouter(prefix=HOME)


@pages.get("/sign-in")
def sign_in_page(visitor: Visitors, to: str = HOME) -> Response:
    return page(visitor, "sign_in.html", to=_ours(to), wrong=False)


@pages.post("/sign-in")
async def sign_in(request: Request, visitor: Visitors, form: Forms) -> Response:
    """The key stays with the browser, where no script can read it and no other site can have it sent."""
    access: Access = request.app.state.access
    key, to = form.get("key", "").strip(), _ours(form.get("to", HOME))
    try:
        await run_in_threadpool(access.admit, key)
    except Unauthorized:
        return page(visitor, "sign_in.html", 401, to=to, wrong=True)
    response = RedirectResponse(to, 303)
    put_cookie(response, KEY, key, secure=visitor.secure)
    return visitor.dress(response)


@pages.post("/sign-out")
def sign_out(visitor: Visitors, caller: Callers, form: Forms) -> Response:
    response = RedirectResponse(f"{HOME}/sign-in", 303)
    response.delete_cookie(KEY, path=HOME, httponly=True, samesite="strict", secure=visitor.secure)
    return response


def _ours(to: str) -> str:
    """An address of the console's own: nobody is sent anywhere else from here."""
    path = to.partition("?")[0]
    return (
        to if is_console(path) and "\\" not in to and "/../" not in to and to.isprintable() and to.isascii() else HOME
    )
