"""From a template to an answer: autoescaped, in the visitor's language, under a policy against foreign scripts."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from web.console import showing
from web.console.bars import ZONES
from web.console.chinese import CHINESE
from web.console.visitors import HOME, TOKEN, Language, Visitor

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Cookie, Accept-Language, HX-Request",
}

_TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "seen": showing.seen,
    "named": showing.named,
    "number": showing.number,
    "when": showing.when,
    "seg": showing.segment,
    "as_json": showing.as_json,
    "gist": showing.opening,
    "short": showing.short,
}
_TEMPLATES.globals |= {"query": showing.query, "ZONES": ZONES, "HOME": HOME, "TOKEN": TOKEN}


def translated(language: Language, text: str, **values: Any) -> str:
    """The text in a language, with `{names}` filled in. English is its own key; what has no other words stays so."""
    found = CHINESE.get(text, text) if language == "zh" else text
    return found.format(**values) if values else found


def words(language: Language) -> Callable[..., str]:
    return partial(translated, language)


def page(visitor: Visitor, template: str, status: int = 200, **values: Any) -> Response:
    """A page, or when htmx asks, the part of it that it asked for."""
    text = fragment(visitor, template, layout="part.html" if visitor.part else "page.html", **values)
    # Halves of surrogate pairs are written out where texts are shown; wherever else one is, it must not break a page.
    response = Response(text.encode("utf-8", "replace"), status, HEADERS, "text/html; charset=utf-8")
    return visitor.dress(response)


def fragment(visitor: Visitor, template: str, **values: Any) -> str:
    known: Mapping[str, Any] = {"visitor": visitor, "_": words(visitor.language), "layout": "part.html"}
    return _TEMPLATES.get_template(template).render({**known, **values})
