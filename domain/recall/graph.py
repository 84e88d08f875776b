"""Facts as a small graph: memories lead from their subject to their object and back. A walk begins at what a query
names and goes over facts to what they lead to, so that the units that mention that are found, and those that told it.

A fact whose predicate the query speaks of leads on strongly: of `Tom's boss` to the boss, and hardly to the brother.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from domain.recall.naming import marked, names
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


@dataclass(frozen=True, slots=True)
class _Edge:
    start: int
    end: int
    name: str
    fact: Memory
    meant: bool


def walk(query: str, memories: Iterable[Memory], hops: int) -> list[Reached]:
    """What facts lead to from the names in a query within so many of them, the nearest first; not what it names."""
    asked = frozenset(terms(query))
    leaving: dict[int, list[_Edge]] = {}
    for edge in (edge for memory in memories for edge in _edges(memory, asked)):
        leaving.setdefault(edge.start, []).append(edge)
    named = names(query) & leaving.keys()
    found: dict[int, Reached] = {}
    front = {mark: Reached("", 1.0, ()) for mark in sorted(named)}
    for _ in range(hops):
        front = _step(front, leaving, named | found.keys())
        found |= front
    return sorted(found.values(), key=lambda one: (-one.weight, one.name))[:MOST]


def _step(
    front: Mapping[int, Reached], leaving: Mapping[int, Sequence[_Edge]], known: frozenset[int]
) -> dict[int, Reached]:
    found: dict[int, Reached] = {}
    for mark, before in front.items():
        edges = leaving.get(mark, ())
        beside = BESIDE * min(1.0, FEW / max(1, sum(not edge.meant for edge in edges)))
        for edge in edges:
            weight = before.weight * (MEANT if edge.meant else beside)
            if edge.end in known or weight < FAINT or (edge.end in found and found[edge.end].weight >= weight):
                continue
            path = (*before.path, edge.fact.event_id)
            found[edge.end] = Reached(edge.name, weight, path, edge.fact.derived_from)
    return found


def _edges(fact: Memory, asked: frozenset[str]) -> Iterator[_Edge]:
    """A fact leads both ways."""
    if fact.subject is None or fact.object is None:
        return
    subject, object_ = marked(fact.subject), marked(fact.object)
    if subject and object_ and subject != object_:
        meant = not asked.isdisjoint(terms(fact.predicate or ""))
        yield _Edge(subject, object_, fact.object, fact, meant)
        yield _Edge(object_, subject, fact.subject, fact, meant)


def lent(reached: Sequence[Reached]) -> dict[str, float]:
    """The terms that what was reached lends a query."""
    found: dict[str, float] = {}
    for one in reached:
        for term in terms(one.name):
            found[term] = max(found.get(term, 0.0), LENT * one.weight)
    return found
