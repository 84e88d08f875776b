"""A prompt as something to paste: a provider's request as JSON, or a command that sends it."""

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

KINDS: Mapping[str, str | None] = {"openai": "openai", "anthropic": "anthropic", "curl": None, "text": "text"}
"""What can be copied, with the format that it is made from; None is the prompt's own."""

MAX_OUTPUT = 1024
"""Tokens of an answer that a copied request to Anthropic allows, for it must name a number."""


def made(kind: str, prompt: Json) -> bytes:
    if kind == "curl":
        return _curl(prompt).encode()
    if kind == "text":
        return str(prompt["payload"]["text"]).encode("utf-8", "replace")
    return json.dumps(_body(prompt), ensure_ascii=False, indent=2).encode("utf-8", "replace")


def _body(prompt: Json) -> Json:
    payload: Json = prompt["payload"]
    model = prompt["model"] or ""
    if prompt["format"] == "anthropic":
        return {"model": model, "max_tokens": MAX_OUTPUT, **payload}
    return {"model": model, **payload}


def _curl(prompt: Json) -> str:
    """ASCII on one line between quoted marks: nothing in it means anything to a shell or to a terminal."""
    if prompt["format"] == "text":
        return json.dumps(prompt["payload"])
    if prompt["format"] == "anthropic":
        head = (
            'curl https://api.anthropic.com/v1/messages -H "x-api-key: $ANTHROPIC_API_KEY" '
            "-H 'anthropic-version: 2023-06-01'"
        )
    else:
        head = 'curl https://api.openai.com/v1/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY"'
    return f"{head} -H 'Content-Type: application/json' -d @- <<'PROMPT'\n{json.dumps(_body(prompt))}\nPROMPT\n"
