"""For reading: one prompt beside the history it stands for, and the values that were missed most often."""

from collections.abc import Iterable, Sequence

from benchmarks.trajectory.measuring import Miss, Results, budgets
from benchmarks.trajectory.methods import Compiled, Method
from benchmarks.trajectory.scoring import Earlier, WireMessage, standing, text_of
from benchmarks.trajectory.sessions import Session, Turn
from domain.rendering.openai import count_message

OPENING = 120
"""Characters of a message of the history that are shown."""

VERBATIM = 600
"""Characters of a message of the prompt that are shown when it is one of the history as it came."""


def prompt(sessions: Iterable[Session], method: Method, asked: str) -> str:
    """The prompt that `SESSION,SEQ,CELL` names: of the first session whose id holds SESSION, before the assistant
    message at SEQ (the next one with calls)."""
    name, place, cell = (*asked.split(","), "", "")[:3]
    for session in sessions:
        budget = budgets(session).get(cell)
        if name not in session.id or budget is None or not place.isdigit():
            continue
        run, earlier = method.begin(session, budget), Earlier()
        for turn in session.turns():
            compiled = run.compile(turn)
            if turn.seq >= int(place):
                for message in turn.messages:
                    earlier.add(text_of(message))
                title = f"{session.id}, before the message at seq {turn.seq}, budget {budget} ({cell})"
                return "\n".join(
                    [title, *_before_and_after(session, turn, compiled), *_needed(turn, compiled, earlier)]
                )
    return f"No turn {asked!r}: say SESSION,SEQ,CELL with a session that has this cell."


def _before_and_after(session: Session, turn: Turn, compiled: Compiled) -> list[str]:
    """All messages of the history in brief, then the prompt: whole where it was made, in brief where it is verbatim."""
    count = session.count.text
    after = turn.base + sum(count_message(message, count) for message in compiled.messages)
    rows = [f"\nBEFORE: {len(turn.messages)} messages, {turn.tokens} tokens\n", *map(_brief, turn.messages)]
    rows.append(f"\nAFTER: {len(compiled.messages)} messages, {after} tokens\n")
    for message in compiled.messages:
        if message in turn.messages:
            rows.append(
                f"[{message['role']}] as it came, {count_message(message, count)} tokens\n{_opening(message)}\n"
            )
        else:
            text, system = text_of(message), turn.system or ""
            if system and text.startswith(system):
                text = f"(the system prompt as it came, {count(system)} tokens){text[len(system) :]}"
            rows.append(f"[{message['role']}]\n{text}\n")
    return rows


def _needed(turn: Turn, compiled: Compiled, earlier: Earlier) -> list[str]:
    texts = [text_of(message) for message in compiled.messages]
    needed = earlier.needed(turn.calls)
    rows = [f"- {value!r}: {standing(value, context, texts)}" for value, context in needed.items()]
    return ["THE NEXT CALL\n", *turn.calls, "", *rows]


def _brief(message: WireMessage) -> str:
    text = " ".join(text_of(message).split())
    return f"- {message['role']}: {text[:OPENING]}{'…' if len(text) > OPENING else ''}"


def _opening(message: WireMessage) -> str:
    text = text_of(message)
    more = len(text) - VERBATIM
    return text if more <= 0 else f"{text[:VERBATIM]}… ({more} characters more)"


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
