"""Invariant 4: when everything fits, nothing is changed. The window is the history, in every format."""

from checkers import from_the_log, seen, without_ids
from expected import history
from histories import Log, World, compiled
from hypothesis import given
from soundness import events_in_force
from worlds import examples, formats, locales, logs, worlds


def assert_verbatim(log: Log, target: str, locale: str) -> None:
    """What comes back on request carries a heading; all else is as it was said."""
    world = World(Log("e", [event for event in log.events if event.kind != "reference.expanded"]))
    prompt = compiled(world, format=target, locale=locale, budget=1_000_000)
    assert prompt.report["trim"]["strategy"] == "none"
    shots = 2 * sum(message.zone == "few_shot" and message.role == "user" for message in prompt.messages)
    shown = from_the_log(seen(prompt.payload, target))[shots:]
    assert without_ids(shown) == without_ids(from_the_log(history(events_in_force(world), target, locale)))


@examples(150)
@given(logs(), formats, locales)
def test_a_history_that_fits_is_shown_word_for_word(log: Log, target: str, locale: str) -> None:
    assert_verbatim(log, target, locale)


def test_slot_items_are_not_dropped_where_everything_would_fit() -> None:
    log, subject = Log(), Log("s")
    log.user("hello")
    subject.add("profile.set", key="city", value="Rome")
    world = World(log, subject)
    whole = compiled(world)
    assert compiled(world, budget=whole.tokens).payload == whole.payload


def test_a_log_without_a_directive_is_not_refused_where_all_of_it_fits() -> None:
    log = Log()
    log.user("hello", directive=False)
    whole = compiled(log)
    assert compiled(log, budget=whole.tokens).payload == whole.payload


@examples(150)
@given(worlds(), formats, locales)
def test_a_budget_of_exactly_what_everything_needs_changes_no_byte(world: World, target: str, locale: str) -> None:
    whole = compiled(world, format=target, locale=locale, budget=1_000_000)
    exact = compiled(world, format=target, locale=locale, budget=whole.tokens)
    assert exact.payload == whole.payload
