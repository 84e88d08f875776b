"""What every prompt owes its log: budget, protected parts, shape, accounts, lineage."""

from collections.abc import Sequence
from typing import Any

from checkers import BLOCK, faults, open_ledger, plain, seen, system_text, tokens_of
from expected import turns
from histories import World, compiled, count_text

from domain.errors import ContextOverflow
from domain.events import Event, TextPart
from domain.history import in_force
from domain.snapshots import Prompt


def events_in_force(world: World) -> list[Event]:
    return [event for event in in_force(world.session.events) if event.payload is not None]


def assert_sound(world: World, prompt: Prompt, target: str, locale: str) -> None:
    assert tokens_of(prompt.payload, target, count_text) == prompt.tokens == prompt.report["tokens"]
    assert prompt.tokens <= prompt.budget
    assert faults(prompt.payload, target) == []
    assert_keeps_what_is_protected(world, prompt, target, locale)
    assert_accounts_for_all(world, prompt)
    assert_lineage(world, prompt)
    assert_tells_the_truth(prompt)


# --- what must never be cut ------------------------------------------------------------------------------------------


def block_rules(world: World) -> list[str]:
    """The first word of every rule that binds this session: its own and its parents' `block` constraints."""
    found: list[str] = []
    for log in (world.session, *world.parents):
        own: dict[str, Any] = {}
        for event in in_force(log.events):
            if event.kind == "constraint.set" and event.payload:
                own[event.payload.id] = event.payload
            elif event.kind == "constraint.removed" and event.payload:
                own.pop(event.payload.id, None)
        found += [rule.text.split(" ")[0] for rule in own.values() if rule.level == "block"]
    return found


def newest(world: World, kind: str) -> Any:
    return next((event for event in reversed(events_in_force(world)) if event.kind == kind), None)


def directive(world: World) -> Event | None:
    said = [one for one in events_in_force(world) if one.kind == "user.input"]
    return next((one for one in reversed(said) if one.payload.directive and one.payload.content), None)


def assert_keeps_what_is_protected(world: World, prompt: Prompt, target: str, locale: str) -> None:
    system = system_text(prompt.payload, target)
    lines = system.split("\n")
    for rule in block_rules(world):
        assert sum(line.startswith(BLOCK[locale] + rule) for line in lines) == 1, f"{rule} is not there once"
    if told := newest(world, "instruction.set"):
        assert system.startswith(plain(told.payload.role))
    if told := directive(world):
        users = [one.text for one in seen(prompt.payload, target) if one.role == "user"]
        texts = [plain(part.text) for part in told.payload.content if isinstance(part, TextPart)]
        for text in texts if target != "anthropic" else filter(str.strip, texts):
            assert any(_stands(text, shown) for shown in users), f"the directive {text[:60]!r} is not there"


def _stands(text: str, shown: str) -> bool:
    """Whether a text stands in another, whole or with its middle cut out of an oversized anchor."""
    if text in shown:
        return True
    head, tail = shown[:200].split("…")[0], shown[-200:].split("…")[-1]
    return "…" in shown and count_text(shown) >= 800 and text.startswith(head) and text.endswith(tail)


# --- accounts and lineage --------------------------------------------------------------------------------------------


def assert_accounts_for_all(world: World, prompt: Prompt) -> None:
    assert open_ledger(prompt.report) == []
    there = turns(events_in_force(world))
    answered = sum(one.answer is not None for turn in there for one in turn.calls)
    answers = sum(event.kind == "tool.result" for event in events_in_force(world))
    units = sum(entry["units"] for entry in prompt.report["units"])
    assert units == len(there) + answers - answered, "a turn is missing from the accounts, or there twice"


def assert_lineage(world: World, prompt: Prompt) -> None:
    known = {event.event_id for log in world.streams for event in log.events if event.payload is not None}
    assert len(prompt.provenance) == len(prompt.messages)
    for row, message in zip(prompt.provenance, prompt.messages, strict=True):
        assert set(row["events"]) <= known
        lines = row.get("lines")
        if lines is not None:
            text = message.parts[0].text
            assert len(lines) == text.count("\n") + 1, "each line has its events"
        elif message.zone in ("window", "pinned", "anchor_business", "few_shot"):
            assert row["events"], f"{message} came from nowhere"


def assert_tells_the_truth(prompt: Prompt) -> None:
    """What the report calls included is there, and what it calls dropped is neither there nor summarised."""
    spoken = ("window", "pinned", "anchor_business")
    shown = {name for row in prompt.provenance if row["zone"] in spoken for name in row["events"]}
    told = {name for row in prompt.provenance if row["zone"] == "summary" for name in row["events"]}
    by_kind: dict[str, set[str]] = {"included": shown, "summarized": told}
    for entry in prompt.report["units"]:
        events = set(entry.get("events", ()))
        if entry["disposition"] == "dropped":
            assert not events & (shown | told), f"dropped, they say: {entry}"
        else:
            assert events <= by_kind[entry["disposition"]], f"{entry['disposition']}, they say: {entry}"


# --- the floor -------------------------------------------------------------------------------------------------------

FLOOR_KINDS = frozenset(
    {"session.started", "instruction.set", "constraint.set", "constraint.removed", "tool.registered", "tool.removed"}
)
ALONE: dict[str, Any] = {
    "mode": "chat",
    "budget": 10_000_000,
    "overrides": {"reinforce_rules": False, "global_slot_budget": 0, "slots": {"constraints": {"token_budget": 0}}},
}


def floor_tokens(world: World, target: str, locale: str) -> tuple[int, int]:
    """Tokens of the smallest log that still has all that is protected, and how many could be cut from its anchor."""
    events = events_in_force(world)
    pins: dict[str, None] = {}
    for event in events:
        if event.kind == "message.pinned":
            pins[event.payload.event_id] = None
        elif event.kind == "message.unpinned":
            pins.pop(event.payload.event_id, None)
    anchor = directive(world)
    wanted = {*pins, anchor.event_id if anchor else ""}
    kept = [event for event in events if event.kind in FLOOR_KINDS or event.event_id in _protected(events, wanted)]
    alone = World(type(world.session)("e", kept), parents=world.parents)
    prompt = compiled(alone, format=target, locale=locale, **ALONE)
    parts = anchor.payload.content if anchor else ()
    texts = [count_text(plain(part.text)) for part in parts if isinstance(part, TextPart)]
    return prompt.tokens, max(0, max(texts, default=0) - 850)


def _protected(events: Sequence[Event], wanted: set[str]) -> set[str]:
    found: set[str] = set()
    for turn in turns(events):
        mine = {turn.event.event_id, *(late.event.event_id for late in turn.joined)}
        answers = [one.answer for one in turn.calls if one.answer is not None]
        mine |= {event.event_id for event in events if any(event.payload is answer for answer in answers)}
        mine |= {event.event_id for event in events if event.kind == "tool.called" and event.causation_id in mine}
        if mine & wanted:
            found |= mine
    return found


def assert_overflow_is_true(world: World, overflow: ContextOverflow, budget: int, target: str, locale: str) -> None:
    needed, spare = floor_tokens(world, target, locale)
    assert needed - spare > budget, f"the floor of {needed} tokens fits the budget of {budget}: {overflow}"
    assert overflow.details["total"] > overflow.details["budget"] == budget
    assert sum(overflow.details["needs"].values()) > 0
