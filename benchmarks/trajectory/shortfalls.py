"""Where promptctx falls short of its goals, by how much, and the most telling values that it missed there."""

from collections.abc import Sequence
from typing import Any

from benchmarks.trajectory.framed import RuleSummary
from benchmarks.trajectory.measuring import CELLS, Miss, Results, rounded
from benchmarks.trajectory.methods import Promptctx

GROUNDING = {"25%": 0.97, "10%": 0.90}
REUSE, REUSE_CELL, BELOW_BOUND = 0.85, "25%", 0.05
SHARE, SHARE_CELL = 0.25, "10%"
EXAMPLES = 3


def shortfalls(report: dict[str, Any], results: Results) -> dict[str, Any]:
    """Each cell with its goals; a cell that misses one has the sources that pull it down and the examples."""
    found = {}
    cells = report["methods"].get(Promptctx.name, {}).get("cells", {})
    for name, numbers in cells.items():
        goals = _goals(name, numbers)
        missed = {key: goal for key, goal in goals.items() if not _reached(key, numbers, goal)}
        first = _first(report, name)
        entry: dict[str, Any] = {"goals": goals, "missed": missed, "first": first}
        if missed or not first:
            entry["weakest_sources"] = _weakest(report, name)
            entry["examples"] = [_example(group) for group in _telling(results, name)]
        found[name] = entry
    return found


def _goals(name: str, numbers: dict[str, Any]) -> dict[str, float]:
    goals = {"rule_breaks": 0.0}
    if name in GROUNDING:
        goals["grounding"] = GROUNDING[name]
    if name == REUSE_CELL and numbers["prefix_bound"] is not None:
        goals["prefix_reuse"] = round(min(REUSE, numbers["prefix_bound"] - BELOW_BOUND), 4)
    if name == SHARE_CELL and numbers["share_of_long_sessions"] is not None:
        goals["share_of_long_sessions"] = SHARE
    return goals


def _reached(key: str, numbers: dict[str, Any], goal: float) -> bool:
    value = numbers[key]
    if value is None:
        return True
    return bool(value >= goal if key in ("grounding", "prefix_reuse") else value <= goal)


def _first(report: dict[str, Any], name: str) -> bool:
    """Whether no other method grounds more; its own other water marks and its own summary elsewhere do not count."""
    scores = {
        method: found["cells"][name]["grounding"] or 0.0
        for method, found in report["methods"].items()
        if name in found["cells"] and "@" not in method and method != RuleSummary.name
    }
    return scores[Promptctx.name] >= max(scores.values())


def _weakest(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    sources = report["methods"][Promptctx.name]["sources"]
    rows = [
        {"source": source, "grounding": cells[name]["grounding"], "needed": cells[name]["needed"]}
        for source, cells in sources.items()
        if name in cells and cells[name]["grounding"] is not None
    ]
    return sorted(rows, key=lambda row: (row["grounding"], row["source"]))[:EXAMPLES]


def _telling(results: Results, name: str) -> list[list[Miss]]:
    """The values missed at the most turns of the cell, no more than one of a source while others have any."""
    grouped: dict[tuple[str, str, str], list[Miss]] = {}
    for (method, cell, _), sums in results.items():
        for miss in sums.misses if (method, cell) == (Promptctx.name, name) else ():
            grouped.setdefault((miss.source, miss.session, miss.value), []).append(miss)
    ranked = sorted(grouped.values(), key=lambda group: (-len(group), group[0].session, group[0].value))
    seen: dict[str, int] = {}
    ordered = []
    for place, group in enumerate(ranked):
        seen[group[0].source] = seen.get(group[0].source, 0) + 1
        ordered.append((seen[group[0].source], place, group))
    return [group for _, _, group in sorted(ordered, key=lambda one: one[:2])[:EXAMPLES]]


def _example(group: Sequence[Miss]) -> dict[str, Any]:
    one = group[0]
    return {
        "source": one.source, "session": one.session, "seq": one.turn, "value": one.value, "standing": one.standing,
        "turns": len(group), "stood": one.stood, "where": one.where,
    }  # fmt: skip


# --- documentation ----------------------------------------------------------------------------------------------------


def told(found: dict[str, Any], report: dict[str, Any]) -> str:
    """As a section of the page: a sentence for each cell, then the examples of those that fall short."""
    blocks = []
    for name in (one for one in CELLS if one in found):
        entry, numbers = found[name], report["methods"][Promptctx.name]["cells"][name]
        reached = [_phrase(key, numbers[key], goal, entry) for key, goal in entry["goals"].items()]
        place = "first of all methods" if entry["first"] else "**not first**"
        rows = [f"**{name}**: {place}; {'; '.join(reached)}."]
        if "examples" in entry:
            weak = ", ".join(
                f"{one['source']} {one['grounding']:.3f} of {one['needed']}" for one in entry["weakest_sources"]
            )
            rows.append(f"Weakest sources: {weak}.")
            rows.append("\n".join(["```text", *map(_quoted, entry["examples"]), "```"]))
        blocks.append("\n\n".join(rows))
    return "\n\n".join(blocks)


def _phrase(key: str, value: Any, goal: float, entry: dict[str, Any]) -> str:
    name = key.replace("_", " ")
    if key not in entry["missed"]:
        return f"{name} {_number(value)} (goal {_number(goal)})"
    return f"**{name} {_number(value)}, goal {_number(goal)}: {_number(rounded(abs(goal - value)))} short**"


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if value == int(value) else f"{value:.3f}"


def _quoted(one: dict[str, Any]) -> str:
    return (
        f"{one['source']}, before seq {one['seq']}: {one['value']!r} {one['standing']} at {one['turns']} turns\n"
        f"  stood: {one['stood']}\n  where: {one['where']}"
    )
