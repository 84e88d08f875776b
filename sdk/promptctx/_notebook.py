"""A prompt as a piece of HTML for notebooks: inline styles only, everything from the log escaped."""

import re
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#4c78a8", "#59a14f", "#e8a33d", "#b07aa1", "#d1605e", "#76b7b2", "#9c755f", "#8c8c8c")
_LONE = re.compile("[\ud800-\udfff]")
LONGEST = 20_000
"""Characters of a message that are shown: a notebook is for looking, not for keeping."""


def page(
    name: str, zones: Mapping[str, int], tokens: int, budget: int | None, messages: Sequence[tuple[str, str]]
) -> str:
    whole = f"{tokens:,} tokens" + (f" of {budget:,}" if budget else "")
    head = f"<div><b>{_text(name)}</b> · {whole}</div>"
    return f'<div style="font-family:system-ui,sans-serif">{head}{_bar(zones, budget or tokens)}{_said(messages)}</div>'


def _bar(zones: Mapping[str, int], budget: int) -> str:
    whole = max(budget, sum(zones.values()), 1)
    cells, legend = [], []
    for place, (zone, count) in enumerate((zone, count) for zone, count in zones.items() if count > 0):
        colour = COLOURS[place % len(COLOURS)]
        cells.append(f'<span style="width:{100 * count / whole:.2f}%;background:{colour}"></span>')
        legend.append(f'<span style="color:{colour}">■</span> {_text(zone)} {count:,}')
    style = "display:flex;height:12px;background:#8884;border-radius:3px;overflow:hidden;margin:4px 0"
    return f'<div style="{style}">{"".join(cells)}</div><div style="font-size:85%">{" &nbsp; ".join(legend)}</div>'


def _said(messages: Sequence[tuple[str, str]]) -> str:
    name = "font-weight:600;margin-top:6px"
    style = "white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 8px;max-height:20em;overflow:auto"
    return "".join(
        f'<div style="{name}">{_text(role)}</div><pre style="{style}" dir="auto">{_cut(said)}</pre>'
        for role, said in messages
    )


def _cut(said: str) -> str:
    left = len(said) - LONGEST
    return _text(said) if left <= 0 else f"{_text(said[:LONGEST])}\n… {left:,} characters more"


def _text(value: str) -> str:
    """Text that stays text; lone surrogates, which no page can hold, as U+FFFD."""
    return escape(_LONE.sub("\ufffd", value), quote=True)
