"""Commands of the time machine that act: flag, flagged, label, active, rollback, fork, prune, reproduce, restore."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, ranges, say, short, show_json, table
from promptctx.cli.log import SessionId
from promptctx.cli.prompts import PromptId
from promptctx.cli.report import show_prompt
from promptctx.cli.reproducing import write_folder

Note = Annotated[str, typer.Option(help="Why, in a sentence.")]


@app.command()
def flag(
    ctx: typer.Context,
    prompt: PromptId,
    verdict: Annotated[Literal["bad", "good"], typer.Argument(help="What the answer was.")] = "bad",
    note: Note = "",
    as_json: Json = False,
) -> None:
    """Flag the answer that came of a prompt as bad, or good."""
    cli: Cli = ctx.obj
    found = cli.client().prompt(prompt)
    receipt = cli.client().session(found.session).flag(found.id, verdict=verdict, note=note)
    if as_json:
        return show_json({"prompt": found.id, "verdict": verdict, "note": note, "seq": receipt.seq})
    return say(f"flagged {found.session}@{found.version} as {verdict}")


@app.command()
def flagged(
    ctx: typer.Context,
    verdict: Annotated[Literal["bad", "good"], typer.Argument(help="Which ones.")] = "bad",
    session: Annotated[str | None, typer.Option(help="Of this session only.")] = None,
    as_json: Json = False,
) -> None:
    """The work list: prompts whose answers were flagged, the newest first."""
    cli: Cli = ctx.obj
    found = cli.client().flagged(verdict, session=session)
    if as_json:
        return show_json(found)
    rows = ((_named(one), one["verdict"], one["flagged_at"], short(one["note"])) for one in found["flagged"])
    return console().print(table(("prompt", "verdict", "flagged", "note"), rows))


def _named(one: Any) -> str:
    """As it is named elsewhere; one of another server, as an imported log may hold, by its id."""
    return f"{one['session']}@{one['version']}" if one["session"] else str(one["prompt"])


@app.command()
def label(
    ctx: typer.Context,
    session: SessionId,
    version: Annotated[
        int | None, typer.Argument(metavar="VERSION", min=1, help="Which one; without it, list.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="LABEL", help="Such as good; active is what agents get.")
    ] = None,
    note: Note = "",
    as_json: Json = False,
) -> None:
    """Label a version of a session's prompts, or list those that have labels."""
    cli: Cli = ctx.obj
    if version is None:
        return _labels(cli, session, as_json)
    if not name:
        raise typer.BadParameter("Say the label, as in `promptctx label SESSION 12 good`.", param_hint="LABEL")
    prompt = cli.client().prompt(f"{session}@{version}")
    cli.client().session(session).label(name, prompt.id, note=note)
    if as_json:
        return show_json({"prompt": prompt.id, "version": version, "label": name, "note": note})
    return say(f"labelled {session}@{version} {name}")


def _labels(cli: Cli, session: str, as_json: bool) -> None:
    found = cli.client().session(session).labels()
    if as_json:
        return show_json(found)
    rows = (
        (one["version"], one["prompt"], ", ".join(one["labels"]), one["verdict"], short(one["note"]))
        for one in found["marked"]
    )
    return console().print(table(("#version", "prompt", "labels", "flag", "note"), rows))


@app.command()
def active(
    ctx: typer.Context,
    session: SessionId,
    version: Annotated[int | None, typer.Argument(metavar="VERSION", min=1, help="Make this one active.")] = None,
    as_json: Json = False,
) -> None:
    """Show the prompt that agents get, or set which version that is."""
    cli: Cli = ctx.obj
    if version is not None:
        prompt = cli.client().prompt(f"{session}@{version}")
        cli.client().session(session).label("active", prompt.id)
    found = cli.client().session(session).active()
    if as_json:
        return show_json(found)
    if version is not None:
        return say(f"active: {session}@{found.version}")
    return show_prompt(console(), found)


@app.command()
def rollback(
    ctx: typer.Context,
    session: SessionId,
    to_version: Annotated[int | None, typer.Option("--to-version", min=1, help="As it was at this version.")] = None,
    to_seq: Annotated[int | None, typer.Option("--to-seq", min=0, help="As it was at this seq.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, and do nothing.")] = False,
    keep_memory: Annotated[
        bool, typer.Option("--keep-memory", help="Take nothing back of the subject's memory.")
    ] = False,
    loosen: Annotated[bool, typer.Option("--loosen", help="Let rules go, too; needs the scope policy.")] = False,
    reason: Annotated[str, typer.Option(help="Why, in a sentence.")] = "",
    as_json: Json = False,
) -> None:
    """Let what came after a version count no longer. The log keeps it; rolling back the rollback brings it back."""
    cli: Cli = ctx.obj
    if (to_version is None) == (to_seq is None):
        raise typer.BadParameter("Give --to-version or --to-seq.", param_hint="--to-version")
    opened = cli.client().session(session)
    plan = opened.rollback_plan(to_version=to_version, to_seq=to_seq, loosen=loosen)
    done: dict[str, Any] = {"done": False}
    if not dry_run:
        scope: Literal["session", "memory_kept"] = "memory_kept" if keep_memory else "session"
        receipt = opened.rollback(to_version=to_version, to_seq=to_seq, scope=scope, reason=reason, loosen=loosen)
        done = {"done": True, "seq": receipt.seq, "event_id": receipt.event_id}
    if as_json:
        return show_json({**plan, **done})
    return _show_plan(plan, done, keep_memory)


def _show_plan(plan: Any, done: Any, keep_memory: bool) -> None:
    would = "" if done["done"] else "would "
    hidden = len(plan["hides"])
    events = "1 event" if hidden == 1 else f"{hidden} events"
    say(f"{would}go back to seq {plan['to_seq']} from {plan['head']}, hiding {events}")
    for name, title in (("hides", "hides"), ("stays", "keeps"), ("takes_back", "takes back"), ("conflicts", "leaves")):
        if keep_memory and name in ("takes_back", "conflicts"):
            continue
        for one in plan[name]:
            newer = f", newer: seq {one['newer']['seq']}" if "newer" in one else ""
            say(f"  {title} {one['seq']} {one['kind']}: {short(one['text'], 60)}{newer}")
    if plan["returns"]:
        say(f"  brings back seq {ranges(plan['returns'])}")
    if done["done"]:
        say(f"rolled back by the event at seq {done['seq']}; roll back to seq {plan['head']} to undo it")


@app.command()
def fork(
    ctx: typer.Context,
    session: SessionId,
    child: Annotated[str, typer.Argument(metavar="NEW", help="Id of the new session.")],
    at_seq: Annotated[int | None, typer.Option("--at-seq", min=0, help="As it was at this seq; else as it is.")] = None,
    at_version: Annotated[int | None, typer.Option("--at-version", min=1, help="As it was at this version.")] = None,
    as_json: Json = False,
) -> None:
    """A new session that begins as another one was. That one is untouched."""
    cli: Cli = ctx.obj
    if at_version is not None:
        at_seq = int(cli.client().prompt(f"{session}@{at_version}").inputs["session"]["seq"])
    made = cli.client().session(session).fork(child, at_seq=at_seq)
    if as_json:
        return show_json({"session": child, "parent": session, "head": made.seq})
    return say(f"forked {session} into {child}, at seq {made.seq - 1}")


@app.command()
def prune(
    ctx: typer.Context,
    session: SessionId,
    keep_last: Annotated[int, typer.Option(min=0, help="So many of the newest keep their bytes.")] = 100,
    sample: Annotated[int, typer.Option(min=1, help="So many are rebuilt before any goes.")] = 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Prove, count, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Take the bytes of old prompts that are neither labelled nor flagged. Each is rebuilt when it is asked for."""
    cli: Cli = ctx.obj
    found = cli.client().session(session).prune(keep_last=keep_last, sample=sample, dry_run=dry_run)
    if as_json:
        return show_json(found)
    proof = f"{found['proved']} of them were rebuilt to the byte first"
    if dry_run:
        return say(f"would prune {found['pruned']} of {found['versions']} versions; {proof}")
    return say(f"pruned {found['pruned']} of {found['versions']} versions, {found['bytes']} bytes; {proof}")


@app.command()
def reproduce(
    ctx: typer.Context,
    prompt: PromptId,
    to: Annotated[Path | None, typer.Option("--to", help="The folder; else reproduce-SESSION-VERSION.")] = None,
    bundle: Annotated[bool, typer.Option("--bundle", help="With the events, to be imported elsewhere.")] = False,
    as_json: Json = False,
) -> None:
    """Write a folder for a bug report: the request as it was sent, its report, what changed, how to replay it."""
    cli: Cli = ctx.obj
    folder, files = write_folder(cli.client(), prompt, to, bundle=bundle)
    if as_json:
        return show_json({"folder": str(folder), "files": files})
    return say(f"{len(files)} files written to {folder}", *(f"  {name}" for name in files))


@app.command()
def restore(
    ctx: typer.Context,
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", exists=True, dir_okay=False, help="A bundle's file.")],
    as_json: Json = False,
) -> None:
    """Import a bundle that another server made, hash-checked; the same one again changes nothing."""
    cli: Cli = ctx.obj
    found = cli.client().restore(bundle.read_bytes())
    if as_json:
        return show_json(found)
    return say(
        f"session {found['session']}: {found['events']} events in {found['streams']} streams, "
        f"{found['documents']} documents and {found['prompts']} prompts are new here"
    )
