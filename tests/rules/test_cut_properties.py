"""Invariants 5, 7 and 8 and the stable prefix, for histories of working agents that do not fit.

Each test counts how often its examples reached a trim, so that it cannot pass by never cutting anything.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from histories import Log, World, compiled, compiled_from
from hypothesis import event, given
from test_same_inputs_same_bytes import logged, states, stored
from worlds import benign, examples, formats

from domain.canonical import canonical_json, parse_json
from domain.errors import ContextOverflow
from domain.laying import SEAMS
from domain.snapshots import Layout, Prompt

SAID = [
    "ok",
    "the order #W1234 is late. ",
    "你好世界，今天天气怎么样？",
    '{"temp": 22, "wind": "NW", "id": "a-77"} ',
    "done.\n",
]

said = st.builds(lambda text, times: text * times, st.sampled_from(SAID), st.sampled_from([4, 1, 2, 8, 20])) | benign
giants = st.builds(lambda text: text * 140, st.sampled_from(SAID))
shares = st.sampled_from([0.3, 0.1, 0.2, 0.5, 0.7])
SHARE = 0.9
"""Of what the floor leaves, the share of the window where the slots are to be short."""


@dataclass
class Working:
    """A log of whole turns, and the seqs at which the agent asked for a prompt."""

    log: Log
    asks: list[int]

    def __repr__(self) -> str:
        return f"Working({self.log!r}, {self.asks})"


@st.composite
def workings(draw: Any, most: int = 16) -> Working:
    """Questions, remarks, batches of calls with all their answers; and what is volatile: a plan, what was observed."""
    log, asks = Log(), list[int]()
    log.add("session.started", mode=draw(st.sampled_from(["chat", "react", "tool"])))
    core = draw(st.integers(0, 2))
    log.add("instruction.set", role="You help.", rules=[{"text": f"core {at}", "core": True} for at in range(core)])
    log.block("pay", "never pay twice")
    log.add("tool.registered", name="look_up", description="finds things", required=("of",))
    for number in range(draw(st.sampled_from([most // 2, most * 3 // 4, most]))):
        what = draw(st.sampled_from(["user", "user", "calls", "calls", "calls", "reply", "giant", "volatile"]))
        if what == "user":
            log.user(draw(said), directive=draw(st.sampled_from([True, True, False])))
        elif what == "reply":
            log.assistant(draw(said))
        elif what == "volatile":
            _volatile(log, draw(st.integers(0, 2)), number, draw(said))
        else:
            ids = [f"c{number}-{at}" for at in range(draw(st.integers(1, 3)))]
            log.calls(*ids, content=draw(st.sampled_from(["", "I look. "])))
            for one in ids:
                log.answer(one, draw(giants if what == "giant" else said))
        if what != "reply":
            asks.append(len(log.events))
    return Working(log, asks)


def _volatile(log: Log, kind: int, number: int, text: str) -> None:
    if kind == 0:
        steps = [{"id": str(at), "text": text} for at in range(3)]
        log.add("plan.updated", task_id="t-1", steps=steps, current_step=str(number % 3))
    elif kind == 1:
        log.add("observation.recorded", step_id=str(number), result=text)
    else:
        log.add("memory.recorded", id=f"m{number}", scope="session", text=text, category="fact", importance=0.9)


def tight(working: Working, target: str, share: float) -> int:
    """A budget that holds the floor and a share of all that is there."""
    whole = compiled(working.log, format=target, budget=10**7)
    kept = ("window", "anchor_business")
    room = sum(tokens for zone, tokens in whole.report["zones"].items() if zone in kept)
    return whole.tokens - room + 80 + int(room * share)


def view(working: Working, **asked: Any) -> Iterator[tuple[Log, Layout | None, Prompt]]:
    """The prompts of one view in the order in which they were asked for, each with what it carried on."""
    parent: Layout | None = None
    for seq in working.asks:
        part = working.log.upto(seq)
        try:
            prompt = compiled(part, parent=parent, **asked)
        except ContextOverflow:
            continue
        yield part, parent, prompt
        parent = prompt.layout


def history_tokens(prompt: Prompt) -> int:
    zones = ("window", "anchor_business", "pinned", "summary")
    return sum(prompt.report["zones"].get(zone, 0) for zone in zones)


def test_inv8_every_trim_makes_smaller_what_was_there_before_it_in_few_rounds() -> None:
    reached = Counter[str]()

    @examples(14)
    @given(workings(), formats, shares)
    def check(working: Working, target: str, share: float) -> None:
        trims = 0
        budget = tight(working, target, share)
        for part, parent, prompt in view(working, format=target, budget=budget):
            trim = prompt.report["trim"]
            assert len(trim["rolled_back"]) < 5
            before = parent.trims if parent else 0
            assert prompt.layout.trims == before + (trim["strategy"] != "none")
            assert prompt.tokens <= budget
            assert prompt.report["ledger"]["closes"]
            if trim["strategy"] == "none":
                continue
            trims += 1
            uncut = compiled(part, parent=parent, format=target, budget=10**7)
            assert uncut.report["trim"]["strategy"] == "none"
            assert history_tokens(prompt) < history_tokens(uncut)
        event(f"trims: {min(trims, 4)}")
        reached.update(examples=1, trimmed=trims > 0, again=trims > 1)

    check()
    assert reached["trimmed"] >= reached["examples"] / 4
    assert reached["again"] >= reached["examples"] / 10


def lines(prompt: Prompt, target: str) -> list[str]:
    """What is rendered before the place of the tail, in order; block by block where a format merges messages."""
    tail = ("slots", "reinforcement")
    newest = len(prompt.messages) - (prompt.messages[-1].role == "user")
    ahead = next((at for at, one in enumerate(prompt.messages) if one.zone in tail), newest)
    if target == "openai":
        return [canonical_json(one).decode() for one in prompt.payload["messages"][:ahead]]
    if target == "text":
        frames = prompt.payload["text"].split("\n@@ ")
        return list(frames[: _frames(prompt, ahead)])
    blocks = [
        canonical_json([one["role"], block]).decode() for one in prompt.payload["messages"] for block in one["content"]
    ]
    own = sum(_blocks(one) for one in prompt.messages[:ahead])
    return [str(prompt.payload.get("system")), *blocks[:own]]


def _blocks(message: Any) -> int:
    if message.role == "system":
        return 0
    return max(1, sum(1 for part in message.parts if getattr(part, "text", "").strip()) + len(message.calls))


def _frames(prompt: Prompt, ahead: int) -> int:
    return sum(1 + len(one.calls) for one in prompt.messages[:ahead])


def slots_are_short(prompt: Prompt) -> bool:
    """Whether an item gave way for want of room."""
    return any(one["reason"] == "global_budget" for slot in prompt.report["slots"].values() for one in slot["items"])


def directive_is_large(prompt: Prompt) -> bool:
    """Whether the newest directive leaves so little that the slots give way to it."""
    left = prompt.budget - sum(prompt.report["floor"].values())
    return left - prompt.report["zones"].get("anchor_business", 0) < left * (1 - SHARE) / (1 - SHARE / 2) + SEAMS


def test_the_prefix_stays_byte_for_byte_until_the_next_trim() -> None:
    """A plan, an observation, a memory, another question: nothing of it reaches what stands before the tail."""
    reached = Counter[str]()

    @examples(14)
    @given(workings(), formats, shares)
    def check(working: Working, target: str, share: float) -> None:
        carried = checked = 0
        before: Prompt | None = None
        asked = {"format": target, "budget": tight(working, target, share), "overrides": {"window_share": SHARE}}
        for _, parent, prompt in view(working, **asked):
            # Until the first cut a prompt may still be one that holds everything.
            pair = [one for one in (before, prompt) if one and slots_are_short(one)]
            short = pair and (not prompt.layout.trims or any(map(directive_is_large, pair)))
            if before and parent and prompt.layout.trims == parent.trims and not short:
                old, new = lines(before, target), lines(prompt, target)
                assert new[: len(old)] == old
                carried += bool(parent.trims)
                checked += bool(pair)
            before = prompt
        event(f"carried over a cut: {min(carried, 4)}")
        event(f"with slots that are short: {min(checked, 4)}")
        reached.update(examples=1, carried=carried > 0, short=checked > 0)

    check()
    assert reached["carried"] >= reached["examples"] / 6
    assert reached["short"] >= reached["examples"] / 10


def test_inv5_a_chain_of_prompts_is_the_same_from_storage_with_layouts_read_again() -> None:
    reached = Counter[str]()

    @examples(6)
    @given(workings(most=12), formats, shares)
    def check(working: Working, target: str, share: float) -> None:
        asked = {"format": target, "budget": tight(working, target, share)}
        trims = 0
        for part, parent, prompt in view(working, **asked):
            reloaded = Layout.load(parse_json(canonical_json(parent.dump()))) if parent else None
            tables = [stored(state) for state in states(World(logged(part)))]
            again = compiled_from(tables, reloaded, **asked)
            assert again.content_hash == prompt.content_hash
            assert again.report == prompt.report
            assert again.layout.dump() == prompt.layout.dump()
            trims = prompt.layout.trims
        reached.update(examples=1, trimmed=trims > 0)

    check()
    assert reached["trimmed"] >= reached["examples"] / 4


def test_inv7_a_larger_budget_keeps_every_unit_and_item_of_a_smaller_one_where_both_are_cut() -> None:
    reached = Counter[str]()

    def kept(prompt: Prompt) -> set[Any]:
        units = {entry["from_seq"] for entry in prompt.report["units"] if entry["disposition"] == "included"}
        slots = prompt.report["slots"].items()
        items = {
            (name, one["key"]) for name, slot in slots for one in slot["items"] if one["disposition"] == "included"
        }
        return units | items

    @examples(20)
    @given(workings(), formats, shares, st.sampled_from([1, 2, 5, 20, 100, 400]))
    def check(working: Working, target: str, share: float, more: int) -> None:
        asked = {"format": target, "overrides": {"lending": False}}
        budget = tight(working, target, share)
        try:
            small = compiled(working.log, budget=budget, **asked)
        except ContextOverflow:
            return
        large = compiled(working.log, budget=budget + more, **asked)
        assert kept(small) <= kept(large)
        both = small.layout.trims and large.layout.trims
        event("both cut" if both else "one cut" if small.layout.trims else "none cut")
        reached.update(examples=1, both=bool(both), some=bool(small.layout.trims))

    check()
    assert reached["some"] >= reached["examples"] / 4
    assert reached["both"] >= reached["examples"] / 6
