"""The Python client: classes, verbs, values, errors, importers, exporters, adapters."""

import sys
from collections.abc import Iterable, Iterator

import promptctx
from promptctx import errors
from promptctx._track import EventOptions, SessionOptions
from promptctx.adapters._mirror import Compile
from promptctx.importers import ImportedSession, Skipped
from promptctx.outbox import OutboxSession
from promptctx.testing import FakeServer
from promptctx.verbs import Verbs
from tools.reference import source
from tools.reference.markdown import block, table
from tools.reference.source import Member

TWINS = """\
`AsyncClient`, `AsyncSession`, `AsyncBatch`, `AsyncJob` and `AsyncPrompt` have the names and parameters of `Client`,
`Session`, `Batch`, `Job` and `Prompt`. There what talks to the server is awaited, `sessions`, `events`, `prompts` and
`replays` are asynchronous iterators, and a prompt of another format is had by `await prompt.derive(format)`.
"""
VERBS = """\
Each appends one event. A `Session` returns its `Receipt`, an `AsyncSession` one to be awaited, a `Batch` and an
`OutboxSession` the event's id. `options` are those of every event ([EventOptions](#eventoptions)).
"""
VALUES = (
    promptctx.Receipt, promptctx.EventRecord, promptctx.SessionInfo, promptctx.PromptInfo, promptctx.State,
    promptctx.Stats, promptctx.Replay, promptctx.Document,
)  # fmt: skip
ALIASES = ("promptctx._messages", "promptctx.prompt", "promptctx.session", "promptctx.verbs", "promptctx._memory")
ADAPTERS = ("openai", "anthropic", "openai_agents", "langgraph", "langchain", "pydantic_ai", "litellm", "plain")


def client() -> Iterator[str]:
    verbs = {member.name for member in source.methods(Verbs)}
    yield f"## Python client\n\n    pip install promptctx\n\n{TWINS}"
    yield from of_class(promptctx.Client)
    yield from of_class(promptctx.Session, without=verbs, made=False)
    yield from fields_of(SessionOptions)
    yield f"### Verbs\n\n{VERBS}"
    yield from map(shown, source.methods(Verbs))
    yield from fields_of(EventOptions)
    yield from of_class(promptctx.Batch, without=verbs, made=False)
    yield from of_class(promptctx.Job, made=False)
    yield from of_class(promptctx.Prompt, made=False, fields=True)
    yield from of_class(promptctx.Outbox)
    yield from of_class(OutboxSession, without=verbs, made=False)
    yield f"### Values\n\n{source.about(sys.modules['promptctx.values'])}\n"
    for kind in VALUES:
        yield from fields_of(kind)
    yield "#### Names of types\n\n" + block("\n".join(source.aliases(ALIASES))) + "\n"
    yield from of_errors()
    yield from of_class(FakeServer)
    yield from of_module("promptctx.importers", "Importers")
    yield from fields_of(ImportedSession)
    yield from fields_of(Skipped)
    yield from of_module("promptctx.exporters", "Exporters")
    yield "### Adapters\n\n[Which is for what](adapters.md). `how` is what `Session.compile` takes:\n"
    yield block("\n".join(member.name for member in source.values(Compile))) + "\n"
    for name in ADAPTERS:
        yield from of_module(f"promptctx.adapters.{name}", f"adapters.{name}", level=4)


def of_module(name: str, title: str, level: int = 3) -> Iterator[str]:
    about, members = source.module(name)
    yield f"{'#' * level} {title}\n\n{about}\n"
    yield from map(shown, members)


def of_class(
    kind: type, *, without: Iterable[str] = (), made: bool = True, fields: bool = False
) -> Iterator[str]:  # fmt: skip
    yield f"### {kind.__name__}\n"
    yield (f"{block(source.made_by(kind))}\n\n" if made else "") + f"{source.about(kind)}\n"
    if fields:
        yield block("\n".join(member.name for member in source.values(kind))) + "\n"
    yield from (shown(member) for member in source.methods(kind) if member.name not in without)


def fields_of(kind: type) -> Iterator[str]:
    yield f"#### {kind.__name__}\n\n{source.about(kind)}\n"
    yield block("\n".join(member.name for member in source.values(kind))) + "\n"


def shown(member: Member) -> str:
    """A method with its signature, or a value."""
    told = block(member.signature) + "\n\n" if member.signature else ""
    return f"#### `{member.name}`\n\n{told}{member.about}\n"


def of_errors() -> Iterator[str]:
    yield f"### Errors\n\n{source.about(errors.PromptctxError)}\n"
    _, _, tree = source.about(errors).partition("\n\n")
    yield f"```text\n{tree}\n```\n"
    rows = [
        [f"`{kind.__name__}`", f"`{kind.code}`", str(kind.status), kind.__doc__ or ""]
        for kind in errors.BY_CODE.values()
    ]
    yield table(["error", "code", "HTTP", "details"], rows)
