"""What is protected: the system anchor, the `block` constraints, the pins and the business anchor.

The business anchor is verbatim whenever the floor with the whole of it fits; only then is its middle cut, with a
counted marker. Nothing of the floor is ever dropped: what does not fit is a `ContextOverflow`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from domain.counting import Counter
from domain.errors import ContextOverflow
from domain.events import ImagePart, Part, TextPart
from domain.extracts import reference_id
from domain.rendering.neutral import Neutral, text_of
from domain.rows import Instruction
from domain.shrinking import common_level
from domain.state import ContextState
from domain.text import shorten, well_formed
from domain.windows import Unit
from domain.wording import Wording

BESIDE_WAITING = 64
"""Tokens that calls without an answer leave to the rest of the prompt."""

SHORTEST_ANCHOR = 800
"""Tokens of an oversized business anchor that stay verbatim, head and tail together, at the least."""


def system_anchor(session: ContextState, parents: Sequence[ContextState]) -> Instruction | None:
    """The instruction in force; a sub-agent without one of its own has its parent's where it asked for it."""
    own: Instruction | None = session.one("instruction")
    info = session.one("session")
    if own is None and info is not None and "instructions" in info.inherit:
        return next((found for parent in parents if (found := parent.one("instruction"))), None)
    return own


def instruction_text(anchor: Instruction, words: Wording) -> str:
    """The instruction as it stands at the head of the system message: text, role, rules in order, output format."""
    rules = "\n".join(words.rules.format(text=rule.text) for rule in anchor.rules)
    pieces = (anchor.text, anchor.role, rules, anchor.output_format)
    return well_formed("\n\n".join(piece for piece in pieces if piece))


def core_rules(anchor: Instruction | None, limit: int) -> list[str]:
    """The core rules that are repeated at the end of the prompt."""
    return [rule.text for rule in anchor.rules if rule.core][:limit] if anchor else []


def _text(text: str) -> Part:
    return TextPart(type="text", text=text)


def few_shot(anchor: Instruction | None) -> list[Neutral]:
    if anchor is None:
        return []
    made: list[Neutral] = []
    source = (anchor.event_id,)
    for user, assistant in anchor.examples:
        made.append(Neutral("user", "few_shot", (_text(user),), sources=source))
        made.append(Neutral("assistant", "few_shot", (_text(assistant),), sources=source))
    return made


def within_share(anchor: Instruction, share: float | None, limit: int, count: Counter) -> Instruction:
    """The instruction with those of its examples, in order, that fit into the few-shot block's share of the budget.
    What they do not use of it is the history's."""
    kept = len(anchor.examples)
    while (
        share is not None
        and kept
        and count.neutral(few_shot(replace(anchor, examples=anchor.examples[:kept]))) > (limit * share)
    ):
        kept -= 1
    return anchor if kept == len(anchor.examples) else replace(anchor, examples=anchor.examples[:kept])


@dataclass(frozen=True, slots=True)
class Protected:
    """Units that are never cut. `shortened` tells the tokens cut out of the middle of an oversized anchor."""

    units: tuple[Unit, ...]
    anchor: int | None
    pinned: frozenset[int]
    shortened: int = 0

    @property
    def seqs(self) -> frozenset[int]:
        return frozenset(unit.seq for unit in self.units)


def protect(
    units: Sequence[Unit], session: ContextState, fixed: Mapping[str, int], limit: int, count: Counter, words: Wording
) -> Protected | None:
    """The protected units, at a size that fits beside what `fixed` says that the rest of the floor needs; None when
    they do not fit."""
    anchor, pins = _anchor_and_pins(units, session)
    waiting = [unit for unit in units if unit.open and unit not in pins and unit is not anchor]
    room = limit - sum(fixed.values()) - sum(unit.tokens for unit in pins if unit is not anchor)
    shortened = 0
    if anchor is not None and anchor.tokens > room:
        smaller = _shorten_anchor(anchor, room, count, words)
        if smaller is None:
            return None
        shortened = anchor.tokens - smaller.tokens
        pins = [smaller if unit is anchor else unit for unit in pins]
        anchor = smaller
    room -= anchor.tokens if anchor else 0
    if room < 0:
        return None
    kept = {unit.seq: unit for unit in [*pins, *([anchor] if anchor else [])]}
    for unit in sorted(waiting, key=lambda one: -one.seq):
        # A call that still waits is kept before anything else, but it is no reason to fail.
        room -= unit.tokens
        if room < BESIDE_WAITING:
            break
        kept[unit.seq] = unit
    return Protected(
        tuple(kept[seq] for seq in sorted(kept)), anchor.seq if anchor else None,
        frozenset(unit.seq for unit in pins), shortened,
    )  # fmt: skip


def _anchor_and_pins(units: Sequence[Unit], session: ContextState) -> tuple[Unit | None, list[Unit]]:
    business, pins = session.one("business"), session.tables["pins"]
    anchor = next((unit for unit in units if business and business.event_id in unit.events), None)
    return anchor, [unit for unit in units if not unit.orphan and any(pin in unit.events for pin in pins)]


def needs(units: Sequence[Unit], session: ContextState, count: Counter, words: Wording) -> dict[str, int]:
    """What the units that must not be cut need at the least, by part."""
    anchor, pins = _anchor_and_pins(units, session)
    pinned = sum(unit.tokens for unit in pins if unit is not anchor)
    found = {"pins": pinned, "anchor_business": _least(anchor, count, words) if anchor else 0}
    return {part: tokens for part, tokens in found.items() if tokens}


def _least(anchor: Unit, count: Counter, words: Wording) -> int:
    """The tokens of an anchor of which no more is left than must stay."""
    low, high = 0, anchor.tokens
    while low < high:
        middle = (low + high) // 2
        if smaller := _shorten_anchor(anchor, middle, count, words):
            high = smaller.tokens
        else:
            low = middle + 1
    return high


def overflow(needs: Mapping[str, int], budget: int, count: Counter) -> ContextOverflow:
    """`needs` in the counter's tokens, `budget` in the model's."""
    total = count.scaled(sum(needs.values()))
    largest = max(needs, key=lambda part: needs[part])
    return ContextOverflow(
        f"What must not be cut needs {total} tokens and the budget is {budget}; the largest part is {largest} with"
        f" {needs[largest]}. Raise the budget or shorten it.{_rule(largest)}",
        needs=dict(needs),
        total=total,
        budget=budget,
    )


def _rule(part: str) -> str:
    return f" At least {SHORTEST_ANCHOR} tokens of a longer directive stay." if part == "anchor_business" else ""


def _shorten_anchor(unit: Unit, room: int, count: Counter, words: Wording) -> Unit | None:
    """The unit with the middles of its longest texts cut, to one level, until it takes `room` tokens; None if too
    little of it would be left."""
    places = [
        (at, place)
        for at, message in enumerate(unit.messages)
        if message.role == "user"
        for place, part in enumerate(message.parts)
        if not isinstance(part, ImagePart)
    ]
    texts = [text_of(unit.messages[at].parts[place]) for at, place in places]
    sizes = [count.text(text) for text in texts]
    # Where several texts are cut, their seams may cost a token or two more than their sum.
    for slack in (0, 8 * len(sizes)):
        level = common_level(sizes, room - (unit.tokens - sum(sizes)) - slack)
        made: list[Neutral] = list(unit.messages)
        for (at, place), text, size in zip(places, texts, sizes, strict=True):
            if size > level:
                least = max(1, SHORTEST_ANCHOR - sum(min(one, level) for one in sizes) + min(size, level))
                marker = partial(words.left_out_of, reference=reference_id(made[at]))
                shorter = shorten(text, level, count.text, marker, least=least)
                if not shorter:
                    return None
                parts = made[at].parts
                made[at] = replace(made[at], parts=(*parts[:place], _text(shorter), *parts[place + 1 :]))
        tokens = count.neutral(made)
        if tokens <= room:
            return replace(unit, messages=tuple(made), tokens=tokens)
    return None
