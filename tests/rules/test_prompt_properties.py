"""Invariants of every prompt: within its budget, with all that is protected, well formed, accounted for."""

from histories import World, compiled
from hypothesis import given
from soundness import assert_overflow_is_true, assert_sound
from worlds import budgets, examples, formats, locales, worlds

from domain.errors import ContextOverflow


@examples(150)
@given(worlds(), formats, locales, budgets)
def test_every_prompt_is_sound_and_within_its_budget(world: World, target: str, locale: str, budget: int) -> None:
    try:
        prompt = compiled(world, format=target, locale=locale, budget=budget)
    except ContextOverflow:
        return
    assert_sound(world, prompt, target, locale)


@examples(100)
@given(worlds(), formats, locales, budgets)
def test_a_prompt_is_refused_only_when_its_floor_is_over_the_budget(
    world: World, target: str, locale: str, budget: int
) -> None:
    try:
        compiled(world, format=target, locale=locale, budget=budget)
    except ContextOverflow as overflow:
        assert_overflow_is_true(world, overflow, budget, target, locale)
