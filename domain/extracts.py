"""What of a unit is worth carrying on once it leaves the window: small fragments, each readable on its own.

A fragment keeps a value beside the words it stood with, because a value without its name is of no use: a JSON leaf
with its key, a call with its arguments, a line or sentence of a text. Which of them are kept is for `summaries`.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.canonical import depth
from domain.conversation import arguments_text
from domain.fields import declared
from domain.rendering.neutral import Neutral, text_of
from domain.text import ending, inline, opening, pieces
from domain.windows import Unit

LONGEST = 200
"""Characters of one fragment."""

LONGEST_TEXT = 48_000
"""Characters of one message that are looked at, from both ends: what a person would skim."""

REFERENCE_FROM = 1_200
"""Characters from which a text that is cut carries its reference, to be expanded again."""

PIECE = 80
"""Characters of a piece of a line that is too long to be kept or left as a whole."""

ARGUMENT_WEIGHT = 0.5
"""What a short argument of a call is worth for its own sake."""

LINE_WEIGHT = 0.2
"""What a line of a text is worth for its own sake when the text is made smaller in place."""

DEEPEST = 64
"""Levels of JSON that a result may have and still be read as JSON."""

IDENTIFIER = re.compile(r"[A-Za-z0-9_./:#@-]{4,}")
_TELLING = re.compile(r"[0-9_/.]")
_SENTENCE = re.compile(r"(?<=[.!?。！？；;])\s+|(?<=[。！？；])|\n+")
_STAMP = re.compile(r"(?:created|updated|modified|time_?stamp|_at$)", re.IGNORECASE)
_TROUBLE = ("error", "exception", "fail", "denied", "not found", "traceback", "错误", "失败", "异常", "拒绝")


@dataclass(frozen=True, slots=True)
class Fragment:
    """One piece of a note, as it stands in its message: `values` are the identifiers and leaf values it carries,
    `weight` what else it is worth."""

    text: str
    values: tuple[str, ...] = ()
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Note:
    """What one message says, in fragments; `lead` opens it: who spoke, which tool was called, how it answered."""

    lead: str
    fragments: tuple[Fragment, ...]
    close: str = ""
    role: str = "assistant"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a session's messages are read: names of the speakers, and the fields that tools declare."""

    speakers: Mapping[str, str]
    fields: Mapping[str, tuple[str, ...]]


def notes(unit: Unit, reading: Reading) -> list[Note]:
    """The notes of a unit in the order of its messages."""
    found: list[Note] = []
    for message in unit.messages:
        found += _notes(message, reading)
    return found


def _notes(message: Neutral, reading: Reading) -> Iterator[Note]:
    text = "\n".join(map(text_of, message.parts))
    mark = f" [{reference_id(message)}]" if len(text) >= REFERENCE_FROM else ""
    if message.role == "tool":
        rules = reading.fields.get(message.tool or "", ())
        yield Note(f"→ {message.status or 'ok'}{mark}: ", tuple(_result(text, rules)), role="tool")
        return
    weight = 1.0 if message.role == "user" else 0.0
    if text.strip():
        lead = f"{reading.speakers[message.role]}{mark}: "
        yield Note(lead, tuple(_sentences(_skimmed(text), weight)), role=message.role)
    for call in message.calls:
        yield Note(f"{inline(call.name)}(", tuple(_arguments(arguments_text(call.arguments))), ")", "call")


def reference_id(message: Neutral) -> str:
    """Under what a message can be expanded again: its seq in the log, which no trim, rollback or fork changes."""
    return f"e{message.seq}"


def _arguments(text: str) -> list[Fragment]:
    found = parsed(text)
    if isinstance(found, dict):
        return [_argument(piece) for leaf in leaves(found) for piece in _split(leaf)]
    text = opening(text, LONGEST)
    return [Fragment(text, identifiers(text), ARGUMENT_WEIGHT)] if text.strip() else []


def _argument(piece: Fragment) -> Fragment:
    # What a call was about stands in its short arguments, not in the text that it writes.
    return piece if len(piece.text) > PIECE else Fragment(piece.text, piece.values, piece.weight + ARGUMENT_WEIGHT)


def _result(text: str, rules: Sequence[str]) -> list[Fragment]:
    found = parsed(text)
    if rules and found is not None:
        found = declared(found, rules) or found
    if isinstance(found, dict | list):
        return [piece for leaf in leaves(found) for piece in _split(leaf)]
    return list(_sentences(_skimmed(text), 0.0))


def parsed(text: str) -> Any:
    """The array or object that a text is; None for a text that is none, or one that no program would write."""
    if text[:1] not in "{[":
        return None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if depth(value) <= DEEPEST else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def leaves(value: Any, key: str = "") -> Iterator[Fragment]:
    """The leaves of a JSON value as `key: value` in order, one fragment each; a list of plain values is one leaf."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, str(name))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for item in value:
            yield from leaves(item, key)
    elif isinstance(value, list):
        if value:
            yield _leaf(key, [_plain(item) for item in value])
    elif value not in (None, "", {}):
        yield _leaf(key, [_plain(value)])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _leaf(key: str, values: list[str]) -> Fragment:
    text = ", ".join(values)
    if _STAMP.search(key):
        return Fragment(f"{key}: {text}")
    carried = tuple(value for value in values if 4 <= len(value) <= 80) or identifiers(text)
    return Fragment(f"{key}: {text}" if key else text, carried)


def _split(leaf: Fragment) -> Iterator[Fragment]:
    """A leaf as one fragment, a long one as its sentences."""
    if len(leaf.text) <= LONGEST // 2 and "\n" not in leaf.text:
        yield leaf
    else:
        yield from _sentences(_skimmed(leaf.text), 0.0)


def _sentences(text: str, weight: float) -> Iterator[Fragment]:
    trouble = _tells_trouble(text)
    for sentence in _SENTENCE.split(text):
        line = sentence.strip()
        for piece in pieces(line, LONGEST):
            worth = weight + 1.0 if trouble and _tells_trouble(piece) else weight
            yield Fragment(piece, identifiers(piece), worth)


def _tells_trouble(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _TROUBLE)


def identifiers(text: str) -> tuple[str, ...]:
    """The identifier-like words of a text: paths, numbers, names with digits, dots or underscores."""
    found = [word.strip(".:-") for word in IDENTIFIER.findall(text) if not word.isalpha()]
    return tuple(dict.fromkeys(word for word in found if len(word) >= 4 and _TELLING.search(word)))


def _skimmed(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{opening(text, half)}\n{ending(text, half)}"


def lines_of(text: str) -> list[tuple[str, Fragment]]:
    """The lines of a text as they are, a long one in pieces, each with the fragment it makes."""
    found = []
    for line in text.split("\n"):
        for piece in [line] if len(line) <= LONGEST else _wrapped(line):
            if piece.strip():
                trouble = 1.0 if _tells_trouble(piece) else 0.0
                found.append((piece, Fragment(piece, identifiers(piece), trouble + LINE_WEIGHT)))
    return found


def _wrapped(line: str) -> Iterator[str]:
    for piece in textwrap.wrap(line, PIECE, break_long_words=False, break_on_hyphens=False):
        yield from pieces(piece, PIECE)
