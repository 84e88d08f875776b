"""What is of the wrong type is refused by its name in one sentence, before anything is sent; warnings are told."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from promptctx import AsyncClient, Client, InvalidEvent, Session
from promptctx.testing import FakeServer

pytest_plugins = ["api_server"]

WRONG: dict[str, Callable[[Any], Any]] = {
    "content": lambda s: s.user(5),
    "content of bytes": lambda s: s.user(b"x"),
    "content of the assistant": lambda s: s.assistant(object()),
    "values": lambda s: s.environment("x"),
    "secrets": lambda s: s.environment({}, secrets=["x"]),
    "rules": lambda s: s.instructions(rules="be kind"),
    "core_rules": lambda s: s.instructions(core_rules=7),
    "examples": lambda s: s.instructions(examples=[5]),
    "examples of three": lambda s: s.instructions(examples=[("a", "b", "c")]),
    "tool_calls": lambda s: s.assistant("", tool_calls=5),
    "reasoning": lambda s: s.assistant("", reasoning=[5]),
    "usage": lambda s: s.assistant("", usage=[5]),
    "parameters": lambda s: s.tool("t", parameters="x"),
    "required": lambda s: s.tool("t", required="city"),
    "fields": lambda s: s.tool("t", fields=5),
    "steps": lambda s: s.plan("t", 5),
    "steps of numbers": lambda s: s.plan("t", [5]),
    "facts": lambda s: s.observe("x", facts="one"),
    "tags": lambda s: s.remember("x", tags="one"),
    "supersedes": lambda s: s.remember("x", supersedes=5),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_type_is_one_clear_sentence_that_names_it(what: str) -> None:
    server = FakeServer()
    with Client(transport=server) as client, pytest.raises(InvalidEvent) as raised:
        WRONG[what](client.session("s-1"))
    assert what.split()[0].lower() in raised.value.message.lower()
    assert "\n" not in raised.value.message
    assert server.requests == []


MISSPELT: dict[str, Callable[[Any], Any]] = {
    "user() got an unexpected keyword argument 'actr'; did you mean 'actor'?": lambda s: s.user("hello", actr="agent"),
    "user() got an unexpected keyword argument 'expected_sq'; did you mean 'expected_seq'?": (
        lambda s: s.user("hello", expected_sq=99)
    ),
    "constraint() got an unexpected keyword argument 'levl'; did you mean 'level'?": (
        lambda s: s.constraint("a", "x", levl="warn")
    ),
    "tool_result() got an unexpected keyword argument 'documents'; it takes call_id, content, status": (
        lambda s: s.tool_result("q1", documents=["d1"])
    ),
    "remember() got an unexpected keyword argument 'tag'; did you mean 'tags'?": lambda s: s.remember("x", tag=["a"]),
    "start() got an unexpected keyword argument 'modle'; did you mean 'model'?": lambda s: s.start(modle="x"),
    "start_run() got an unexpected keyword argument 'gaol'; did you mean 'goal'?": lambda s: s.start_run(gaol="x"),
    "rollback() got an unexpected keyword argument 'loosn'; did you mean 'loosen'?": (
        lambda s: s.rollback(to_seq=0, loosn=True)
    ),
    "fork() got an unexpected keyword argument 'titel'; did you mean 'title'?": lambda s: s.fork("t", titel="x"),
}


@pytest.mark.parametrize("sentence", MISSPELT)
def test_a_misspelt_keyword_is_a_type_error_that_names_it(sentence: str) -> None:
    server = FakeServer()
    with Client(transport=server) as client, pytest.raises(TypeError) as raised:
        MISSPELT[sentence](client.session("s-1"))
    assert str(raised.value).startswith(sentence)
    assert server.requests == []


async def _misspelt(act: Callable[[Any], Any]) -> None:
    async with AsyncClient(transport=FakeServer()) as client:
        await act(client.session("s-1"))


@pytest.mark.parametrize("sentence", MISSPELT)
def test_so_it_is_in_the_asynchronous_twin(sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        asyncio.run(_misspelt(MISSPELT[sentence]))
    assert str(raised.value).startswith(sentence)


def test_a_misspelt_option_of_a_session_is_refused_where_it_is_opened() -> None:
    wrong: Any = {"modle": "gpt-4o"}
    for client in (Client(transport=FakeServer()), AsyncClient(transport=FakeServer())):
        with pytest.raises(TypeError, match="session\\(\\) got an unexpected keyword argument 'modle'"):
            client.session("s-1", **wrong)


def test_a_run_is_not_begun_by_a_call_that_is_refused() -> None:
    session: Any = Client(transport=FakeServer()).session("s-1")
    with pytest.raises(TypeError):
        session.start_run(run="r")
    assert session.run_id is None


def test_iterables_of_every_kind_are_lists() -> None:
    server = FakeServer()
    with Client(transport=server) as client:
        session: Session = client.session("s-1")
        session.instructions(rules=("a", "b"))
        session.observe("x", facts={"f": 1}.keys())  # type: ignore[arg-type]
        session.tool("t", required=(name for name in ["city"]))  # type: ignore[arg-type]
    kept = [one["payload"] for one in server.events("s-1")]
    assert [one["text"] for one in kept[0]["rules"]] == ["a", "b"]
    assert (kept[1]["facts"], kept[2]["required"]) == (["f"], ["city"])


def test_a_mode_that_nobody_knows_is_told_by_the_client(http: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    with Client(str(http.base_url)) as client:
        session = client.session("s-1")
        session.user("hello")
        with caplog.at_level(logging.WARNING, logger="promptctx"):
            prompt = session.compile(mode="chatt").result(timeout=30)
    assert [warning for warning in prompt.warnings if "unknown mode 'chatt'" in warning]
    assert [line for line in caplog.messages if "unknown mode 'chatt'" in line]
    assert json.loads(http.get(f"/v1/prompts/{prompt.id}/report").content)["warnings"] == list(prompt.warnings)


def test_a_model_that_nobody_knows_is_told_at_every_prompt_and_logged_once(
    http: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "no tokenizer is known for model 'llama-9000': its tokens were taken as those of o200k_base times 1.15"
    with Client(str(http.base_url)) as client, caplog.at_level(logging.WARNING, logger="promptctx"):
        session = client.session("s-1")
        for text in ("hello", "again"):
            session.user(text)
            prompt = session.compile(model="llama-9000").result(timeout=30)
            assert prompt.warnings == (sentence,)
            assert prompt.replay().identical
        assert session.compile(model="gpt-4o").result(timeout=30).warnings == ()
        assert session.compile(model="claude-sonnet-4-5").result(timeout=30).warnings == ()
    assert [line for line in caplog.messages if sentence in line] == [f"prompt 1 of s-1: {sentence}"]
