"""docs/client.md runs, and docs/cli.md says what the command line says."""

import re
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

import promptctx
from promptctx.cli import app
from promptctx.testing import FakeServer

DOCS = Path(__file__).parents[2] / "docs"


def test_every_example_of_the_client_runs_in_order() -> None:
    page = (DOCS / "client.md").read_text(encoding="utf-8")
    server = FakeServer()
    names: dict[str, object] = {"fake": server}
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(compile(block.replace("Client()", "Client(transport=fake)"), "docs/client.md", "exec"), names)
    assert len(blocks) >= 7
    assert set(server.started) == {"s-1", "s-2"}


def test_every_verb_is_named_in_the_table() -> None:
    page = (DOCS / "client.md").read_text(encoding="utf-8")
    table = page.partition("## Verbs")[2].partition("\n\nEvery verb")[0]
    verbs = {name for name in dir(promptctx.Session) if not name.startswith("_")} - {"id", "seq", "run_id", "prompt_id"}
    assert verbs - {"batch"} <= set(re.findall(r"`(\w+)`", table))


def test_the_help_in_the_docs_is_what_the_command_says() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\$ promptctx ?(\w*) ?--help\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    command = get_command(app)
    names = ["", *getattr(command, "commands", {})]
    assert list(shown) == names
    for name in names:
        said = CliRunner().invoke(app, [*name.split(), "--help"]).stdout
        assert shown[name].rstrip() == said.rstrip(), (
            f"run `cog -r docs/cli.md`: the help of {name or 'promptctx'} changed"
        )
