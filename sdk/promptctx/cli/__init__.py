"""The command line `promptctx`: a client of the server like any other."""

from promptctx.cli import dumping, importing, log, prompts, statistics
from promptctx.cli._app import Cli, app, main

__all__ = ["Cli", "app", "dumping", "importing", "log", "main", "prompts", "statistics"]
