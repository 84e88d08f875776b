"""Deciding: what becomes of something told beside what is held: ADD, UPDATE, DELETE or NONE, with the reason.

A fact is held against those of the same subject and predicate and of its own scope, and against nothing else; what has
no subject and predicate against what says the same. The same fact twice is NONE, whoever proposes otherwise.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from domain.events import MemoryDecided, MemoryRecorded, MemoryRetracted, Payload, Scope
from domain.memorising.likeness import covers, likeness, normal
from domain.moments import moment
from domain.rows import Memory

Act = Literal["ADD", "UPDATE", "DELETE", "NONE"]
MemoryKind = Literal["semantic", "episodic", "procedural"]

REASONS: Mapping[str, str] = {
    "new": "nothing held is about it",
    "told_again": "the same was held and taken back before; it is told anew",
    "duplicate": "what is held says the same",
    "contradicts": "it says something else of the same subject and predicate: what was held ends",
    "more_detail": "it says all that was held, and more",
    "keyed": "it says what was held, now under a subject and predicate",
    "past": "it was over when it was told, so that what is held stays",
    "withdrawn": "it was taken back",
    "nothing_held": "it takes back what is not held",
    "unrelated": "what it was to change is about something else, and stays",
    "proposed": "a model judged so",
}
"""What each reason means, as a sentence."""

RELATED = 0.3
"""The likeness from which on one text without subject and predicate may take the place of another."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something told that may be worth remembering. `derived_from` are the events that it was told in; `withdrawn` when
    it was told that it holds no longer."""

    text: str
    scope: Scope = "subject"
    category: str = "fact"
    memory_kind: MemoryKind = "semantic"
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    derived_from: tuple[str, ...] = ()
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a candidate: `about` is the memory that it was held against."""

    act: Act
    reason: str
    candidate: Candidate
    about: Memory | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """Who decided: `rules`, or a model with the hash of what it was asked."""

    name: str = "rules"
    model: str | None = None
    prompt_hash: str | None = None


RULES = Method()


def decide(held: Iterable[Memory], candidate: Candidate, at: int) -> Decision:
    """`held` are the memories of the candidate's scope, closed ones too; `at` is when this is decided, in µs UTC."""
    known = [memory for memory in held if memory.scope == candidate.scope]
    ours = sorted((one for one in known if one.closed_by is None), key=lambda one: -one.seq)
    if candidate.withdrawn:
        return _withdraw(ours, candidate)
    keyed = _key(candidate) is not None
    decision = _keyed(ours, candidate, at) if keyed else _keyless(ours, candidate)
    if decision.reason == "new" and any(one.closed_by and _says(one, candidate) for one in known):
        return replace(decision, reason="told_again")
    return decision


def _keyed(ours: Sequence[Memory], told: Candidate, at: int) -> Decision:
    same = next((memory for memory in ours if _key(memory) == _key(told)), None)
    if same is None:
        loose = next((one for one in ours if _key(one) is None and covers(told.text, one.text)), None)
        return Decision("UPDATE", "keyed", told, loose) if loose else Decision("ADD", "new", told)
    # One subject and predicate, one spelling: it is what the fold compares.
    told = replace(told, subject=same.subject, predicate=same.predicate)
    if _says(same, told):
        return Decision("NONE", "duplicate", told, same)
    ends, begins, began = moment(told.valid_to), moment(told.valid_from), moment(same.valid_from)
    if begins is not None and began is not None and begins < began:
        # It was told before what is held, and comes late: an older session that is imported after a newer one.
        return Decision("ADD", "past", replace(told, valid_to=told.valid_to or same.valid_from), same)
    if ends is not None and ends <= at:
        return Decision("ADD", "past", told, same)
    return Decision("UPDATE", "contradicts", told, same)


def _keyless(ours: Sequence[Memory], told: Candidate) -> Decision:
    for memory in ours:
        if covers(memory.text, told.text):
            return Decision("NONE", "duplicate", told, memory)
    wider = next((one for one in ours if _key(one) is None and covers(told.text, one.text)), None)
    return Decision("UPDATE", "more_detail", told, wider) if wider else Decision("ADD", "new", told)


def _withdraw(ours: Sequence[Memory], told: Candidate) -> Decision:
    about = next((one for one in ours if _key(told) is not None and _key(one) == _key(told)), None)
    if about is not None and told.object is not None and about.object is not None:
        # It is another one that holds by now: that stays.
        about = about if normal(told.object) == normal(about.object) else None
    about = about or next((one for one in ours if covers(one.text, told.text)), None)
    return Decision("DELETE", "withdrawn", told, about) if about else Decision("NONE", "nothing_held", told)


def _key(one: Memory | Candidate) -> tuple[str, str] | None:
    return (normal(one.subject), normal(one.predicate)) if one.subject and one.predicate else None


def _says(memory: Memory, told: Candidate) -> bool:
    """Whether what is held says the same of its subject and predicate, for the same time."""
    if _key(memory) != _key(told):
        return False
    if told.valid_to is not None and told.valid_to != memory.valid_to:
        return False
    if memory.object is not None and told.object is not None:
        return normal(memory.object) == normal(told.object)
    return covers(memory.text, told.text)


# What a model proposes ------------------------------------------------------------------------------------------------


def numbered(memories: Iterable[Memory]) -> dict[int, Memory]:
    """Memories in force under small numbers, 1, 2, 3 …, as a model is shown them and names them again."""
    return dict(enumerate((memory for memory in memories if memory.closed_by is None), 1))


def proposed(held: Sequence[Memory], told: Candidate, at: int, act: Act, about: Memory | None) -> Decision:
    """A model's own decision about a candidate, as far as the rules let it: it can neither write a fact twice nor end
    one that is about something else. `about` is what it named, if it named anything."""
    ours = decide(held, told, at)
    if ours.act == "NONE" or act == "NONE":
        return ours if ours.act == "NONE" else Decision("NONE", "proposed", told, about)
    if act == "ADD" or about is None or about.closed_by is not None:
        return ours
    if not _related(about, told):
        return replace(ours, reason="unrelated", about=ours.about or about) if act == "UPDATE" else ours
    if act == "DELETE":
        return Decision("DELETE", "proposed", told, about)
    return Decision("UPDATE", "contradicts" if _key(told) else "proposed", told, about)


def _related(about: Memory, told: Candidate) -> bool:
    if about.scope != told.scope:
        return False
    if _key(about) is not None and _key(told) is not None:
        return _key(about) == _key(told)
    return likeness(about.text, told.text) >= RELATED


# As events ------------------------------------------------------------------------------------------------------------


def decide_all(
    held: Sequence[Memory],
    candidates: Iterable[tuple[Candidate, str]],
    at: int,
    choose: Callable[[Sequence[Memory], Candidate, int], Decision] = decide,
) -> Iterator[tuple[Decision, str]]:
    """Each candidate with the id that its memory would have, decided in the light of those before it. `choose` may
    heed what a model proposed."""
    known = list(held)
    for candidate, memory_id in candidates:
        decision = choose(known, candidate, at)
        known = _after(known, decision, memory_id, at)
        yield decision, memory_id


def _after(held: Sequence[Memory], decision: Decision, memory_id: str, at: int) -> list[Memory]:
    """What is held once a decision is carried out."""
    ended = decision.about if decision.act in ("UPDATE", "DELETE") else None
    known = [replace(one, closed_by=memory_id) if one is ended else one for one in held]
    if decision.act in ("ADD", "UPDATE"):
        seq = max((one.seq for one in held), default=0) + 1
        fields = written(decision, memory_id).model_dump(exclude={"supersedes"})
        known.append(Memory(**fields, seq=seq, event_id="", recorded_at=at))
    return known


def written(decision: Decision, memory_id: str) -> MemoryRecorded:
    told = decision.candidate
    return MemoryRecorded(
        id=memory_id, text=told.text, scope=told.scope, category=told.category, memory_kind=told.memory_kind,
        importance=told.importance, tags=told.tags, subject=told.subject, predicate=told.predicate, object=told.object,
        valid_from=told.valid_from, valid_to=told.valid_to, derived_from=told.derived_from,
        supersedes=(decision.about.id,) if decision.act == "UPDATE" and decision.about else (),
    )  # fmt: skip


def payloads(decision: Decision, memory_id: str, by: Method = RULES) -> tuple[Payload, ...]:
    """The decision as events: what was decided, then what it does. All go to the stream of the candidate's scope."""
    about, told = decision.about, decision.candidate
    stands = memory_id if decision.act in ("ADD", "UPDATE") else None
    if decision.act == "NONE" and about is not None:
        stands = about.id
    decided = MemoryDecided(
        act=decision.act, reason=decision.reason, text=told.text, scope=told.scope, memory_id=stands,
        about=about.id if about else None, before=about.text if about else None, method=by.name, model=by.model,
        prompt_hash=by.prompt_hash,
        # It quotes what was held: if that is erased, this goes as well.
        derived_from=(*told.derived_from, *((about.event_id,) if about and about.event_id else ())),
    )  # fmt: skip
    if decision.act == "DELETE" and about is not None:
        return decided, MemoryRetracted(id=about.id, scope=told.scope, reason=told.text)
    if decision.act in ("ADD", "UPDATE"):
        return decided, written(decision, memory_id)
    return (decided,)
