"""Chunks of a document: by its structure first, and none over the limit of tokens. Offsets are kept, text is not."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LIMIT = 400
"""Tokens of a chunk."""

HOPELESS = 8
"""Characters per token that no text reaches: longer ones are cut without being counted."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?\n?$")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_SEAMS = tuple(map(re.compile, (r"\n", r"(?<=[.!?;。！？；…])", r"(?<=[ \t,，、])")))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text and the headings it stands under."""

    start: int
    end: int
    heading: str


def chunks(text: str, count: Callable[[str], int], *, markdown: bool, limit: int = LIMIT) -> list[Piece]:
    """The whole text in order, cut where headings and paragraphs end as far as that goes."""
    found: list[Piece] = []
    spent = 0
    for piece in _fitting(text, _paragraphs(text, markdown), count, limit):
        tokens = count(text[piece.start : piece.end])
        last = found[-1] if found else None
        # Sums of counts miss the count of the whole by little; a token per seam is kept for that.
        if last is not None and last.heading == piece.heading and spent + tokens + 1 <= limit:
            found[-1] = Piece(last.start, piece.end, last.heading)
            spent += tokens + 1
        else:
            found.append(piece)
            spent = tokens
    return found


def _paragraphs(text: str, markdown: bool) -> Iterator[Piece]:
    """Runs of lines up to and with the blank lines after them; a heading begins a new one."""
    path: list[tuple[int, str]] = []
    heading, start, at = "", 0, 0
    fenced = blank = False
    for line in text.splitlines(keepends=True):
        if markdown and _FENCE.match(line):
            fenced = not fenced
        found = _HEADING.match(line) if markdown and not fenced else None
        if (found or (blank and line.strip() and not fenced)) and at > start:
            yield Piece(start, at, heading)
            start = at
        if found:
            level = len(found[1])
            path = [*(one for one in path if one[0] < level), (level, found[2][:80])]
            heading = " > ".join(title for _, title in path)
        blank = not line.strip()
        at += len(line)
    if at > start:
        yield Piece(start, at, heading)


def _fitting(text: str, pieces: Iterator[Piece], count: Callable[[str], int], limit: int) -> Iterator[Piece]:
    """The pieces, those over the limit cut in two at the best seam near their middle, as often as it takes."""
    for piece in pieces:
        waiting = [piece]
        while waiting:
            one = waiting.pop()
            length = one.end - one.start
            if length <= 1 or (length <= limit * HOPELESS and count(text[one.start : one.end]) <= limit):
                yield one
                continue
            cut = _seam(text, one.start, one.end)
            waiting += [Piece(cut, one.end, one.heading), Piece(one.start, cut, one.heading)]


def _seam(text: str, start: int, end: int) -> int:
    """A place in the middle half where a line ends, else a sentence, else a word, else the middle."""
    quarter, middle = (end - start) // 4, (start + end) // 2
    # Looking far costs time, and one seam near the middle is as good as another.
    low, high = max(start + quarter, middle - 4096), min(end - quarter, middle + 4096)
    for seam in _SEAMS:
        places = [found.end() for found in seam.finditer(text, low, high) if start < found.end() < end]
        if places:
            return min(places, key=lambda place: abs(place - middle))
    return middle
