"""langmem: `summarize_messages` with its running summary, its model being an extractive summariser.

The summariser writes a line per message (its first sentences; of a call its name and arguments; of a result its
beginning), keeps what the summary held before, and drops the oldest lines when they do not fit.
"""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from benchmarks.trajectory.peer_side.serve import Answer, Lane, count_text, serve, timed

short_term: Any = import_module("langmem.short_term")
utils: Any = import_module("langchain_core.messages.utils")
messages_of: Any = import_module("langchain_core.messages")
runnables: Any = import_module("langchain_core.runnables")

SUMMARY_SHARE, SUMMARY_MOST = 0.15, 600
BEFORE = "This is summary of the conversation so far: "
SENTENCE = re.compile(r"(?<=[.!?。！？\n])\s*")
OVERHEAD = 20
"""Tokens of the message that holds the summary, besides the summary."""


def prompt(lane: Lane) -> tuple[Sequence[Answer], float]:
    known, running = lane.state or ([], None)
    del known[lane.kept :]
    for place, message in enumerate(lane.messages[len(known) :], start=len(known)):
        made = utils.convert_to_messages([message])[0]
        made.id = str(place)
        known.append(made)
    most = max(1, min(int(lane.room * SUMMARY_SHARE), SUMMARY_MOST))

    def counted(messages: Any) -> int:
        return sum(
            lane.tokens[int(one.id)] if one.id is not None else OVERHEAD + count_text(str(one.content))
            for one in messages
        )

    def work() -> Any:
        return short_term.summarize_messages(
            list(known),
            running_summary=running,
            model=runnables.RunnableLambda(lambda asked: messages_of.AIMessage(summary(asked, most))),
            max_tokens=lane.budget - lane.base,
            max_tokens_before_summary=max(1, lane.room - most - OVERHEAD),
            max_summary_tokens=most + OVERHEAD,
            token_counter=counted,
        )

    found, ms = timed(work)
    lane.state = known, found.running_summary or running
    return [_answer(message) for message in found.messages], ms


def _answer(message: Any) -> Answer:
    return int(message.id) if message.id is not None else {"role": "system", "content": str(message.content)}


def summary(asked: Any, most: int) -> str:
    """The newest lines that fit, oldest first."""
    messages = asked.to_messages() if hasattr(asked, "to_messages") else list(asked)
    *told, request = messages
    head = str(request.content)
    lines = head.removeprefix(BEFORE).rsplit("\n\n", 1)[0].split("\n") if head.startswith(BEFORE) else []
    lines += [line for line in map(_line, told) if line]
    kept: list[str] = []
    for line in reversed(lines):
        most -= count_text(line) + 1
        if most < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept)) or "(nothing)"


def _line(message: Any) -> str:
    text = message.text if isinstance(message.text, str) else message.text()
    if message.type == "tool":
        return f"→ {_opening(text, 80)}"
    calls = (
        "; ".join(f"{call['name']}({_opening(str(call['args']), 120)})" for call in message.tool_calls or ())
        if (message.type == "ai")
        else ""
    )
    said = " ".join(part for part in (_opening(text, 160), calls) if part)
    return f"{message.type}: {said}" if said else ""


def _opening(text: str, limit: int) -> str:
    found = ""
    for sentence in SENTENCE.split(text[: limit * 4]):
        if found and len(found) + len(sentence) > limit:
            break
        found = f"{found} {sentence}".strip()
    return " ".join(found[:limit].split())


if __name__ == "__main__":
    serve("langmem", prompt)
