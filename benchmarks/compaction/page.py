"""The report as a table for the terminal, and as the parts of docs/compactions.md."""

from collections.abc import Sequence
from typing import Any

from benchmarks.trajectory.methods import Promptctx
from benchmarks.trajectory.reporting import shown, table_head, table_row

Rows = Sequence[dict[str, Any]]

COLUMNS = {
    "tokens": "tokens", "grounding": "grounding", "needed": "needed", "unsaid grounding": "remembered",
    "unsaid": "unsaid", "directive": "directive_kept", "system": "system_kept", "breaks": "rule_breaks",
}  # fmt: skip

QUOTED = 3
"""Values of one compaction that are quoted for each side."""

LONGEST = 110
"""Characters of one quotation."""


def terminal(rows: Rows) -> str:
    lines = []
    for row in rows:
        lines.append(_title(row))
        lines += [f"  {name:<12}{_told(side)}" for name, side in row["sides"].items()]
    return "\n".join(lines) or "No compaction found."


def _told(side: dict[str, Any]) -> str:
    rules = f"constraints {side['constraints_verbatim']}/{side['constraints_told']}/{side['constraints']}"
    return ", ".join([*(f"{name} {_cell(side[key])}" for name, key in COLUMNS.items()), rules])


def _title(row: dict[str, Any]) -> str:
    return f"{row['session']}, seq {row['seq']}: {row['tokens_before']} tokens before, {row['turns']} turns after"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "kept" if value else "lost"
    return shown(value)


def table(rows: Rows) -> str:
    """A row for each side of each compaction."""
    lines = [table_head("compaction", "side", *COLUMNS, "constraints: verbatim, told, all")]
    for place, row in enumerate(rows, start=1):
        for name, side in row["sides"].items():
            rules = f"{side['constraints_verbatim']}, {side['constraints_told']}, {side['constraints']}"
            cells = (_cell(side[key]) for key in COLUMNS.values())
            lines.append(table_row(str(place), row["tool"] if name == "tool" else name, *cells, rules))
    return "\n".join(lines)


def logs(rows: Rows) -> str:
    """Which compaction is which, and what the tool itself counted."""
    lines = [
        table_head("", "log", "tokens in the log before", "the tool's count before", "after", "turns that followed")
    ]
    for place, row in enumerate(rows, start=1):
        counts = (shown(row[key]) for key in ("recorded_tokens_before", "recorded_tokens_after", "turns"))
        lines.append(table_row(str(place), f"{row['source']}, {row['tool']}", shown(row["tokens_before"]), *counts))
    return "\n".join(lines)


def examples(rows: Rows) -> str:
    """What one side kept and the other did not, in short quotations; then the user's own rules."""
    blocks = []
    for place, row in enumerate(rows, start=1):
        ours, theirs = row["sides"][Promptctx.name], row["sides"]["tool"]
        lines = [f"{place}. {row['tool']}"]
        lines += _only(f"kept by {row['tool']}, lost by promptctx", theirs, ours)
        lines += _only(f"kept by promptctx, lost by {row['tool']}", ours, theirs)
        lines += _rules(row)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _only(title: str, held: dict[str, Any], missed: dict[str, Any]) -> list[str]:
    found = [(value, quote) for value, quote in held["held"].items() if value in missed["missed"]]
    found.sort(key=lambda one: (-len(one[0]), one[0]))
    return [
        f"   {title} ({len(found)})",
        *(f"     {value}\n       as: {_short(quote)}" for value, quote in found[:QUOTED]),
    ]


def _rules(row: dict[str, Any]) -> list[str]:
    found = []
    for rule in row["constraints"]:
        words = {name: _standing(rule, side) for name, side in row["sides"].items()}
        told = ", ".join(f"{row['tool'] if name == 'tool' else name} {word}" for name, word in words.items())
        found.append(f"   the user: {_short(rule)}\n     {told}")
    return found


def _standing(rule: str, side: dict[str, Any]) -> str:
    return "verbatim" if rule in side["verbatim"] else "in other words" if rule in side["told"] else "not found"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
