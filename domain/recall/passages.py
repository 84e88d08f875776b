"""Passages: a long message in parts that each can be recalled on its own, so that one long turn pushes out no five
short ones."""

import re

SIZE = 480
"""Widths of a passage: about 120 tokens. A character of a wide script counts as three."""

_SEAM = re.compile(r"\n+|(?<=[.!?;])\s+|(?<=[。！？；…])")
_SPACE = re.compile(r"\s+")
_WORD_END = re.compile(r"\s+")


def width(text: str) -> int:
    """About four times the tokens of a text, without counting them."""
    return len(text) if text.isascii() else sum(1 if char < "\u2e80" else 3 for char in text)


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
    """A sentence that is too long by itself, cut between words, or anywhere where it has none."""
    found: list[str] = []
    while width(piece) > size:
        end = size if piece.isascii() else size // 3
        space = piece.rfind(" ", end // 2, end)
        end = space if space > 0 else end
        found.append(piece[:end].strip())
        piece = piece[end:].strip()
    return [*found, piece] if piece else found
