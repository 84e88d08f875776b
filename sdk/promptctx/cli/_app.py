"""The frame of the command line: global options, one client per run, errors as one line and an exit code."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import httpx2
import stamina.instrumentation
import typer
from typer.core import TyperGroup

from promptctx import Client, errors
from promptctx.cli import _screen

_QUIET = logging.NullHandler()

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@dataclass
class Cli:
    """What a run of the command line works with; tests bring their own transport and their own sleep."""

    url: str | None = None
    debug: bool = False
    transport: httpx2.BaseTransport | None = None
    sleep: Callable[[float], object] = time.sleep
    opened: Client | None = None

    def client(self) -> Client:
        if self.opened is None:
            try:
                self.opened = Client(self.url, transport=self.transport)
            except errors.InvalidRequest as error:
                raise typer.BadParameter(error.message) from None
        return self.opened

    def close(self) -> None:
        if self.opened is not None:
            self.opened.close()


class OneLineGroup(TyperGroup):
    """Ends every failure with one line on stderr: 2 for wrong usage, 1 for everything else."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        _screen.prepare_streams()
        stamina.instrumentation.set_on_retry_hooks([])  # its log lines would stand between ours
        logging.getLogger("promptctx").addHandler(_QUIET)  # commands show warnings themselves
        cli = extra["obj"] = extra.get("obj") or Cli()
        try:
            code = super().main(args, "promptctx", complete_var, False, windows_expand_args, **extra)
        except (Exception, typer.Abort) as error:
            if cli.debug:
                raise
            code = _failed(error)
        finally:
            cli.close()
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _failed(error: BaseException) -> int:
    if isinstance(error, errors.PromptctxError):
        _screen.complain(f"{error.message} [{error.code}]")
        return 1
    if isinstance(error, typer.TyperException):
        usage = error.exit_code == 2
        if usage and type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(error.format_message() + "\n")
        else:
            _screen.complain(error.format_message() + (" Try --help." if usage else ""))
        return error.exit_code
    if isinstance(error, typer.Abort):
        _screen.complain("aborted")
        return 1
    if isinstance(error, OSError):
        _screen.complain(error)
        return 1
    _screen.complain(f"{type(error).__name__}: {error} (an error of promptctx itself: --debug shows where)")
    return 1


app = typer.Typer(
    name="promptctx",
    cls=OneLineGroup,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"promptctx {version('promptctx')}")
        except PackageNotFoundError:
            typer.echo("promptctx (not installed)")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str | None, typer.Option(help="Address of the server.", envvar="PROMPTCTX_URL", show_envvar=True)
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Events in, prompts out: the command line of promptctx.

    \b
    Begin:      promptctx init; promptctx import path/to/logs; promptctx sessions
    Look:       promptctx events SESSION; promptctx compile SESSION --budget 8000
    Understand: promptctx diff S@18 S@19; promptctx why S@19 33; promptctx blame S@19 TEXT
    Undo:       promptctx rollback SESSION --to-version 18 --dry-run
    Elsewhere:  promptctx export SESSION --to openai; promptctx mcp

    The server is at --url, else PROMPTCTX_URL, else as promptctx.toml says, else on this machine; the key is in
    PROMPTCTX_API_KEY. Every command has --json. A failure is one line on stderr and exit code 1; wrong usage is 2.
    """
    cli: Cli = ctx.obj
    cli.url = url or cli.url
    cli.debug = debug


def main() -> None:
    app()
