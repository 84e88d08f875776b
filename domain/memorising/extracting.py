"""Extracting: what a model is asked to find worth remembering, and what of its answer is heard.

It knows nobody's ids: lines and memories have small numbers, and a number that it was not given is none. It proposes;
what is written the rules decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from domain.answers import Malformed, json_line, read_answer
from domain.manifests import Manifest
from domain.memorising.deciding import Act, Candidate, Decision, proposed
from domain.moments import moment
from domain.rows import Memory
from domain.text import well_formed

MOST_FACTS = 40
MOST_HELD = 60
"""Memories that a model is shown, the newest: it needs to know what its facts may take the place of."""

Short = Annotated[str, Field(max_length=200)]


class _Fact(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    act: Act = "ADD"
    text: Annotated[str, Field(min_length=1, max_length=1000)]
    subject: Short | None = None
    predicate: Short | None = None
    object: Short | None = None
    category: Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")] = "fact"
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    lines: Annotated[list[int], Field(alias="from", min_length=1, max_length=200)]
    held: int | None = None
    valid_from: Short | None = None
    valid_to: Short | None = None


class _Facts(BaseModel):
    facts: Annotated[list[_Fact], Field(max_length=MOST_FACTS)]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate with what a model would do with it; `about` is the id of the memory it meant, `seq` that of the
    event it was told in."""

    candidate: Candidate
    act: Act
    about: str | None
    seq: int


def question(block: Manifest, held: Mapping[int, Memory]) -> str:
    """JSON lines: what is held, then what was said."""
    rows = [{"held": number, "text": well_formed(memory.text)} for number, memory in held.items()]
    return "\n".join([*map(json_line, rows), block.text])


def read(answer: str, block: Manifest, held: Mapping[int, Memory]) -> list[Proposal]:
    """The proposals of an answer, in its order. Raises Malformed."""
    facts = read_answer(answer, _Facts).facts
    lines = dict(enumerate((message for unit in block.units for message in unit.messages), 1))
    proposals = []
    for fact in facts:
        told = [lines[number] for number in fact.lines if number in lines and lines[number].sources]
        if not told:
            raise Malformed
        # A tool's word is no ground for what is remembered of a user.
        if any(message.role == "user" for message in told):
            sources = tuple(dict.fromkeys(message.sources[0] for message in told))
            about = held.get(fact.held) if fact.held is not None else None
            seq = max(message.seq or 0 for message in told)
            proposals.append(Proposal(_candidate(fact, sources), fact.act, about.id if about else None, seq))
    return proposals


def _candidate(fact: _Fact, sources: tuple[str, ...]) -> Candidate:
    whole = fact.subject and fact.predicate
    return Candidate(
        text=well_formed(fact.text).strip(),
        category=fact.category,
        importance=fact.importance,
        subject=fact.subject if whole else None,
        predicate=fact.predicate if whole else None,
        object=fact.object if whole else None,
        valid_from=fact.valid_from if moment(fact.valid_from) is not None else None,
        valid_to=fact.valid_to if moment(fact.valid_to) is not None else None,
        derived_from=sources,
        withdrawn=fact.act == "DELETE",
    )


class Heeding:
    """Decides about candidates as a model proposed, as far as the rules let it."""

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._by_candidate = {one.candidate: one for one in proposals}

    def __call__(self, held: Sequence[Memory], told: Candidate, at: int) -> Decision:
        proposal = self._by_candidate[told]
        about = next((memory for memory in held if memory.id == proposal.about), None)
        return proposed(held, told, at, proposal.act, about)
