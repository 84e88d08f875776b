"""The report as JSON, as a table for the terminal, and as the tables of the documentation."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.trajectory.measuring import CELLS, Results, cell, row
from benchmarks.trajectory.methods import Method, Promptctx
from benchmarks.trajectory.sessions import Session

COLUMNS = {
    "grounding": "grounding", "any size": "grounding_any_size", "reuse": "prefix_reuse", "bound": "prefix_bound",
    "breaks": "rule_breaks", "before": "tokens_before", "after": "tokens_after", "ms": "ms_p50", "turns": "turns",
}  # fmt: skip

Report = dict[str, Any]

HOME = re.compile(r"/(?:Users|home)/[^/\s'\"]+")
"""Somebody's home directory, which is nobody else's business."""


def report(methods: Sequence[Method], results: Results, sessions: Sequence[Session], encoding: str) -> Report:
    """Cells per method, and per source beside them."""
    made: dict[str, Any] = {}
    for method in methods:
        mine = {key[1:]: sums for key, sums in results.items() if key[0] == method.name}
        names = [name for name in CELLS if any(key[0] == name for key in mine)]
        sources = sorted({key[1] for key in mine})
        made[method.name] = {
            "version": method.version,
            "low_water": method.low_water,
            "cells": {name: cell([sums for key, sums in mine.items() if key[0] == name]) for name in names},
            "sources": {
                source: {name: row(mine[name, source]) for name in names if (name, source) in mine}
                for source in sources
            },
            "failures": sorted({text for sums in mine.values() for text in sums.failures})[:5],
        }
    counted = {source: [one for one in sessions if one.source == source] for source in _sources(sessions)}
    return {
        "encoding": encoding,
        "sessions": {source: len(found) for source, found in counted.items()},
        "methods": made,
    }


def _sources(sessions: Sequence[Session]) -> list[str]:
    return sorted({session.source for session in sessions})


# --- terminal ---------------------------------------------------------------------------------------------------------


def table(found: Report) -> str:
    rows = [f"{'method':<16}{'cell':>6}" + "".join(f"{name:>11}" for name in COLUMNS)]
    for name, method in found["methods"].items():
        for where, numbers in method["cells"].items():
            rows.append(f"{name:<16}{where:>6}" + "".join(f"{shown(numbers[key]):>11}" for key in COLUMNS.values()))
    for name, method in found["methods"].items():
        rows += ["", f"grounding of {name} by source"]
        for source, cells in method["sources"].items():
            told = [f"{key} {shown(numbers['grounding'])} ({numbers['needed']})" for key, numbers in cells.items()]
            rows.append(f"  {source:<20}{'  '.join(told)}")
        rows += [f"  failed: {text}" for text in method["failures"]]
    return "\n".join([*rows, f"{found['seconds']} s"])


def shown(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


# --- documentation ----------------------------------------------------------------------------------------------------


def write(document: Path, fill: Callable[[str], str | None]) -> None:
    """Replaces what stands between `<!-- begin NAME -->` and `<!-- end -->` by what `fill` has for that name."""

    def filled(match: "re.Match[str]") -> str:
        text = fill(match[1])
        text = text and HOME.sub("~", text)
        return match[0] if text is None else f"<!-- begin {match[1]} -->\n\n{text}\n\n<!-- end -->"

    text = document.read_text(encoding="utf-8")
    document.write_text(re.sub(r"<!-- begin (.+?) -->.*?<!-- end -->", filled, text, flags=re.DOTALL), encoding="utf-8")


def about(found: Report) -> str:
    """What ran: how many sessions of what, which versions, and loudly what did not."""
    sessions = found["sessions"]
    versions = ", ".join(f"{name} {one['version']}" for name, one in found["methods"].items() if "@" not in name)
    told = f"{sum(sessions.values())} sessions of {len(sessions)} sources, {found['encoding']}; {versions}."
    absent = [f"**NOT MEASURED: {name}**: {reason}." for name, reason in found["skipped"].items()]
    return "\n\n".join([told, *absent])


def results(found: Report) -> str:
    """One table per cell: the methods, best grounding first."""
    rows = []
    for name in CELLS:
        here = {key: method["cells"][name] for key, method in found["methods"].items() if name in method["cells"]}
        here = {key: numbers for key, numbers in here.items() if "@" not in key}
        ranked = sorted(here.items(), key=lambda one: -(one[1]["grounding"] or 0))
        rows += [f"**{name}**\n", table_head("method", *COLUMNS, "which breaks")]
        for key, numbers in ranked:
            version = found["methods"][key]["version"]
            breaks = ", ".join(f"{rule} {times}" for rule, times in numbers["breaks"].items())
            rows.append(table_row(f"{key} {version}", *(numbers[column] for column in COLUMNS.values()), breaks))
        rows.append("")
    return "\n".join(rows).strip()


def by_source(found: Report) -> str:
    """Grounding of every method on every source, in the two cells that are shares."""
    methods = [name for name in found["methods"] if "@" not in name]
    rows = [table_head("source", "cell", "needed", *methods)]
    for source in found["sessions"]:
        for name in ("25%", "10%"):
            numbers = [found["methods"][method]["sources"].get(source, {}).get(name) for method in methods]
            known = [one for one in numbers if one]
            if known and known[0]["needed"]:
                scores = [one["grounding"] if one else None for one in numbers]
                rows.append(table_row(source, name, known[0]["needed"], *scores))
    return "\n".join(rows)


def curves(found: Report) -> str | None:
    """Grounding and prefix reuse by water mark, if there were several."""
    ours = [method for name, method in found["methods"].items() if name.split("@")[0] == Promptctx.name]
    marks = {method["low_water"]: method["cells"] for method in ours}
    if len(marks) < 2:
        return None
    cells = [name for name in CELLS if all(name in one for one in marks.values())]
    rows = [table_head("water mark", *(f"{name} {what}" for name in cells for what in ("grounding", "reuse", "bound")))]
    for mark, one in sorted(marks.items()):
        numbers = [one[name][key] for name in cells for key in ("grounding", "prefix_reuse", "prefix_bound")]
        rows.append(table_row(f"{mark:g}", *numbers))
    return "\n".join([*rows, "", *_plot(marks)])


PLOTTED, WIDTH = ("25%", "10%"), 40
"""The cells that are drawn, and the columns from 0 to 1."""


def _plot(marks: dict[float, dict[str, Any]]) -> list[str]:
    """Both curves as bars, so that what a lower mark gains in reuse stands beside what it costs in grounding."""
    lines = ["```text"]
    for name in (one for one in PLOTTED if all(one in cells for cells in marks.values())):
        for key in ("grounding", "prefix_reuse"):
            for mark, cells in sorted(marks.items()):
                value = cells[name][key] or 0.0
                lines.append(f"{name:>4} {key:<13}{mark:<5g}{'█' * round(value * WIDTH):<{WIDTH}} {value:.3f}")
        lines.append("")
    return [*lines[:-1], "```"] if len(lines) > 1 else []


def table_head(*names: str) -> str:
    return f"{table_row(*names)}\n{table_row(*('---' for _ in names))}"


def table_row(*values: Any) -> str:
    return f"| {' | '.join(str(value) if isinstance(value, str) else shown(value) for value in values)} |"
