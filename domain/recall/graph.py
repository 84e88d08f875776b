"""Facts as a small graph: memories lead from their subject to their object and back. A walk begins at what a query
names and goes over facts to what they lead to, so that the units that mention that are found, and those that told it.

A fact whose predicate the query speaks of leads on strongly: of `Tom's boss` to the boss, and hardly to the brother.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from domain.recall.naming import NOBODY, marked, names
from domain.recall.terms import terms
from domain.rows import Memory

MEANT, BESIDE = 0.9, 0.2
"""What is left of the weight of a walk after a fact whose predicate the query speaks of, and after any other."""

FEW = 4
"""So many facts of one name that the query does not speak of are walked with full weight; each of more has less."""

FAINT = 0.1
"""Below this weight no walk goes on."""

LENT = 0.5
"""What the terms of what was reached weigh beside those of the query."""

MOST = 16
"""Names that a walk comes to at most, the nearest."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What a walk came to, by its name as the fact says it. `path` tells the facts on the way by the events that told
    them, `events` what the last of them was made from."""

    name: str
    weight: float
    path: tuple[str, ...]
    events: tuple[str, ...] = ()


_Fact = tuple[Memory, int, int]
"""A fact with the marks of its subject and of its object."""


def walk(query: str, memories: Iterable[Memory], hops: int) -> list[Reached]:
    """What facts lead to from the names in a query within so many of them, the nearest first; not what it names."""
    facts = [(one, marked(one.subject), marked(one.object)) for one in memories if one.subject and one.object]
    named = names(query) & {mark for _, *ends in facts for mark in ends}
    asked, found = frozenset(terms(query)), dict[int, Reached]()
    front = {mark: Reached("", 1.0, ()) for mark in sorted(named)}
    for _ in range(hops if named else 0):
        front = _step(front, facts, named | found.keys() | {NOBODY}, asked)
        found |= front
    return sorted(found.values(), key=lambda one: (-one.weight, one.name))[:MOST]


def _step(
    front: Mapping[int, Reached], facts: Sequence[_Fact], known: frozenset[int], asked: frozenset[str]
) -> dict[int, Reached]:
    found: dict[int, Reached] = {}
    for mark, edges in _leaving(front, facts).items():
        before, meant = front[mark], [not asked.isdisjoint(terms(fact.predicate or "")) for fact, _, _ in edges]
        beside = BESIDE * min(1.0, FEW / max(1, meant.count(False)))
        for (fact, end, name), is_meant in zip(edges, meant, strict=True):
            weight = before.weight * (MEANT if is_meant else beside)
            if end in known or weight < FAINT or (end in found and found[end].weight >= weight):
                continue
            found[end] = Reached(name, weight, (*before.path, fact.event_id), fact.derived_from)
    return found


def _leaving(front: Mapping[int, Reached], facts: Sequence[_Fact]) -> dict[int, list[tuple[Memory, int, str]]]:
    """The facts that touch the front, each with what it leads to: they lead both ways."""
    found: dict[int, list[tuple[Memory, int, str]]] = {mark: [] for mark in front}
    for fact, subject, object_ in facts:
        if subject in front:
            found[subject].append((fact, object_, fact.object or ""))
        if object_ in front:
            found[object_].append((fact, subject, fact.subject or ""))
    return found


def lent(reached: Sequence[Reached]) -> dict[str, float]:
    """The terms that what was reached lends a query."""
    found: dict[str, float] = {}
    for one in reached:
        for term in terms(one.name):
            found[term] = max(found.get(term, 0.0), LENT * one.weight)
    return found
