"""Tokens of a payload, counted a second time: from the payload alone, by the rule the formats document.

Nothing here comes from the code that is being checked, not even the counter: this is tiktoken itself. Special-token
text is ordinary text. Whoever calls sees to it that tiktoken finds its rank files (TIKTOKEN_CACHE_DIR).

`openai`: a message costs 3 tokens and those of its role, texts, call ids, names and arguments; each call and each
further content part 3 more; a reply is primed with 3; a tool costs its JSON and 8.

`anthropic`: a content block costs 4 tokens and those of its texts, ids, names and input; the system text costs 4 more;
a reply is primed with 3; a tool costs its JSON and 8.

An image costs by its size: for `openai` 85 at low detail, else 85 and 170 for each tile of 512 once it is scaled into
2,048 and to a short side of 768; for `anthropic` its area over 750 once it is scaled to a long side of 1,568, 1,600 at
the most. One of unknown size costs 1,445 or 1,600.

A model whose tokenizer is not public is counted in o200k_base, times a safety factor, rounded up.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import rfc8785
import tiktoken

Json = Any
Sizes = Mapping[str, tuple[int, int]]
"""Width and height of images by their URL or data."""

NO_SIZES: Sizes = {}

_SURROGATE = re.compile("[\ud800-\udfff]")
_PUBLIC = re.compile(r"(chatgpt-4o|gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|gpt-oss|o\d+)\b")
_OLDER = re.compile(r"(gpt-4|gpt-3\.5|gpt-35)\b(?!\.)")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    encoding: str = "o200k_base"
    factor: float = 1.0

    def count(self, text: str) -> int:
        return _tokens(text, self.encoding)

    def scaled(self, tokens: int) -> int:
        """Tokens of the model, as budgets are given."""
        return math.ceil(tokens * self.factor)


def tokenizer_of(model: str | None) -> Tokenizer:
    """The documented choice: public encodings exact, Claude times 1.25, models nobody published times 1.15."""
    if model is None:
        return Tokenizer()
    name = model.strip().lower().rsplit("/", 1)[-1].removeprefix("ft:")
    if _PUBLIC.match(name):
        return Tokenizer()
    if _OLDER.match(name):
        return Tokenizer("cl100k_base")
    return Tokenizer(factor=1.25 if "claude" in name else 1.15)


@cache
def _encoding(name: str) -> tiktoken.Encoding:
    return tiktoken.get_encoding(name)


@cache
def _tokens(text: str, encoding: str) -> int:
    return len(_encoding(encoding).encode_ordinary(text))


def canonical(value: Json) -> str:
    """RFC 8785; whole numbers that it refuses as too large are written as their digits."""
    try:
        return rfc8785.dumps(value).decode()
    except rfc8785.CanonicalizationError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def well_formed(text: str) -> str:
    """Lone surrogates, which no encoder takes, as U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def payload_tokens(payload: Json, target: str, tokenizer: Tokenizer, sizes: Sizes = NO_SIZES) -> int:
    """All tokens of a payload, in those of the encoding. `sizes` are those of its images."""
    count = tokenizer.count
    total = 3 + sum(8 + count(canonical(tool)) for tool in payload.get("tools", ()))
    if target == "openai":
        return total + sum(openai_message(message, tokenizer, sizes) for message in payload["messages"])
    if "system" in payload:
        total += 4 + count(payload["system"])
    return total + sum(
        anthropic_block(block, tokenizer, sizes) for message in payload["messages"] for block in message["content"]
    )


def openai_message(message: Json, tokenizer: Tokenizer, sizes: Sizes = NO_SIZES) -> int:
    count = tokenizer.count
    content = message["content"]
    total = 3 + count(message["role"])
    if isinstance(content, str):
        total += count(content)
    for part in content if isinstance(content, list) else ():
        total += 3 + (_openai_image(part["image_url"], sizes) if part["type"] == "image_url" else count(part["text"]))
    if "tool_call_id" in message:
        total += count(message["tool_call_id"])
    for call in message.get("tool_calls", ()):
        function = call["function"]
        total += 3 + count(call["id"]) + count(function["name"]) + count(function["arguments"])
    return total


def _openai_image(image: Json, sizes: Sizes) -> int:
    if image.get("detail") == "low":
        return 85
    size = sizes.get(image_text(image["url"]))
    if size is None:
        return 1445
    wide, high = size
    scale = min(1.0, 2048 / max(size))
    scale *= min(1.0, 768 / (scale * min(size)))
    tiles = [max(1, math.ceil(round(side * scale, 6) / 512)) for side in (wide, high)]
    return 85 + 170 * tiles[0] * tiles[1]


def _anthropic_image(source: Json, sizes: Sizes) -> int:
    size = sizes.get(source.get("url") or source.get("data") or "")
    if size is None:
        return 1600
    scale = min(1.0, 1568 / max(size))
    wide, high = (max(1.0, side * scale) for side in size)
    return min(1600, math.ceil(round(wide * high / 750, 6)))


def image_text(url: str) -> str:
    """The data in a data URL, any other URL as it is."""
    return url.split(",", 1)[1] if url.startswith("data:") and "," in url else url


def anthropic_block(block: Json, tokenizer: Tokenizer, sizes: Sizes = NO_SIZES) -> int:
    count = tokenizer.count
    match block["type"]:
        case "text":
            return 4 + count(block["text"])
        case "tool_use":
            return 4 + count(block["id"]) + count(block["name"]) + count(canonical(block["input"]))
        case "tool_result":
            return 4 + count(block["tool_use_id"]) + count(block["content"])
        case "thinking":
            return 4 + count(block["thinking"]) + count(block["signature"])
        case "redacted_thinking":
            return 4 + count(block["data"])
        case _:
            return 4 + _anthropic_image(block["source"], sizes)
