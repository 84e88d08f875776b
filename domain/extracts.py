"""What of a unit is worth carrying on once it leaves the window: small fragments, each readable on its own.

A fragment keeps a value beside the words it stood with, because a value without its name is of no use: a JSON leaf
with its key, a call with its arguments, a line or sentence of a text. Which of them are kept is for `summaries`.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from domain.canonical import depth
from domain.conversation import arguments_text
from domain.fields import declared
from domain.remembering import remembered
from domain.rendering.neutral import Neutral, text_of
from domain.text import ending, inline, opening, pieces
from domain.windows import Unit

LONGEST = 200
"""Characters of one fragment."""

LONGEST_TEXT = 48_000
"""Characters of one message that are looked at, from both ends: what a person would skim."""

REFERENCE_FROM = 1_200
"""Characters from which a text that is cut carries its reference, to be expanded again."""

REFERENCE_WEIGHT = 0.5
"""What the first words of a text that long are worth, so that its reference does not stand alone."""

PIECE = 80
"""Characters of a piece of a line that is too long to be kept or left as a whole."""

ARGUMENT_WEIGHT = 0.5
"""What a short argument of a call is worth for its own sake."""

WORD_WEIGHT, MOST_WORDS = 0.15, 10
"""What each word of a user's sentence is worth, so that a greeting does not outbid a wish; and how many count."""

RULE_WEIGHT = 2.0
"""What a user's sentence gains that lays something down."""

LINE_WEIGHT = 0.2
"""What a line of a text is worth for its own sake when the text is made smaller in place."""

DEEPEST = 64
"""Levels of JSON that a result may have and still be read as JSON."""

REMEMBERED = 4_000_000
"""Characters of texts whose fragments are remembered: those of a dozen prompts of usual size, or of a giant one."""

IDENTIFIER = re.compile(r"[A-Za-z0-9_./:#@-]{4,}")
_TELLING = re.compile(r"[0-9_/.]")
_SENTENCE = re.compile(r"(?<=[.!?。！？；;])\s+|(?<=[。！？；])|\n+")
_STAMP = re.compile(r"(?:created|updated|modified|time_?stamp|_at$)", re.IGNORECASE)
_WORD = re.compile(r"[\u4e00-\u9fff]{2}|(?:(?![\u4e00-\u9fff])[^\W\d_]){3,}")
_RULE = re.compile(
    r"\b(?:must|never|always|only|don[’']?t|do not|should ?n[o’']t|avoid|ensure|make sure|instead of|without|prefer|"
    r"at (?:most|least))\b|不要|不得|不能|不许|必须|务必|只能|只要|禁止|一定要|请勿|避免|最多|至少",
    re.IGNORECASE,
)
_TROUBLE = ("error", "exception", "fail", "denied", "not found", "traceback", "错误", "失败", "异常", "拒绝")


class Fragment(NamedTuple):
    """One piece of a note, as it stands in its message: `values` are the identifiers and leaf values it carries,
    `rarities` what each is worth by its looks, `weight` what else it is worth, `cost` about what tokens it takes, and
    `most` the most that it may be worth for each of them. A leaf of JSON has its `key`, and `named` of its tokens are
    saved behind another of that key, which is said once for both."""

    text: str
    values: tuple[str, ...]
    rarities: tuple[float, ...]
    weight: float
    cost: float
    most: float
    key: str = ""
    named: float = 0.0

    @classmethod
    def of(cls, text: str, values: tuple[str, ...] = (), weight: float = 0.0, key: str = "") -> "Fragment":
        size = 3.2 if text.isascii() else 1.5
        cost, named = 2 + len(text) / size, len(key) / size
        rarities = tuple([_rarity(value) for value in values])
        most = (sum(rarities) + USED * len(values) + weight) / (cost - named)
        return cls(text, values, rarities, weight, cost, most, key, named)


USED = 1.0
"""What a value gains that a call has used as an argument, or that a user has said."""

Fragments = tuple[Fragment, ...]


_OPAQUE = re.compile(r"(?=.*[A-Za-z_])(?=.*[0-9_/])")
_CODED = re.compile(r"[0-9/.]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}")
_NUMBER = re.compile(r"[-+$€¥]?[\d.,:%-]+")


@lru_cache(maxsize=65_536)
def _rarity(value: str) -> float:
    """What a value is worth by its looks: an opaque name cannot be guessed, a plain word or number often can."""
    if _DATE.fullmatch(value):
        return 1.0
    if _NUMBER.fullmatch(value):
        return 0.4
    if " " in value or not _OPAQUE.match(value):
        return 0.6
    return 1.5 if _CODED.search(value) else 0.8


class Note(NamedTuple):
    """What one message says, in fragments; `lead` opens it: who spoke, which tool was called, how it answered. `order`
    is that of the places of its fragments by the most that each may be worth, those worth nothing left out. `tool` is
    what answered, for a line that does not tell the call."""

    lead: str
    fragments: Fragments
    close: str
    role: str
    order: tuple[int, ...]
    tool: str = ""

    @classmethod
    def of(cls, lead: str, fragments: Sequence[Fragment], close: str = "", role: str = "assistant") -> "Note":
        return cls(lead, tuple(fragments), close, role, _order(fragments))


def _order(fragments: Sequence[Fragment]) -> tuple[int, ...]:
    worth = [one.most for one in fragments]
    return tuple(sorted([place for place, most in enumerate(worth) if most], key=worth.__getitem__, reverse=True))


Read = tuple[Fragments, tuple[int, ...]]
"""Fragments and their order."""


def _read(found: Iterable[Fragment]) -> Read:
    fragments = tuple(found)
    return fragments, _order(fragments)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a session's messages are read: names of the speakers, and the fields that tools declare."""

    speakers: Mapping[str, str]
    fields: Mapping[str, tuple[str, ...]]


def notes(unit: Unit, reading: Reading) -> list[Note]:
    """The notes of a unit in the order of its messages."""
    found: list[Note] = []
    for message in unit.messages:
        parts = message.parts
        text = text_of(parts[0]) if len(parts) == 1 else "\n".join(map(text_of, parts))
        mark = f" [{reference_id(message)}]" if len(text) >= REFERENCE_FROM else ""
        if message.role == "tool":
            fragments, order = _result(text, reading.fields.get(message.tool or "", ()))
            found.append(
                Note(f"→ {message.status or 'ok'}{mark}: ", fragments, "", "tool", order, _name(message.tool or ""))
            )
            continue
        if text and not text.isspace():
            fragments, order = _speech(text, message.role == "user")
            found.append(Note(f"{reading.speakers[message.role]}{mark}: ", fragments, "", message.role, order))
        for call in message.calls:
            fragments, order = _arguments(arguments_text(call.arguments))
            found.append(Note(f"{_name(call.name)}(", fragments, ")", "call", order))
    return found


_name = lru_cache(maxsize=1_024)(inline)


def _opened(text: str, fragments: Iterable[Fragment]) -> Read:
    """The fragments of a text; of a long one the first words are worth a line for the sake of its reference."""
    found = tuple(fragments)
    if len(text) < REFERENCE_FROM or not found:
        return _read(found)
    first, head = found[0], opening(found[0].text, PIECE)
    if head != first.text:
        head = head.rpartition(" ")[0] or head
    tail = first.text[len(head) :].strip()
    opened = [Fragment.of(head, identifiers(head) if tail else first.values, first.weight + REFERENCE_WEIGHT)]
    opened += [Fragment.of(tail, identifiers(tail), first.weight)] if tail else []
    return _read([*opened, *found[1:]])


def reference_id(message: Neutral) -> str:
    """Under what a message can be expanded again: its seq in the log, which no trim, rollback or fork changes."""
    return f"e{message.seq}"


@remembered(REMEMBERED)
def _speech(text: str, wished: bool) -> Read:
    return _opened(text, _sentences(_skimmed(text), wish_weight if wished else None))


@remembered(REMEMBERED)
def _arguments(text: str) -> Read:
    found = parsed(text)
    if isinstance(found, dict):
        return _read(piece for leaf in leaves(found) for piece in _argument(leaf))
    text = opening(text, LONGEST)
    return _read([Fragment.of(text, identifiers(text), ARGUMENT_WEIGHT)] if text.strip() else [])


def _argument(leaf: Fragment) -> Iterator[Fragment]:
    """What a call was about stands in its short arguments and where a long one begins, not in the text it writes."""
    for place, piece in enumerate(_split(leaf)):
        worth = piece.weight + ARGUMENT_WEIGHT
        yield Fragment.of(piece.text, piece.values, worth, piece.key) if place == 0 else piece


@remembered(REMEMBERED)
def _result(text: str, rules: tuple[str, ...]) -> Read:
    found = parsed(text)
    if rules and found is not None:
        found = declared(found, rules) or found
    if isinstance(found, dict | list):
        return _opened(text, (piece for leaf in leaves(found) for piece in _split(leaf)))
    return _opened(text, _sentences(_skimmed(text)))


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
        return Fragment.of(f"{key}: {text}", key=key)
    carried = tuple(value for value in values if 4 <= len(value) <= 80) or identifiers(text)
    return Fragment.of(f"{key}: {text}" if key else text, carried, key=key)


def _split(leaf: Fragment) -> Iterator[Fragment]:
    """A leaf as one fragment, a long one as its sentences."""
    if len(leaf.text) <= LONGEST // 2 and "\n" not in leaf.text:
        yield leaf
    else:
        yield from _sentences(_skimmed(leaf.text))


def _sentences(text: str, weigh: Callable[[str], float] | None = None) -> Iterator[Fragment]:
    trouble = _tells_trouble(text)
    for sentence in _SENTENCE.split(text):
        line = sentence.strip()
        for piece in pieces(line, LONGEST):
            worth = weigh(piece) if weigh else 0.0
            yield Fragment.of(piece, identifiers(piece), worth + (trouble and _tells_trouble(piece)))


def wish_weight(sentence: str) -> float:
    """What a sentence of the user is worth for its own sake: by its words, and more if it lays something down."""
    words = len(set(_WORD.findall(sentence)))
    return min(MOST_WORDS, words) * WORD_WEIGHT + (RULE_WEIGHT if words and _RULE.search(sentence) else 0.0)


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
                found.append((piece, Fragment.of(piece, identifiers(piece), trouble + LINE_WEIGHT)))
    return found


def _wrapped(line: str) -> Iterator[str]:
    for piece in textwrap.wrap(line, PIECE, break_long_words=False, break_on_hyphens=False):
        yield from pieces(piece, PIECE)
