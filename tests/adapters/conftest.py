"""The adapters beside the real packages, in an environment of their own: the server and a scripted model are processes
and threads beside them."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "tests/acceptance", "examples")]

# LiteLLM would fetch a list of prices, the Agents SDK send traces.
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_AGENTS_DISABLE_TRACING": "1"}

from model_server import ModelServer, Said, model_server  # noqa: E402
from server_process import running  # noqa: E402

from promptctx import AsyncClient, AsyncSession, Client, Session  # noqa: E402

Json = dict[str, Any]

RULE = "Never book without asking first."
BUDGET = 1500


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the application's own environment."""
    with running(tmp_path_factory.mktemp("server"), python=str(ROOT / ".venv/bin/python")) as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened


@pytest.fixture
def session(client: Client, request: pytest.FixtureRequest) -> Session:
    """A session with one rule that must be in every prompt."""
    made = client.session(request.node.name, locale="en")
    made.constraint("ask-first", RULE, level="block")
    return made


@pytest.fixture
def async_session(session: Session, url: str) -> AsyncSession:
    return AsyncClient(url).session(session.id)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """Says how many messages it was asked with, until a test tells it otherwise."""
    with model_server(lambda asked: Said(f"answer {len(asked['messages'])}")) as server:
        yield server


@pytest.fixture
def fits() -> Callable[..., None]:
    """What every adapter must hold: rule and newest question are in what the model got, and not all of the rest."""

    def check(asked: Json, question: str, first: str) -> None:
        said = str(asked["messages"])
        assert RULE in said
        assert question in said
        assert first not in said

    return check


def long_talk(turns: int) -> list[Json]:
    """A history that does not fit."""
    found: list[Json] = []
    for number in range(turns):
        found.append({"role": "user", "content": f"Question {number}. " + "It is about the trip and the hotel. " * 12})
        found.append({"role": "assistant", "content": f"Reply {number}. " + "The hotel is near the station. " * 12})
    return found


FIRST = long_talk(1)[0]["content"].strip()
"""What is said first, whole: a summary may tell the beginning of it."""
