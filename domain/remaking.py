"""Messages made smaller by policy: what stands in their place, from the whole of them, one strategy after the other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from domain.condensing import extracted, structural, telling_lines
from domain.counting import Counter
from domain.events import ImagePart, TextPart
from domain.extracts import Reading, leaves, parsed, reference_id
from domain.fields import declared_text
from domain.masking import Masker
from domain.policies import SUPERSEDED, TEXT_STRATEGIES, Age, Made, Rule, Strategies, rule_for
from domain.rendering.neutral import Neutral, arguments_of, text_of
from domain.rows import StoredSummary
from domain.text import inline, opening, shorten
from domain.windows import Unit
from domain.wording import Wording

FIRST_WORDS = 60
"""Characters of a text that stand beside the reference to it."""


@dataclass(frozen=True, slots=True)
class Maker:
    """What one compile has at hand to make texts smaller."""

    rules: Sequence[Rule]
    strategies: Strategies
    reading: Reading
    count: Counter
    words: Wording
    mask: Masker
    written: Sequence[StoredSummary] = ()


@dataclass(frozen=True, slots=True)
class Fate:
    """What a policy makes of a unit: the unit, smaller or not, or `leaves`: into the summary, or out of the prompt."""

    unit: Unit
    leaves: str | None = None


def by_policy(unit: Unit, age: Age, limit: int, newer: Mapping[int, int], maker: Maker) -> Fate:
    """The fate of a whole unit. `newer` names, for the seqs of answers, the newer answers that replaced them."""
    made: list[Made] = []
    for message in unit.messages:
        outcome = _fate(message, unit, age, limit, newer, maker)
        if isinstance(outcome, str):
            return Fate(unit, outcome)
        made += [outcome] if outcome else []
    return Fate(remade(unit, made, maker.count) if made else unit)


def remade(unit: Unit, made: Iterable[Made], count: Counter) -> Unit:
    """The unit with these texts in the place of those they were made from."""
    texts = {one.seq: one for one in made if one.text is not None}
    messages = [_with(one, texts[one.seq].text) if one.seq in texts else one for one in unit.messages]
    tokens = count.neutral(messages)
    return replace(
        unit, messages=tuple(messages), tokens=tokens, shortened=unit.tokens - tokens, made=tuple(texts.values())
    )


def _with(message: Neutral, text: str | None) -> Neutral:
    return replace(message, parts=(TextPart(type="text", text=text or ""),))


def _fate(
    message: Neutral, unit: Unit, age: Age, limit: int, newer: Mapping[int, int], maker: Maker
) -> Made | str | None:
    """What to put in the place of a message; the name of the strategy by which its whole unit leaves; or None."""
    if message.seq is None:
        return None
    text = _text(message)
    tokens = maker.count.text(text)
    if message.seq in newer and _may_shrink(message):
        line = maker.words.superseded.format(newer=f"e{newer[message.seq]}", reference=reference_id(message))
        if maker.count.text(line) < tokens:
            return Made(message.seq, SUPERSEDED, 0, line, shown=True)
    rule = rule_for(maker.rules, message.role, message.tool, age, tokens)
    for step in rule.ladder if rule else ():
        if step.use in ("summary", "drop"):
            return None if unit.open else step.use
        if _may_shrink(message) and (found := _shrunk(message, text, tokens, step.limit or limit, step.use, maker)):
            return found
    return None


def _may_shrink(message: Neutral) -> bool:
    """Signed reasoning holds for the whole of its message, and no text stands for an image, but in an answer."""
    pictured = message.role != "tool" and any(isinstance(part, ImagePart) for part in message.parts)
    return not message.reasoning and not pictured


def _text(message: Neutral) -> str:
    return "\n".join(map(text_of, message.parts))


def _shrunk(message: Neutral, text: str, tokens: int, limit: int, name: str, maker: Maker) -> Made | None:
    """What one strategy makes of a text if that is within its limit and fewer tokens."""
    seq, count = message.seq, maker.count.text
    assert seq is not None
    if name != "reference" and limit >= tokens:
        return None  # nothing to gain: no strategy runs whose best case does not help
    if name not in TEXT_STRATEGIES:
        made = maker.strategies.made(name, seq, text, limit, count)
        return replace(made, shown=True) if made.text is not None else None
    found = _BUILT_IN[name](message, text, limit, maker)
    spent = count(found) if found else tokens
    if not found or spent >= tokens or (name != "reference" and spent > limit):
        return None
    return Made(seq, name, limit, found, shown=True)


def _fields(message: Neutral, text: str, limit: int, maker: Maker) -> str | None:
    rules = maker.reading.fields.get(message.tool or "", ())
    return declared_text(parsed(text), rules) if rules else None


def _structure(message: Neutral, text: str, limit: int, maker: Maker) -> str | None:
    value = parsed(text)
    return structural(value, limit, maker.count.text) if isinstance(value, dict | list) else None


def _extract(message: Neutral, text: str, limit: int, maker: Maker) -> str | None:
    value = parsed(text)
    if isinstance(value, dict | list):
        return extracted(list(leaves(value)), limit, maker.count.text)
    return telling_lines(text, limit, maker.count.text, _marker(message, maker))


def _cut(message: Neutral, text: str, limit: int, maker: Maker) -> str | None:
    return shorten(text, limit, maker.count.text, _marker(message, maker))


def _reference(message: Neutral, text: str, limit: int, maker: Maker) -> str | None:
    first = opening(inline(opening(text, 4 * FIRST_WORDS)), FIRST_WORDS)
    tokens = maker.count.text(text)
    return maker.words.referenced.format(tokens=tokens, reference=reference_id(message), first=first)


def _marker(message: Neutral, maker: Maker) -> Callable[[int], str]:
    return lambda tokens: maker.words.left_out_of(tokens, reference_id(message))


_BUILT_IN: Mapping[str, Callable[[Neutral, str, int, Maker], str | None]] = {
    "fields": _fields,
    "structure": _structure,
    "extract": _extract,
    "cut": _cut,
    "reference": _reference,
}


def newer_answers(units: Iterable[Unit]) -> dict[int, int]:
    """For the seq of each answer that a later one to the same call replaced (same tool, same arguments), the seq of the
    newest. An answer that failed replaces none that succeeded."""
    newest: dict[tuple[str, str], int] = {}
    replaced: dict[int, int] = {}
    for key, seq in sorted(_answers(units), key=lambda one: -one[1]):
        if key in newest:
            replaced[seq] = newest[key]
        else:
            newest[key] = seq
    return replaced


def _answers(units: Iterable[Unit]) -> Iterator[tuple[tuple[str, str], int]]:
    for unit in units:
        calls = {call.id: (call.name, arguments_of(call)) for message in unit.messages for call in message.calls}
        for message in unit.messages:
            if message.answers in calls and message.seq is not None and message.status in (None, "ok"):
                yield calls[message.answers], message.seq
