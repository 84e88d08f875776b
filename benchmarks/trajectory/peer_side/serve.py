"""The loop that all peers share: histories come in as JSON lines, prompts go out, and tokens are counted exactly.

In:   {"lane", "begin", "budget", "base", "keep", "new": [message…], "instruction"}
Out:  {"messages": [place in the history | message…], "ms"} or {"error"}

A lane is one session under one budget. `keep` messages stay as they were, `new` ones follow; `base` tokens of the
budget are spent before any message; `instruction` is the place of the newest directive.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any

Wire = dict[str, Any]
Answer = int | Wire
"""A message of the history by its place, or one that the peer made."""

_known: dict[str, int] = {}


def count_text(text: str) -> int:
    """Tokens in o200k_base; a text that was counted is not counted again."""
    found = _known.get(text)
    if found is None:
        found = _known[text] = len(_encoding().encode_ordinary(text))
    return found


def _encoding() -> Any:
    tiktoken: Any = import_module("tiktoken")
    return tiktoken.get_encoding("o200k_base")  # tiktoken itself loads it once


UNSIZED_IMAGE = 1445
"""Tokens of an image of unknown size, as the benchmark counts it: the dearest that OpenAI's tiles can cost."""


def count_message(message: Wire) -> int:
    """Tokens of a message as the benchmark counts them: 3 and its texts; each part and each call 3 more."""
    total = 3 + count_text(message["role"])
    content = message.get("content")
    if isinstance(content, str):
        total += count_text(content)
    for part in content if isinstance(content, list) else ():
        total += 3 + (count_text(part["text"]) if part.get("type") == "text" else UNSIZED_IMAGE)
    if "tool_call_id" in message:
        total += count_text(message["tool_call_id"])
    for call in message.get("tool_calls") or ():
        told = (call["id"], call["function"]["name"], call["function"]["arguments"])
        total += 3 + sum(map(count_text, told))
    return total


def text_of(message: Wire) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


@dataclass(slots=True)
class Lane:
    """One session under one budget: the history so far with its token counts, and what the peer keeps of it.

    `kept` is how many messages are the same as at the last prompt; `state` is the peer's own.
    """

    budget: int = 0
    base: int = 0
    messages: list[Wire] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    instruction: int | None = None
    kept: int = 0
    state: Any = None

    @property
    def system(self) -> int:
        """How many system messages the history begins with: none or one."""
        return int(bool(self.messages) and self.messages[0]["role"] == "system")

    @property
    def room(self) -> int:
        """Tokens left beside the system message."""
        return self.budget - self.base - sum(self.tokens[: self.system])

    def take(self, asked: Wire) -> None:
        self.budget, self.base, self.instruction = asked["budget"], asked["base"], asked["instruction"]
        self.kept = asked["keep"]
        self.messages[self.kept :] = asked["new"]
        self.tokens[self.kept :] = map(count_message, asked["new"])


Prompter = Callable[[Lane], tuple[Sequence[Answer], float]]
"""The prompt for a lane, and the milliseconds that the peer itself took for it."""


def serve(package: str, prompt: Prompter) -> None:
    """Answer until the input ends."""
    out = sys.stdout
    sys.stdout = sys.stderr  # what a peer prints must not get between the answers
    print(json.dumps({"version": metadata.version(package)}), file=out, flush=True)
    lanes: dict[int, Lane] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["begin"]:
            lanes[asked["lane"]] = Lane()
        if asked.get("end"):
            lanes.pop(asked["lane"], None)
            continue
        lane = lanes[asked["lane"]]
        lane.take(asked)
        try:
            messages, ms = prompt(lane)
            answer: Wire = {"messages": list(messages), "ms": ms}
        except Exception as error:  # told to the benchmark, which counts it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    found = work()
    return found, (time.perf_counter() - begun) * 1e3
