"""Known key formats, masked wherever our own text shows foreign text. Formats only, never by entropy."""

import re

MASK = "[masked]"

_KEYS = re.compile(
    r"\b(?:sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    r"|AKIA[0-9A-Z]{16}|xox[baprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}"
    r"|glpat-[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"
)


def mask(text: str, secrets: frozenset[str] = frozenset()) -> tuple[str, int]:
    """The text with known keys and the given secrets masked, and how many there were."""
    text, found = _KEYS.subn(MASK, text)
    for secret in sorted(secrets, key=lambda one: (-len(one), one)):
        if len(secret) >= 4 and secret in text:
            found += text.count(secret)
            text = text.replace(secret, MASK)
    return text, found
