"""Commands about prompts: compile, prompts, show."""

import json
from itertools import islice
from typing import Annotated, Any, Literal

import typer

from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import console, say, show_json, table
from promptctx.cli.log import Limit, SessionId
from promptctx.cli.report import show_prompt
from promptctx.prompt import Format, Job

PromptId = Annotated[str, typer.Argument(metavar="PROMPT", help="Id of the prompt, or SESSION@VERSION.")]


@app.command()
def compile(
    ctx: typer.Context,
    session: SessionId,
    budget: Annotated[int | None, typer.Option(help="Most tokens the prompt may have.")] = None,
    window: Annotated[int | None, typer.Option(help="The model's context window, if there is no budget.")] = None,
    mode: Annotated[str | None, typer.Option(help="chat, tool, rag, react, or one of your own.")] = None,
    model: Annotated[str | None, typer.Option(help="The model whose tokens count.")] = None,
    format: Annotated[Format, typer.Option(help="Format of the prompt.")] = "openai",
    query: Annotated[str | None, typer.Option(help="What to recall memories for.")] = None,
    as_of: Annotated[str | None, typer.Option(help="The moment it is compiled for, as RFC 3339.")] = None,
    preset: Annotated[Literal["classic"] | None, typer.Option(help="A named placement of the slots.")] = None,
    locale: Annotated[Literal["zh", "en"] | None, typer.Option(help="Language of the headings.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Make a new version even if nothing changed.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the prompt, or only ask for it.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 30.0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An override, as slots.recall.top_k=5.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile a prompt for a session and show it."""
    cli: Cli = ctx.obj
    job = cli.client().session(session).compile(
        budget=budget, window=window, mode=mode, model=model, format=format, query=query, as_of=as_of, fresh=fresh,
        preset=preset, locale=locale, overrides=overrides_of(changes or ()) or None, wait=min(timeout, 5.0) * wait,
    )  # fmt: skip
    if not wait:
        return _show_job(job, as_json)
    prompt = job.result(timeout)
    return show_json(prompt) if as_json else show_prompt(console(), prompt)


def _show_job(job: Job, as_json: bool) -> None:
    if as_json:
        show_json({"id": job.id, "session": job.session, "status": job.status, "prompt": job.prompt_id})
    else:
        say(f"job {job.id} is {job.status}")


@app.command()
def prompts(ctx: typer.Context, session: SessionId, limit: Limit = None, as_json: Json = False) -> None:
    """List the prompts of a session, newest first."""
    cli: Cli = ctx.obj
    found = list(islice(cli.client().session(session).prompts(), limit))
    if as_json:
        return show_json({"prompts": found})
    rows = (
        (one.version, one.id, one.mode, one.format, one.model, one.tokens, one.budget, one.created_at) for one in found
    )
    heads = ("#version", "prompt", "mode", "format", "model", "#tokens", "#budget", "made")
    return console().print(table(heads, rows))


@app.command()
def show(
    ctx: typer.Context,
    prompt: PromptId,
    format: Annotated[Format | None, typer.Option(help="Derive it into another format.")] = None,
    as_json: Json = False,
) -> None:
    """Show a prompt, its budget by zone, and what was left out and why."""
    cli: Cli = ctx.obj
    found = cli.client().prompt(prompt, format)
    return show_json(found) if as_json else show_prompt(console(), found)


def overrides_of(changes: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """`slots.recall.top_k=5` as nested objects; a value that is no JSON is a string."""
    made: dict[str, Any] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        steps = key.split(".")
        if not equals or not all(steps):
            raise typer.BadParameter(f"{change!r} is not KEY=VALUE, as in slots.recall.top_k=5.", param_hint="--set")
        place = made
        for step in steps[:-1]:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise typer.BadParameter(f"{key!r} is inside a value that was set already.", param_hint="--set")
        place[steps[-1]] = _value(value)
    return made


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
