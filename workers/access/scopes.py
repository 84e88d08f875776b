"""What a key may do. None of the scopes implies another."""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from domain.errors import InvalidRequest

Scope: TypeAlias = Literal["emit", "compile", "read", "policy", "admin"]

SCOPES: tuple[Scope, ...] = get_args(Scope)

MEANS: dict[Scope, str] = {
    "emit": "append events and upload documents",
    "compile": "ask for prompts and fetch them",
    "read": "read logs, prompts, reports and statistics, and replay",
    "policy": "with emit: remove a constraint, lower block to warn, set a new instruction; restore bundles",
    "admin": "erase (with emit), see what is masked, prune prompts, retry parked work",
}


def parse(names: Iterable[str]) -> tuple[Scope, ...]:
    """The scopes in their order. Raises InvalidRequest with the ones there are."""
    asked = {name.strip() for name in names if name.strip()}
    unknown = sorted(asked - set(SCOPES))
    if unknown or not asked:
        said = f"no scope {unknown[0]!r}" if unknown else "a key needs one"
        raise InvalidRequest(f"scopes: {said}; there are {', '.join(SCOPES)}.", path="scopes")
    return tuple(scope for scope in SCOPES if scope in asked)
