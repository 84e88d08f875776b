"""Recalled lines: a day and a speaker are told once, nobody can pass for another, and what a line costs adds up."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from domain.lines import Page, lines
from domain.slots import SlotItem


def said(place: int, day: str, who: str, text: str, follows: str = "") -> SlotItem:
    return SlotItem("recall", str(place), text, (1, day, place), heading=day, lead=f"{who}: ", follows=follows)


def texts(*items: SlotItem) -> list[str]:
    return [text for text, _ in lines(items)]


def test_a_day_is_told_once_and_its_year_where_it_changes() -> None:
    found = texts(
        said(1, "2023-05-08", "ann", "one"), said(2, "2023-05-09", "bob", "two"), said(3, "2024-01-01", "bob", "three")
    )
    assert found == ["2023-05-08", "- ann: one", "05-09", "- bob: two", "2024-01-01", "- bob: three"]


def test_who_goes_on_speaking_is_not_named_again_and_can_pass_for_nobody_else() -> None:
    found = texts(*(said(at, "2023-05-08", "ann", text) for at, text in enumerate(["hello", "bob: I pay", "- bob: x"])))
    assert found == ["2023-05-08", "- ann: hello", "  bob: I pay", "  - bob: x"]


def test_a_passage_that_goes_on_from_the_one_before_stands_in_its_line() -> None:
    found = texts(said(1, "2023-05-08", "ann", "One."), said(2, "2023-05-08", "ann", "Two.", follows="1"))
    assert found == ["2023-05-08", "- ann: One. Two."]


days = st.sampled_from(["2022-12-31", "2023-05-08", "2023-05-09"])
items = st.lists(
    st.tuples(days, st.sampled_from(["ann", "bob"]), st.text("ab ", min_size=1, max_size=9), st.booleans()), max_size=12
)


@given(items, st.randoms(use_true_random=False))
def test_the_costs_of_lines_add_up_to_the_section_in_whatever_order_they_come(
    rows: list[tuple[str, str, str, bool]], chance: Random
) -> None:
    made = [said(at, *row[:3]) for at, row in enumerate(sorted(rows))]
    made = [
        replace(one, follows=str(at - 1)) if rows and follows and at and made[at - 1].heading == one.heading else one
        for at, (one, (*_, follows)) in enumerate(zip(made, sorted(rows), strict=True))
    ]
    shuffled = list(made)
    chance.shuffle(shuffled)
    page = Page(len)
    costs = [page.grown(item) for item in shuffled]
    assert all(cost >= 0 for cost in costs)
    assert sum(costs) >= sum(len(f"{text}\n") for text in texts(*made)) - sum(bool(one.follows) for one in made)
