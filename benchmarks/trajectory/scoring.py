"""Scores of one prompt: grounding of the values that the next call needed, rule breaks, and the shared prefix.

A value is grounded when it stands in the prompt beside a word that stood beside it before: a bare list of identifiers
says nothing about what they are, and does not count.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.rendering.openai import count_message

Json = Any
WireMessage = dict[str, Any]
"""One chat message in the `openai` format."""

SHORTEST, LONGEST = 4, 80
"""Characters of an argument that is needed as it stands; of a longer one, its identifier-like pieces are."""

BESIDE_BEFORE, BESIDE_NOW = 40, 80
"""Characters between a value and a word of its context, where it stood first and in the prompt."""

_PIECE = re.compile(r"[A-Za-z0-9_./:#@-]{4,}")
_TELLING = re.compile(r"[0-9_/.]")
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"(?:(?![{_CJK}])[^\W\d_]){{3,}}|[{_CJK}]+")
_LONGEST_WORD = 64


def text_of(message: WireMessage) -> str:
    """All that a message says: its texts, then its calls with their arguments."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    rows = [content] if content else []
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    rows += [f"{call['name']}({call['arguments']})" for call in calls]
    return "\n".join(rows)


# --- what a call needs ------------------------------------------------------------------------------------------------


def candidates(arguments: str) -> set[str]:
    """The values of a call's arguments that may have come from somewhere: short leaves, pieces of long ones."""
    try:
        parsed = json.loads(arguments, parse_float=str, parse_int=str)
    except ValueError:
        parsed = arguments
    found: set[str] = set()
    for leaf in _leaves(parsed):
        if SHORTEST <= len(leaf) <= LONGEST:
            found.add(leaf)
        elif len(leaf) > LONGEST:
            found.update(piece for piece in _PIECE.findall(leaf) if _TELLING.search(piece))
    return found


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value


class Earlier:
    """What was said before a turn; grows with the session and remembers the context of each value asked for."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._seen: set[str] = set()
        self._known: dict[str, tuple[int, set[str]]] = {}

    def add(self, text: str) -> None:
        """A message; one that was said before changes nothing."""
        if text not in self._seen:
            self._seen.add(text)
            self._texts.append(text)

    def context(self, value: str) -> set[str] | None:
        """The words that stood beside the value in any message so far; None if it never stood in one."""
        read, words = self._known.get(value, (0, set()))
        seen = value in self._known
        for text in self._texts[read:]:
            for start in _occurrences(text, value):
                seen = True
                words |= _words_beside(text, start, start + len(value), BESIDE_BEFORE)
        if seen:
            self._known[value] = (len(self._texts), words)
        return words if seen else None

    def needed(self, calls: Iterable[str]) -> dict[str, set[str]]:
        """The values that these arguments took from earlier messages, each with the words that stood beside it."""
        found: dict[str, set[str]] = {}
        for value in sorted({value for arguments in calls for value in candidates(arguments)}):
            context = self.context(value)
            if context is not None:
                found[value] = context
        return found


def _occurrences(text: str, value: str) -> Iterator[int]:
    start = text.find(value)
    while start >= 0:
        yield start
        start = text.find(value, start + 1)


def _words_beside(text: str, start: int, end: int, reach: int) -> set[str]:
    """The words whose nearer edge is within `reach` characters of text[start:end], without those that overlap it."""
    first = max(0, start - reach - _LONGEST_WORD)
    found = set()
    for match in _WORD.finditer(text, first, min(len(text), end + reach + _LONGEST_WORD)):
        if start - reach <= match.end() <= start or end <= match.start() <= end + reach:
            found.add(match[0])
    return found


# --- whether it is there ----------------------------------------------------------------------------------------------

Standing = str
"""`grounded`, `bare` (it stands there, but beside no word of its context) or `absent`."""


def standing(value: str, context: set[str], texts: Sequence[str]) -> Standing:
    """How the value stands in a prompt's messages."""
    found = "absent"
    for text in texts:
        for start in _occurrences(text, value):
            if _words_beside(text, start, start + len(value), BESIDE_NOW) & context:
                return "grounded"
            found = "bare"
    return found


# --- rules ------------------------------------------------------------------------------------------------------------

RULES = ("over_budget", "orphans", "lost_system", "lost_instruction")


def broken_rules(
    messages: Sequence[WireMessage], tokens: int, budget: int, system: str | None, instruction: str | None
) -> list[str]:
    """The rules that a prompt breaks; `system` and `instruction` are the texts that must stand in it."""
    broken = []
    if tokens > budget:
        broken.append("over_budget")
    if has_orphans(messages):
        broken.append("orphans")
    if system and not any(system in text_of(one) for one in messages if one["role"] == "system"):
        broken.append("lost_system")
    if instruction and not any(instruction in text_of(one) for one in messages if one["role"] != "assistant"):
        broken.append("lost_instruction")
    return broken


def has_orphans(messages: Sequence[WireMessage]) -> bool:
    """Whether a call lacks its answer directly behind it, or an answer its call."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return True
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return True
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return bool(waiting)


# --- prefix -----------------------------------------------------------------------------------------------------------


def shared_prefix(before: Sequence[WireMessage], after: Sequence[WireMessage], count: Callable[[str], int]) -> int:
    """Tokens at the head of `after` that are the same as at the head of `before`, up to within a message."""
    tokens = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            return tokens + _shared_text(old, new, count)
        tokens += count_message(new, count)
    return tokens


def _shared_text(old: WireMessage, new: WireMessage, count: Callable[[str], int]) -> int:
    one, other = old.get("content"), new.get("content")
    if old["role"] != new["role"] or not isinstance(one, str) or not isinstance(other, str):
        return 0
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return count(new["role"]) + count(other[:length]) if length else 0


@dataclass(slots=True)
class PrefixBound:
    """How much of a prompt can be reused when whole units are kept as long as they fit and cut to a water mark.

    It keeps every unit until the next one does not fit, and then cuts whole units from the front until no more than
    `low_water` of the room is held. A prompt that fits reuses all of the one before it; after a cut only what stands
    before the window is the same: the system prompt, and the newest directive if it is older than the window.
    """

    budget: int
    low_water: float
    reused: int = 0
    total: int = 0
    _cut: int = 0
    _held: int | None = None
    _instruction: int | None = None
    _shrunk: dict[int, int] = field(default_factory=dict)

    def step(self, units: Sequence[tuple[int, int]], instruction: int | None, fixed: int, *, counts: bool) -> None:
        """The next turn: its units as (seq, tokens), the seq of the unit with the newest directive, and the tokens that
        stand before the history. The turn before the first that counts is only looked at."""
        sizes = [(seq, self._shrunk.get(seq, tokens)) for seq, tokens in units]
        held = fixed + sum(tokens for seq, tokens in sizes if seq >= self._cut or seq == instruction)
        reused = self._held or 0
        if held > self.budget:
            told = dict(sizes).get(instruction, 0) if instruction is not None else 0
            self._trim([one for one in sizes if one[0] != instruction], self.budget - fixed - told)
            same = instruction is not None and instruction == self._instruction and instruction < self._cut
            reused = fixed + (told if same else 0) if self._held is not None else 0
            held = (
                fixed
                + told
                + sum(self._shrunk.get(seq, tokens) for seq, tokens in sizes if seq >= self._cut and seq != instruction)
            )
        if counts and self._held is not None:
            self.reused += min(reused, held)
            self.total += held
        self._held, self._instruction = held, instruction

    def _trim(self, sizes: Sequence[tuple[int, int]], room: int) -> None:
        """Whole units from the newest back; a newest one that is over the mark alone is cut down to it."""
        left = max(0, int(room * self.low_water))
        if sizes and sizes[-1][1] > left:
            self._shrunk[sizes[-1][0]] = left
            self._cut = sizes[-1][0]
            return
        for seq, tokens in reversed(sizes):
            left -= tokens
            if left < 0:
                break
            self._cut = seq
