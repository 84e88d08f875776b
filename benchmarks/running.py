"""One process of a run: compiles its share of the sessions and judges each prompt, or replays what another compiled.

    python -m benchmarks.running compile|replay < order.json      one line on stdout for every session that is done

A session is appended turn by turn, and compiled in every view right before each reply. Its outcome lands in a file.
"""

import gc
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import checker
from benchmarks.corpus import Case, Corpus, load, spread
from benchmarks.driving import Refused, System
from benchmarks.sourcelog import SourceLog

Json = Any

FORMATS = ("openai", "anthropic")
BUDGETS = (2_000, 8_000)
SHARE = 4
"""The third budget is the history divided by this, but never less than the floor."""

SHOWN = 100
"""Findings that are told in full; all are counted."""

OVERFLOW = "context_overflow"


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to do. `share` of `shares` tells its part of the corpus; `judge` whether it checks prompts;
    of the prompts that the file `known` tells, one in `each` is replayed."""

    corpus: str
    url: str
    out: str
    share: int = 0
    shares: int = 1
    sessions: int | None = None
    turns: int | None = None
    judge: bool = True
    edges: bool = False
    known: str = ""
    each: int = 1


class Made(NamedTuple):
    """A compile: where, which view, and what came of it. `code` tells the error of one that gave no prompt."""

    session: str
    head: int
    format: str
    view: str
    budget: int
    prompt: str | None
    content_hash: str | None
    code: str | None = None

    @property
    def key(self) -> tuple[Json, ...]:
        return self[:4]


@dataclass(slots=True)
class Outcome:
    sessions: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    made: list[Made] = field(default_factory=list)
    findings: list[Json] = field(default_factory=list)

    def found(self, made: Made, findings: list[checker.Finding]) -> None:
        """A prompt raises a counter once, whatever is wrong with it."""
        self.counts.update({finding.counter for finding in findings})
        for finding in findings[: max(0, SHOWN - len(self.findings))]:
            self.findings.append({**finding._asdict(), "where": list(made.key), "budget": made.budget})

    def dump(self) -> Json:
        return {"sessions": self.sessions, "counts": dict(self.counts), "made": self.made, "findings": self.findings}


def chosen(corpus: Corpus, sessions: int | None) -> list[list[Case]]:
    """The families to run: of each source its first few sessions, with the sessions that they are sub-agents of."""
    taken: Counter[str] = Counter()
    found = []
    for family in corpus.families:
        if sessions is None or taken[family[0].source] < sessions:
            taken[family[0].source] += len(family)
            found.append(family)
    return found


def share_of(families: list[list[Case]], share: int, shares: int) -> list[list[Case]]:
    """The families of one process: the largest first, each to the process that has least to do."""
    loads = [0] * shares
    mine = []
    for family in sorted(families, key=lambda family: (-_effort(family), family[0].session)):
        least = loads.index(min(loads))
        loads[least] += _effort(family)
        if least == share:
            mine.append(family)
    return mine


def _effort(family: list[Case]) -> int:
    return sum(len(case.turns) * (20 + len(case.events)) for case in family)


def compile_share(order: Order) -> Outcome:
    families = share_of(chosen(load(Path(order.corpus)), order.sessions), order.share, order.shares)
    system, outcome = System(order.url), Outcome()
    try:
        for family in families:
            logs: dict[str, SourceLog] = {}
            for case in family:
                log = logs[case.session] = SourceLog(logs.get(case.parent or ""))
                _run(system, case, log, order, outcome)
                outcome.sessions += 1
                print(case.session, flush=True)
    finally:
        system.close()
    return outcome


def _run(system: System, case: Case, log: SourceLog, order: Order, outcome: Outcome) -> None:
    head, done, before = 0, 0, len(outcome.made)
    for turn in spread(case.turns, order.turns):
        head, done = _advance(system, case, log, head, done, turn), turn
        for target in FORMATS:
            for view, budget in _views(log, target, order.edges):
                _compile(system, case.session, log, (head, target, view, budget), order, outcome)
    # To the end, since sub-agents inherit the rules that come after the last reply, too.
    _advance(system, case, log, head, done, len(case.events))
    if not order.judge:
        hashes = system.hashes(case.session)
        outcome.made[before:] = [
            made._replace(content_hash=hashes.get(made.prompt or "")) for made in outcome.made[before:]
        ]


def _advance(system: System, case: Case, log: SourceLog, head: int, done: int, to: int) -> int:
    """Appends the next events, to the engine and to the judge's log; the session's head."""
    events = case.events[done:to]
    if not events:
        return head
    appended = system.append(case.session, events, head)
    for event, receipt in zip(events, appended["events"], strict=True):
        if receipt["stream"] == "session":
            log.add(receipt["seq"], event)
    return int(appended["head"])


def _views(log: SourceLog, target: str, edges: bool) -> Iterator[tuple[str, int]]:
    floor = checker.floor(log, target)
    yield "share", max(floor, checker.history_tokens(log, target) // SHARE)
    yield from ((str(budget), budget) for budget in BUDGETS)
    if edges:
        yield "floor", floor
        yield "least", checker.least_floor(log, target)


def _compile(
    system: System, session: str, log: SourceLog, view: tuple[int, str, str, int], order: Order, outcome: Outcome
) -> None:
    _, target, _, budget = view
    made, findings = Made(session, *view, None, None), []
    try:
        made = made._replace(prompt=system.request(session, target, budget))
        if order.judge:
            prompt = system.prompt(str(made.prompt))
            made = made._replace(content_hash=prompt.content_hash)
            findings = list(checker.check(log, target, budget, prompt))
    except Refused as error:
        made = made._replace(code=error.code)
        if error.code == OVERFLOW:
            outcome.counts["overflows"] += 1
            findings = list(checker.check_overflow(log, target, budget))
        else:
            findings = [checker.Finding("errors", f"{error.code}: {error}")]
    outcome.counts["compiles"] += 1
    outcome.made.append(made)
    outcome.found(made, findings)


def replay_share(order: Order) -> Outcome:
    """Replays every prompt that the file `known` tells, in this process, and compares the hashes."""
    system, outcome = System(order.url), Outcome()
    known = [Made(*row) for row in json.loads(Path(order.known).read_text())["made"]]
    before = ""
    for place, made in enumerate(known):
        if made.session != before:
            before = made.session
            print(made.session, flush=True)
        if made.prompt is not None and not place % order.each:
            outcome.counts["replays"] += 1
            if what := _mismatch(system, made):
                outcome.found(made, [checker.Finding("replay_mismatches", what)])
    system.close()
    return outcome


def _mismatch(system: System, made: Made) -> str | None:
    try:
        told = system.replay(str(made.prompt))
    except Exception as error:  # one prompt that cannot be replayed must not hide the others
        return f"{type(error).__name__}: {error}"
    if told["identical"] and told["replayed_hash"] == made.content_hash:
        return None
    return f"{told['cause']}: {told['first_difference']}"


def main() -> None:
    order = Order(**json.load(sys.stdin))
    gc.disable()  # what a share of the corpus makes fits in memory; looking for cycles costs a sixth of the time
    outcome = {"compile": compile_share, "replay": replay_share}[sys.argv[1]](order)
    Path(order.out).write_text(json.dumps(outcome.dump()))


if __name__ == "__main__":
    main()
