"""Text as data: what makes foreign text harmless inside our own structure, and where it may be cut."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_TITLE = re.compile(r"【(硬性约束|任务规划|任务记忆|可用工具|用户画像|相关回忆)】")
_HASHES = re.compile(r"(?<!\S)(#{1,6} )")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_ROLE = re.compile(r"<\|(\w+)\|>")
SEAM = 2
_HEAD_SHARES = (2 / 3, 3 / 5, 1 / 2, 3 / 4)
_CLUSTER = regex.compile(r"\X")
_ASCII = re.compile("[\x00-\x09\x0b-\x7f]")
LONGEST_CLUSTER = 64
"""Characters of one grapheme cluster that are kept together where a text is cut by characters."""


def well_formed(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, as every encoder needs it."""
    return _SURROGATE.sub("�", text) if not text.isascii() else text


def well_formed_json(value: Any) -> Any:
    """A JSON value with every text in it well formed, keys included."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {well_formed(key): well_formed_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed_json(item) for item in value]
    return value


def harmless(text: str) -> str:
    """Foreign text that cannot open a section, close a fence or pass for a role marker; its lines stay."""
    text = _TITLE.sub(r"〖\1〗", well_formed(text))
    text = _HASHES.sub(lambda found: "\\" + found[1], text)
    text = _FENCE.sub(lambda found: "ˋ" * len(found[0]) if found[0][0] == "`" else "∼" * len(found[0]), text)
    return _ROLE.sub(r"<¦\1¦>", text)


def inline(text: str) -> str:
    """The same as one line."""
    return harmless(_BREAK.sub(" ⏎ ", text)).strip()


def clusters(text: str) -> list[str]:
    """The grapheme clusters of a text: what a reader sees as one character, never to be cut."""
    return _CLUSTER.findall(text)


def pieces(text: str, size: int) -> Iterator[str]:
    """The text in pieces of at most `size` characters where no grapheme cluster is longer: none is cut apart."""
    start = 0
    while start < len(text):
        end = start + size
        if not text[start : end + 1].isascii():
            ends = [found.end() for found in _CLUSTER.finditer(text, start, end + LONGEST_CLUSTER)]
            end = max((one for one in ends if one <= end), default=ends[0])
        yield text[start:end]
        start = end


def opening(text: str, size: int) -> str:
    """The first characters of a text, at most `size`."""
    return next(pieces(text, size), "")


def ending(text: str, size: int) -> str:
    """The last characters of a text, at most `size`."""
    start = max(0, len(text) - size)
    if safe := _ASCII.search(text, start, start + LONGEST_CLUSTER):
        return text[safe.start() :]  # nothing before it can be part of its cluster
    return text[next((one.start() for one in _CLUSTER.finditer(text) if one.start() >= start), len(text)) :]


def head_within(text: str, limit: int, count: Callable[[str], int]) -> str:
    """The longest head of whole grapheme clusters that counts at most `limit` tokens."""
    return _edge(text, limit, count, from_end=False)


def tail_within(text: str, limit: int, count: Callable[[str], int]) -> str:
    """The longest tail of whole grapheme clusters that counts at most `limit` tokens."""
    return _edge(text, limit, count, from_end=True)


def shorten(text: str, limit: int, count: Callable[[str], int], marker: Callable[[int], str], least: int = 1) -> str:
    """Head and tail of a text around `marker(tokens left out)`, together at most `limit` tokens, marker included.

    The text itself if it fits; an empty string if fewer than `least` tokens of it would stay.
    """
    whole = count(text)
    if whole <= limit:
        return text
    room = limit - count(marker(whole)) + SEAM
    while room >= least:
        over = room
        # A cut may cost a token or two where head and marker meet; another one may not.
        for share in _HEAD_SHARES:
            head = head_within(text, int(room * share), count)
            tail = tail_within(text[len(head) :], room - count(head), count)
            kept = count(head) + count(tail)
            cut = head + marker(whole - kept) + tail
            over = min(over, count(cut) - limit)
            if over <= 0 and kept >= least:
                return cut
        # Where ends with all the room each do not keep enough, none with less do: of one giant cluster nothing stays.
        if over <= 0 and count(head_within(text, room, count)) + count(tail_within(text, room, count)) < least:
            return ""
        room -= max(over, 1)
    return ""


def _edge(text: str, limit: int, count: Callable[[str], int], *, from_end: bool) -> str:
    # No token is longer than 128 characters, so that much text is enough; the search is over whole clusters.
    reach = limit * 128
    found = clusters(text[-reach:] if from_end else text[:reach])
    low, high = 0, len(found)
    while low < high:
        middle = (low + high + 1) // 2
        piece = "".join(found[-middle:] if from_end else found[:middle])
        if count(piece) <= limit:
            low = middle
        else:
            high = middle - 1
    if not low:
        return ""
    return "".join(found[-low:] if from_end else found[:low])
