"""The commands dump and export: prompts as JSON files in a folder, a session's log for other programs."""

import json
import os
import re
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from promptctx import PromptInfo, errors, exporters
from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import plain, say, show_json
from promptctx.cli.log import SessionId
from promptctx.session import Stream

INDEX = "index.json"
_LONGEST = 120
# A name that begins with a dot is hidden, and `.` and `..` are other folders.
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]|^\.")
_LONE = re.compile("[\ud800-\udfff]")


@app.command()
def dump(
    ctx: typer.Context,
    session: SessionId,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to.", show_default="dumps/ and the session's id")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write every prompt of a session into a folder, one JSON file each. Run again it adds what is new."""
    cli: Cli = ctx.obj
    client = cli.client()
    folder = to or Path("dumps") / safe_name(session)
    there = _index_in(folder, session)
    prompts = sorted(client.session(session).prompts(), key=lambda one: one.version)
    folder.mkdir(parents=True, exist_ok=True)
    written, rows = 0, []
    for one in prompts:
        file = folder / f"v{one.version:04}.json"
        erased = one.redacted
        if not erased and not (there.get(one.version) == one.id and file.is_file()):
            try:
                _write(file, client.dump(one.id))
                written += 1
            except errors.SnapshotRedacted:
                erased = True
        if erased:
            file.unlink(missing_ok=True)
        rows.append(_row(one, None if erased else file.name))
    _write(folder / INDEX, {"session": session, "prompts": rows})
    told = {"folder": str(folder), "prompts": len(rows), "written": written}
    if as_json:
        return show_json(told)
    return say(f"{written} of {len(rows)} prompts written to {folder}")


@app.command()
def export(
    ctx: typer.Context,
    session: SessionId,
    to: Annotated[
        Literal["openai", "events"], typer.Option(help="As what: chat messages, or lines of events.")
    ] = "events",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to.", show_default="stdout")
    ] = None,
    stream: Annotated[Stream, typer.Option(help="Which stream of the session.")] = "session",
    as_json: Json = False,
) -> None:
    """Write a session's history for other programs: OpenAI's chat messages, or JSON lines that import reads again.

    It is the whole log, untrimmed; secrets are masked. For a prompt that fits, use compile. With --json and events
    the lines are one document.
    """
    cli: Cli = ctx.obj
    events = cli.client().session(session).events(stream=stream)
    if to == "openai":
        text = json.dumps(exporters.chat_messages(events), ensure_ascii=True, indent=2) + "\n"
    else:
        lines = list(exporters.event_lines(session, events))
        text = (
            json.dumps({"events": [json.loads(line) for line in lines]}, indent=2) + "\n" if as_json else "".join(lines)
        )
    if output is None:
        sys.stdout.write(text)
        return None
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, text)
    return show_json({"written": str(output), "to": to}) if as_json else say(f"wrote {output}")


def safe_name(name: str) -> str:
    """A name as one that no file system takes for anything else: percent-encoded, and cut with a hash if it is long."""
    raw = name.encode("utf-8", "surrogatepass")
    encoded = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
    return encoded if len(encoded) <= _LONGEST else f"{encoded[:_LONGEST]}~{sha256(raw).hexdigest()[:16]}"


def _row(one: PromptInfo, file: str | None) -> dict[str, Any]:
    return {**plain(one), "redacted": file is None, "file": file}


def _index_in(folder: Path, session: str) -> dict[int, str]:
    """Which prompts the folder holds, by version. A folder of another session is left alone."""
    try:
        found = json.loads((folder / INDEX).read_bytes())
        owner, there = found["session"], {row["version"]: row["id"] for row in found["prompts"] if row["file"]}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError):
        raise typer.BadParameter(f"{folder / INDEX} is not the index of a dump.", param_hint="--to") from None
    if owner != session:
        raise typer.BadParameter(f"{folder} holds the prompts of session {owner!r}.", param_hint="--to")
    return there


def _write(path: Path, value: Any) -> None:
    """The file is there whole or not at all. Only lone surrogates, which no file can hold, are escapes."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    handle, made = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode())
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
