"""`promptctx import`: logs of other programs into the log, as far as they can be read."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from uuid import UUID, uuid5

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from promptctx import Client, PromptctxError, ServerUnavailable, importers
from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, say, short, show_json, table
from promptctx.errors import PayloadTooLarge
from promptctx.importers import ImportedSession, ImportFailed, Skipped

Event: TypeAlias = dict[str, Any]
Found: TypeAlias = ImportedSession | Skipped

BATCH_EVENTS = 200
BATCH_BYTES = 900_000
NAMED = 10
"""Sessions that are named below the tables; `sessions` lists all."""


@dataclass
class Tally:
    """What came of one kind of log."""

    sessions: int = 0
    events: int = 0
    added: int = 0
    duplicates: int = 0
    refused: int = 0
    oddities: Counter[str] = field(default_factory=Counter)


@dataclass
class FileTally:
    """What came of one file."""

    format: str
    sessions: int = 0
    events: int = 0
    added: int = 0


@dataclass
class Result:
    """What came of all of it."""

    sources: dict[str, Tally] = field(default_factory=dict)
    files: dict[Path, FileTally] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def fail(self, path: Path | str, why: object, session: str = "") -> None:
        self.failed.append({"path": str(path), "session": session, "reason": str(why)})

    @property
    def sessions(self) -> int:
        return sum(tally.sessions for tally in self.sources.values())

    @property
    def exit_code(self) -> int:
        return 1 if self.failed or not self.sessions else 0


@app.command("import")
def import_logs(
    ctx: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", exists=True, help="Files or folders.")],
    format: Annotated[str, typer.Option(help="Format of the logs; auto tells it by their content.")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count, send nothing.")] = False,
    session_prefix: Annotated[str, typer.Option(help="Put this before every session id.")] = "",
    as_json: Json = False,
) -> None:
    """Import logs of other agents as sessions. Importing a log again adds only what is new in it."""
    cli: Cli = ctx.obj
    known = [one.name for one in importers.FORMATS]
    if format not in ("auto", *known):
        raise typer.BadParameter(f"Unknown format {format!r}; choose auto, {', '.join(known)}.", param_hint="--format")
    result = Result()
    seen: set[Path] = set()
    with _progress() as progress:
        task = progress.add_task("", total=sum(map(_count, paths)), sessions=0)
        for item in _found(paths, format, result):
            seen.add(item.path)
            progress.update(task, completed=len(seen), description=short(item.path.name, 40), sessions=result.sessions)
            if isinstance(item, Skipped):
                result.skipped.append(item)
            else:
                _import_one(None if dry_run else cli.client(), item, session_prefix, result)
    if as_json:
        show_json(_summary(result, dry_run))
    else:
        _show(result, dry_run, paths)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _count(path: Path) -> int:
    """The files under a path: what the bar is measured by."""
    return sum(len(names) for _, _, names in os.walk(path)) if path.is_dir() else 1


def _progress() -> Progress:
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("files,"),
        TextColumn("{task.fields[sessions]} sessions"),
    )  # fmt: skip
    shown = sys.stderr.isatty()
    return Progress(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True, disable=not shown)


def _found(paths: Sequence[Path], format: str, result: Result) -> Iterator[Found]:
    """The sessions of all paths; a file that cannot be read is written down, and the others are read."""
    for path in paths:
        found: Iterable[Found] = ()
        try:
            found = importers.scan(path, format=format) if path.is_dir() else importers.read(path, format=format)
            yield from found
        except (ImportFailed, OSError) as error:
            result.fail(path, error)


def _import_one(client: Client | None, item: ImportedSession, prefix: str, result: Result) -> None:
    tally = result.sources.setdefault(item.source, Tally())
    file = result.files.setdefault(item.path, FileTally(item.source))
    before = tally.events, tally.added
    session_id = prefix + item.session_id
    try:
        for batch in _batches(_prefixed(item.events, prefix)):
            tally.events += len(batch)
            if client is not None:
                _send(client, session_id, batch, tally)
        tally.sessions += 1
        file.sessions += 1
        result.ids.append(session_id)
    except ServerUnavailable:
        raise
    except (PromptctxError, ImportFailed, OSError) as error:
        result.fail(item.path, error, session_id)
    file.events += tally.events - before[0]
    file.added += tally.added - before[1]
    tally.oddities += item.oddities  # also drops what was counted zero times


def _send(client: Client, session_id: str, batch: list[Event], tally: Tally) -> None:
    try:
        receipts = client.session(session_id).append(batch)
    except PayloadTooLarge:
        if len(batch) > 1:
            raise
        tally.refused += 1
        tally.oddities["events over the server's size limit, left out"] += 1
        return
    known = sum(receipt.duplicate for receipt in receipts)
    tally.duplicates += known
    tally.oddities["events that the server warned of"] += sum(bool(receipt.warnings) for receipt in receipts)
    tally.added += len(receipts) - known


def _batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Events in order, as many per request as a server takes; one that is big goes alone."""
    batch: list[Event] = []
    size = 0
    for event in events:
        length = len(json.dumps(event))
        if batch and (len(batch) >= BATCH_EVENTS or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += length
    if batch:
        yield batch


def _prefixed(events: Iterable[Event], prefix: str) -> Iterable[Event]:
    """Under a prefix it is another session: other event ids too, or the first import would claim them."""
    return (_renamed(event, prefix) for event in events) if prefix else events


def _renamed(event: Event, prefix: str) -> Event:
    made = dict(event)
    for key in ("event_id", "causation_id"):
        if made.get(key):
            made[key] = str(uuid5(UUID(made[key]), prefix))
    payload = made.get("payload")
    if made.get("kind") == "session.started" and isinstance(payload, dict) and payload.get("parent"):
        made["payload"] = {**payload, "parent": prefix + payload["parent"]}
    return made


def _summary(result: Result, dry_run: bool) -> dict[str, Any]:
    sources = [{"source": name, **vars(tally)} for name, tally in sorted(result.sources.items())]
    totals = {key: sum(one[key] for one in sources) for key in ("sessions", "events", "added", "duplicates", "refused")}
    skipped = [
        {"path": str(one.path), "reason": one.reason, "format": one.format, "quiet": one.quiet}
        for one in result.skipped
    ]
    files = [{"path": str(path), **vars(one)} for path, one in result.files.items()]
    return {
        "dry_run": dry_run, "session_ids": result.ids, "files": files, "sources": sources, "totals": totals,
        "skipped": skipped, "failed": result.failed,
    }  # fmt: skip


def _named(path: Path, roots: Sequence[Path]) -> str:
    """A file's name as seen from the folder that was asked for, if that was one."""
    return str(path.relative_to(roots[0])) if len(roots) == 1 and roots[0].is_dir() else str(path)


def _show(result: Result, dry_run: bool, roots: Sequence[Path]) -> None:
    # Whoever names a file is told of it, whatever it is.
    loud = [one for one in result.skipped if not one.quiet or one.path in roots]
    quiet = len(result.skipped) - len(loud)
    rows: list[tuple[str, object, object, object, object, str]] = [
        (_named(path, roots), one.format, one.sessions, one.events, "" if dry_run else one.added, "")
        for path, one in result.files.items()
    ]
    rows += [(_named(one.path, roots), one.format, "", "", "", one.reason) for one in loud]
    # Paths fold, and are never cut: what a narrow terminal cuts names no file.
    _table(("file", "format", "#sessions", "#events", "#new", "skipped"), sorted(rows))
    _table(
        ("format", "oddity", "#times"),
        [
            (name, what, times)
            for name, one in sorted(result.sources.items())
            for what, times in one.oddities.most_common()
        ],
    )
    for failed in result.failed:
        say(f"failed {failed['path']} ({failed['session']}): {failed['reason']}")
    if quiet:
        are = "file is no log of its own" if quiet == 1 else "files are no logs of their own"
        say(f"{quiet} {are} (licences, texts, pieces of a session); --json lists them.")
    if not result.sessions:
        say("Nothing was imported.")
    else:
        sent = ", none sent (--dry-run)." if dry_run else "; `promptctx sessions` lists them."
        known = sum(one.duplicates for one in result.sources.values())
        events = sum(one.events for one in result.sources.values())
        there = f", {known} of them there already" if known else ""
        what = (
            f"{_many(result.sessions, 'session')} of {_many(len(result.files), 'file')} with {_many(events, 'event')}"
        )
        say(f"{what}{there}{sent}", *(f"  {one}" for one in result.ids[:NAMED]))
        if len(result.ids) > NAMED:
            say(f"  … and {len(result.ids) - NAMED} more")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        out = console()
        out.print(table(heads, rows))
        out.print()
