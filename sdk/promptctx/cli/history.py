"""Commands of the time machine that explain: replay, diff, blame, why, bisect, provenance, anchors."""

import json
import tomllib
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, safe, say, short, show_json
from promptctx.cli.differences import cause_line, show_diff
from promptctx.cli.log import SessionId
from promptctx.cli.prompts import PromptId, overrides_of
from promptctx.values import Replay

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A what-if, as budget=4000, mode=react, slots.recall.top_k=5."),
]
Schema = Annotated[
    Path | None, typer.Option(help="A what-if with the modes of this TOML file.", exists=True, dir_okay=False)
]
Brief = Annotated[bool, typer.Option("--brief", help="What changed and why, without the lines.")]
AsUnified = Annotated[bool, typer.Option("--unified", help="As a unified diff, for programs and patches.")]


@app.command()
def replay(
    ctx: typer.Context,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Id of the prompt, or SESSION@VERSION.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="All prompts of this session.")] = None,
    first: Annotated[int, typer.Option("--from", min=1, help="With --session: the first version.")] = 1,
    last: Annotated[int | None, typer.Option("--to", min=1, help="With --session: the last version.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All prompts of all sessions.")] = False,
    changes: Set = None,
    schema: Schema = None,
    brief: Brief = False,
    as_json: Json = False,
) -> None:
    """Compile again from the log and compare the bytes, or what they would be; exit 1 if a replay differs."""
    cli: Cli = ctx.obj
    if sum((prompt is not None, session is not None, everything)) != 1:
        raise typer.BadParameter("Name a prompt, or give --session or --all.", param_hint="PROMPT")
    if prompt is not None and (changes or schema):
        return _what_if(cli, prompt, changes or [], schema, brief, as_json)
    if changes or schema:
        raise typer.BadParameter("A what-if is of one prompt: name it.", param_hint="--set")
    if prompt is not None:
        return _replay_one(cli.client().prompt(prompt).replay(), as_json)
    return _replay_many(cli, session, first, last, as_json)


def _replay_one(result: Replay, as_json: bool) -> None:
    if as_json:
        show_json(result)
    elif result.identical:
        say(f"identical: sha256 {result.content_hash}")
        say(*(f"since then {one['what']}: {one['then']} → {one['now']}" for one in result.changed_since))
    else:
        difference = json.dumps(result.first_difference, ensure_ascii=False, indent=2)
        say(f"different: {result.content_hash} is now {result.replayed_hash}", f"cause: {result.cause}", difference)
        show_diff(console(), {"changes": result.changes})
    if not result.identical:
        raise typer.Exit(1)


def _replay_many(cli: Cli, session: str | None, first: int, last: int | None, as_json: bool) -> None:
    found: list[Replay] = []
    for one in cli.client().replays(session, first=first, last=last):
        found.append(one)
        if not as_json and one.verdict != "identical":
            say(f"{one.session}@{one.version} {one.verdict}: {one.cause}")
    counts = {name: sum(one.verdict == name for one in found) for name in ("identical", "different", "redacted")}
    if as_json:
        show_json({**counts, "verdicts": found})
    else:
        say(f"{len(found)} prompts: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    if counts["different"]:
        raise typer.Exit(1)


def _what_if(cli: Cli, prompt: str, changes: list[str], schema: Path | None, brief: bool, as_json: bool) -> None:
    found = cli.client().prompt(prompt).what_if(settings_of(changes), schema=schema_of(schema))
    if as_json:
        return show_json(found)
    would, told = found["would"], found["diff"]
    was = told["before"]
    say(f"would have {would['tokens']} of {would['budget']} tokens, had {was['tokens']} of {was['budget']}")
    return show_diff(console(), told, brief=brief)


def settings_of(changes: list[str]) -> dict[str, Any]:
    """`budget=4000` as one flat object: a what-if names its fields by dots."""
    made: dict[str, Any] = {}
    for change in changes:
        for key, value in overrides_of([change]).items():
            path = [key]
            while isinstance(value, dict) and len(value) == 1 and "." in change.partition("=")[0]:
                (step, value), *_ = value.items()
                path.append(step)
            made[".".join(path)] = value
    return made


def schema_of(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is no TOML: {error}", param_hint="--schema") from None
    # As the tables stand in promptctx.toml, or without what stands around them there.
    modes = found.get("modes")
    return modes if isinstance(modes, dict) and "slots" not in modes else found


@app.command()
def diff(
    ctx: typer.Context,
    before: Annotated[str, typer.Argument(metavar="A", help="Id of a prompt, or SESSION@VERSION.")],
    after: Annotated[str | None, typer.Argument(metavar="B", help="The other one; A itself with --set.")] = None,
    changes: Set = None,
    schema: Schema = None,
    unified: AsUnified = False,
    brief: Brief = False,
    as_json: Json = False,
) -> None:
    """What came, went, moved and changed between two prompts, and what caused each change."""
    cli: Cli = ctx.obj
    if after is None and not changes and not schema:
        raise typer.BadParameter("Name the other prompt, or say with --set what would be different.", param_hint="B")
    found = cli.client().diff(before, after, changes=settings_of(changes or []), schema=schema_of(schema))
    return show_json(found) if as_json else show_diff(console(), found, unified=unified, brief=brief)


@app.command()
def blame(
    ctx: typer.Context,
    prompt: PromptId,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Only lines that hold this.")] = None,
    as_json: Json = False,
) -> None:
    """Each line of a prompt with the event that made it."""
    cli: Cli = ctx.obj
    found = cli.client().prompt(prompt).blame(text)
    if as_json:
        return show_json(found)
    out, rows = console(), found["lines"]
    width = max((len(row["by"]) for row in rows), default=0)
    for row in rows:
        out.print(
            Text(f"{row['line']:>5} ", style="bright_black"),
            Text(safe(row["by"], one_line=True).ljust(width), style="cyan"),
            Text(f" {row['zone']:<15} ", style="bright_black"),
            Text(safe(row["text"], one_line=True)),
            sep="",
            soft_wrap=True,
        )
    return None


@app.command()
def why(
    ctx: typer.Context,
    prompt: PromptId,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Its id, its seq in the session, or as subject:12.")],
    verify: Annotated[bool, typer.Option("--verify", help="Try what would have kept it.")] = False,
    as_json: Json = False,
) -> None:
    """Where an event went in a prompt, the rule that decided it, and what would have kept it."""
    cli: Cli = ctx.obj
    found = cli.client().prompt(prompt).why(event, verify=verify)
    if as_json:
        return show_json(found)
    told = found["event"]
    say(f"{told['kind']} at seq {told['seq']} of the {told['stream']}: {found['disposition']}", found["sentence"])
    say(
        *(
            f"  stands in {one['zone']}, {one['segment']}, lines {one['lines'][0]} to {one['lines'][1]}"
            for one in found["where"]
        )
    )
    say(*(f"  {name}: {value}" for name, value in found["numbers"].items()))
    if earlier := found.get("decided_by"):
        say(f"  decided in version {earlier['version']}: {earlier['disposition']}")
    say(*(f"  remembered by {one['act']}: {one['sentence']}" for one in found.get("decisions") or ()))
    say(*(f"would have kept it: --set {key}={json.dumps(value)}" for key, value in found["kept_by"].items()))
    if tried := found.get("verified"):
        say(*(f"tried: --set {key}={json.dumps(value)} keeps it" for key, value in tried["set"].items()))
    elif verify and found["kept_by"]:
        say("tried: nothing that was tried keeps it")
    return None


@app.command()
def bisect(
    ctx: typer.Context,
    session: SessionId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for in the prompts.")],
    as_json: Json = False,
) -> None:
    """The first version in which a text appeared, the first in which it vanished, and what did it."""
    cli: Cli = ctx.obj
    found = cli.client().session(session).bisect(text)
    if as_json:
        return show_json(found)
    for name in ("appeared", "vanished"):
        one = found[name]
        say(f"{name} in version {one['version']}: {cause_line(one['cause'])}" if one else f"never {name}")
    if len(found["turns"]) > 2:
        say("in all: " + ", ".join(f"{one['change']} in {one['version']}" for one in found["turns"]))
    return None


@app.command()
def provenance(
    ctx: typer.Context,
    prompt: PromptId,
    line: Annotated[int | None, typer.Option(min=1, help="Only the line of this number, as blame counts.")] = None,
    as_json: Json = False,
) -> None:
    """The summaries of a prompt, line by line, down to the originals."""
    cli: Cli = ctx.obj
    found = cli.client().prompt(prompt).originals(line)
    if as_json:
        return show_json(found)
    for row in found["summaries"]:
        say(f"{row['line']:>5} {safe(row['text'], one_line=True)}")
        for event in row["originals"]:
            text = "(erased)" if event.get("redacted") else short(event.get("text", ""), 120)
            say(f"      ← {event['seq']} {event['kind']}: {text}")
    if not found["summaries"]:
        say("no summary in this prompt")
    return None


@app.command()
def anchors(ctx: typer.Context, session: SessionId, as_json: Json = False) -> None:
    """Every version of the instruction of a session, with what it changed."""
    cli: Cli = ctx.obj
    found = cli.client().session(session).anchors()
    if as_json:
        return show_json(found)
    for row in islice(found["anchors"], None):
        version = f"version {row['version']}" if row["version"] else "no version"
        say(Text(f"{version}, seq {row['seq']}, {row['recorded_at']}, {row['state']}", style="bold"))
        for line in row["diff"]:
            style = {"+": "green", "-": "red", "@": "bright_black"}.get(line[:1], "")
            console().print(Text(safe(line, one_line=True), style=style), soft_wrap=True)
    return None
