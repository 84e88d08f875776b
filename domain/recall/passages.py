"""Passages: a long message in parts that each can be recalled on its own, so that one long turn pushes out no five
short ones."""

import re

SIZE = 480
"""Widths of a passage: about 120 tokens. A character of a wide script counts as three."""

_SEAM = re.compile(r"\n+|(?<=[.!?;])\s+|(?<=[。！？；…])")
_SPACE = re.compile(r"\s+")
_WIDE = re.compile("[\u2e80-\U0010ffff]+")


def width(text: str) -> int:
    """About four times the tokens of a text, without counting them."""
    return len(text) if text.isascii() else len(text) + 2 * sum(map(len, _WIDE.findall(text)))


def passages(text: str, size: int = SIZE) -> list[str]:
    """The text in whole lines or sentences, `size` wide at most, white space as single spaces. Nothing is lost."""
    found: list[str] = []
    room = 0
    for piece in _pieces(text, size):
        wide = width(piece)
        if found and wide <= room:
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
            room = size
        room -= wide + 1
    return found


def _pieces(text: str, size: int) -> list[str]:
    if width(text) <= size:
        whole = _SPACE.sub(" ", text).strip()
        return [whole] if whole else []
    pieces = (_SPACE.sub(" ", piece).strip() for piece in _SEAM.split(text))
    return [part for piece in pieces if piece for part in _parted(piece, size)]


def _parted(piece: str, size: int) -> list[str]:
    """A sentence that is too long by itself, cut between words, or anywhere where it has none. What is left is neither
    measured nor copied anew for each part: a text of a million characters has thousands."""
    found: list[str] = []
    at, left, plain = 0, width(piece), _plain_from(piece)
    while left > size:
        reach = size if at >= plain else size // 3
        space = piece.rfind(" ", at + reach // 2, at + reach)
        end = space if space > at else at + reach
        found.append(piece[at:end].strip())
        after = end + piece.startswith(" ", end)
        left -= width(piece[at:after])
        at = after
    return [*found, piece[at:]] if at < len(piece) else found


def _plain_from(text: str) -> int:
    """Where the characters begin after which none is of more than ASCII."""
    return 0 if text.isascii() else 1 + next(at for at in reversed(range(len(text))) if text[at] > "\x7f")
