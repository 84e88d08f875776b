"""The events with their payloads, and the settings: from their JSON schemas."""

import json
from collections.abc import Iterator
from typing import Any

from domain.events import AUDIT_KINDS, PAYLOADS
from promptctx.verbs import Verbs
from tools.reference import source
from tools.reference.markdown import table
from workers.settings import PREFIX, Settings

Json = dict[str, Any]

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
ELSEWHERE = {
    "document.attached": "Session.document", "context.rolled_back": "Session.rollback",
    "session.forked": "Session.fork",
}  # fmt: skip
"""Kinds that no verb of one event makes."""
PLAIN = {"integer": "whole number", "object": "object", "boolean": "true or false"}


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


def settings() -> Iterator[str]:
    yield SETTINGS
    told = Settings.model_json_schema()["properties"]
    rows = [[f"`{PREFIX}{name.upper()}`", words(one), default(one), one["description"]] for name, one in told.items()]
    yield table(["variable", "type", "default", ""], rows)


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
    return PLAIN.get(found, found) + bounds(schema)


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
