"""Summaries that a model or an agent wrote: one text in the place of several units, once all of them have gone.

A trim asks no model. It takes what `summary.created` events brought into the state and makes lines of its own for what
no such text stands for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.rows import StoredSummary
from domain.text import inline

SHARE = 0.6
"""What written summaries may take of the summary's room: values that a text leaves out need room as well."""


class Gone(Protocol):
    """A unit that went: its seq, its events, the tokens that it had."""

    @property
    def unit(self) -> int: ...
    @property
    def events(self) -> tuple[str, ...]: ...
    @property
    def given(self) -> int: ...


@dataclass(frozen=True, slots=True)
class StandIn:
    """A text, and the units that it stands for. `tokens` are those of its line."""

    text: str
    units: frozenset[int]
    events: tuple[str, ...]
    tokens: int


def stand_ins(
    written: Sequence[StoredSummary],
    gone: Iterable[Gone],
    room: int,
    count: Callable[[str], int],
    mask: Callable[[str], str] = str,
) -> list[StandIn]:
    """The texts that stand in the prompt, masked, the newest first as long as they fit: each shorter than what it
    stands for, none for a unit that is shown, and no unit in two of them."""
    if not written:
        return []
    # A line that stood for several units names the events of all; each unit is known by its own.
    places = sorted(gone, key=lambda one: (len(one.events), one.unit))
    units = dict[str, int]()
    for one in places:
        for event in one.events:
            units.setdefault(event, one.unit)
    by_unit = {one.unit: one for one in places}
    found, told, left = list[StandIn](), set[int](), int(room * SHARE)
    for row in sorted(written, key=lambda row: row.seq, reverse=True):
        covered = {units.get(event) for event in row.derived_from}
        standing = frozenset(unit for unit in covered if unit is not None)
        if not row.derived_from or None in covered or not told.isdisjoint(standing):
            continue
        said = {row.event_id, *row.derived_from}
        if not all(said.issuperset(by_unit[unit].events) for unit in standing):
            continue  # part of a unit is none
        text = inline(mask(row.text))
        tokens = count(f"- {text}\n")
        if text and tokens <= left and tokens < sum(by_unit[unit].given for unit in standing):
            left -= tokens
            told |= standing
            found.append(StandIn(text, standing, (row.event_id, *row.derived_from), tokens))
    return found
