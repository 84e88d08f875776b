"""The synchronous and the asynchronous client are one API: the same names, the same parameters."""

import inspect

import pytest

import promptctx
from promptctx import AsyncBatch, AsyncClient, AsyncJob, AsyncPrompt, AsyncSession, Batch, Client, Job, Prompt, Session

TWINS = [(Client, AsyncClient), (Session, AsyncSession), (Batch, AsyncBatch), (Job, AsyncJob), (Prompt, AsyncPrompt)]
LISTS = {"sessions", "events", "prompts", "replays"}
OFFLINE = {"session", "batch", "openai", "anthropic"}


def public(kind: type) -> dict[str, object]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def parameters(member: object) -> list[tuple[str, object, object]]:
    assert callable(member)
    found = inspect.signature(member).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


@pytest.mark.parametrize(("sync", "twin"), TWINS, ids=lambda kind: kind.__name__)
def test_twins_have_the_same_names_and_parameters(sync: type, twin: type) -> None:
    ours, theirs = public(sync), public(twin)
    assert set(ours) == set(theirs)
    for name, member in ours.items():
        if isinstance(member, property) or not callable(member):
            assert type(member) is type(theirs[name]), name
        else:
            assert parameters(member) == parameters(theirs[name]), name


def test_twins_are_built_alike() -> None:
    def names(kind: type) -> list[str]:
        return [name for name, *_ in parameters(kind)]

    assert names(Client) == names(AsyncClient)


@pytest.mark.parametrize(("sync", "twin"), TWINS, ids=lambda kind: kind.__name__)
def test_what_talks_to_the_server_is_awaited_in_the_twin(sync: type, twin: type) -> None:
    own = {name: member for name, member in vars(twin).items() if inspect.isfunction(member) and name[0] != "_"}
    for name, member in own.items():
        if name in LISTS:
            assert "AsyncIterator" in str(inspect.signature(member).return_annotation), name
        else:
            assert inspect.iscoroutinefunction(member) == (name not in OFFLINE), name


def test_what_is_public_exists() -> None:
    assert sorted(promptctx.__all__) == sorted(set(promptctx.__all__))
    for name in promptctx.__all__:
        assert hasattr(promptctx, name)
