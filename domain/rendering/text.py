"""The `text` format: one string. Each message opens with a line that begins with `@@ `.

A line of content that begins with `@@`, or with backslashes before it, gets one more backslash: `unescape` takes it
away again, so that every text comes back exactly and none can open a message.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from domain.canonical import canonical_json
from domain.rendering.images import Costs
from domain.rendering.neutral import EMPTY, Neutral, arguments_of, is_empty, texts_of
from domain.rows import Tool
from domain.text import well_formed, well_formed_json

_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_MARK = re.compile(f"(^|[{_BREAKS}])(\\\\*)@@")
_ESCAPED = re.compile(f"(^|[{_BREAKS}])\\\\(\\\\*)@@")
_SPACE = re.compile(r"\s")


def escape(text: str) -> str:
    return _MARK.sub(r"\1\\\2@@", text)


def unescape(text: str) -> str:
    return _ESCAPED.sub(r"\1\2@@", text)


def payload(messages: Sequence[Neutral], tools: Sequence[Tool]) -> dict[str, Any]:
    made = [_tools(tools)] if tools else []
    made += [_message(message) for message in messages if not is_empty(message)]
    return {"text": "\n".join(made) + "\n"}


def _tools(tools: Sequence[Tool]) -> str:
    rows = [
        canonical_json(
            well_formed_json({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        )
        for tool in tools
    ]
    return "\n".join(["@@ tools", *(escape(row.decode("utf-8")) for row in rows)])


def _message(message: Neutral) -> str:
    if message.role == "tool":
        frame = f"@@ result {_word(message.answers or '')} {message.status or 'ok'}"
        return "\n".join([frame, escape("\n".join(texts_of(message.parts)) or EMPTY)])
    rows = [f"@@ {message.role}"]
    rows += [escape(text) for text in texts_of(message.parts)]
    if len(rows) == 1 and message.role == "user":
        rows.append(EMPTY)
    for call in message.calls:
        rows += [f"@@ call {_word(call.id)} {_word(call.name)}", escape(arguments_of(call))]
    return "\n".join(rows)


def _word(text: str) -> str:
    """An id or name on a frame line: white space in it must not end the word, nor the line."""
    return _SPACE.sub("_", well_formed(text))


def image_costs(messages: Sequence[Neutral]) -> Costs:
    """An image is a word about it here."""
    return {}


def count(made: dict[str, Any], count_text: Callable[[str], int], costs: Costs) -> int:
    return count_text(made["text"])
