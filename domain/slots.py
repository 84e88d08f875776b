"""The six slots: which items each offers, in rank order, and how an item reads.

An item is one line. Everything in it is data: it cannot open a section, close a fence, or add a line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any

from domain.canonical import canonical_json
from domain.masking import masker
from domain.memorising.current import current
from domain.modes import SlotSpec
from domain.moments import moment
from domain.recall.scoring import FORGOTTEN, about, decayed, favoured, relevances, score, with_favour
from domain.requests import SlotName
from domain.rows import Memory, Plan, RecentCall, SessionInfo
from domain.sources import SourceItem, SourceResult
from domain.state import ContextState
from domain.text import inline, opening
from domain.wording import Wording, calendar_day, clock_time

HOUR = 3_600_000_000
LONGEST_TITLE = 60
"""Characters of a document's title that stand before each of its passages."""


@dataclass(frozen=True, slots=True)
class SlotItem:
    """One line a slot offers. `order` is where it stands among the lines shown, rank is its place in the list. Lines of
    one `heading` stand under it; one that `follows` the line shown before it goes on in the same line. `reference` is
    under what a passage of a document can be expanded.
    """

    slot: SlotName
    key: str
    text: str
    order: tuple[Any, ...]
    events: tuple[str, ...] = ()
    at: int | None = None
    score: float | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    volatile: bool = False
    protected: bool = False
    ranked: str = "item"
    heading: str = ""
    lead: str = ""
    follows: str = ""
    in_time: bool = False
    by_named: bool = False
    through: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All a slot may draw on, at one moment."""

    session: ContextState
    subject: ContextState
    tenant: ContextState
    parents: tuple[ContextState, ...]
    sources: tuple[SourceResult, ...]
    query: str
    as_of: int
    words: Wording
    classic: bool = False


def offered(slot: SlotName, facts: Facts) -> list[SlotItem]:
    """The items of a slot in rank order, before any filter."""
    found = list(_OFFERS[slot](facts))
    if slot != "recall":
        given = (item for result in facts.sources if result.slot == slot for item in result.items)
        found += [
            SlotItem(
                slot, item.key, inline(item.text), (9, item.key), category=item.category, tags=item.tags, volatile=True
            )
            for item in given
        ]
    mask = masker(facts.session)
    return [_masked(item, mask) for item in found]


def _masked(item: SlotItem, mask: Callable[[str], str]) -> SlotItem:
    text, lead = mask(item.text), mask(item.lead) if item.lead else ""
    return item if (text, lead) == (item.text, item.lead) else replace(item, text=text, lead=lead)


def constraints(facts: Facts) -> Iterator[SlotItem]:
    # A parent's `block` rules bind its sub-sessions always: a rule of their own under the same id replaces none.
    own = sorted(facts.session.tables["constraints"].values(), key=lambda row: row.seq)
    said = {row.text for row in own if row.level == "block"}
    rules = (row for parent in facts.parents for row in parent.rows("constraints"))
    inherited = [row for row in rules if row.level == "block" and row.text not in said]
    for place, row in enumerate(inherited):
        yield _constraint(row, (0, 0, place), facts.words)
    for row in own:
        yield _constraint(row, (0, 1, row.seq) if row.level == "block" else (1, 1, row.seq), facts.words)


def _constraint(row: Any, order: tuple[Any, ...], words: Wording) -> SlotItem:
    text = f"{words.levels[row.level]} {inline(row.text)}"
    return SlotItem("constraints", row.id, text, order, (row.event_id,), protected=row.level == "block")


def planner(facts: Facts) -> Iterator[SlotItem]:
    plan: Plan | None = facts.session.one("plan") or _inherited_plan(facts)
    if plan is None:
        return
    words, done = facts.words, ("done", "skipped", "failed")
    lines = [words.task.format(task=inline(plan.task_id), status=inline(plan.status), phase=inline(plan.phase))]
    at = next((place for place, step in enumerate(plan.steps) if step.id == plan.current_step), None)
    if at is None:
        at = next((place for place, step in enumerate(plan.steps) if step.status not in done), None)
    if plan.steps:
        lines.append(words.progress.format(at=(len(plan.steps) if at is None else at + 1), of=len(plan.steps)))
    if at is not None:
        step = plan.steps[at]
        tool = words.next_tool.format(tool=inline(step.tool)) if step.tool else ""
        lines.append(words.next_step.format(text=inline(step.text or step.id)) + tool)
    if plan.interruption:
        lines.append(words.interrupted.format(text=inline(plan.interruption)))
    if not facts.classic:
        following = [step for place, step in enumerate(plan.steps) if step.status not in done and place != at]
        lines += [words.open_step.format(id=inline(one.id), text=inline(one.text)) for one in _by_dag(following)]
    for place, line in enumerate(lines):
        yield SlotItem("planner", f"{plan.task_id}/{place}", line, (place,), (plan.event_id,), volatile=True)


def _inherited_plan(facts: Facts) -> Plan | None:
    """A sub-session without a plan of its own has its parent's where it asked for it."""
    info: SessionInfo | None = facts.session.one("session")
    if info is None or "plan" not in info.inherit:
        return None
    return next((found for parent in facts.parents if (found := parent.one("plan"))), None)


def _by_dag(steps: Sequence[Any]) -> list[Any]:
    """Steps with what they depend on before them; a cycle keeps the order of the plan."""
    waiting, ordered = list(steps), []
    while waiting:
        open_ids = {step.id for step in waiting}
        ready = next((step for step in waiting if not open_ids & set(step.deps) - {step.id}), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def task_memory(facts: Facts) -> Iterator[SlotItem]:
    words = facts.words
    for row in reversed(facts.session.rows("observations")):
        tool = f" [{inline(row.tool)}]" if row.tool else ""
        head = words.step.format(step=inline(row.step_id or str(row.seq))) + tool
        said = "; ".join(inline(text) for text in (row.decision, row.result, *row.facts) if text)
        text = f"{head} {words.failed}: {said}" if row.failed else f"{head} → {said}"
        yield SlotItem("task_memory", str(row.seq), text, (row.seq,), (row.event_id,), row.recorded_at, volatile=True)


def tool_state(facts: Facts) -> Iterator[SlotItem]:
    recent = sorted(facts.session.tables["recent_calls"].values(), key=lambda row: -row.seq)
    environment = [
        SlotItem(
            "tool_state", f"env:{key}",
            facts.words.environment.format(key=inline(key), value=inline(_value_text(row.value))),
            (1, key), (row.event_id,), ranked="environment", volatile=True,
        )
        for key, row in sorted(facts.session.tables["environment"].items())
        if not row.secret
    ]  # fmt: skip
    tools = (_tool(row, facts.words) for _, row in sorted(facts.session.tables["tools"].items()))
    calls = (_recent(rows, facts) for rows in _alike(recent))
    yield from (item for item in chain.from_iterable(zip_longest(tools, calls)) if item is not None)
    yield from environment


def _tool(row: Any, words: Wording) -> SlotItem:
    about = f" - {inline(row.description)}" if row.description else ""
    names = words.required.format(names=", ".join(map(inline, row.required))) if row.required else ""
    text = f"{inline(row.name)}{about}{names}"
    return SlotItem("tool_state", row.name, text, (0, row.name), (row.event_id,), ranked="tool")


def _alike(calls: Sequence[RecentCall]) -> Iterable[list[RecentCall]]:
    """Calls that read the same are one line: what it tells is told once."""
    found: dict[tuple[str, str, str], list[RecentCall]] = {}
    for row in calls:
        found.setdefault((row.tool, row.status, row.preview), []).append(row)
    return found.values()


def _recent(rows: Sequence[RecentCall], facts: Facts) -> SlotItem:
    """One line for calls that read the same, with the time of the newest."""
    words, row = facts.words, rows[0]
    tool = inline(row.tool) if len(rows) == 1 else f"{inline(row.tool)} ×{len(rows)}"
    said = words.recent.format(tool=tool, status=words.statuses[row.status], text=inline(row.preview))
    zone = getattr(facts.session.one("session"), "time_zone", None)
    when = "" if facts.classic else words.as_of.format(time=clock_time(_seen_at(row), facts.as_of, zone))
    return SlotItem(
        "tool_state", f"call:{row.seq}", when + said, (2, row.seq), tuple(one.event_id for one in rows),
        row.recorded_at, ranked="call", volatile=True,
    )  # fmt: skip


def _seen_at(row: RecentCall) -> int:
    """When the tool saw what it told, where it said so; never later than the log heard of it."""
    seen = moment(row.observed_at)
    return row.recorded_at if seen is None or not 0 <= seen <= row.recorded_at else seen


def profile(facts: Facts) -> Iterator[SlotItem]:
    for label, block in sorted(facts.subject.tables["blocks"].items()):
        # Whoever edits it must see how full it is.
        fill = (facts.words.fixed if block.read_only else facts.words.fill).format(
            used=len(block.text), limit=block.limit
        )
        text = f"{inline(label)}{fill}{facts.words.colon}{inline(block.text)}"
        yield SlotItem("profile", f"block:{label}", text, (0, label), (block.event_id,), category="identity")
    for key, row in sorted(facts.subject.tables["profile"].items()):
        text = f"{inline(key)}{facts.words.colon}{inline(_value_text(row.value))}"
        yield SlotItem("profile", key, text, (1, key), (row.event_id,), category=row.category)
    for memory in _current(facts):
        if memory.category in ("identity", "preference"):
            yield SlotItem(
                "profile", memory.id, inline(memory.text), (2, memory.seq), (memory.event_id,),
                category=memory.category, tags=memory.tags,
            )  # fmt: skip


def recall(facts: Facts) -> Iterator[SlotItem]:
    memories = [
        memory
        for memory in _current(facts)
        if memory.category not in ("identity", "preference") and memory.importance >= FORGOTTEN
    ]
    given = [item for result in facts.sources if result.slot == "recall" for item in result.items]
    # What comes with a score tells nothing of which words are rare: how much of it there is depends on the budget.
    unscored = [item for item in given if item.score is None]
    texts = [*map(about, memories), *(item.text for item in unscored)]
    relevant = relevances(facts.query, texts)
    favours = favoured(facts.query, memories)
    relevant[: len(memories)] = map(with_favour, relevant[: len(memories)], favours)
    found = [
        replace(_memory(memory, value, facts), by_named=favour > 0)
        for memory, value, favour in zip(memories, relevant[: len(memories)], favours, strict=True)
    ]
    found += [_given(item, value, facts) for item, value in zip(unscored, relevant[len(memories) :], strict=True)]
    found += [_given(item, 0.0, facts) for item in given if item.score is not None]
    found.sort(key=lambda item: (-(item.score or 0.0), item.key))
    for place, item in enumerate(found):
        yield replace(item, order=item.order or (0, place), volatile=True)


def _memory(memory: Memory, relevance: float, facts: Facts) -> SlotItem:
    lasting = memory.category == "procedural" or memory.memory_kind == "procedural"
    importance = decayed(memory.importance, memory.recorded_at, facts.as_of, procedural=lasting)
    value = score(relevance, importance)
    text = facts.words.scored.format(text=inline(memory.text), importance=importance, score=value)
    return SlotItem(
        "recall", memory.id, text, (), (memory.event_id,), memory.recorded_at, value, memory.category, memory.tags
    )


def _given(item: SourceItem, relevance: float, facts: Facts) -> SlotItem:
    value = score(relevance, item.importance) if item.score is None else item.score
    if item.reference:
        return _attached(item, value, facts.words)
    if item.order:
        return _spoken(item, value, facts)
    text = facts.words.scored.format(text=inline(item.text), importance=item.importance, score=value)
    return SlotItem("recall", item.key, text, (), (), None, value, item.category, item.tags)


def _spoken(item: SourceItem, value: float, facts: Facts) -> SlotItem:
    """What somebody said, under the day it was said on."""
    words = facts.words
    zone = getattr(facts.session.one("session"), "time_zone", None)
    day = calendar_day(item.at, zone) if item.at is not None else ""
    who = inline(words.speakers.get(item.speaker, item.speaker))
    return SlotItem(
        "recall", item.key, inline(item.text), (1, day, *item.order), item.events, item.at, value, item.category,
        item.tags, heading=day, lead=f"{who}{words.colon}" if who else "", follows=item.follows,
        in_time=item.in_time, by_named=item.by_named, through=item.through,
    )  # fmt: skip


def _attached(item: SourceItem, value: float, words: Wording) -> SlotItem:
    """A passage of a document behind the reference to the part it stands in. Its id and title stand for themselves:
    whatever they say, they stay within the line."""
    start, end = item.part or (0, 0)
    title = opening(inline(item.title), LONGEST_TITLE)
    lead = words.document.format(id=inline(item.reference), start=start, end=end, title=title).strip()
    return SlotItem(
        "recall", item.key, inline(item.text), (1, "", *item.order), item.events, item.at, value, item.category,
        item.tags, lead=f"{lead}{words.colon}", follows=item.follows, in_time=item.in_time,
        by_named=item.by_named, through=item.through,
        reference=item.reference,
    )  # fmt: skip


def _current(facts: Facts) -> list[Memory]:
    """Memories in force: one current truth per subject and predicate, none that was closed or has run out."""
    states = (facts.session, facts.subject, facts.tenant)
    return current((memory for state in states for memory in state.rows("memories")), facts.as_of)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


_OFFERS: dict[SlotName, Callable[[Facts], Iterable[SlotItem]]] = {
    "constraints": constraints,
    "planner": planner,
    "task_memory": task_memory,
    "tool_state": tool_state,
    "profile": profile,
    "recall": recall,
}


def refusal(item: SlotItem, spec: SlotSpec, facts: Facts, taken: int) -> str | None:
    """Why the filter refuses an item, or None. `taken` items of its sort were admitted before it."""
    if item.protected:
        return None
    if spec.categories and item.category is not None and item.category not in spec.categories:
        return "category"
    if spec.require_tags and not set(spec.require_tags) <= set(item.tags):
        return "tags"
    if item.score is not None and item.score < spec.min_score:
        return "min_score"
    if spec.max_age_hours and item.at is not None and facts.as_of - item.at > spec.max_age_hours * HOUR:
        return "max_age"
    if spec.top_k and item.slot not in ("constraints", "planner") and taken >= spec.top_k:
        return "top_k"
    return None
