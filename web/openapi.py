"""The OpenAPI document. Bodies are read as bytes, so their schemas are written into it here.

`python -m web.openapi > docs/openapi.json` writes the file that a test compares with it.
"""

import json
import sys
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from web import models
from web.access import OPEN, needed
from web.problems import MEDIA_TYPE

Json = dict[str, Any]

_REF = "#/components/schemas/"
_ABOUT = """Append what an agent does, compile prompts from it under a budget, and see what was kept and why.

Errors are problem details (RFC 9457); `code` names the error, `detail` says what to do about it."""

REFUSED: dict[int | str, Json] = {
    "default": {
        "description": "A refusal",
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_REF}Problem"}}},
    }
}
"""What every endpoint may answer instead."""


def takes(*kinds: type[BaseModel]) -> Json:
    """The JSON body of an endpoint: any of the models."""
    schemas = [{"$ref": _REF + kind.__name__} for kind in kinds]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def takes_text() -> Json:
    text = {"schema": {"type": "string"}}
    return {"requestBody": {"required": True, "content": {"text/plain": text, "text/markdown": text}}}


def takes_lines() -> Json:
    return {"requestBody": {"required": True, "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}


def describe(app: FastAPI) -> Json:
    """The document of the app's routes, made once."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
        _, definitions = models_json_schema(
            [(kind, "validation") for kind in models.REQUESTS], ref_template=_REF + "{model}"
        )
        schemas: Json = made.setdefault("components", {}).setdefault("schemas", {})
        schemas |= definitions["$defs"]
        made["components"]["schemas"] = dict(sorted(schemas.items()))
        _say_who_may(made)
        app.openapi_schema = made
    return app.openapi_schema


def _say_who_may(made: Json) -> None:
    """The scopes of which a key needs one, with each call. A server on its own machine asks for no key."""
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            if path not in OPEN:
                scopes = needed(operation["operationId"], method.upper())
                operation["security"] = [{"key": [scope]} for scope in scopes]


def text_of(document: Json) -> str:
    """As it lies in docs/openapi.json."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    from web.app import assemble

    sys.stdout.write(text_of(describe(assemble())))
