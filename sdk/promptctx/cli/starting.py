"""`promptctx init`: a commented file of settings to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from promptctx._config import FILE, TEMPLATE
from promptctx._http import DEFAULT_URL
from promptctx.cli._app import Cli, Json, app
from promptctx.cli._screen import say, show_json


@app.command()
def init(
    ctx: typer.Context,
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path(FILE),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write promptctx.toml, with every setting of the client explained. The key stays in PROMPTCTX_API_KEY."""
    cli: Cli = ctx.obj
    url = (cli.url or DEFAULT_URL).replace("\\", "").replace('"', "")
    try:
        with to.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(url=url))
    except FileExistsError:
        raise typer.BadParameter(f"{to} is there already; --force writes over it.", param_hint="--to") from None
    return show_json({"written": str(to)}) if as_json else say(f"Wrote {to}; next: make up, then promptctx sessions.")
