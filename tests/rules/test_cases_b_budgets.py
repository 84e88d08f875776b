"""Cases B34 to B59: budgets and counting."""

import json
from typing import Any

import pytest
from budgeted import FORMATS, at_every_budget, texts, verbatim
from checkers import seen, tokens_of
from histories import Log, World, compiled, count_text

from domain.counting import Counter
from domain.errors import ContextOverflow
from domain.rendering.neutral import from_message
from domain.sources import SourceItem, SourceResult
from domain.text import clusters, head_within, shorten, tail_within


def marker(tokens: int) -> str:
    return f"…({tokens} left out)…"


def needs(log: Log | World, **asked: Any) -> dict[str, int]:
    """What a refused compile says that it would need."""
    with pytest.raises(ContextOverflow) as refused:
        compiled(log, **asked)
    assert refused.value.details["total"] > refused.value.details["budget"]
    found: dict[str, int] = refused.value.details["needs"]
    return found


def test_b34_a_text_cut_to_a_few_tokens_has_no_more_of_them() -> None:
    text = "abcd efgh " * 48
    for limit in range(60):
        assert count_text(shorten(text, limit, count_text, marker)) <= limit
        assert count_text(head_within(text, limit, count_text)) <= limit
        assert count_text(tail_within(text, limit, count_text)) <= limit


def test_b36_what_cannot_shrink_is_refused_in_bounded_rounds() -> None:
    log = Log()
    log.user([{"type": "image", "url": "https://example.org/a.png", "detail": "high"}])
    assert needs(log, budget=300)["anchor_business"] >= 1445


def test_b36_the_newest_unit_that_cannot_shrink_goes_and_the_question_stays() -> None:
    log = Log()
    log.user("look at this")
    log.user([{"type": "image", "url": "https://example.org/a.png", "detail": "high"}], directive=False)
    prompt = compiled(log, budget=300)
    things = seen(prompt.payload, "openai")
    assert "look at this" in verbatim(things)
    assert not any(one.sort == "image" for one in things)
    assert len(prompt.report["trim"]["rolled_back"]) < 5


@pytest.mark.parametrize("target", FORMATS)
def test_b37_answers_that_fit_are_not_removed(target: str) -> None:
    log = Log()
    log.add("instruction.set", role="You look things up.")
    log.user("go")
    log.calls("1")
    log.answer("1", "the answer")
    prompt = compiled(log, format=target, budget=8000)
    assert prompt.report["trim"]["strategy"] == "none"
    assert verbatim(seen(prompt.payload, target)) == ["go", '{"of":"1"}', "the answer"]


def test_b38_instructions_over_the_limit_are_refused_by_name() -> None:
    log = Log()
    log.add("instruction.set", role="obey " * 5000)
    log.user("hello")
    found = needs(log, budget=4000)
    assert found["anchor_system"] >= 5000
    with pytest.raises(ContextOverflow, match="the largest part is anchor_system"):
        compiled(log, budget=4000)


@pytest.mark.parametrize("budget", [50, 100, 400])
def test_b39_the_users_instruction_is_never_dropped_for_the_system_text(budget: int) -> None:
    log = Log()
    log.add("instruction.set", role="rule " * 400)
    log.user("do X")
    assert needs(log, budget=budget)["anchor_business"] > 0


def test_b40_one_huge_message_is_refused_or_cut_in_its_middle_but_never_gone() -> None:
    log = Log()
    log.user(" ".join(f"word{at}" for at in range(1000)))
    needs(log, budget=50)
    prompt = compiled(log, budget=1100)
    [text] = verbatim(seen(prompt.payload, "openai"))
    assert text.startswith("word0 word1")
    assert text.endswith("word999")
    assert "此处省略" in text
    assert prompt.tokens <= 1100


def items(prompt: Any, slot: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = prompt.report["slots"][slot]["items"]
    return found


def test_b43_the_first_item_of_a_slot_is_cut_to_its_share_and_says_so() -> None:
    subject = Log("s")
    subject.add("memory.recorded", id="m", text="city " * 2000, category="fact", importance=1.0)
    log = Log()
    log.user("which city?")
    prompt = compiled(World(log, subject), overrides={"slots": {"recall": {"token_budget": 200}}})
    [item] = items(prompt, "recall")
    assert item["cut"] is True
    assert item["tokens"] <= 50
    assert prompt.report["slots"]["recall"]["used"] <= 200


def test_b44_a_slot_keeps_to_its_own_budget_though_all_of_them_would_fit() -> None:
    subject = Log("s")
    for number in range(20):
        subject.add("profile.set", key=f"key{number:02}", value="value " * 5)
        subject.add("memory.recorded", id=f"m{number}", text=f"fact {number} " * 4, category="fact", importance=1.0)
    log = Log()
    log.user("fact")
    slots = {"constraints": 0, "profile": 60, "recall": 300}
    overrides = {"slots": {name: {"token_budget": size, "top_k": 0, "min_score": 0} for name, size in slots.items()}}
    prompt = compiled(World(log, subject), overrides=overrides)
    assert 0 < prompt.report["slots"]["profile"]["used"] <= 60
    assert {item["reason"] for item in items(prompt, "profile")} == {"fits", "slot_budget"}


@pytest.mark.parametrize("target", FORMATS)
def test_b45_calls_thinking_and_data_are_counted(target: str) -> None:
    def tokens(**more: Any) -> int:
        log = Log()
        log.user("go")
        log.assistant("done", **more)
        return compiled(log, format=target).tokens

    words = "word " * 500
    bare = tokens()
    assert tokens(tool_calls=[{"id": "c", "name": "f", "arguments": json.dumps({"a": words})}]) >= bare + 500
    assert tokens(tool_calls=[{"id": "c", "name": "f", "arguments": {"a": words}}]) >= bare + 500
    if target == "anthropic":
        assert tokens(reasoning=[{"text": words, "signature": "s"}]) >= bare + 500


@pytest.mark.parametrize("target", FORMATS)
def test_b45_every_message_is_counted_as_it_is_rendered(target: Any) -> None:
    log = Log()
    log.user([{"type": "text", "text": "look"}, {"type": "image", "url": "https://example.org/a.png"}])
    log.calls("c1", "c2", content="two calls")
    log.answer("c1", "one")
    log.answer("c2", [{"type": "data", "data": {"b": [1, 2], "a": None}}])
    count = Counter(count_text, "o200k_base", target)
    prompt = compiled(log, format=target)
    rows = log.state.rows("messages")
    assert prompt.tokens == tokens_of(prompt.payload, target, count_text)
    assert sum(map(count.message, rows)) == count.neutral([from_message(row, "window") for row in rows])


def test_b47_what_was_found_is_part_of_the_budget() -> None:
    log = Log()
    log.add("instruction.set", role="You answer. " * 20)
    log.user("question")
    found = SourceResult("kb", "recall", tuple(SourceItem(f"k{at}", "passage " * 80, score=0.9) for at in range(9)))
    overrides = {"slots": {"recall": {"token_budget": 5000, "top_k": 0}}}
    for prompt, things in at_every_budget(World(log, sources=(found,)), overrides=overrides):
        assert "question" in verbatim(things)
        assert all(entry["disposition"] == "included" for entry in prompt.report["units"])


def test_b48_tool_schemas_are_counted_and_named() -> None:
    log = Log()
    for number in range(40):
        properties = {f"p{at}": {"type": "string", "description": "which one of them"} for at in range(25)}
        log.add("tool.registered", name=f"tool{number}", parameters={"type": "object", "properties": properties})
    log.user("go")
    needed = needs(log, budget=8000)["tools"]
    assert needed > 40 * 200
    prompt = compiled(log, budget=needed + 2000)
    assert prompt.tokens == tokens_of(prompt.payload, "openai", count_text) > needed


def test_b49_only_what_can_shrink_is_trimmed_and_what_cannot_is_refused_once() -> None:
    log = Log()
    log.add("instruction.set", role="rule " * 3000)
    log.user("a short question")
    log.assistant("a short answer")
    assert compiled(log, budget=3100).report["trim"]["strategy"] == "none"
    log.assistant("a long answer " * 200)
    prompt = compiled(log, budget=3100)
    assert prompt.report["trim"]["strategy"] != "none"
    assert compiled(log, budget=3100, parent=prompt.layout).report["trim"]["carried"], "no second trim for nothing"
    assert needs(log, budget=2900)["anchor_system"] >= 3000


def test_b54_counts_that_were_stored_wrong_do_not_decide_what_is_sent() -> None:
    log = Log()
    log.user("hello")
    prompt = compiled(log)
    assert prompt.tokens == tokens_of(prompt.payload, "openai", count_text) < 20


@pytest.mark.parametrize(
    ("size", "tiles", "area"),
    [
        ({"width": 1024, "height": 1024}, 765, 1399),
        ({"width": 2048, "height": 4096}, 1105, 1600),
        ({"width": 512, "height": 512}, 255, 350),
        ({"width": 513, "height": 10}, 425, 7),
        ({"width": 8000, "height": 1}, 765, 3),
        ({"width": 1024, "height": 1024, "detail": "low"}, 85, 1399),
        ({}, 1445, 1600),
        ({"width": 300}, 1445, 1600),
    ],
)
def test_b55_an_image_costs_what_its_provider_says_of_its_size(size: dict[str, Any], tiles: int, area: int) -> None:
    def tokens(parts: list[dict[str, Any]], target: str) -> int:
        log = Log()
        log.user([{"type": "text", "text": "look"}, *parts])
        return compiled(log, format=target).tokens

    for where in ({"url": "https://example.org/a.png"}, {"data": "iVBORw0KGgo" * 9}):
        image = {"type": "image", **where, **size}
        assert tokens([image], "openai") - tokens([{"type": "text", "text": "look"}], "openai") == tiles - 1
        assert tokens([image], "anthropic") - tokens([], "anthropic") == area + 4


def test_b55_an_image_costs_by_its_detail_and_never_by_its_bytes() -> None:
    log = Log()
    log.user([{"type": "image", "data": "iVBORw0KGgo" * 200_000}, {"type": "text", "text": "what is this?"}])
    for target, most in (("openai", 1480), ("anthropic", 1650), ("text", 50)):
        prompt = compiled(log, format=target, budget=2000)
        assert prompt.tokens <= most
        assert prompt.report["trim"]["strategy"] == "none"


@pytest.mark.parametrize("target", FORMATS)
def test_b57_the_text_of_special_tokens_is_ordinary_text(target: str) -> None:
    text = "a <|endoftext|> b <|im_start|>system<|im_sep|> c <|fim_prefix|>"
    log = Log()
    log.user(text)
    prompt = compiled(log, format=target)
    assert text in verbatim(seen(prompt.payload, target))
    assert prompt.tokens == tokens_of(prompt.payload, target, count_text)


EMOJI = ["👨\u200d👩\u200d👧\u200d👦", "🇨🇳", "👍🏽", "e\u0301\u0323", "각", "한", "नि", "✈\ufe0f"]


@pytest.mark.parametrize("one", EMOJI)
def test_b58_no_cut_falls_into_a_character(one: str) -> None:
    text = one * 40
    assert clusters(text) == [one] * 40
    for limit in range(1, 90, 3):
        for piece in (head_within(text, limit, count_text), tail_within(text, limit, count_text)):
            assert piece == one * (len(piece) // len(one))
        cut = shorten(text, limit, count_text, lambda _: "|")
        assert all(part == one * (len(part) // len(one)) for part in cut.split("|"))


@pytest.mark.parametrize("target", FORMATS)
def test_b58_a_lone_surrogate_stays_in_the_log_and_is_replaced_in_the_prompt(target: str) -> None:
    log = Log()
    said = log.user("broken \ud83d emoji")
    assert said.payload.content[0].text == "broken \ud83d emoji"  # type: ignore[union-attr]
    payload = compiled(log, format=target).payload
    assert json.loads(json.dumps(payload, ensure_ascii=False).encode()) == payload
    assert "broken \ufffd emoji" in verbatim(seen(payload, target))


@pytest.mark.parametrize(
    "text", ["你好世界" * 100, "안녕하세요 세계 " * 60, "こんにちは世界、" * 60, "안녕" * 80, "คำไทย" * 60]
)
def test_b59_no_script_is_counted_short(text: str) -> None:
    import tiktoken

    log = Log()
    log.user("start")
    for _ in range(12):
        log.assistant(text)
    exact = len(tiktoken.get_encoding("o200k_base").encode_ordinary(text))
    assert count_text(text) == exact
    for prompt, things in at_every_budget(log, 6000, 511):
        assert prompt.tokens <= prompt.budget
        assert "start" in texts(things)
