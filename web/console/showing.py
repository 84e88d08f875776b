"""How values look on a page: texts with what cannot be seen in them made visible, numbers, times, addresses."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from web.bodies import to_json

# Control characters, bidirectional marks, invisible spaces and tags, halves of surrogate pairs. Not the joiners that
# emoji and some scripts need, nor tab and line feed.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def seen(text: Any) -> Markup:
    """A text of somebody else's: it stays text, and what would be invisible or turn it round is written out."""
    return Markup(_UNSEEN.sub(_mark, str(escape(str(text)))))


def named(name: str) -> Markup:
    """An id as people can see and click it: one of spaces alone is written out too."""
    return Markup("").join(map(_written, name)) if name.isspace() else seen(name)


def _mark(found: re.Match[str]) -> str:
    return _written(found[0])


def _written(char: str) -> Markup:
    return Markup(f'<span class="unseen">U+{ord(char):04X}</span>')


def number(value: int | float) -> str:
    return f"{value:,}"


def short(segment: str) -> str:
    """A segment's name, which may hold an event's id, as people can tell it from others."""
    kind, _, name = segment.partition(":")
    return f"{kind}:…{name[-6:]}" if kind == "message" else segment


def when(value: str | None) -> str:
    """A time of ours to the second."""
    return value[:19].replace("T", " ") if value else ""


def segment(name: Any) -> str:
    """One step of a path."""
    return quote(str(name), safe="", errors="replace")


def query(**values: Any) -> str:
    """A query string of what is given."""
    given = {
        name.rstrip("_"): value
        for name, value in values.items()
        if value is not None and value is not False and value != ""
    }
    return f"?{urlencode(given, errors='replace')}" if given else ""


def as_json(value: Any) -> str:
    """For reading: indented, other scripts as they are."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def opening(payload: Any, limit: int = 280) -> str:
    """What an event says, in a line or two."""
    return gist(payload)[: limit + 1]


def gist(payload: Any) -> str:
    if not isinstance(payload, Mapping):
        return ""
    pieces = [_content(payload.get("content"))]
    pieces += [_call(one) for one in payload.get("tool_calls") or () if isinstance(one, Mapping)]
    pieces += [_call(payload)] if "arguments" in payload and "name" in payload else []
    pieces += [
        str(payload[name]) for name in ("role", "text", "goal", "verdict", "note", "reason") if payload.get(name)
    ]
    if not any(pieces):
        rest = {name: value for name, value in payload.items() if value not in (None, [], {}, "")}
        pieces = [to_json(rest).decode("utf-8", "replace")[:600]] if rest else []
    return " ".join(" ".join(piece[:1200].split()) for piece in pieces if piece)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    return " ".join(str(part.get("text", f"[{part.get('type', '')}]")) for part in content if isinstance(part, Mapping))


def _call(call: Mapping[str, Any]) -> str:
    told = call.get("arguments")
    shown = told if isinstance(told, str) else to_json(told).decode("utf-8", "replace") if told else ""
    return f"→ {call.get('name', '')}({shown})"
