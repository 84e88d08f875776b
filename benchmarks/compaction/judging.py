"""A tool's own context after its compaction and promptctx's at the same budget, by the same measures.

Both get the same messages afterwards, whole. What a later call needed is looked for in what was kept together with
those, and, more telling, in what was kept alone: the values that had not been said again by then.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.compaction.recorded import Compaction, compactions
from benchmarks.compaction.rules import laid_down, told, verbatim
from benchmarks.trajectory.methods import Promptctx
from benchmarks.trajectory.scoring import Earlier, WireMessage, broken_rules, standing, text_of
from benchmarks.trajectory.sessions import Session, Turn
from domain.rendering.openai import count_message
from domain.state import ContextState, changes

SHORTEST = 2_000
"""Tokens before a compaction, at the least: below, nothing had to go."""

TOOL = "tool"


@dataclass(slots=True)
class Kept:
    """What one side kept, and how it did at the turns that followed.

    `needed` are values that calls took from any message before, `grounded` those that stand in what was kept or came
    since; `unsaid` and `remembered` are the same for values that no message since has said.
    """

    tokens: int
    rules: list[str]
    directive: bool | None
    system: bool | None
    verbatim: list[str]
    told: list[str]
    needed: int = 0
    grounded: int = 0
    unsaid: int = 0
    remembered: int = 0
    missed: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """One compaction: `before` are the tokens of the history that the log holds, `turns` those that followed."""

    session: Session
    compaction: Compaction
    before: int
    turns: int
    laid_down: list[str]
    sides: dict[str, Kept]


def judged(sessions: Iterable[Session]) -> Iterator[Judged | str]:
    """Every compaction, or why one cannot be judged."""
    for session in sessions:
        for compaction in compactions(session):
            name = f"{session.id}, seq {compaction.seq}"
            then = _then(session, compaction)
            if then.tokens < SHORTEST:
                yield f"{name}: {then.tokens} tokens before it, nothing had to go"
            elif not compaction.summary.strip():
                yield f"{name}: no summary in the log"
            else:
                yield _judge(session, compaction, then)


def _then(session: Session, compaction: Compaction) -> Turn:
    state = ContextState()
    for event in session.events[: compaction.seq - 1]:
        state.apply(changes(state, event))
    return session.turn(compaction.seq, state)


def _judge(session: Session, compaction: Compaction, then: Turn) -> Judged:
    own = _own_context(compaction, then)
    budget = _tokens(session, then, own)
    contexts = {TOOL: own, Promptctx.name: _ours(session, compaction, then, budget)}
    said = _said(then)
    sides = {name: _kept(session, then, budget, messages, said) for name, messages in contexts.items()}
    turns = sum(_follow(turn, compaction, contexts, sides) for turn in _followed(session, compaction))
    return Judged(session, compaction, then.tokens, turns, said, sides)


def _ours(session: Session, compaction: Compaction, then: Turn, budget: int) -> Sequence[WireMessage]:
    """The prompt of a view that was compiled before every turn so far, as an agent does it."""
    run = Promptctx().begin(session, budget)
    for turn in session.turns():
        if turn.seq >= compaction.seq:
            break
        run.compile(turn)
    return run.compile(then).messages


def _own_context(compaction: Compaction, then: Turn) -> list[WireMessage]:
    """The tool's context right after: the system prompt if the log has it, the summary, and what it kept."""
    opening = [message for message in then.messages[:1] if message["role"] == "system"]
    first = next(
        (
            start
            for unit, start in zip(then.units, then.starts, strict=True)
            if compaction.kept_from is not None and unit.seq >= compaction.kept_from
        ),
        len(then.messages),
    )
    return [*opening, {"role": "user", "content": compaction.summary}, *then.messages[first:]]


def _tokens(session: Session, then: Turn, messages: Sequence[WireMessage]) -> int:
    return then.base + sum(count_message(message, session.count.text) for message in messages)


def _said(then: Turn) -> list[str]:
    rows = sorted(then.state.rows("messages"), key=lambda row: row.seq)
    places = {row.seq for row in rows if row.role == "user" and row.directive}
    texts = []
    for unit, start in zip(then.units, then.starts, strict=True):
        if unit.seq in places:
            texts.append(text_of(then.messages[start]))
    return laid_down(texts)


def _kept(session: Session, then: Turn, budget: int, messages: Sequence[WireMessage], said: Sequence[str]) -> Kept:
    tokens = _tokens(session, then, messages)
    broken = broken_rules(messages, tokens, budget, then.system, then.instruction_text)
    texts = [text_of(message) for message in messages]
    return Kept(
        tokens,
        broken,
        None if then.instruction_text is None else "lost_instruction" not in broken,
        None if then.system is None else "lost_system" not in broken,
        [rule for rule in said if verbatim(rule, texts)],
        [rule for rule in said if told(rule, texts)],
    )


# --- the turns that followed ------------------------------------------------------------------------------------------


def _followed(session: Session, compaction: Compaction) -> Iterator[tuple[Turn, dict[str, set[str]]]]:
    """The turns until the next compaction, each with what its calls needed."""
    earlier = Earlier()
    for turn in session.turns():
        if turn.seq >= compaction.until:
            return
        for message in turn.messages:
            earlier.add(text_of(message))
        if turn.seq > compaction.seq:
            yield turn, earlier.needed(turn.calls)


def _follow(
    followed: tuple[Turn, dict[str, set[str]]],
    compaction: Compaction,
    contexts: dict[str, Sequence[WireMessage]],
    sides: dict[str, Kept],
) -> int:
    turn, needed = followed
    pairs = zip(turn.units, turn.starts, strict=True)
    first = next((start for unit, start in pairs if unit.seq > compaction.seq), len(turn.messages))
    since = [text_of(message) for message in turn.messages[first:]]
    unsaid = {value for value, context in needed.items() if standing(value, context, since) != "grounded"}
    for name, messages in contexts.items():
        kept, texts = sides[name], [text_of(message) for message in messages]
        kept.needed += len(needed)
        kept.unsaid += len(unsaid)
        kept.grounded += len(needed) - len(unsaid)
        for value in unsaid:
            found = standing(value, needed[value], texts)
            kept.remembered += found == "grounded"
            kept.grounded += found == "grounded"
            if found == "grounded":
                kept.held.setdefault(value, _around(value, needed[value], texts))
            else:
                kept.missed.setdefault(value, _around(value, needed[value], map(text_of, turn.messages[:first])))
    return 1


AROUND = 60
"""Characters that are quoted on either side of a value."""


def _around(value: str, context: set[str], texts: Iterable[str]) -> str:
    """The last place where the value stands with what it means, in a short quotation."""
    found = ""
    for text in texts:
        start = text.rfind(value)
        if start >= 0:
            passage = " ".join(text[max(0, start - AROUND) : start + len(value) + AROUND].split())
            if not found or standing(value, context, [passage]) == "grounded":
                found = passage
    return found


# --- JSON -------------------------------------------------------------------------------------------------------------


def row(one: Judged) -> dict[str, Any]:
    """A compaction as JSON."""
    return {
        "source": one.session.source,
        "session": one.session.id,
        "tool": one.compaction.tool,
        "seq": one.compaction.seq,
        "recorded_tokens_before": one.compaction.tokens_before,
        "recorded_tokens_after": one.compaction.tokens_after,
        "tokens_before": one.before,
        "turns": one.turns,
        "constraints": one.laid_down,
        "sides": {name: _side(kept, len(one.laid_down)) for name, kept in one.sides.items()},
    }


def _side(kept: Kept, rules: int) -> dict[str, Any]:
    return {
        "tokens": kept.tokens,
        "grounding": share(kept.grounded, kept.needed),
        "remembered": share(kept.remembered, kept.unsaid),
        "needed": kept.needed,
        "unsaid": kept.unsaid,
        "directive_kept": kept.directive,
        "system_kept": kept.system,
        "constraints": rules,
        "constraints_verbatim": len(kept.verbatim),
        "constraints_told": len(kept.told),
        "rule_breaks": len(kept.rules),
        "breaks": kept.rules,
        "verbatim": kept.verbatim,
        "told": kept.told,
        "missed": kept.missed,
        "held": kept.held,
    }


def share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
