"""sumy: an extractive summary of what does not fit, by sentences, before the last whole messages.

The frame is the plain one: system message, newest directive, summary, the longest suffix of whole units. sumy chooses
the sentences (Luhn's method: of its own it is the one whose time grows with the text, not with its square), by rating
until their share of the room is full. Its own tokenizer wants data that it would download; words are found by a
pattern instead.
"""

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from benchmarks.trajectory.peer_side.serve import Answer, Lane, Wire, count_text, serve, text_of, timed

METHOD = "Luhn"
SHARE = 0.3
"""The share of the room that the summary may take when something has to go."""

HEAD = "(Summary of the earlier conversation.)"
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
WORD = re.compile(r"[A-Za-z0-9_./:#@-]{2,}|[\u4e00-\u9fff]")
LONGEST = 300

dom: Any = import_module("sumy.models.dom")
summarizers: Any = import_module(f"sumy.summarizers.{METHOD.replace('Rank', '_rank').lower()}")


class Words:
    """The tokenizer that sumy's sentences ask."""

    def to_words(self, text: str) -> tuple[str, ...]:
        return tuple(WORD.findall(text))


def prompt(lane: Lane) -> tuple[Sequence[Answer], float]:
    return timed(lambda: _prompt(lane))


def _prompt(lane: Lane) -> Sequence[Answer]:
    pieces = list(_units(lane))
    fixed = [piece for piece in pieces if lane.instruction in piece]
    room = lane.room - sum(_cost(lane, piece) for piece in fixed)
    free = [piece for piece in pieces if piece not in fixed]
    if sum(_cost(lane, piece) for piece in free) <= room:
        return list(range(len(lane.messages)))
    summary = int(room * SHARE)
    kept = _suffix(lane, free, room - summary)
    gone = [piece for piece in free if piece not in kept]
    text = _summary([lane.messages[at] for piece in gone for at in piece], summary - 10)
    places = [at for piece in sorted([*fixed, *kept], key=lambda piece: piece.start) for at in piece]
    made: list[Answer] = [{"role": "user", "content": text}] if text else []
    return [*range(lane.system), *made, *places]


def _units(lane: Lane) -> Iterator[range]:
    """A message, or one with calls and their answers, as places."""
    starts = [at for at in range(lane.system, len(lane.messages)) if lane.messages[at]["role"] != "tool"]
    for start, end in zip(starts, [*starts[1:], len(lane.messages)], strict=True):
        yield range(start, end)


def _cost(lane: Lane, piece: range) -> int:
    return sum(lane.tokens[at] for at in piece)


def _suffix(lane: Lane, pieces: Sequence[range], room: int) -> list[range]:
    kept = []
    for piece in reversed(pieces):
        room -= _cost(lane, piece)
        if room < 0:
            break
        kept.append(piece)
    return kept


def _summary(messages: Sequence[Wire], room: int) -> str:
    """The sentences that sumy rates highest, as many as fit, in their order."""
    found = [sentence[:LONGEST] for message in messages for sentence in _sentences(message)]
    found = list(dict.fromkeys(found))
    if not found or room <= count_text(HEAD):
        return ""
    document = dom.ObjectDocumentModel([dom.Paragraph([dom.Sentence(one, Words()) for one in found])])
    left = room - count_text(HEAD)

    def fitting(infos: Sequence[Any]) -> Sequence[Any]:
        nonlocal left
        taken = []
        for info in infos:
            cost = count_text(f"{info.sentence}\n")
            if cost <= left:
                left -= cost
                taken.append(info)
        return taken

    chosen = getattr(summarizers, f"{METHOD}Summarizer")()(document, fitting)
    return "\n".join([HEAD, *map(str, chosen)]) if chosen else ""


def _sentences(message: Wire) -> Iterator[str]:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    for text in (text_of(message), *(f"{call['name']}({call['arguments']})" for call in calls)):
        yield from (sentence.strip() for sentence in SENTENCE.split(text) if WORD.search(sentence))


if __name__ == "__main__":
    serve("sumy", prompt)
