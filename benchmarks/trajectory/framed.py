"""Our rule-based summary in the plain frame that the `sumy` peer uses, so that nothing but the summary differs.

System message, newest directive, a summary of at most `SHARE` of the room, the longest suffix of whole units.
"""

import time
from collections.abc import Sequence

from benchmarks.trajectory.methods import Compiled, Run
from benchmarks.trajectory.sessions import Session, Turn
from domain.extracts import Reading
from domain.rendering.openai import count_message
from domain.summaries import Extractor
from domain.windows import Unit
from domain.wording import WORDINGS

SHARE = 0.3
HEAD = "(Summary of the earlier conversation.)"


class RuleSummary:
    """The summary of `domain/summaries.py` alone, without anything else that a compile does."""

    name = "rule-summary"
    version = "1"
    carries = False
    low_water = 1.0

    def begin(self, session: Session, budget: int) -> Run:
        return _Framed(session, budget)

    def close(self) -> None:
        pass


class _Framed:
    def __init__(self, session: Session, budget: int) -> None:
        self._session = session
        self._budget = budget

    def compile(self, turn: Turn) -> Compiled:
        begun = time.perf_counter()
        count = self._session.count.text
        held = [unit for unit in turn.units if unit.seq == turn.instructed]
        free = [unit for unit in turn.units if unit.seq != turn.instructed]
        opening = turn.messages[: turn.starts[0]] if turn.starts else turn.messages
        room = self._budget - turn.base - sum(count_message(one, count) for one in opening)
        room -= sum(unit.tokens for unit in held)
        share = int(room * SHARE) if sum(unit.tokens for unit in free) > room else 0
        kept = _suffix(free, room - share)
        gone = [unit for unit in free if unit not in kept]
        reading = Reading(WORDINGS[self._session.locale].speakers, {})
        lines = Extractor((), turn.units, held, reading).lines(gone, kept, share - count(HEAD) - 10, count)
        text = "\n".join([HEAD, *(f"- {line.text}" for line in lines)])
        made = [{"role": "user", "content": text}] if lines else []
        seqs = {unit.seq for unit in (*held, *kept)}
        ends = [*turn.starts[1:], len(turn.messages)]
        window = [
            message
            for unit, start, end in zip(turn.units, turn.starts, ends, strict=True)
            if unit.seq in seqs
            for message in turn.messages[start:end]
        ]
        return Compiled([*opening, *made, *window], (time.perf_counter() - begun) * 1e3)

    def end(self) -> None:
        pass


def _suffix(units: Sequence[Unit], room: int) -> list[Unit]:
    kept: list[Unit] = []
    for unit in reversed(units):
        room -= unit.tokens
        if room < 0:
            break
        kept.insert(0, unit)
    return kept
