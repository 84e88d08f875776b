"""The client raises what the server says, under the same names."""

import subprocess
import sys
from typing import Any

import pytest

from domain import errors as server
from promptctx import errors as client

CLIENT_ONLY = {"ServerUnavailable"}


def tree(base: Any) -> dict[str, Any]:
    return {kind.__name__: kind for kind in base.__subclasses__()}


def test_both_sides_name_the_same_errors() -> None:
    ours, theirs = tree(client.PromptctxError), tree(server.PromptctxError)
    assert set(ours) - CLIENT_ONLY == set(theirs)
    for name, kind in theirs.items():
        assert (ours[name].code, ours[name].status) == (kind.code, kind.status)


def test_the_drawn_tree_lists_every_error() -> None:
    assert client.__doc__ is not None
    drawn = {line.split()[1] for line in client.__doc__.splitlines() if "──" in line}
    assert drawn == set(tree(client.PromptctxError))


def test_every_error_is_public() -> None:
    import promptctx

    assert set(tree(client.PromptctxError)) <= set(promptctx.__all__)


@pytest.mark.parametrize("kind", client.PromptctxError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_a_problem_becomes_the_error_its_code_names(kind: type[client.PromptctxError]) -> None:
    problem = {"title": "x", "detail": "What to do.", "code": kind.code, "details": {"head": 7}, "status": kind.status}
    error = client.from_problem(kind.status, problem)
    assert type(error) is kind
    assert (str(error), error.details["head"], error.status) == ("What to do.", 7, kind.status)


def test_a_code_of_a_newer_server_keeps_its_code() -> None:
    error = client.from_problem(418, {"detail": "Short and stout.", "code": "teapot"})
    assert type(error) is client.PromptctxError
    assert (error.code, error.status, str(error)) == ("teapot", 418, "Short and stout.")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, client.Unauthorized),
        (429, client.TooManyRequests),
        (413, client.PayloadTooLarge),
        (422, client.InvalidRequest),
        (502, client.ServerUnavailable),
    ],
)
def test_an_answer_that_is_no_problem_is_told_by_its_status(status: int, kind: type[client.PromptctxError]) -> None:
    bodies: list[Any] = [None, "<html>", ["x"], {}]
    for body in bodies:
        error = client.from_problem(status, body)
        assert type(error) is kind
        assert "PROMPTCTX_URL" in str(error)
    assert "missing" in str(client.from_problem(422, {"detail": [{"msg": "missing"}]}))


def test_who_set_up_no_logging_reads_one_sentence_when_no_server_answers() -> None:
    code = """
import sys
sys.modules["structlog"] = None  # as where only the client is installed
from promptctx import Client, ServerUnavailable
try:
    Client("http://127.0.0.1:9", retries=1).session("s").user("hello")
except ServerUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert "start one with `make up`" in done.stdout
