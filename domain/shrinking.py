"""A unit made smaller in place: its longest texts first, to a common level, until it fits."""

from collections.abc import Sequence
from dataclasses import replace

from domain.condensing import condense
from domain.counting import Counter
from domain.events import TextPart
from domain.extracts import Reading, reference_id
from domain.rendering.neutral import Neutral, text_of
from domain.text import shorten
from domain.windows import Unit
from domain.wording import Wording

SHORTEST_TEXT = 16
"""Tokens that a text in a shortened unit keeps at the least."""


def shorten_unit(unit: Unit, room: int, reading: Reading, count: Counter, words: Wording) -> Unit | None:
    """The unit with its texts made smaller until it fits, the longest first; calls and ids stay whole, and so does a
    message with reasoning, whose signature holds for the whole of it."""
    texts = ["" if one.reasoning else "\n".join(map(text_of, one.parts)) for one in unit.messages]
    sizes = [count.text(text) for text in texts]
    for slack in (0, 8 * len(sizes)):
        level = common_level(sizes, room - (unit.tokens - sum(sizes)) - slack)
        if level < SHORTEST_TEXT:
            return None
        messages = []
        for message, text, size in zip(unit.messages, texts, sizes, strict=True):
            if size > level:
                made = _smaller(message, text, level, reading, count, words)
                if not made:
                    return None
                message = replace(message, parts=(TextPart(type="text", text=made),))
            messages.append(message)
        tokens = count.neutral(messages)
        if tokens <= room:
            cut = unit.shortened + unit.tokens - tokens
            return replace(unit, messages=tuple(messages), tokens=tokens, shortened=cut, room=room)
    return None


def _smaller(message: Neutral, text: str, limit: int, reading: Reading, count: Counter, words: Wording) -> str:
    """A text in `limit` tokens, with a mark that says how much is missing and under which reference it stands."""

    def marker(tokens: int) -> str:
        return words.left_out_of(tokens, reference_id(message))

    if message.role == "user":
        return shorten(text, limit, count.text, marker)
    return condense(text, limit, count.text, marker, reading.fields.get(message.tool or "", ()))


def common_level(sizes: Sequence[int], room: int) -> int:
    """The size to which the larger ones are cut so that all together take `room`."""
    left = room
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)
