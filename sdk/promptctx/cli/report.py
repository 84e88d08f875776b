"""A compiled prompt on a terminal: its text, its budget bar, and what is not in it and why."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from promptctx.cli._screen import has_blocks, safe, short, table
from promptctx.prompt import PromptData, escaped, transcript

_ZONES: Mapping[str, tuple[str, str]] = {
    "anchor_system": ("blue", "S"),
    "tools": ("bright_blue", "T"),
    "slots": ("green", "L"),
    "few_shot": ("cyan", "F"),
    "summary": ("yellow", "Y"),
    "window": ("magenta", "W"),
    "pinned": ("bright_yellow", "P"),
    "anchor_business": ("red", "B"),
    "reinforcement": ("bright_cyan", "R"),
    "format": ("bright_black", "M"),
}
_OTHER = ("white", "O")
_ROWS = 20
_WIDEST = 72


def show_prompt(out: Console, prompt: PromptData) -> None:
    """The whole of it: who, what it says, what it cost, what was left out."""
    for role, said in transcript(prompt):
        told = said if role == "text" else escaped(said)  # that format did so itself
        if role != "text":
            out.print(Text(f"@@ {safe(role, one_line=True)}", style="bold"))
        out.print(Text(safe(told)), soft_wrap=True)
    out.print()
    show_report(out, prompt)


def show_report(out: Console, prompt: PromptData) -> None:
    report = prompt.report
    form, model = prompt.format, prompt.model or "no model"
    head = f"{prompt.id} · version {prompt.version} of {prompt.session} · {prompt.mode} · {form} · {model}"
    out.print(Text(safe(head, one_line=True), style="bold"), soft_wrap=True)
    out.print(Text(f"sha256 {safe(prompt.content_hash, one_line=True)}"), soft_wrap=True)
    budget = report.get("budget") or prompt.budget
    tokens = report.get("tokens") or prompt.tokens
    zones = {str(zone): count for zone, count in (report.get("zones") or {}).items() if isinstance(count, int)}
    out.print(Text(f"{tokens:,} tokens" + (f" of {budget:,}" if budget else "")))
    out.print(budget_bar(zones, budget or tokens, min(_WIDEST, out.width - 2), marks=_marks(out)))
    left_out = list(_left_out(report))
    if left_out:
        heads = ("what", "became", "why", "#tokens", "zone")
        out.print(table(heads, left_out[:_ROWS], title=f"Not in the prompt as it was: {len(left_out)}"))
        if len(left_out) > _ROWS:
            out.print(f"… and {len(left_out) - _ROWS} more; --json shows all.")
    for warning in report.get("warnings") or ():
        out.print(Text(f"! {safe(warning, one_line=True)}", style="yellow"), soft_wrap=True)


def _marks(out: Console) -> str:
    """What stands for a used and for a free cell; without colours a zone is told by its letter."""
    full, free = "█░" if has_blocks(out) else "#."
    return (full if out.color_system else " ") + free


def budget_bar(zones: Mapping[str, int], budget: int, width: int, marks: str = "█░") -> Text:
    """One cell per share of the budget, a colour per zone (or its letter, if the mark is a blank), then the legend."""
    used = {zone: count for zone, count in zones.items() if count > 0}
    order = [zone for zone in _ZONES if zone in used] + [zone for zone in used if zone not in _ZONES]
    bar, legend = Text(), Text()
    for zone, cells in zip(order, _cells([used[zone] for zone in order], budget, width), strict=True):
        colour, letter = _ZONES.get(zone, _OTHER)
        mark = letter if marks[0] == " " else marks[0]
        bar.append(mark * cells, style=colour)
        legend.append(f"{mark} ", style=colour).append(f"{safe(zone, one_line=True)} {used[zone]:,}   ")
    free = max(0, budget - sum(used.values()))
    bar.append(marks[1] * (width - len(bar)), style="dim")
    return bar.append("\n").append(legend).append(f"{marks[1]} free {free:,}")


def _cells(counts: Sequence[int], budget: int, width: int) -> list[int]:
    """How many cells each count gets: its share, at least one, and never more than there are in all."""
    whole = max(budget, sum(counts), 1)
    cells = [max(1, count * width // whole) for count in counts]
    while sum(cells) > width and max(cells) > 1:
        cells[cells.index(max(cells))] -= 1
    return cells


def _left_out(report: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for (disposition, reason, zone), told in groupby(report.get("units") or (), _fate):
        if disposition != "included":
            units = list(told)
            tokens = sum(unit.get("tokens") or 0 for unit in units)
            yield _span(units), disposition, reason, tokens, zone
    for slot, filled in (report.get("slots") or {}).items():
        for item in filled.get("items") or ():
            if item.get("disposition") != "included":
                what = f"{slot}: {short(item.get('text') or item.get('key'), 60)}"
                yield what, item.get("disposition"), item.get("reason"), item.get("tokens"), "slots"


def _fate(unit: Mapping[str, Any]) -> tuple[object, object, object]:
    return unit.get("disposition"), unit.get("reason"), unit.get("zone")


def _span(units: Sequence[Mapping[str, Any]]) -> str:
    """Neighbours with the same fate, as one."""
    first, last = units[0].get("from_seq"), units[-1].get("to_seq")
    count = sum(unit.get("units") or 1 for unit in units)
    many = f" ({count} units)" if count > 1 else ""
    return (f"event {first}" if first == last else f"events {first} to {last}") + many
