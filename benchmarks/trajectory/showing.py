"""For reading: one prompt beside the history it stands for, and the values that were missed most often."""

from collections.abc import Iterable, Sequence

from benchmarks.trajectory.measuring import Miss, Results, budgets
from benchmarks.trajectory.methods import Method
from benchmarks.trajectory.scoring import Earlier, WireMessage, standing, text_of
from benchmarks.trajectory.sessions import Session
from domain.rendering.openai import count_message

OPENING = 120
"""Characters of a message of the history that are shown."""


def prompt(sessions: Iterable[Session], method: Method, asked: str) -> str:
    """The prompt that `SESSION,SEQ,CELL` names: of the first session whose id holds SESSION, before the assistant
    message at SEQ (the next one with calls)."""
    name, _, rest = asked.partition(",")
    place, _, cell = rest.partition(",")
    for session in sessions:
        budget = budgets(session).get(cell)
        if name not in session.id or budget is None:
            continue
        run, earlier = method.begin(session, budget), Earlier()
        for turn in session.turns():
            compiled = run.compile(turn)
            if turn.seq < int(place):
                continue
            for message in turn.messages:
                earlier.add(text_of(message))
            needed = earlier.needed(turn.calls)
            texts = [text_of(message) for message in compiled.messages]
            after = turn.base + sum(count_message(message, session.count.text) for message in compiled.messages)
            rows = [
                f"## {session.id}, before the message at seq {turn.seq}, budget {budget} ({cell})",
                f"\n### Before: {len(turn.messages)} messages, {turn.tokens} tokens\n",
                *map(_brief, turn.messages),
                f"\n### After: {len(compiled.messages)} messages, {after} tokens\n",
                *map(_whole, compiled.messages),
                "\n### The next call\n",
                *turn.calls,
                "",
                *(f"- {value!r}: {standing(value, context, texts)}" for value, context in needed.items()),
            ]
            return "\n".join(rows)
    return f"No turn {asked!r}: SESSION,SEQ,CELL with a session that has this cell."


def _brief(message: WireMessage) -> str:
    text = " ".join(text_of(message).split())
    return f"- {message['role']}: {text[:OPENING]}{'…' if len(text) > OPENING else ''}"


def _whole(message: WireMessage) -> str:
    return f"[{message['role']}]\n{text_of(message)}\n"


def misses(results: Results, method: str, most: int) -> str:
    """What a method missed: the values missed at the most turns first, the sources taking turns."""
    grouped: dict[tuple[str, str, str], list[Miss]] = {}
    for (name, _, _), sums in results.items():
        for miss in sums.misses if name == method else []:
            grouped.setdefault((miss.source, miss.session, miss.value), []).append(miss)
    ranked: dict[str, int] = {}
    ordered = []
    for found in sorted(grouped.values(), key=lambda found: -len(found)):
        source = found[0].source
        ranked[source] = ranked.get(source, 0) + 1
        ordered.append((ranked[source], found))
    ordered.sort(key=lambda one: one[0])
    return "\n".join(_told(found) for _, found in ordered[:most])


def _told(found: Sequence[Miss]) -> str:
    first = found[0]
    cells: dict[str, int] = {}
    for miss in found:
        cells[miss.cell] = cells.get(miss.cell, 0) + 1
    return (
        f"\n{first.source} · {first.session} · turn at seq {first.turn} · {first.value!r} {first.standing}, "
        f"missed in {', '.join(f'{key} × {times}' for key, times in cells.items())}\n"
        f"  stood: {first.stood}\n  where: {first.where}"
    )
