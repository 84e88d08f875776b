"""What is exchanged with a model as JSON: rows that it is shown, one a line, and its answer as what was asked for."""

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)
_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


class Malformed(Exception):
    """An answer that is not what was asked for. It says nothing about what there is."""


def json_line(row: object) -> str:
    return json.dumps(row, ensure_ascii=False)


def read_answer(answer: str, kind: type[Model]) -> Model:
    """The JSON of an answer, bare or in one code block. Raises Malformed."""
    found = _FENCED.match(answer.strip())
    try:
        return kind.model_validate(json.loads(found[1] if found else answer))
    except (ValueError, ValidationError, RecursionError):
        raise Malformed from None
