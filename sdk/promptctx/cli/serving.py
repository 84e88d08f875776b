"""`promptctx mcp`: the tools of promptctx for a model, on standard input and output."""

import typer

from promptctx.cli._app import Cli, app
from promptctx.errors import InvalidRequest


@app.command()
def mcp(ctx: typer.Context) -> None:
    """Serve MCP on stdin and stdout, for an agent's host to start; each call goes on to the server.

    \b
    Tools: expand_reference, recall, remember, record_event, compile_prompt, why.
    Resources: promptctx://sessions, promptctx://sessions/{session}, promptctx://prompts/{prompt}.

    A server has the same tools at /mcp over streamable HTTP.
    """
    try:
        from promptctx import mcp as tools
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
            raise
        raise InvalidRequest("MCP needs an extra that is not installed: pip install 'promptctx[mcp]'.") from None
    cli: Cli = ctx.obj
    cli.client()  # a wrong address is told before anything is served
    tools.over_http(cli.url).run("stdio")
