"""Declared fields: what a tool says is worth keeping of its answers, as JMESPath expressions."""

import json
from collections.abc import Sequence
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

LONGEST = 500
"""Characters of one expression."""


def is_rule(expression: str) -> bool:
    """Whether a text is a JMESPath expression, of a length that people write."""
    try:
        return len(expression) <= LONGEST and jmespath.compile(expression) is not None
    except (JMESPathError, RecursionError):
        return False


def declared(value: Any, rules: Sequence[str]) -> dict[str, Any] | None:
    """The declared fields that a JSON value has, by their expressions; None when it has none of them."""
    found: dict[str, Any] = {}
    for rule in rules:
        try:
            field = jmespath.search(rule, value)
        except (JMESPathError, RecursionError, ValueError, TypeError):
            continue
        if field is not None and field not in ([], {}):
            found[rule] = field
    return found or None


def declared_text(value: Any, rules: Sequence[str]) -> str | None:
    """The declared fields of a JSON value as JSON; None when it has none of them."""
    found = declared(value, rules)
    return json.dumps(found, ensure_ascii=False, separators=(", ", ": ")) if found else None
