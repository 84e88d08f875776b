"""Bisect: the versions in which a text came into a session's prompts or left them.

Prompts of one view follow each other, so each version is compared with the one before it in its own view: between the
openai prompt with 2,000 tokens and the anthropic one with 8,000 nothing came or went.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Looked:
    """A version, and whether the text is in it; None when it was erased and cannot be looked into."""

    prompt: str
    version: int
    view: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Turn:
    """`before` is None for the first version of a view, which had it from the start."""

    prompt: str
    version: int
    view: str
    appeared: bool
    before: str | None


def turns(versions: Iterable[Looked]) -> Iterator[Turn]:
    """Every version in which the text appeared or vanished, in order."""
    last: dict[str, Looked] = {}
    for one in versions:
        if one.holds is None:
            continue
        before = last.get(one.view)
        if one.holds != (before.holds if before else False):
            yield Turn(one.prompt, one.version, one.view, bool(one.holds), before.prompt if before else None)
        last[one.view] = one


def first(found: Sequence[Turn]) -> tuple[Turn | None, Turn | None]:
    """The first appearance and the first vanishing."""
    return (
        next((one for one in found if one.appeared), None),
        next((one for one in found if not one.appeared), None),
    )
