"""Invariant 10: replays are byte-identical, and so is a prompt after a rollback to its version."""

from collections.abc import Iterator
from typing import Any

from histories import Log, compiled
from hypothesis import assume, given
from hypothesis import strategies as st
from test_same_inputs_same_bytes import logged
from worlds import examples, formats, logs, steps, texts

from domain.canonical import canonical_json, parse_json
from domain.errors import ContextOverflow
from domain.events import Event
from domain.history import effective, header_of, in_force
from domain.snapshots import Layout, Prompt
from domain.state import fold

tight = st.sampled_from([300, 600, 1200, 8000])
RULES = ("constraint.set", "constraint.removed", "instruction.set", "event.redacted")


class Version:
    """A prompt that was made, with all that it was made from, as a snapshot would hold it."""

    def __init__(self, log: Log, parent: "Version | None", **asked: Any) -> None:
        self.seq, self.asked = len(log.events), asked
        self.before = parent.layout if parent else None
        self.as_of = log.events[-1].recorded_at
        prompt = self.compile(log)
        self.hash, self.layout = prompt.content_hash, canonical_json(prompt.layout.dump())

    def compile(self, log: Log) -> Prompt:
        parent = Layout.load(parse_json(self.before)) if self.before else None
        return compiled(log, parent=parent, as_of=self.as_of, **self.asked)


def versions(log: Log, **asked: Any) -> Iterator[Version]:
    """A version for every third event, each carrying on from the one before."""
    last: Version | None = None
    for end in range(3, len(log.events) + 1, 3):
        try:
            last = Version(log.upto(end), last, **asked)
        except ContextOverflow:
            continue
        yield last


@examples(40)
@given(logs(texts), formats, tight)
def test_every_prompt_replays_to_the_byte(log: Log, target: str, budget: int) -> None:
    again = logged(log)
    for version in versions(log, format=target, budget=budget):
        assert version.compile(again.upto(version.seq)).content_hash == version.hash


@examples(60)
@given(logs(texts), formats, tight, st.integers(0, 20), st.lists(steps(texts), max_size=5))
def test_after_a_rollback_to_a_version_its_request_gives_its_bytes_again_and_again(
    log: Log, target: str, budget: int, which: int, more: list[Any]
) -> None:
    made = list(versions(log, format=target, budget=budget))
    assume(made)
    version = made[which % len(made)]
    assume(not any(event.kind in RULES for event in log.events[version.seq :]))
    log.add("context.rolled_back", to_seq=version.seq)
    assert version.compile(log).content_hash == version.hash
    for step in more:
        step(log)
    assume(not any(event.kind in RULES for event in log.events[version.seq :]))
    log.add("context.rolled_back", to_seq=version.seq)
    assert version.compile(log).content_hash == version.hash


def rows_of(events: list[Event]) -> Any:
    """The folded rows, but for how far the fold has come and what it went back over."""
    return {name: rows for name, rows in fold(events).tables.items() if name not in ("progress", "refolds")}


@examples(80)
@given(logs(texts, max_size=12), st.lists(steps(texts), max_size=4), st.integers(0, 40), st.integers(0, 40))
def test_a_rollback_of_a_rollback_brings_back_what_was(log: Log, more: list[Any], to: int, later: int) -> None:
    assume(not any(event.kind in RULES for event in log.events))
    before = in_force(log.events)
    head = len(log.events)
    log.add("context.rolled_back", to_seq=min(to, head))
    for step in more:
        step(log)
    assume(not any(event.kind in RULES for event in log.events))
    log.add("context.rolled_back", to_seq=head)
    assert rows_of(in_force(log.events)) == rows_of(before)


@examples(80)
@given(st.lists(st.sampled_from(["say", "back", "back", "redact"]) | st.integers(0, 30), max_size=25))
def test_what_is_in_force_is_what_was_at_the_seq_gone_back_to_and_what_came_after(moves: list[Any]) -> None:
    """Against a plain model: a list of lists, copied at every step."""
    log, histories, number, erased = Log(), [[]], 0, set[int]()
    for move in moves:
        if isinstance(move, int):
            number = move
            continue
        seq = len(log.events) + 1
        if move == "back":
            to = number % seq
            log.add("context.rolled_back", to_seq=to, loosen=True)
            histories.append([*histories[to], seq])
        elif move == "redact" and log.events:
            victim = log.events[number % len(log.events)]
            if victim.kind != "user.input":
                continue
            log.add("event.redacted", event_id=victim.event_id)
            erased.add(victim.seq)
            histories.append([*histories[-1], seq])
        else:
            log.user(f"said at {seq}")
            histories.append([*histories[-1], seq])
    found = effective(map(header_of, log.events))
    redactions = {event.seq for event in log.events if event.kind == "event.redacted"}
    assert set(found) - redactions == set(histories[-1]) - erased - redactions


# --- what a layout carries over a rollback ---------------------------------------------------------------------------


def long_talk(turns: int) -> Log:
    log = Log()
    for turn in range(turns):
        log.user(f"question {turn} about order W{1000 + turn} " * 4)
        log.assistant(f"answer {turn}, see invoice I{2000 + turn} " * 4)
    return log


def test_a_rollback_over_trims_carries_on_from_the_layout_that_the_version_carried_on() -> None:
    log = long_talk(30)
    made = list(versions(log, format="openai", budget=600))
    version = made[12]
    assert version.before
    assert Layout.load(parse_json(version.before)).cut, "it should carry a cut on"
    log.add("context.rolled_back", to_seq=version.seq)
    assert version.compile(log).content_hash == version.hash


def test_a_layout_made_from_what_was_rolled_back_is_not_carried_on() -> None:
    log = long_talk(30)
    *_, last = versions(log, format="openai", budget=600)
    log.add("context.rolled_back", to_seq=20)
    log.user("go on from there")
    carried = compiled(log, parent=Layout.load(parse_json(last.layout)), budget=600)
    assert carried.payload == compiled(log, budget=600).payload
    assert "question 9" in str(carried.payload), "what is in force again is shown"
    assert "W1015" not in str(carried.payload), "what was rolled back is gone, from summaries too"


def test_a_redacted_event_is_in_no_summary_that_a_layout_carries_on() -> None:
    log = long_talk(12)
    *_, last = versions(log, format="openai", budget=600)
    secret = next(event for event in log.events if f"W{1000 + 3}" in str(event.payload))
    assert "W1003" in str(compiled(log, parent=Layout.load(parse_json(last.layout)), budget=600).payload)
    log.redact(secret)
    assert "W1003" not in str(compiled(log, parent=Layout.load(parse_json(last.layout)), budget=600).payload)


def test_a_redaction_survives_a_rollback_to_before_it() -> None:
    log = long_talk(2)
    log.redact(log.events[0])
    log.add("context.rolled_back", to_seq=4)
    assert "W1000" not in str(compiled(log).payload)
    assert "W1001" in str(compiled(log).payload)
