"""Every method at every turn that is over budget, added up per cell and source.

Cells are budgets, fixed per session: the floor and a share of the rest, or a number of tokens.
"""

import statistics
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.trajectory.methods import Compiled, Method, Run
from benchmarks.trajectory.scoring import (
    Earlier,
    PrefixBound,
    WireMessage,
    broken_rules,
    shared_prefix,
    standing,
    text_of,
)
from benchmarks.trajectory.sessions import Session, Turn
from domain.rendering.openai import count_message

SHARES = {"25%": 0.25, "10%": 0.10}
FIXED = {"4000": 4_000, "8000": 8_000}
CELLS = (*SHARES, *FIXED)

LONG_SESSION = 20_000
"""Tokens of a session whose prompts are compared with the whole of it."""


def budgets(session: Session) -> dict[str, int]:
    """The budget of each cell that applies: the fixed ones to sessions above them, if their floor fits at all."""
    found = {cell: session.floor + int(share * (session.tokens - session.floor)) for cell, share in SHARES.items()}
    found |= {cell: budget for cell, budget in FIXED.items() if session.floor < budget < session.tokens}
    return {cell: budget for cell, budget in found.items() if any(size > budget for size in session.sizes)}


@dataclass(frozen=True, slots=True)
class Miss:
    """A value that the next call used and the prompt did not hold, or held without anything that says what it is."""

    method: str
    cell: str
    source: str
    session: str
    turn: int
    value: str
    standing: str
    stood: str
    where: str


@dataclass(slots=True)
class Sums:
    """What one method did in one cell on one source.

    A prompt over the budget is one that could not be sent: what stands in it is `anyhow` there, but not `grounded`.
    """

    turns: int = 0
    needed: int = 0
    grounded: int = 0
    anyhow: int = 0
    bare: int = 0
    reused: int = 0
    reusable: int = 0
    bound_reused: int = 0
    bound_total: int = 0
    before: int = 0
    after: int = 0
    allowed: int = 0
    failures: list[str] = field(default_factory=list)
    broken: Tally[str] = field(default_factory=Tally)
    ms: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)

    def add(self, other: "Sums") -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def grounding(self) -> float | None:
        return self.grounded / self.needed if self.needed else None

    @property
    def grounding_anyhow(self) -> float | None:
        return self.anyhow / self.needed if self.needed else None


Results = dict[tuple[str, str, str], Sums]
"""By method, cell and source."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which turns are compiled and which of those are scored, by place; a prefix needs the turn before it."""

    compiled: frozenset[int]
    scored: frozenset[int]


def planned(session: Session, budget: int, carries: bool, most: int | None) -> Plan:
    """The turns over budget, at most `most` of them spread evenly, and the last one before each."""
    over = [at for at, size in enumerate(session.sizes) if size > budget]
    scored = over
    if most is not None and len(over) > most:
        scored = [over[int((at + 0.5) * len(over) / most)] for at in range(most)]
    first = over[0] - 1 if over else 0
    before = range(first, scored[-1]) if carries and scored else [at - 1 for at in scored]
    return Plan(frozenset(at for at in (*before, *scored) if at >= 0), frozenset(scored))


@dataclass(slots=True)
class _Lane:
    """One method under one budget on one session, and the prompt it made last."""

    method: Method
    cell: str
    budget: int
    run: Run
    plan: Plan
    bound: PrefixBound
    sums: Sums = field(default_factory=Sums)
    previous: tuple[int, Sequence[WireMessage]] | None = None


def measure(
    sessions: Iterable[Session], methods: Sequence[Method], most: int | None = None, cells: Sequence[str] = CELLS
) -> Iterator[tuple[Session, Results]]:
    """The sums of each session, as it is done."""
    for session in sessions:
        lanes = [
            _lane(session, method, cell, budget, most)
            for cell, budget in budgets(session).items()
            if cell in cells
            for method in methods
        ]
        if lanes:
            _replay(session, lanes)
        yield session, {(lane.method.name, lane.cell, session.source): lane.sums for lane in lanes}


def _lane(session: Session, method: Method, cell: str, budget: int, most: int | None) -> _Lane:
    plan = planned(session, budget, method.carries, most)
    return _Lane(method, cell, budget, method.begin(session, budget), plan, PrefixBound(budget, method.low_water))


def _replay(session: Session, lanes: Sequence[_Lane]) -> None:
    earlier = Earlier()
    last = max(max(lane.plan.compiled, default=-1) for lane in lanes)
    for place, turn in enumerate(session.turns()):
        if place > last:
            break
        for message in turn.messages:
            earlier.add(text_of(message))
        needed = earlier.needed(turn.calls)
        for lane in lanes:
            _bound(session, lane, place, turn)
            if place in lane.plan.compiled:
                _step(session, lane, place, turn, needed)
    for lane in lanes:
        lane.sums.bound_reused, lane.sums.bound_total = lane.bound.reused, lane.bound.total
        lane.run.end()


def _step(session: Session, lane: _Lane, place: int, turn: Turn, needed: dict[str, set[str]]) -> None:
    scored = place in lane.plan.scored
    try:
        compiled = lane.run.compile(turn)
    except Exception as error:  # a method that fails at a turn is what is measured here
        lane.previous = None
        if scored:
            lane.sums.failures.append(f"{type(error).__name__}: {error}"[:300])
            lane.sums.turns += 1
            lane.sums.needed += len(needed)
        return
    if scored:
        _score(session, lane, place, turn, compiled, needed)
    lane.previous = place, compiled.messages


def _score(
    session: Session, lane: _Lane, place: int, turn: Turn, compiled: Compiled, needed: dict[str, set[str]]
) -> None:
    count, sums = session.count.text, lane.sums
    tokens = turn.base + sum(count_message(message, count) for message in compiled.messages)
    texts = [text_of(message) for message in compiled.messages]
    sums.turns += 1
    sums.before += turn.tokens
    sums.after += tokens
    sums.allowed += lane.budget
    sums.ms.append(compiled.ms)
    broken = broken_rules(compiled.messages, tokens, lane.budget, turn.system, turn.instruction_text)
    sums.broken.update(broken)
    if session.tokens > LONG_SESSION:
        sums.shares.append(tokens / session.tokens)
    if lane.previous and lane.previous[0] == place - 1:
        sums.reused += turn.base + shared_prefix(lane.previous[1], compiled.messages, count)
        sums.reusable += tokens
    for value, context in needed.items():
        found = standing(value, context, texts)
        sums.needed += 1
        sums.anyhow += found == "grounded"
        sums.grounded += found == "grounded" and "over_budget" not in broken
        sums.bare += found == "bare"
        if found != "grounded":
            sums.misses.append(_miss(session, lane, turn, compiled, value, found))


def _bound(session: Session, lane: _Lane, place: int, turn: Turn) -> None:
    """All turns over budget, as if each were compiled, and the one before the first."""
    if max(session.sizes[place : place + 2]) <= lane.budget:
        return
    units = [(unit.seq, unit.tokens) for unit in turn.units]
    fixed = turn.tokens - sum(tokens for _, tokens in units)
    lane.bound.step(units, turn.instructed, fixed, counts=turn.tokens > lane.budget)


def _miss(session: Session, lane: _Lane, turn: Turn, compiled: Compiled, value: str, found: str) -> Miss:
    """The value in the newest place where it stood, and what became of that place."""
    places = [at for at, message in enumerate(turn.messages) if value in text_of(message)]
    place = places[-1] if places else 0
    text = text_of(turn.messages[place])
    start = max(0, text.rfind(value))
    unit = max((at for at, begin in enumerate(turn.starts) if begin <= place), default=None)
    role = turn.messages[place]["role"]
    if unit is None:
        where = "system"
    else:
        back = len(turn.units) - unit
        told = compiled.where(turn.units[unit].seq) if compiled.where else ""
        where = f"{role} at seq {turn.units[unit].seq}, {back} units back, {turn.units[unit].tokens} tokens; {told}"
    stood = text[max(0, start - 60) : start + len(value) + 60].replace("\n", "⏎")
    return Miss(lane.method.name, lane.cell, session.source, session.id, turn.seq, value, found, stood, where)


# --- adding up --------------------------------------------------------------------------------------------------------


def row(sums: Sums) -> dict[str, Any]:
    """The numbers of one source, or of all of them pooled."""
    return {
        "grounding": rounded(sums.grounding),
        "prefix_reuse": rounded(sums.reused / sums.reusable if sums.reusable else None),
        "prefix_bound": rounded(sums.bound_reused / sums.bound_total if sums.bound_total else None),
        "rule_breaks": sums.broken.total() + len(sums.failures),
        "tokens_before": round(sums.before / len(sums.ms)) if sums.ms else None,
        "tokens_after": round(sums.after / len(sums.ms)) if sums.ms else None,
        "ms_p50": rounded(statistics.median(sums.ms) if sums.ms else None),
        "turns": sums.turns,
        "grounding_any_size": rounded(sums.grounding_anyhow),
        "needed": sums.needed,
        "bare": sums.bare,
        "fill": rounded(sums.after / sums.allowed if sums.allowed else None),
        "breaks": {**sums.broken, **({"failed": len(sums.failures)} if sums.failures else {})},
        "share_of_long_sessions": rounded(statistics.fmean(sums.shares) if sums.shares else None),
    }


def cell(parts: Sequence[Sums]) -> dict[str, Any]:
    """The numbers of a cell: grounding is the mean over sources, all else is over all turns."""
    whole = Sums()
    for part in parts:
        whole.add(part)
    return {
        **row(whole),
        "grounding": _mean([part.grounding for part in parts]),
        "grounding_any_size": _mean([part.grounding_anyhow for part in parts]),
    }


def _mean(scores: Sequence[float | None]) -> float | None:
    found = [score for score in scores if score is not None]
    return rounded(statistics.fmean(found) if found else None)


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
