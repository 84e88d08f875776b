"""Who looks at a page, and how they want it: key, language, colours, and the token that their forms must bring."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from domain.errors import Forbidden, InvalidRequest
from workers.access import Caller

HOME = "/console"
KEY, FORM, LANGUAGE, THEME = (f"promptctx_{name}" for name in ("key", "form", "lang", "theme"))
"""Cookies. They are sent to the console's pages alone, never to the API."""

TOKEN = "form"
"""The field of a form that shows that one of our pages sent it."""

MAX_FORM = 64 * 1024
MAX_FIELDS = 50
YEAR = 365 * 24 * 3600

Language = Literal["en", "zh"]
Theme = Literal["auto", "light", "dark"]
LANGUAGES: Mapping[str, Language] = {"en": "en", "zh": "zh"}
THEMES: Mapping[str, Theme] = {"auto": "auto", "light": "light", "dark": "dark"}


@dataclass(frozen=True, slots=True)
class Visitor:
    """`fresh` are cookies that the answer has to set. `part` tells that htmx asks, for a piece of the page it shows."""

    path: str
    language: Language = "en"
    theme: Theme = "auto"
    caller: Caller | None = None
    secure: bool = False
    part: bool = False
    signed_in: bool = False
    token: str = ""
    fresh: Mapping[str, str] = field(default_factory=dict)

    def may(self, *scopes: str) -> bool:
        """Whether their key has one of the scopes: what it lacks is not offered."""
        return self.caller is not None and bool(self.caller.scopes.intersection(scopes))

    def dress(self, response: Response) -> Response:
        for name, value in self.fresh.items():
            put_cookie(response, name, value, secure=self.secure, lasting=name in (LANGUAGE, THEME))
        return response


def is_console(path: str) -> bool:
    return path == HOME or path.startswith(f"{HOME}/")


def key_of(scope: Scope, headers: Headers) -> str | None:
    """The key that a sign-in left with the browser; only the console's pages take it from there."""
    return cookies_of(headers).get(KEY) if is_console(scope["path"]) else None


def cookies_of(headers: Headers) -> dict[str, str]:
    return cookie_parser(headers.get("cookie", ""))


def visitor_of(scope: Scope) -> Visitor:
    """Whoever asks, whether they were admitted or not."""
    request = Request(scope)
    cookies, query = cookies_of(request.headers), request.query_params
    asked = {LANGUAGE: LANGUAGES.get(query.get("lang", "")), THEME: THEMES.get(query.get("theme", ""))}
    fresh: dict[str, str] = {name: value for name, value in asked.items() if value}
    browser = cookies.get(FORM, "")
    if not _is_ours(browser):
        browser = fresh[FORM] = secrets.token_urlsafe(32)
    theme = asked[THEME] or THEMES.get(cookies.get(THEME, "")) or "auto"
    return Visitor(
        path=request.url.path,
        language=LANGUAGES.get(fresh.get(LANGUAGE) or cookies.get(LANGUAGE, "")) or spoken(request.headers),
        theme=THEMES[theme],
        caller=scope.get("state", {}).get("caller"),
        secure=request.url.scheme == "https",
        part=request.headers.get("HX-Request") == "true",
        signed_in=bool(cookies.get(KEY)),
        token=token_for(browser, cookies.get(KEY, "")),
        fresh=fresh,
    )


def _is_ours(browser: str) -> bool:
    return 20 <= len(browser) <= 100 and browser.isascii()


def spoken(headers: Headers) -> Language:
    """The first language of the browser's that there are words in. Weights are in order in every browser's header."""
    for one in headers.get("accept-language", "")[:500].split(","):
        if known := LANGUAGES.get(one.partition(";")[0].strip().lower().partition("-")[0]):
            return known
    return "en"


def token_for(browser: str, key: str) -> str:
    """What a form of this browser's carries. Whoever plants a cookie does not know the key that it is mixed with."""
    return hmac.new(f"{browser}/{key}".encode(), b"promptctx console form", hashlib.sha256).hexdigest()


def put_cookie(response: Response, name: str, value: str, *, secure: bool, lasting: bool = False) -> None:
    response.set_cookie(
        name, value, path=HOME, httponly=True, samesite="strict", secure=secure, max_age=YEAR if lasting else None
    )


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form. Raises Forbidden unless a page of ours sent it."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM:
            raise InvalidRequest("The form is too large.", path="body")
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise InvalidRequest("The form cannot be read.", path="body") from None
    cookies = cookies_of(request.headers)
    expected = token_for(cookies.get(FORM, ""), cookies.get(KEY, ""))
    if not cookies.get(FORM) or not hmac.compare_digest(fields.get(TOKEN, "").encode(), expected.encode()):
        raise Forbidden("This form has expired; go back, load the page anew and send it again.")
    return fields


async def _visitor(request: Request) -> Visitor:
    return visitor_of(request.scope)


Visitors = Annotated[Visitor, Depends(_visitor)]
Forms = Annotated[dict[str, str], Depends(form_of)]
