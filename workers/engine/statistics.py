"""Statistics of one session or of all: sizes of what is stored, and what the reports of its prompts tell."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from domain.budgets import DEFAULT_WINDOW
from domain.prompt_facts import PromptFacts, cached_text, facts_of, reuse
from domain.rows import SessionInfo
from domain.statistics import Seen, summary
from workers.engine.deps import Deps
from workers.engine.leases import StreamParked
from workers.engine.project import catch_up
from workers.engine.reading import session_row
from workers.store import counts, model_calls, models, snapshots, statistics, streams
from workers.store.counts import LearningCounter
from workers.store.streams import StreamRow

Json = dict[str, Any]

PAGE = 50
MOST_PROMPTS = 500
"""The newest prompts of a session that are looked at."""

MOST_PROMPTS_OF_ALL = 5000
MOST_VIEWS = 64


@dataclass(slots=True)
class _Gathered:
    """What the sessions looked at so far came to; `stored` counts their prompts, `left` those that may be read yet."""

    left: int
    seen: Seen = field(default_factory=Seen)
    encodings: set[str] = field(default_factory=set)
    sessions: int = 0
    skipped: int = 0
    stored: int = 0

    def told(self, session: str | None) -> Json:
        found = summary(self.seen)
        found["prompts"]["stored"] = self.stored
        counted = {"encodings": sorted(self.encodings), "sessions": self.sessions, "skipped": self.skipped}
        return {"session": session, **counted, **found}


def stats(deps: Deps, tenant: str, session: str) -> Json:
    with deps.database.read(tenant) as unit:
        home = session_row(unit, tenant, session)
        asked = model_calls.totals(unit, tenant, home.number)
    gathered = _Gathered(MOST_PROMPTS)
    _look_at(deps, home, gathered)
    return {**gathered.told(session), "model_calls": asked}


def stats_of_all(deps: Deps, tenant: str) -> Json:
    """All sessions, newest first. One whose log cannot be folded is skipped, and counted as such."""
    gathered = _Gathered(MOST_PROMPTS_OF_ALL)
    for home in _sessions(deps, tenant):
        try:
            _look_at(deps, home, gathered)
        except StreamParked:
            gathered.skipped += 1
    with deps.database.read(tenant) as unit:
        asked = model_calls.totals(unit, tenant)
    return {**gathered.told(None), "model_calls": asked}


def _sessions(deps: Deps, tenant: str) -> Iterator[StreamRow]:
    below = None
    while True:
        with deps.database.read(tenant) as unit:
            page = streams.listing(unit, tenant, "session", PAGE, below)
        yield from page
        if len(page) < PAGE:
            return
        below = page[-1].number


def _look_at(deps: Deps, home: StreamRow, gathered: _Gathered) -> None:
    catch_up(deps, home.tenant, home.number, home.head)
    _messages(deps, home, gathered)
    gathered.sessions += 1
    gathered.stored += home.version
    _prompts(deps, home, gathered)


# Messages -------------------------------------------------------------------------------------------------------------


def _messages(deps: Deps, home: StreamRow, gathered: _Gathered) -> None:
    """In one read unit, since a rollback puts other rows in the place of these. What is counted is kept, as a compile
    would keep it."""
    while True:
        with deps.database.read(home.tenant) as unit:
            checkpoint = models.checkpoint(unit, home.tenant, home.number)
            info = models.load(unit, home.tenant, home.number, checkpoint.generation).one("session") or SessionInfo()
            count = _counter(deps, info)
            ahead = counts.count_ahead(unit, home.tenant, home.number, checkpoint, count)
            if ahead is None:
                gathered.encodings.add(count.encoding)
                window = info.context_window or DEFAULT_WINDOW
                for one in statistics.sizes(unit, home.tenant, home.number, checkpoint.generation, count):
                    gathered.seen.message(one.role, one.tool, one.tokens)
                    if one.output is not None:
                        gathered.seen.output(one.output, window)
                return
        with deps.database.write(home.tenant) as unit:
            counts.store(unit, home.tenant, home.number, checkpoint, ahead)


def _counter(deps: Deps, info: SessionInfo) -> LearningCounter:
    choice = deps.tokens.choice(info.model or deps.default_model)
    return LearningCounter(deps.tokens.counter(choice.name), choice.name, "openai", choice.safety_factor)


# Prompts --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Later:
    """A prompt that waits for its parent, which is older."""

    facts: PromptFacts
    text: str


def _prompts(deps: Deps, home: StreamRow, gathered: _Gathered) -> None:
    """From the newest back. What was erased since says nothing any more."""
    later: dict[str, _Later] = {}
    below: int | None = None
    most = min(MOST_PROMPTS, gathered.left)
    while most > 0:
        with deps.database.read(home.tenant) as unit:
            page = snapshots.listing(unit, home.tenant, home.number, min(PAGE, most), below)
            for row in page:
                body = snapshots.body(unit, row)
                if body is not None:
                    _prompt(gathered.seen, row.id, row.parent, body, later)
        if not page:
            return
        most, gathered.left, below = most - len(page), gathered.left - len(page), page[-1].version


def _prompt(seen: Seen, prompt: str, parent: str | None, body: Json, later: dict[str, _Later]) -> None:
    here = _Later(facts_of(body["report"]), cached_text(body["payload"]))
    seen.prompt(here.facts)
    if (after := later.pop(prompt, None)) is not None:
        seen.pair(here.facts, after.facts, reuse(here.text, after.text))
    if parent is not None:
        later[parent] = here
        if len(later) > MOST_VIEWS:
            del later[next(iter(later))]
