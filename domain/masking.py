"""Secrets masked wherever a prompt or a page of the log would show them: those marked as such, and known key formats,
never by entropy."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pydantic import JsonValue

from domain.events import DataPart, Part, TextPart
from domain.rows import Call, Instruction, Tool
from domain.state import ContextState

MASK = "[masked]"
SHORTEST_SECRET = 4

_FORMATS: Mapping[str, str] = {
    # What stands in every key of the kind: the kind itself.
    "sk-": r"\bsk-(?:ant-|proj-)?(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}",
    **{f"gh{kind}_": rf"\bgh{kind}_[A-Za-z0-9]{{36,}}" for kind in "pousr"},
    "github_pat_": r"\bgithub_pat_[A-Za-z0-9_]{40,}",
    "glpat-": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "AKIA": r"\bAKIA[0-9A-Z]{16}",
    "ASIA": r"\bASIA[0-9A-Z]{16}",
    "xox": r"\bxox[abeoprs]-[0-9]{6,}-[A-Za-z0-9-]{10,}",
    "hooks.slack.com/": r"https://hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}",
    "AIza": r"\bAIza[0-9A-Za-z_-]{35}",
    "k_live_": r"\b[sr]k_live_[A-Za-z0-9]{16,}",
    "SG.": r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "npm_": r"\bnpm_[A-Za-z0-9]{36}",
    "pypi-AgE": r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "hf_": r"\bhf_[A-Za-z0-9]{34}\b",
    "SK": r"\bSK[0-9a-f]{32}\b",
    "AccountKey=": r"(?<=AccountKey=)[A-Za-z0-9+/]{86}==",
    ":AA": r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b",
    "dop_v1_": r"\bdop_v1_[0-9a-f]{64}",
    "pctx_": r"\bpctx_[a-z2-7]{16}_[a-z2-7]{52}",
    "eyJ": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "PRIVATE KEY": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
}
"""By what stands in every key of a kind: looking for that first is ten times faster than the patterns.

Keys hold digits where a placeholder such as `xoxb-your-token` holds words.
"""

_KEYS = re.compile("|".join(_FORMATS.values()))

Masker = Callable[[str], str]


def masker(state: ContextState) -> Masker:
    """The function that masks a text, knowing the secrets marked in this session."""
    return masking(row.value for row in state.tables["environment"].values() if row.secret)


def masking(secrets: Iterable[JsonValue]) -> Masker:
    """The function that masks these secrets, those that are texts and not too short, and known key formats."""
    marked = {one for one in secrets if isinstance(one, str) and len(one) >= SHORTEST_SECRET}
    ordered = sorted(marked, key=lambda one: (-len(one), one))

    def mask(text: str) -> str:
        for secret in ordered:
            text = text.replace(secret, MASK)
        return mask_keys(text)

    return mask if ordered else mask_keys


def mask_keys(text: str) -> str:
    """The text with what has a known key format masked."""
    for hint in _FORMATS:
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
