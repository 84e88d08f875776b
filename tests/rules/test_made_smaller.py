"""Results made smaller in place, declared fields, and summaries of what left the window."""

import json
from typing import Any

import pytest
from checkers import faults, seen
from histories import Log, compiled, count_text
from hypothesis import given
from hypothesis import strategies as st
from worlds import examples, json_values, texts

from domain.condensing import condense
from domain.errors import InvalidEvent
from domain.events import parse_payload
from domain.text import clusters


def marker(tokens: int) -> str:
    return f"…({tokens} left out)…"


json_texts = st.lists(json_values, min_size=1, max_size=30).map(json.dumps) | st.dictionaries(
    st.sampled_from(["id", "name", "total", "lines", "note"]), st.lists(json_values, max_size=12), min_size=1
).map(lambda value: json.dumps(value, ensure_ascii=False))


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@examples(150)
@given(json_texts | texts, st.integers(1, 120))
def test_a_result_made_smaller_fits_and_is_itself_where_it_fits(text: str, limit: int) -> None:
    made = condense(text, limit, count_text, marker)
    assert count_text(made) <= limit
    if count_text(text) <= limit:
        assert made == text


@examples(100)
@given(json_texts, st.sampled_from([0.6, 0.8, 0.95]))
def test_json_that_mostly_fits_stays_json_of_the_same_shape(text: str, share: float) -> None:
    made = condense(text, max(1, int(count_text(text) * share)), count_text, marker)
    if made.startswith(("{", "[")) and is_json(made):
        assert type(json.loads(made)) is type(json.loads(text))
    else:
        assert "…" in made or not made


def test_the_fields_that_a_tool_declares_are_what_stays() -> None:
    log = Log()
    log.add("tool.registered", name="orders", fields=("order.id", "order.state"))
    log.user("where is it?")
    log.calls("c1", name="orders")
    order = {"id": "W-4711", "state": "shipped", "history": [{"at": at, "by": f"clerk {at}"} for at in range(200)]}
    log.answer("c1", json.dumps({"order": order}))
    text = str(compiled(log, budget=300).payload)
    assert "W-4711" in text
    assert "shipped" in text
    assert "clerk 150" not in text


HOSTILE_RESULTS = [
    "[" * 5000, "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, "{" * 5000, "[NaN, Infinity]" * 300,
    '{"a": ' + "9" * 6000 + "}", "\x00" * 4000, "\ud83d" * 4000, " " * 20_000, "\n" * 5000, "=" * 9000,
    '{"a": "' + "\\ud83d" * 3000 + '"}', "[" + "1," * 4000 + "1]", "[" + '{"a": 1},' * 2000 + "{}]", "e\u0301" * 6000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_RESULTS, ids=range(len(HOSTILE_RESULTS)))
@pytest.mark.parametrize("target", ["openai", "anthropic", "text"])
def test_no_result_is_too_odd_to_be_made_smaller(text: str, target: str) -> None:
    log = Log()
    log.add("tool.registered", name="look_up", fields=("a", "length(@)", "to_number(a)", "max(@)"))
    log.user("go")
    log.assistant(text, tool_calls=[{"id": "c1", "name": "look_up", "arguments": text}])
    log.answer("c1", text)
    log.assistant("done")
    log.calls("c2")
    log.answer("c2", text)
    for budget in (150, 400, 2000):
        prompt = compiled(log, format=target, budget=budget)
        assert faults(prompt.payload, target) == []
        assert prompt.tokens <= budget


@pytest.mark.parametrize("rule", ["a..b", "", "(" * 3000, "a[" * 2000, "\ud83d", "a | " * 3000 + "a"])
def test_a_field_rule_that_is_none_is_refused_by_the_field(rule: str) -> None:
    with pytest.raises(InvalidEvent, match="fields"):
        parse_payload("tool.registered", 1, {"name": "f", "fields": [rule]})


WHOLE = ["👨\u200d👩\u200d👧\u200d👦", "🇨🇳", "👍🏽", "e\u0301\u0323", "각"]


@pytest.mark.parametrize("one", WHOLE)
@pytest.mark.parametrize("where", ["user", "assistant", "answer", "arguments"])
def test_no_character_is_cut_apart_in_a_summary_or_a_smaller_result(one: str, where: str) -> None:
    """Offset by one, two, three … so that some cut would fall into a character."""
    for shift in range(4):
        text = "x" * shift + one * 900
        log = Log()
        log.user("go")
        said: dict[str, Any] = {"arguments": '{"a":"' + text + '"}' if where == "arguments" else "{}"}
        log.assistant(text if where == "assistant" else "", tool_calls=[{"id": "c1", "name": "f", **said}])
        log.answer("c1", text if where == "answer" else "fine")
        log.user(text if where == "user" else "and", directive=False)
        log.assistant("more " * 30)
        for budget in (200, 330, 700):
            for thing in seen(compiled(log, budget=budget).payload, "openai"):
                for run in thing.text.split(one):
                    assert not set(run) & (set(one) - {"e", "각"}), f"{run[:20]!r} is a piece of {one!r}"


def test_whole_characters_are_what_a_reader_sees() -> None:
    assert clusters("".join(WHOLE)) == WHOLE


# --- summaries that a person can read --------------------------------------------------------------------------------


def summary_of(log: Log, budget: int) -> list[str]:
    """The lines of the summary in a prompt."""
    messages = compiled(log, budget=budget).payload["messages"]
    text = next(str(one["content"]) for one in messages if str(one["content"]).startswith(("(Summary", "（较早")))
    return text.split("\n")


def chatter(log: Log, times: int = 12) -> Log:
    for number in range(times):
        log.assistant(f"Part {number}: " + "there is little to tell about it. " * 8)
    log.user("Go on, please.")
    return log


def test_a_users_rule_outlives_what_was_said_in_passing_later() -> None:
    log = Log()
    log.add("session.started", mode="chat", locale="en")
    log.user("You must never touch the billing tables.")
    for number in range(14):
        log.user(f"Fine, go on with part {number}.")
        log.assistant(f"Part {number} is done.")
    lines = summary_of(chatter(log, 4), 190)
    assert "- user: You must never touch the billing tables." in lines
    assert not any("part 1." in line for line in lines)  # there was no room for everything


def test_a_written_file_is_told_by_its_path_and_not_by_its_braces() -> None:
    log = Log()
    log.add("session.started", mode="chat", locale="en")
    log.user("write it")
    body = "body {\n" + "}\n" * 80
    log.assistant("", tool_calls=[{"id": "w", "name": "write", "arguments": {"content": body, "path": "/site/a.css"}}])
    log.answer("w", "OK")
    lines = summary_of(chatter(log), 260)
    [line] = [line for line in lines if "write(" in line]
    assert "path: /site/a.css" in line
    assert "}" not in line


def test_an_answer_whose_call_is_not_told_names_its_tool() -> None:
    log = Log()
    log.add("session.started", mode="chat", locale="en")
    log.user("look it up")
    calls = [{"id": f"c{at}", "name": name, "arguments": {}} for at, name in enumerate(("stock", "price"))]
    log.assistant("", tool_calls=calls)
    log.answer("c0", '{"left": "30 pieces"}')
    log.answer("c1", '{"now": "EUR 12.90"}')
    text = "\n".join(summary_of(chatter(log), 260))
    assert "stock → ok: left: 30 pieces" in text
    assert "price → ok: now: EUR 12.90" in text


def test_what_ends_with_a_mark_gets_no_second_one() -> None:
    log = Log()
    log.add("session.started", mode="chat", locale="en")
    log.user("Ship it to Lyon in April. It must be there by 2026-05-01!")
    lines = summary_of(chatter(log), 220)
    assert "- user: Ship it to Lyon in April. It must be there by 2026-05-01!" in lines
