"""All pages of the console under one router, and the way there from the server's address."""

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from web.console import doors, operations, prompts, sessions, undo
from web.console.rendering import HERE
from web.console.visitors import HOME

console = APIRouter(include_in_schema=False)


@console.get("/")
def front() -> Response:
    return RedirectResponse(HOME, 303)


@console.get(f"{HOME}/")
def with_slash() -> Response:
    return RedirectResponse(HOME, 303)


for part in (doors, sessions, prompts, undo, operations):
    console.include_router(part.pages)
console.mount(f"{HOME}/static", StaticFiles(directory=HERE / "static"), name="static")
