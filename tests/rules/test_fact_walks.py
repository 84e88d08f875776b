"""Walks over facts: from what a query names to what facts lead to, strongly where the query speaks of it."""

from hypothesis import given
from hypothesis import strategies as st

from domain.recall.graph import FEW, MEANT, lent, walk
from domain.recall.terms import terms
from domain.rows import Memory


def fact(subject: str, predicate: str, thing: str) -> Memory:
    name = f"{subject}/{predicate}/{thing}"
    return Memory(
        name, f"{subject} {predicate} {thing}", "fact", 0.5, 1, name, 0, subject=subject, predicate=predicate,
        object=thing, derived_from=(f"said:{name}",),
    )  # fmt: skip


FAMILY = [
    fact("Nele", "sister", "Mira"), fact("Mira", "husband", "Jonas"), fact("Jonas", "employer", "Falkenberg Optics"),
    fact("Nele", "landlord", "Petrov"), fact("小明", "妹妹", "小红"), fact("小红", "住在", "青岛"),
]  # fmt: skip


def reached(query: str, hops: int = 2) -> dict[str, float]:
    return {one.name: one.weight for one in walk(query, FAMILY, hops)}


def test_a_walk_goes_over_the_facts_that_the_query_speaks_of_and_hardly_over_others() -> None:
    found = reached("What does the husband of Nele's sister do?")
    assert found["Mira"] == MEANT
    assert found["Jonas"] == MEANT * MEANT
    assert found["Petrov"] < 0.3
    assert "Falkenberg Optics" not in found
    assert "Falkenberg Optics" in reached("What is the employer of the husband of Nele's sister?", 3)
    assert "青岛" in reached("小明的妹妹住在哪里？")


def test_facts_lead_both_ways_and_never_back_to_what_the_query_names() -> None:
    assert set(reached("Who has Jonas as a husband?", 1)) == {"Mira", "Falkenberg Optics"}
    assert "Nele" not in reached("Nele's sister Mira")


def test_no_walk_begins_without_a_name_or_without_hops() -> None:
    assert reached("What about the sister?") == {}
    assert reached("Nele's sister", 0) == {}


def test_a_path_names_the_facts_by_their_events_and_what_the_last_one_was_made_from() -> None:
    found = {one.name: one for one in walk("the husband of Nele's sister", FAMILY, 2)}
    assert found["Jonas"].path == ("Nele/sister/Mira", "Mira/husband/Jonas")
    assert found["Jonas"].events == ("said:Mira/husband/Jonas",)


def test_of_many_facts_that_the_query_does_not_speak_of_none_leads_on() -> None:
    crowd = [fact("Nele", "knows", f"Person{number}x") for number in range(3 * FEW)]
    assert walk("What about Nele?", crowd, 2) == []


@given(st.permutations(FAMILY), st.integers(0, 3))
def test_the_order_of_facts_does_not_matter(facts: list[Memory], hops: int) -> None:
    query = "Where does the husband of Nele's sister work, and where does 小红 live?"
    assert walk(query, facts, hops) == walk(query, FAMILY, hops)


def test_what_was_reached_lends_its_terms_the_nearest_most() -> None:
    found = lent(walk("the husband of Nele's sister", FAMILY, 2))
    assert found[terms("Mira")[0]] > found[terms("Jonas")[0]] > found[terms("Petrov")[0]] > 0
