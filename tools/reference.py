"""docs/reference.md, from the code: the Python client, the events, the settings.

`python -m tools.reference > docs/reference.md` writes the file that a test compares with it.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import promptctx
from domain.events import AUDIT_KINDS, PAYLOADS
from promptctx import errors
from promptctx._track import EventOptions, SessionOptions
from promptctx.outbox import OutboxSession
from promptctx.testing import FakeServer
from promptctx.verbs import Verbs
from tools import source
from tools.source import Member
from workers.settings import PREFIX, Settings

Json = dict[str, Any]

HEAD = """\
# Reference

Made from the code by `python -m tools.reference`; a test compares. Elsewhere: [the client explained](client.md),
[every command](cli.md) with its help, [the HTTP API](api.md) with [its OpenAPI document](openapi.json),
[the words](glossary.md).

- [Python client](#python-client): [Client](#client), [Session](#session), [verbs](#verbs), [Batch](#batch),
  [Job](#job), [Prompt](#prompt), [Outbox](#outbox), [values](#values), [errors](#errors), [FakeServer](#fakeserver)
- [Events](#events): every kind with its payload
- [Settings](#settings): every variable of the server
"""
TWINS = """\
`AsyncClient`, `AsyncSession`, `AsyncBatch`, `AsyncJob` and `AsyncPrompt` have the names and parameters of `Client`,
`Session`, `Batch`, `Job` and `Prompt`. There what talks to the server is awaited, `sessions`, `events`, `prompts` and
`replays` are asynchronous iterators, and a prompt of another format is had by `await prompt.derive(format)`.
"""
VERBS = """\
Each appends one event. A `Session` returns its `Receipt`, an `AsyncSession` one to be awaited, a `Batch` and an
`OutboxSession` the event's id. `options` are those of every event ([EventOptions](#eventoptions)).
"""
EVENTS = """\
## Events

Every kind with its payload, as `emit`, the HTTP API and files of events take it. A field without a default must be
there. Unknown fields are refused; unknown kinds and `custom.*` are kept and skipped.
"""
PARTS = """\
### Parts of payloads

`content` is a list of `TextPart`, `ImagePart` and `DataPart`, or a string, which is one text part.
"""
SETTINGS = """\
## Settings

Of the server: variables, or the same names in small letters and without the prefix in `promptctx.toml`, which
`PROMPTCTX_CONFIG` may name elsewhere. Variables win. `python -m workers doctor` and the console tell which are in
force. Those of the client are few and [explained with it](client.md#settings).
"""
VALUES = (
    promptctx.Receipt, promptctx.EventRecord, promptctx.SessionInfo, promptctx.PromptInfo, promptctx.State,
    promptctx.Stats, promptctx.Replay, promptctx.Document,
)  # fmt: skip
ALIASES = ("promptctx._messages", "promptctx.prompt", "promptctx.session", "promptctx.verbs", "promptctx._memory")
ELSEWHERE = {
    "document.attached": "Session.document", "context.rolled_back": "Session.rollback",
    "session.forked": "Session.fork",
}  # fmt: skip
"""Kinds that no verb of one event makes."""
SHORTEST_TYPES = {"integer": "whole number", "object": "object", "boolean": "true or false"}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *client(), *events(), *settings()])


# --- the Python client ------------------------------------------------------------------------------------------------


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


# --- events -----------------------------------------------------------------------------------------------------------


def events() -> Iterator[str]:
    yield EVENTS
    verbs = verbs_by_kind()
    parts: dict[str, Json] = {}
    for kind, model in PAYLOADS.items():
        schema = model.model_json_schema()
        parts |= {name: one for name, one in schema.pop("$defs", {}).items() if name != "JsonValue"}
        yield f"### {kind}\n\n{source.about(model)}\n"
        stream = "audit" if kind in AUDIT_KINDS else streams_of(kind)
        sent = f" Client: {verbs[kind]}." if kind in verbs else ""
        yield f"Stream: {stream}.{sent}\n"
        yield fields_table(schema)
    yield PARTS
    for name, schema in sorted(parts.items()):
        yield f"#### {name}\n\n{schema.get('description', '')}\n\n{fields_table(schema)}"


def verbs_by_kind() -> dict[str, str]:
    found: dict[str, list[str]] = {kind: [f"`{name}`"] for kind, name in ELSEWHERE.items()}
    for member in source.methods(Verbs):
        for kind in source.words_in(Verbs, member.name) & PAYLOADS.keys():
            found.setdefault(kind, []).append(f"`{member.name}`")
    return {kind: ", ".join(names) for kind, names in found.items()}


def streams_of(kind: str) -> str:
    if kind.startswith("memory."):
        return "session, subject or tenant, as `scope` says"
    return "subject" if kind.startswith(("profile.", "block.")) else "session"


def fields_table(schema: Json) -> str:
    needed = schema.get("required", ())
    rows = [
        [f"`{name}`", words(told), "" if name in needed else default(told), told.get("description", "")]
        for name, told in schema.get("properties", {}).items()
    ]
    return table(["field", "type", "default", ""], rows)


# --- settings ---------------------------------------------------------------------------------------------------------


def settings() -> Iterator[str]:
    yield SETTINGS
    told = Settings.model_json_schema()["properties"]
    rows = [[f"`{PREFIX}{name.upper()}`", words(one), default(one), one["description"]] for name, one in told.items()]
    yield table(["variable", "type", "default", ""], rows)


# --- how it is written ------------------------------------------------------------------------------------------------


def words(schema: Json) -> str:
    """A JSON schema as a reader wants it: `one of …`, `whole number from 1`, `list of PlanStep`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name == "JsonValue":
            return "any JSON"
        return f"[{name}](#{name.lower()})"
    if "discriminator" in schema:
        return "[parts](#parts-of-payloads)"
    for together in ("anyOf", "oneOf"):
        if together in schema:
            return " or ".join(dict.fromkeys(words(one) for one in schema[together] if one != {"type": "null"}))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {words(schema.get('items', {}))}"
    each = schema.get("additionalProperties", True)
    if isinstance(each, dict) and (told := words(each)) not in ("any JSON", "object"):
        return f"object of {told}"
    found = str(schema.get("type") or "any JSON")
    return SHORTEST_TYPES.get(found, found) + bounds(schema)


def bounds(schema: Json) -> str:
    """From and to, where they are near enough to matter."""
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    told = f" from {least}" if least is not None else f" over {above}" if above is not None else ""
    told += f" to {most}" if most is not None and most < 2**53 else ""
    return told + (f", at least {schema['minLength']} characters" if "minLength" in schema else "")


def default(schema: Json) -> str:
    value = schema.get("default", {"object": {}, "array": []}.get(schema.get("type", "")))
    if value in (None, "", [], {}):
        return "empty" if value is not None else "none"
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def block(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Rows of Markdown. What a cell says must not end it."""
    told = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [" | ".join(row) for row in [head, ["---"] * len(head), *told]]
    return "".join(f"| {line} |\n" for line in lines) if told else "Nothing.\n"


if __name__ == "__main__":
    sys.stdout.write(page())
