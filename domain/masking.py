"""Secrets masked wherever a prompt would show them: those marked as such, and known key formats, never by entropy."""

import re
from collections.abc import Callable
from dataclasses import replace

from pydantic import JsonValue

from domain.events import DataPart, Part, TextPart
from domain.rows import Call, Instruction, Tool
from domain.state import ContextState

MASK = "[masked]"
SHORTEST_SECRET = 4

_KEYS = re.compile(
    r"\b(?:sk-(?:ant-|proj-)?(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    r"|AKIA[0-9A-Z]{16}|xox[abeoprs]-[0-9]{6,}-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}"
    r"|glpat-[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"
)
_HINTS = (
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "AKIA",
    "xox",
    "AIza",
    "glpat-",
    "eyJ",
    "PRIVATE KEY",
)
"""One of these stands in every key: looking for them first is ten times faster than the pattern.

Keys of the pattern hold digits where a placeholder such as `xoxb-your-token` holds words.
"""

Masker = Callable[[str], str]


def masker(state: ContextState) -> Masker:
    """The function that masks a text, knowing the secrets marked in this session."""
    marked = {
        row.value
        for row in state.tables["environment"].values()
        if row.secret and isinstance(row.value, str) and len(row.value) >= SHORTEST_SECRET
    }
    secrets = sorted(marked, key=lambda one: (-len(one), one))

    def mask(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, MASK)
        return mask_keys(text)

    return mask if secrets else mask_keys


def mask_keys(text: str) -> str:
    """The text with what has a known key format masked."""
    for hint in _HINTS:
        if hint in text:
            return _KEYS.sub(MASK, text)
    return text


def masked_parts(parts: tuple[Part, ...], mask: Masker) -> tuple[Part, ...]:
    """The parts with their texts masked; the very same tuple when there was nothing to mask."""
    made = tuple(_masked(part, mask) for part in parts)
    return parts if all(new is old for new, old in zip(made, parts, strict=True)) else made


def masked_call(call: Call, mask: Masker) -> Call:
    """The call with its arguments masked; the very same call when there was nothing to mask."""
    arguments = masked_value(call.arguments, mask)
    return call if arguments == call.arguments else Call(call.id, call.name, arguments)


def masked_instruction(given: Instruction, mask: Masker) -> Instruction:
    """The instruction with its texts masked."""
    return replace(
        given,
        role=mask(given.role),
        text=mask(given.text),
        output_format=mask(given.output_format),
        rules=tuple(rule.model_copy(update={"text": mask(rule.text)}) for rule in given.rules),
        examples=tuple((mask(user), mask(assistant)) for user, assistant in given.examples),
    )


def masked_tool(tool: Tool, mask: Masker) -> Tool:
    """The tool with what its schema says masked."""
    parameters = {mask(key): masked_value(value, mask) for key, value in tool.parameters.items()}
    return replace(tool, description=mask(tool.description), parameters=parameters)


def _masked(part: Part, mask: Masker) -> Part:
    if isinstance(part, TextPart):
        text = mask(part.text)
        return part if text == part.text else TextPart(type="text", text=text)
    if isinstance(part, DataPart):
        data = masked_value(part.data, mask)
        return part if data == part.data else DataPart(type="data", data=data)
    return part


def masked_value(value: JsonValue, mask: Masker) -> JsonValue:
    """A JSON value with every string in it masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(key): masked_value(item, mask) for key, item in value.items()}
    if isinstance(value, list):
        return [masked_value(item, mask) for item in value]
    return value
