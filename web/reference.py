"""The page /docs: the OpenAPI document for people. No script and nothing from elsewhere: it works without a network."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader
from starlette.responses import HTMLResponse

Json = dict[str, Any]

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

reference = APIRouter(include_in_schema=False)


@reference.get("/docs")
def page(request: Request) -> HTMLResponse:
    """What may be called, from the same document that /openapi.json gives to programs."""
    text = render(request.app.openapi())
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


def render(document: Json) -> str:
    calls: dict[str, list[Json]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            calls.setdefault(operation["tags"][0], []).append(
                {"method": method.upper(), "path": path, **operation, **_bodies(operation)}
            )
    return _TEMPLATES.get_template("reference.html").render(
        document=document, calls=calls, schemas=document["components"]["schemas"], kind=kind_of
    )


def _bodies(operation: Json) -> Json:
    """Of the request and of each answer: the media types with their schemas."""
    asked = operation.get("requestBody", {}).get("content", {})
    answers = {status: answer.get("content", {}) for status, answer in operation["responses"].items()}
    return {
        "takes": _schemas(asked),
        "gives": {status: _schemas(content) for status, content in answers.items() if status != "default"},
    }


def _schemas(content: Json) -> list[tuple[str, Json]]:
    return [(media_type, told.get("schema") or told.get("itemSchema") or {}) for media_type, told in content.items()]


def kind_of(schema: Json) -> list[tuple[str, str | None]]:
    """A schema in words, as pieces of text, each with the name of the schema it leads to, if any."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return [(name, name)]
    for together in ("anyOf", "oneOf"):
        if together in schema:
            return _joined(schema[together])
    if "const" in schema or "enum" in schema:
        return [(" | ".join(repr(value) for value in schema.get("enum", [schema.get("const")])), None)]
    if schema.get("type") == "array":
        return [("list of ", None), *kind_of(schema.get("items", {}))]
    return [(schema.get("type", "any"), None)]


def _joined(schemas: list[Json]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for schema in schemas:
        found += [(" | ", None)] if found else []
        found += kind_of(schema)
    return found
