"""`python -m promptctx.cli`, for a checkout where the command is not installed."""

from promptctx.cli import main

main()
