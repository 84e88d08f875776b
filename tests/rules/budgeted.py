"""A log compiled at every budget: what must hold, must hold wherever the cut falls."""

from collections.abc import Iterator
from typing import Any

from checkers import Seen, faults, seen
from histories import Log, World, compiled

from domain.errors import ContextOverflow
from domain.snapshots import Prompt

FORMATS = ("openai", "anthropic", "text")


def at_every_budget(
    log: Log | World, most: int = 1200, step: int = 13, formats: tuple[str, ...] = FORMATS, **asked: Any
) -> Iterator[tuple[Prompt, list[Seen]]]:
    """The prompts that fit, none of them with a fault, and what a model sees in each; at least one per format."""
    for target in formats:
        made = 0
        for budget in range(20, most, step):
            try:
                prompt = compiled(log, budget=budget, format=target, **asked)
            except ContextOverflow:
                continue
            made += 1
            assert faults(prompt.payload, target) == []
            assert prompt.tokens <= budget
            yield prompt, seen(prompt.payload, target)
        assert made, f"no budget up to {most} was enough"


def texts(things: list[Seen]) -> str:
    """All that a model reads, promptctx's own notes included."""
    return "\n".join(one.text for one in things)


def verbatim(things: list[Seen]) -> list[str]:
    """The texts that are whole messages of the log."""
    return [one.text for one in things if one.role != "system"]


def calls(things: list[Seen]) -> list[str]:
    return [one.id for one in things if one.sort == "call"]


def answers(things: list[Seen]) -> list[str]:
    return [one.id for one in things if one.sort == "answer"]
