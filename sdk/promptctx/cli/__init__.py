"""The command line `promptctx`: a client of the server like any other."""

from promptctx.cli import history, importing, judging, log, memory, prompts, serving, starting, statistics, to_files
from promptctx.cli._app import Cli, app, main

__all__ = [
    "Cli",
    "app",
    "history",
    "importing",
    "judging",
    "log",
    "main",
    "memory",
    "prompts",
    "serving",
    "starting",
    "statistics",
    "to_files",
]
