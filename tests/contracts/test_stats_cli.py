"""The command stats and the client's call, against the server in the process."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from promptctx import AsyncClient, Client, UnknownSession
from promptctx.cli import Cli, app
from promptctx.cli.statistics import sparkline
from promptctx.testing import FakeServer

Json = dict[str, Any]
Run = Callable[..., Result]

SPREAD: Json = {
    "count": 40, "tokens": 4000, "mean": 100.0, "median": 64, "p95": 900, "peak": 1200, "long_tail": 0.55,
    "histogram": [{"to": 64, "count": 38}, {"to": 128, "count": 0}, {"to": 256, "count": 1}, {"to": 2048, "count": 1}],
}  # fmt: skip
STATS: Json = {
    "session": None, "encodings": ["o200k_base"], "sessions": 3, "skipped": 1, "messages": 1234,
    "roles": {"user": SPREAD, "assistant": SPREAD, "tool": SPREAD},
    "tools": [{"tool": name, **SPREAD} for name in ("\x1b[31mred", None, *(f"t{number}" for number in range(20)))],
    "slots": {"recall": {"budget": 250, "wanted": SPREAD, "used": SPREAD, "items": SPREAD, "over": 7}},
    "prompts": {**SPREAD, "stored": 90, "fill": 0.8, "trimmed": 0.25, "pairs": 39, "prefix_reuse": 0.9},
    "zones": {"window": {**SPREAD, "share": 0.75, "over": 11}, "slots": {**SPREAD, "share": 0.25, "over": 0}},
    "outputs": SPREAD,
    "recommended": {"reserve_ratio": 0.31, "slots": {"recall": 900}, "low_water": None},
    "model_calls": {"calls": 7, "tokens_in": 21_500, "tokens_out": 900, "failed": {"status 503": 2}},
}  # fmt: skip


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def run(server: FakeServer) -> Run:
    def _run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), obj=Cli(transport=server), env={"COLUMNS": "120"})

    assert _run("emit", "s-1", "user.input", '{"content": "What is the weather?"}').exit_code == 0
    return _run


def test_a_session_or_all_are_asked_for(run: Run) -> None:
    assert json.loads(run("stats", "s-1", "--json").stdout)["roles"]["user"]["count"] == 1
    assert json.loads(run("stats", "--all", "--json").stdout)["sessions"] == 1
    for wrong in ([], ["s-1", "--all"]):
        said = run("stats", *wrong)
        assert (said.exit_code, said.stdout) == (2, "")
        assert "Name a session, or give --all." in said.stderr


def test_a_session_that_is_not_there_is_one_line(run: Run) -> None:
    said = run("stats", "nobody")
    assert said.exit_code == 1
    assert said.stderr == "promptctx: There is no session 'nobody'. [unknown_session]\n"


def test_the_page_shows_sizes_shortage_and_settings(run: Run, server: FakeServer) -> None:
    server.faults = [httpx2.Response(200, json=STATS)]
    said = run("stats", "--all")
    assert said.exit_code == 0, said.stderr
    rows = [line.split() for line in said.stdout.splitlines()]
    assert "3 sessions · 1 skipped · 1,234 messages · tokens of o200k_base" in said.stdout
    spread = ["40", "4,000", "100", "64", "900", "1,200", "55%"]
    assert ["user", *spread] in [row[:8] for row in rows]
    assert "40 prompts looked at, of 90 · 80% full · 25% trimmed · 90% the same prefix as before" in said.stdout
    assert ["window", "75%", "█" * 30, "900", "1,200", "11"] in rows
    assert ["recall", "250", "900", "1,200", "7"] in [row[:5] for row in rows]
    assert ["slots.recall.token_budget", "900"] in rows
    assert ["low_water", "too", "little", "seen"] in rows
    assert "models were asked 7 times · 2 in vain · 21,500 tokens in, 900 out" in said.stdout
    assert "… and 10 more tools" in said.stdout
    assert "\x1b" not in said.stdout


def test_json_is_what_the_server_said(run: Run, server: FakeServer) -> None:
    server.faults = [httpx2.Response(200, json=STATS)]
    assert json.loads(run("stats", "--all", "--json").stdout) == STATS


def test_another_release_may_say_less_or_more(run: Run, server: FakeServer) -> None:
    server.faults = [httpx2.Response(200, json={"new": 1, "prompts": {"count": 3}, "zones": {"window": {}}})]
    assert run("stats", "--all").exit_code == 0


def test_a_sparkline_shows_whatever_is_there() -> None:
    assert sparkline(SPREAD["histogram"]) == "█ ▁▁ ≤64…2048"
    assert sparkline(SPREAD["histogram"], blocks=False) == "# .. <=2048"
    assert sparkline([]) == sparkline([{"to": 1, "count": 9}]) == ""


def test_both_clients_ask_the_same(server: FakeServer) -> None:
    client = Client(transport=server)
    client.session("s-1").user("hello")
    one, every = client.stats("s-1"), client.stats()
    assert (one.session, every.session, every.sessions) == ("s-1", None, 1)
    assert one.roles == every.roles

    async def ask() -> object:
        async with AsyncClient(transport=server) as other:
            return await other.stats("s-1")

    assert asyncio.run(ask()) == one
    with pytest.raises(UnknownSession):
        client.stats("nobody")
