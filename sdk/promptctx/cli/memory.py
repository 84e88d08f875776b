"""The command memory: what is remembered of a subject, how it came about, and the care for it."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from promptctx import errors
from promptctx._memory import SharedBy
from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, safe, say, show_json, table

_LINE = 100


@app.command()
def memory(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose memory it is.")],
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="What answers this, with its score.")] = None,
    history: Annotated[str | None, typer.Option(metavar="ID", help="All that happened to one memory.")] = None,
    forget: Annotated[str | None, typer.Option(metavar="ID", help="End a memory; the log keeps it.")] = None,
    care: Annotated[bool, typer.Option("--care", help="Show what is to be merged or ended.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="With --care: do it.")] = False,
    undo: Annotated[str | None, typer.Option(metavar="CHANGE", help="Take a change back.")] = None,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all of it as JSON; - is stdout.")] = None,
    restore: Annotated[Path | None, typer.Option("--import", metavar="FILE", help="Read such a file.")] = None,
    closed: Annotated[bool, typer.Option("--closed", help="List what is no longer true, too.")] = False,
    shared: Annotated[bool, typer.Option("--shared", help="What all of the tenant share.")] = False,
    session: Annotated[
        str | None, typer.Option(metavar="S", help="List, search or trace what this session keeps to itself.")
    ] = None,
    reason: Annotated[str, typer.Option(help="With --forget: why.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to list.")] = 100,
    as_json: Json = False,
) -> None:
    """List, search, trace, forget, tidy, export and import what is remembered of a subject."""
    cli: Cli = ctx.obj
    chosen = [one for one in (search, history, forget, care or None, undo, export, restore) if one is not None]
    if len(chosen) > 1:
        raise typer.BadParameter("Choose one of --search, --history, --forget, --care, --undo, --export, --import.")
    if apply and not care:
        raise typer.BadParameter("--apply goes with --care.", param_hint="--apply")
    if session is not None and (shared or len(chosen) > (search is not None) + (history is not None)):
        raise typer.BadParameter("--session goes with --search or --history, or alone.", param_hint="--session")
    client, scope = cli.client(), _scope(shared)
    if export is not None:
        return _export(client.export_memory(subject), export)
    if restore is not None:
        return _shown(client.import_memory(subject, _read(restore)), _imported, as_json)
    if history is not None:
        return _shown(client.memory(subject, history, scope=scope, session=session), _history, as_json)
    if forget is not None:
        return _shown(client.forget_memory(subject, forget, reason, scope=scope), _forgotten, as_json)
    if undo is not None:
        return _shown(client.undo_memory(subject, undo, scope=scope), _undone, as_json)
    if care:
        return _shown(client.care_for_memory(subject, dry_run=not apply, scope=scope), _cared, as_json)
    found = client.memories(subject, search, scope=scope, closed=closed, limit=limit, session=session)
    return show_json(found) if as_json else _list(found, subject, search, limit)


def _scope(shared: bool) -> SharedBy:
    return "tenant" if shared else "subject"


def _list(found: Mapping[str, Any], subject: str, query: str | None, limit: int) -> None:
    rows = found["memories"]
    if not rows:
        return say(f"nothing is remembered of {subject}" if query is None else "nothing that is remembered answers it")
    if query is not None:
        return say(*(line for row in rows for line in _explained(row)))
    console().print(table(("id", "category", "#importance", "since", "text"), map(_row, rows)))
    if found["next"]:
        say(f"… and older ones: --limit {limit * 2}")
    return None


def _row(row: Mapping[str, Any]) -> tuple[object, ...]:
    text = row["text"] if row["current"] else f"(closed) {row['text']}"
    return row["id"], row["category"], f"{row['importance']:.2f}", row["recorded_at"][:10], _short(text)


def _explained(row: Mapping[str, Any]) -> Iterator[str]:
    told = row["explained"]
    yield f"{told['score']:.3f}  {_short(row['text'])}"
    parts = " + ".join(f"{term} {part:.3f}" for term, part in sorted(told["terms"].items(), key=lambda one: -one[1]))
    parts += "".join(f" + names {who} {part:.3f}" for who, part in told.get("named", {}).items())
    weights = told["weights"]
    yield f"       {weights['relevance']:g} × relevance {told['relevance']:.3f} = {parts}"
    faded = f"importance {told['importance']:.3f} (recorded as {told['recorded_importance']:g})"
    yield f"       {weights['importance']:g} × {faded}   {row['id']}"


def _history(told: Mapping[str, Any]) -> Iterator[str]:
    if row := told["memory"]:
        state = "in force" if row["current"] else f"over, closed by {row['closed_by']}"
        yield f"{state}: {_short(row['text'])}"
    for one in told["history"]:
        act = f"{one['act']}: {one['sentence']}" if "act" in one else _short(one.get("text") or one.get("reason") or "")
        yield f"  {one['seq']:>5}  {one['at'][:19]}  {one['kind']:<17} {act}"
        if one.get("before"):
            yield f"         before: {_short(one['before'])}"
            yield f"         now:    {_short(one['text'])}"
    for one in told["sources"]:
        yield f"  made from {one['kind']} at {one['stream']} seq {one['seq']}  {one['event_id']}"


def _forgotten(told: Mapping[str, Any]) -> Iterator[str]:
    if told["change"] is None:
        yield "it had ended before"
    else:
        yield f"forgotten; to take it back: --undo {told['change']}"


def _cared(told: Mapping[str, Any]) -> Iterator[str]:
    for step in told["steps"]:
        yield f"{step['act']}: {step['reason']}"
        yield from (f"  {one['id']}  {_short(one['text'])}" for one in step["memories"])
    if not told["steps"]:
        yield "nothing is to be done"
    elif told["dry_run"]:
        yield "nothing was done yet: --apply does it"
    else:
        yield f"done; to take it back: --undo {told['change']}"


def _undone(told: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"took back {one['kind']} at seq {one['seq']}  {_short(one['text'])}" for one in told["takes_back"])
    for one in told["conflicts"]:
        yield f"left {one['kind']} at seq {one['seq']}: {one['newer']['kind']} at seq {one['newer']['seq']} is newer"
    if not told["takes_back"] and not told["conflicts"]:
        yield "nothing was to be taken back"
    if told["change"]:
        yield f"to take that back: --undo {told['change']}"


def _imported(told: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{one['act']}  {_short(one['text'])}" for one in told["decisions"])
    yield f"{told['events']} events" + (f"; to take it back: --undo {told['change']}" if told["change"] else "")


def _shown(told: Mapping[str, Any], lines: Any, as_json: bool) -> None:
    return show_json(told) if as_json else say(*lines(told))


def _short(text: str) -> str:
    line = safe(str(text), one_line=True)
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def _export(told: Mapping[str, Any], target: Path) -> None:
    text = json.dumps(told, ensure_ascii=False, indent=1)
    if str(target) == "-":
        sys.stdout.write(text + "\n")
    else:
        target.write_bytes((text + "\n").encode("utf-8", "surrogatepass"))
        say(f"{len(_rows(told))} memories in {target}")


def _rows(told: Mapping[str, Any]) -> Sequence[Any]:
    rows = told.get("memories")
    return rows if isinstance(rows, list) else ()


def _read(source: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(source.read_bytes().decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise errors.InvalidRequest(f"{source} is no JSON of an export.") from None
    if not isinstance(found, dict):
        raise errors.InvalidRequest(f"{source} is no JSON of an export.")
    return found
