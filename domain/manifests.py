"""Manifests: which units a model is asked to summarise, what it is given, and what of its answer is accepted."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from domain.rendering.neutral import Neutral, arguments_of, text_of
from domain.rows import StoredSummary
from domain.text import ending, opening, well_formed
from domain.windows import Unit

LEAST, MOST = 1_500, 6_000
"""Tokens of the units that one summary stands for: of fewer it is not worth a call, of more it tells too little."""

HORIZON = 24_000
"""Tokens before the cut from which units are summarised: what is older than that was, or is left as it is."""

LONGEST_TEXT = 4_000
"""Characters of one message that the model is given, from both ends."""

WORDS = 250
"""What a summary is asked to keep to."""

SUMMARY_LIMIT = 800
"""Tokens of a summary at the most."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Units without a gap between them but for those that are shown, oldest first."""

    units: tuple[Unit, ...]

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(event for unit in self.units for event in unit.events)

    @property
    def tokens(self) -> int:
        return sum(unit.given for unit in self.units)

    @property
    def text(self) -> str:
        """JSON lines: what was said cannot become anything else there."""
        said = (message for unit in self.units for message in unit.messages)
        rows = [{"n": number, **_row(message)} for number, message in enumerate(said, 1)]
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def manifest(gone: Sequence[Unit], written: Iterable[StoredSummary]) -> Manifest | None:
    """The next block of units to summarise, of those that went, oldest first; None while there is not enough."""
    told = {event for row in written for event in row.derived_from}
    block, tokens = list[Unit](), 0
    for unit in _near(gone):
        if not told.isdisjoint(unit.events):
            if tokens >= LEAST:
                break
            block, tokens = [], 0
            continue
        if block and tokens + unit.given > MOST:
            break
        block.append(unit)
        tokens += unit.given
    return Manifest(tuple(block)) if tokens >= LEAST else None


def accepted(text: str, tokens: int, count: Callable[[str], int]) -> str | None:
    """The summary as it is kept; None for one that is empty or no shorter than the `tokens` it is to stand for."""
    found = well_formed(text).strip()
    return found if found and count(found) < min(tokens, SUMMARY_LIMIT) else None


def _near(gone: Sequence[Unit]) -> Sequence[Unit]:
    held, first = 0, len(gone)
    while first and held < HORIZON:
        first -= 1
        held += gone[first].given
    return gone[first:]


def _row(message: Neutral) -> dict[str, str | list[str]]:
    text = "\n".join(text_of(part) for part in message.parts)
    row: dict[str, str | list[str]] = {"role": message.role, "text": _both_ends(text)}
    calls = [_both_ends(f"{call.name} {arguments_of(call)}") for call in message.calls]
    return row | {"calls": calls} if calls else row


def _both_ends(text: str) -> str:
    text = well_formed(text)
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{opening(text, LONGEST_TEXT // 2)} … {ending(text, LONGEST_TEXT // 2)}"
