"""The reports as tables: for the terminal, and as the parts of docs/benchmarks-pipeline.md."""

from collections.abc import Sequence
from typing import Any

from benchmarks.trajectory.reporting import table_head, table_row

Json = Any

TIMES = ("count", "p50", "p95", "p99", "max")
THIRDS = ("first_third", "second_third", "last_third", "growth")
FACTS = (
    "requests", "requests_per_second", "acknowledged", "prompts", "errors", "refused", "unanswered", "lost",
    "drained_seconds",
)  # fmt: skip


def load_text(report: Json) -> str:
    parts = [_load_of(one) for one in report["deployments"]]
    told = "all well" if report["ok"] else "NOT WELL"
    return "\n\n".join([*parts, *(f"NOT MEASURED: {reason}" for reason in report["missing"]), told])


def load_parts(report: Json) -> dict[str, str]:
    """A part for each deployment, so that one run may write one of them."""
    plan = report["plan"]
    about = (
        f"{plan['sessions']} sessions, {plan['seconds']:g} s, {plan['think']:g} s between two requests of one; "
        f"{surroundings(report)}."
    )
    return {f"load {one['store']}": f"{about}\n\n{_load_of(one)}" for one in report["deployments"]}


def surroundings(report: Json) -> str:
    """Where it was measured, and how busy the machine was."""
    at, before = report["versions"], report["load_before"]
    after = report.get("load_after", before)
    names = ("sqlite", "postgresql", "redis", "rabbitmq", "celery", "sqlalchemy", "psycopg")
    rest = ", ".join(f"{name} {at[name]}" for name in names if at.get(name))
    load = f"load average {before[0]:g} before and {after[0]:g} after"
    return f"{at['processors']} processors, {load}; Python {at['python']}, {rest}"


def _load_of(one: Json) -> str:
    lines = [f"**{one['deployment']}**: {'ok' if one['ok'] else 'NOT OK'}", ""]
    lines += [table_head("what", "value"), *(table_row(name.replace("_", " "), _cell(one[name])) for name in FACTS)]
    checked = one["verify"]
    lines += [table_row("verify", f"{'ok' if checked['ok'] else 'NOT OK'}, {checked['events']:,} events"), ""]
    lines += [table_head("endpoint", *(name if name == "count" else f"{name} ms" for name in TIMES))]
    lines += [table_row(row["endpoint"], *(_cell(row[name]) for name in TIMES)) for row in one["endpoints"]]
    lines += ["", table_head("memory of", *(name.replace("_", " ") for name in THIRDS), "flat")]
    lines += [table_row(*_memory(row)) for row in one["memory"]]
    lines += ["", *(f"- {problem}" for problem in (*one["problems"], *one["complaints"]))]
    return "\n".join(lines).strip()


def _memory(row: Json) -> Sequence[str]:
    flat = {True: "yes", False: "NO", None: "did not live through it"}[row["flat"]]
    return [row["process"], *(_cell(row[name]) for name in THIRDS), flat]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count}" for name, count in value.items()) or "0"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


# --- the pipeline -----------------------------------------------------------------------------------------------------


VERDICTS = {True: "reached", False: "**missed**", None: "not measured"}


STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def pipeline_parts(report: Json) -> dict[str, str]:
    """Parts for each store that was measured, so that one run may write one of them."""
    return {
        f"{part} {store}": text
        for store, name in STORES.items()
        if any(name in goal["path"] for goal in report["goals"])
        for part, text in _parts_of(store, name, report).items()
    }


def _parts_of(store: str, name: str, report: Json) -> dict[str, str]:
    absent = [f"**NOT MEASURED: {reason}**" for reason in report["missing"]]
    quick = ["A quick run: a look, no result."] if report["scale"]["runs"] < FULL else []
    figures = {key: found for key, found in report["figures"].items() if store in key}
    goals = [goal for goal in report["goals"] if name in goal["path"]]
    about = "\n\n".join([*quick, f"{surroundings(report)}; {_peers(report)}.", *absent])
    return {"about": about, "goals": _goals(goals), "figures": _figures(figures)}


FULL = 5
"""Runs of which medians are results."""


def _peers(report: Json) -> str:
    names = ("eventsourcing", "langgraph", "adk")
    return ", ".join(f"{name} {report['versions'][name]}" for name in names)


def _goals(goals: Sequence[Json]) -> str:
    rows = [table_row(one["path"], one["goal"], _cell(one["reached"]), VERDICTS[one["passed"]]) for one in goals]
    return "\n".join([table_head("path", "goal", "here", ""), *rows])


def _figures(figures: dict[str, dict[str, float]]) -> str:
    rows = [
        table_row(name, ", ".join(f"{key} {_cell(value)}" for key, value in found.items()))
        for name, found in figures.items()
    ]
    return "\n".join([table_head("measured", "figures"), *rows])
