"""Noticing: what an event tells that is worth remembering, by rules, so that no model is needed.

Only what users say themselves makes statements: no tool, no document and no agent writes to a profile.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, get_args

from domain.events import Event, ObservationRecorded, TextPart, ToolResult, UserInput
from domain.memorising.deciding import Candidate
from domain.memorising.statements import first_clause, opened, seams, sentences, stated, statements, withdrawn
from domain.moments import written

Rule = Literal["remember", "profile", "tool_failures", "decisions"]
ALL_RULES: frozenset[str] = frozenset(get_args(Rule))

USERS = frozenset({None, "user", "operator", "developer", "admin"})
MOST = 20
"""Memories that one event may make."""

LINE = 160
"""Characters of a failure that are remembered."""

_KEEP = re.compile(
    r"(?:please\s+)?(?:remember|keep in mind|don't forget|do not forget|note)(?:\s+this)?"
    r"(?:\s+that\b|\s*:|(?<!note))\s+(?P<told>\S.*)|(?:请|麻烦|你要|一定要)*(?:帮我)?(?:记住|记下来?|牢记|别忘了|不要忘记)(?:一下)?[：:，,\s]*(?P<zh>\S.*)",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(r"(?:when|how|the time|what|where|who|me|it|this|that)\b|[吗了]?$", re.IGNORECASE)
_DROP = re.compile(
    r"(?:please\s+)?(?:forget|stop remembering|don't remember|do not remember)(?:\s+about)?(?:\s+that\b)?\s+"
    r"(?P<told>\S.*)"
    r"|(?:请)?(?:忘掉|忘记|不要再记住?|别再记住?)[：:，,\s]*(?P<zh>\S.*)",
    re.IGNORECASE,
)
_NO_DROP = re.compile(r"(?:it|this|that|everything|all|about it|the (?:previous|above))\b|[这那]", re.IGNORECASE)
_HENCEFORTH = re.compile(
    r"(?:from now on|going forward|in (?:the )?future)[,\s]+(?P<told>\S.*)"
    r"|(?:以后|今后|从现在起|从现在开始|往后)[，,\s]*(?P<zh>(?:请|都|别|不要|要|用|叫).*)",
    re.IGNORECASE,
)
_TOLD = re.compile(
    r"(?:\b(?:says?|said|told me|tells me|asks?|asked|wrote|writes?)|[说道问写])[\s,，:：]*$", re.IGNORECASE
)
_DECIDED = re.compile(
    r"we(?:'ve| have)? decided (?:to|on|that)\b|let's go with\b|我们?决定|就(?:这么)?定了", re.IGNORECASE
)


def notices(event: Event, rules: Collection[str], tools: Mapping[str, str] | None = None) -> list[Candidate]:
    """What is worth remembering of an event. `tools` names the tool of each call id."""
    payload = event.payload
    found: list[Candidate] = []
    if isinstance(payload, UserInput) and event.actor in USERS:
        text = "\n".join(part.text for part in payload.content if isinstance(part, TextPart))
        found = list(_said(text, rules))
    elif isinstance(payload, ToolResult) and "tool_failures" in rules and payload.status != "ok":
        found = list(_failed(payload, tools or {}))
    elif isinstance(payload, ObservationRecorded) and "decisions" in rules and payload.decision.strip():
        told = " → ".join(part.strip() for part in (payload.decision, payload.result) if part.strip())
        found = [Candidate(told[:500], category="decision", memory_kind="episodic")]
    at = event.recorded_at if event.occurred_at is None else min(event.occurred_at, event.recorded_at)
    return [_of(event, one, at) for one in found[:MOST]]


def any_tells(events: Iterable[Event], rules: Collection[str]) -> bool:
    """Whether any of the events tells something that the rules remember."""
    return bool(rules) and any(_tells(event, rules) for event in events)


def _tells(event: Event, rules: Collection[str]) -> bool:
    if isinstance(event.payload, ToolResult):
        return "tool_failures" in rules and event.payload.status != "ok"
    return bool(notices(event, rules))


def _of(event: Event, told: Candidate, at: int) -> Candidate:
    return replace(told, derived_from=(event.event_id,), valid_from=None if told.withdrawn else written(at))


def _said(text: str, rules: Collection[str]) -> Iterator[Candidate]:
    for sentence in sentences(text):
        if "remember" in rules and (found := _asked(sentence)):
            yield from found
        elif "profile" in rules:
            yield from _stated(sentence)
        if "decisions" in rules and _DECIDED.match(sentence):
            yield Candidate(sentence, category="decision", memory_kind="episodic")


def _asked(sentence: str) -> list[Candidate]:
    """What a user asks to remember or to forget."""
    if (found := _KEEP.match(sentence)) and (told := _rest(found)) and not _NO_MEMORY.match(told):
        made = list(statements(told)) or [Candidate(told, importance=0.8)]
        return [replace(one, importance=max(one.importance, 0.8)) for one in made]
    if (found := _DROP.match(sentence)) and (told := _rest(found)) and not _NO_DROP.match(told):
        return [withdrawn(told)]
    return []


def _stated(sentence: str) -> Iterator[Candidate]:
    """What a sentence states, clause by clause, and what it wishes from now on: a wish that is no statement goes on to
    the end of the sentence."""
    while sentence:
        at, found = _wished(sentence)
        yield from statements(sentence[:at])
        if found is None:
            return
        first, others = first_clause(_rest(found))
        made, sentence = (one, others) if (one := stated(first)) else (stated(_rest(found)), "")
        wish = Candidate(found.string, category="preference", memory_kind="procedural", importance=0.8)
        yield replace(made, importance=0.8) if made else wish


def _wished(sentence: str) -> tuple[int, re.Match[str] | None]:
    """Where what stands before the first clause ends that says how it shall be from now on, and that clause. What
    somebody is said to have said is none."""
    for end, start in seams(sentence):
        if not _TOLD.search(sentence[:end]) and (found := _HENCEFORTH.match(opened(sentence[start:]))):
            return end, found
    return len(sentence), None


def _rest(found: re.Match[str]) -> str:
    return opened(found["told"] or found["zh"] or "").rstrip(" .!。！")


def _failed(told: ToolResult, tools: Mapping[str, str]) -> Iterator[Candidate]:
    tool = told.name or tools.get(told.call_id)
    text = "\n".join(part.text for part in told.content if isinstance(part, TextPart))
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")[:LINE]
    if tool:
        said = f"{tool} [{told.status}]: {line}"
        yield Candidate(
            said, category="tool_failure", memory_kind="episodic", importance=0.4, subject=f"tool:{tool}",
            predicate="failure", object=line or told.status,
        )  # fmt: skip
