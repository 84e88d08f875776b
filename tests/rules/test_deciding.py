"""Deciding about memories: the same twice, another truth, what is taken back, what is about something else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from histories import EPOCH, Log
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples

from domain.errors import InvalidEvent
from domain.events import MemoryRecorded, dump_payload, parse_payload
from domain.memorising.current import current
from domain.memorising.deciding import Candidate, Decision, decide, numbered, payloads, proposed
from domain.memorising.likeness import alike, covers, likeness
from domain.rows import Memory


class Told:
    """A subject's log to which candidates are told one by one."""

    def __init__(self) -> None:
        self.log = Log("s")

    def tell(self, text: str, **fields: Any) -> Decision:
        decision = decide(self.held, Candidate(text, **fields), EPOCH + len(self.log.events))
        self.carry_out(decision)
        return decision

    def carry_out(self, decision: Decision) -> None:
        for payload in payloads(decision, f"m{len(self.log.events)}"):
            self.log.add(payload.kind, **dump_payload(payload))

    @property
    def held(self) -> list[Memory]:
        return self.log.state.rows("memories")

    @property
    def true(self) -> list[str]:
        return [memory.text for memory in current(self.held, EPOCH * 2)]


ADA = {"subject": "ada", "predicate": "lives in"}


@pytest.mark.parametrize("text", ["Ada lives in Bergen.", "艾达住在卑尔根。"])
@pytest.mark.parametrize("keys", [{}, {**ADA, "object": "Bergen"}])
def test_b118_the_same_fact_twice_is_none_and_stays(text: str, keys: dict[str, str]) -> None:
    told = Told()
    acts = [told.tell(text, **keys).act for _ in range(3)]
    assert (acts, told.true) == (["ADD", "NONE", "NONE"], [text])


@pytest.mark.parametrize(
    ("before", "after"),
    [("loves coriander", "hates coriander"), ("Ada lives in Bergen", "Ada moved to Oslo"), ("库存30", "库存10")],
)
def test_b119_a_contradiction_ends_the_old_fact_and_holds_the_new_one_and_history_has_both(
    before: str, after: str
) -> None:
    told = Told()
    told.tell(before, **ADA, object=before)
    decision = told.tell(after, **ADA, object=after)
    assert (decision.act, decision.reason, told.true) == ("UPDATE", "contradicts", [after])
    assert [memory.text for memory in told.held] == [before, after]
    decided = [event.payload for event in told.log.events if event.kind == "memory.decided"][-1]
    assert (decided.text, decided.before, decided.about) == (after, before, told.held[0].id)


def test_b121_what_was_taken_back_can_be_told_again_and_history_has_both() -> None:
    told = Told()
    told.tell("Ada has a dog", subject="ada", predicate="pet", object="dog")
    assert told.tell("Ada has no dog any more", subject="ada", predicate="pet", withdrawn=True).act == "DELETE"
    assert told.true == []
    again = told.tell("Ada has a dog", subject="ada", predicate="pet", object="dog")
    assert (again.act, again.reason, told.true) == ("ADD", "told_again", ["Ada has a dog"])
    assert len(told.held) == 2


def test_b122_facts_about_something_else_never_end_each_other() -> None:
    told = Told()
    for number in range(16):
        told.tell(f"Customer {number} lives in Bergen", subject=f"customer {number}", predicate="lives in")
        told.tell(f"Customer {number} has {number} boats", subject=f"customer {number}", predicate="boats")
    decision = told.tell("Customer 3 lives in Oslo", subject="Customer 3", predicate="lives in")
    assert decision.act == "UPDATE"
    assert len(told.true) == 32
    assert "Customer 3 lives in Oslo" in told.true
    assert "Customer 3 lives in Bergen" not in told.true


@pytest.mark.parametrize("time", ["2026-05-08T15:56:00+02:00", "2026-05-08T13:56:00", "2026-05-08 13:56:00Z"])
def test_b123_times_with_and_without_a_zone_are_kept_in_utc(time: str) -> None:
    payload = parse_payload("memory.recorded", 1, {"id": "m", "text": "t", "valid_from": time})
    assert isinstance(payload, MemoryRecorded)
    assert payload.valid_from == "2026-05-08T13:56:00Z"


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(InvalidEvent, match=r"valid_to.*ISO 8601"):
        parse_payload("memory.recorded", 1, {"id": "m", "text": "t", "valid_to": "next week"})


def test_what_was_over_when_it_was_told_ends_nothing() -> None:
    told = Told()
    told.tell("Ada lives in Oslo", **ADA, object="Oslo")
    decision = told.tell("Ada lived in Bergen", **ADA, object="Bergen", valid_to="2019-05-01")
    assert (decision.act, decision.reason, told.true) == ("ADD", "past", ["Ada lives in Oslo"])


def test_what_begins_later_leaves_the_old_fact_true_until_then() -> None:
    told = Told()
    told.tell("Ada lives in Oslo", **ADA, object="Oslo")
    told.tell("Ada lives in Rome", **ADA, object="Rome", valid_from="2100-01-01")
    then = 4_102_444_800_000_000
    assert [memory.text for memory in current(told.held, then - 1)] == ["Ada lives in Oslo"]
    assert [memory.text for memory in current(told.held, then)] == ["Ada lives in Rome"]


def test_what_says_more_takes_the_place_of_what_said_less() -> None:
    told = Told()
    told.tell("The invoice goes to Ruth")
    assert told.tell("The invoice goes to Ruth on Mondays").reason == "more_detail"
    assert told.tell("the invoice goes to Ruth!").act == "NONE"
    assert told.true == ["The invoice goes to Ruth on Mondays"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like tea", "I don't like tea"),
        ("我喜欢茶", "我不喜欢茶"),
        ("Ann loves Bob", "Bob loves Ann"),
        ("There are 30 left", "There are 10 left"),
        ("The alarm is on", "The alarm is off"),
        ("My sister has a cat", "Your sister has a cat"),
        ("Ann has a dog. Bob has a cat", "Ann has a cat"),
    ],
)
def test_texts_that_differ_in_one_word_do_not_say_the_same(one: str, other: str) -> None:
    assert not covers(one, other)
    assert likeness(one, other) < 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("I live in Bergen.", "i now live in  Bergen"), ("我住在卑尔根", "我现在住在卑尔根。"), ("ＡＢＣ", "abc")],
)
def test_texts_that_differ_in_nothing_that_counts_say_the_same(one: str, other: str) -> None:
    assert alike(one, other)


def test_a_newer_truth_of_another_scope_stands_alone() -> None:
    held = [Memory("a", "Oslo", "fact", 0.5, 1, "e1", 1, "session", **ADA)]
    held.append(Memory("b", "Rome", "fact", 0.5, 1, "e2", 2, "subject", **ADA))
    assert [memory.id for memory in current(held, 3)] == ["b"]
    assert [memory.id for memory in current([held[0], replace(held[1], recorded_at=1)], 3)] == ["a"]


# --- what a model proposes -------------------------------------------------------------------------------------------


def test_a_model_is_shown_small_numbers_and_cannot_end_what_is_about_something_else() -> None:
    told = Told()
    told.tell("Ada lives in Oslo", **ADA, object="Oslo")
    told.tell("Ada has two boats", subject="ada", predicate="boats", object="2")
    shown = numbered(told.held)
    assert sorted(shown) == [1, 2]
    rome = Candidate("Ada lives in Rome", **ADA, object="Rome")
    decision = proposed(told.held, rome, EPOCH, "UPDATE", shown[2])
    assert (decision.act, decision.about) == ("UPDATE", shown[1]) or decision.reason == "unrelated"
    told.carry_out(decision)
    assert told.true == ["Ada has two boats", "Ada lives in Rome"]


@pytest.mark.parametrize("act", ["ADD", "UPDATE", "DELETE", "NONE"])
def test_whatever_a_model_proposes_a_fact_is_not_written_twice(act: Any) -> None:
    told = Told()
    told.tell("Ada lives in Oslo", **ADA, object="Oslo")
    same = Candidate("Ada lives in Oslo", **ADA, object="Oslo")
    assert proposed(told.held, same, EPOCH, act, told.held[0]).act == "NONE"


# --- properties ------------------------------------------------------------------------------------------------------

keys = st.sampled_from([{}, {"subject": "a", "predicate": "p"}, {"subject": "a", "predicate": "q"}])
texts = st.sampled_from(["tea", "green tea", "no tea", "喜欢茶", "不喜欢茶", "10 cups", "30 cups", "", "!"])
facts = st.builds(
    lambda text, key, scope, withdrawn: Candidate(text, scope=scope, withdrawn=withdrawn, **key),
    texts, keys, st.sampled_from(["subject", "subject", "session"]), st.sampled_from([False, False, False, True]),
)  # fmt: skip


@examples(200)
@given(st.lists(facts, max_size=12))
def test_the_same_twice_is_none_and_of_a_key_one_truth_holds(told: Sequence[Candidate]) -> None:
    story = Told()
    for one in told:
        story.carry_out(decide(story.held, one, EPOCH))
        if not one.withdrawn:
            assert decide(story.held, one, EPOCH).act == "NONE"
    # What a scope holds is decided within it: here all scopes stand in one stream, so the fold ends across them.
    keyed = [(memory.subject, memory.predicate) for memory in current(story.held, EPOCH * 2) if memory.predicate]
    assert len(keyed) == len(set(keyed))


@examples(200)
@given(st.lists(facts, max_size=12))
def test_nothing_of_what_was_told_is_lost_from_the_log(told: Sequence[Candidate]) -> None:
    story = Told()
    for one in told:
        story.carry_out(decide(story.held, one, EPOCH))
    decided = [event.payload for event in story.log.events if event.kind == "memory.decided"]
    assert [one.text for one in decided] == [one.text for one in told]
    wrote = [event.payload for event in story.log.events if event.kind == "memory.recorded"]
    assert len(wrote) == sum(one.act in ("ADD", "UPDATE") for one in decided)
