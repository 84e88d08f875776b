"""The order of a prompt: system message, few-shot, units in the order of the log, and what stands at the tail.

Nothing before the tail depends on it, so that the prefix stays the same from prompt to prompt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from domain.anchors import Protected, core_rules, few_shot, instruction_text
from domain.budgets import SlotFill
from domain.events import Part, TextPart
from domain.lines import lines as section_lines
from domain.modes import Mode
from domain.rendering.neutral import Neutral
from domain.rows import Instruction
from domain.summaries import SummaryLine
from domain.text import inline
from domain.trimming import Arrangement
from domain.windows import Unit
from domain.wording import Wording

Line = tuple[str, tuple[str, ...]]
"""A line of text and the events it came from."""


@dataclass(frozen=True, slots=True)
class Frame:
    """All of a prompt but its history."""

    system: Neutral | None
    few_shot: tuple[Neutral, ...]
    tail: tuple[Neutral, ...]


def frame(anchor: Instruction | None, fills: Sequence[SlotFill], mode: Mode, words: Wording, reinforced: int) -> Frame:
    """The system message with its sections, the few-shot block, and the tail with volatile slots and core rules."""
    prefix, tail = _sections(fills, mode, words)
    lines: list[Line] = []
    if anchor and (text := instruction_text(anchor, words)):
        lines += [(line, (anchor.event_id,)) for line in text.split("\n")]
    for section in prefix:
        lines += [("", ()), *section] if lines else section
    rules = core_rules(anchor, reinforced)
    last = [_reference(words.reference, [line for section in tail for line in section], "slots")] if tail else []
    if rules and anchor:
        last.append(
            _reference(words.reminder, [(f"- {inline(rule)}", (anchor.event_id,)) for rule in rules], "reinforcement")
        )
    system = _message("system", lines, "anchor_system") if lines else None
    return Frame(system, tuple(few_shot(anchor)), tuple(last))


def _sections(fills: Sequence[SlotFill], mode: Mode, words: Wording) -> tuple[list[list[Line]], list[list[Line]]]:
    places: dict[str, list[list[Line]]] = {"prefix": [], "tail": []}
    for fill in fills:
        shown = fill.shown
        for place in ("prefix", "tail"):
            here = [item for item in shown if mode.place(fill.slot, volatile=item.volatile) == place]
            if here:
                lines = section_lines(here)
            elif fill.placeholder and place == mode.placeholder_place(fill.slot):
                lines = [(f"- {words.none}", ())]
            else:
                continue
            places[place].append([(words.title(fill.slot), ()), *lines])
    return places["prefix"], places["tail"]


def _reference(heading: str, lines: Iterable[Line], zone: str) -> Neutral:
    return _message("user", [(heading, ()), *lines], zone)


def _message(role: str, lines: Sequence[Line], zone: str) -> Neutral:
    text = "\n".join(line for line, _ in lines)
    sources = tuple(dict.fromkeys(event for _, events in lines for event in events))
    part: Part = TextPart(type="text", text=text)
    return Neutral(role, zone, (part,), sources=sources, lines=tuple(events for _, events in lines))  # type: ignore[arg-type]


def arrange(
    around: Frame, protected: Protected, arrangement: Arrangement, omitted: int, words: Wording
) -> tuple[Neutral, ...]:
    """The messages of the prompt in order. `omitted` counts the units that are neither shown nor summarised."""
    units = sorted([*protected.units, *arrangement.window], key=lambda unit: unit.seq)
    placed: list[tuple[int, tuple[Neutral, ...]]] = [(unit.seq, _zoned(unit, protected)) for unit in units]
    if arrangement.summary:
        # A summary stands where the newest of its units stood.
        behind = [line.unit for line in arrangement.summary if line.unit < arrangement.layout.cut]
        place = behind[-1] if behind else arrangement.summary[0].unit
        placed.append((place, (summary_message(arrangement.summary, omitted, words),)))
        placed.sort(key=lambda one: one[0])
    history = [message for _, messages in placed for message in messages]
    last = units[-1] if units else None
    if last is not None and last.role == "user" and history and history[-1].role == "user":
        own = len(last.messages)
        history = [*history[:-own], *around.tail, *history[-own:]]
    else:
        history += around.tail
    opening = [around.system] if around.system else []
    messages = _with_user([*opening, *around.few_shot, *history], words)
    return tuple(_unique_ids(messages))


def summary_message(lines: Sequence[SummaryLine], omitted: int, words: Wording) -> Neutral:
    rows: list[Line] = [(words.earlier.format(units=omitted), ())] if omitted else []
    if any(" [e" in note.lead for line in lines for note in line.notes):
        rows.append((words.expandable, ()))
    rows += [(f"- {line.text}", line.derived_from) for line in lines if line.notes]
    return _reference(words.summary, rows, "summary")


def _zoned(unit: Unit, protected: Protected) -> tuple[Neutral, ...]:
    zone = "window"
    if unit.seq == protected.anchor:
        zone = "anchor_business"
    elif unit.seq in protected.pinned:
        zone = "pinned"
    return tuple(replace(message, zone=zone) for message in unit.messages) if zone != "window" else unit.messages


def _with_user(messages: list[Neutral], words: Wording) -> list[Neutral]:
    """At least one user message: every provider wants one."""
    if any(message.role == "user" for message in messages):
        return messages
    part: Part = TextPart(type="text", text=words.reference)
    return [*messages, Neutral("user", "reinforcement", (part,))]


def _unique_ids(messages: Sequence[Neutral]) -> list[Neutral]:
    """The fold gives each call an id of its own; a foreign id that happens to look like one of ours is renamed here."""
    seen: set[str] = set()
    renamed: dict[tuple[int | None, str], str] = {}
    made: list[Neutral] = []
    for message in messages:
        if message.calls:
            calls = []
            for call in message.calls:
                if call.id in seen:
                    new = f"{call.id}_{message.unit}"
                    while new in seen:
                        new += "_"
                    renamed[message.unit, call.id] = new
                    call = replace(call, id=new)
                seen.add(call.id)
                calls.append(call)
            message = replace(message, calls=tuple(calls))
        elif message.answers and (message.unit, message.answers) in renamed:
            message = replace(message, answers=renamed[message.unit, message.answers])
        made.append(message)
    return made
