"""The verdict of a replay: identical, or where the bytes first differ and what made them differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.canonical import content_hash
from domain.timemachine.segments import Segment

Json = dict[str, Any]

AROUND = 60
"""Characters shown of each side of a difference."""

PROBE = 'The quick 棕狐 jumps: {"temp": 22} — naïve café №7 👩‍🚀\n\n\t<|endoftext|>'
"""Its tokens are counted at every compile: another number later means another tokenizer under the same name."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What decides the bytes besides the log. `config` is the request with the server's defaults filled in."""

    compiler: str
    schema: str
    tokenizer: str
    config: str
    sources: str

    @classmethod
    def of(cls, compiler: str, tokenizer: Json, mode: Json, request: Json, sources: Sequence[Any]) -> "Conditions":
        hashed = (content_hash(value)[:16] for value in (mode, request, list(sources)))
        schema, config, given = hashed
        name = f"{tokenizer['encoding']} × {tokenizer['factor']:g}"
        if "probe" in tokenizer:
            name += f" ({tokenizer['probe']})"
        return cls(compiler, f"{mode['name']} {schema}", name, config, given)

    def changes(self, now: "Conditions") -> list[Json]:
        """What is another one now, in words for people: `compiler 0.3 → 0.4`."""
        names = ("compiler", "schema", "tokenizer", "config", "sources")
        pairs = ((name, getattr(self, name), getattr(now, name)) for name in names)
        return [{"what": name, "then": then, "now": later} for name, then, later in pairs if then != later]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of a replay that gave other bytes."""

    erased: bool
    tampered: bool
    changed: Sequence[Json]
    zones: Sequence[str]


def cause(found: Findings) -> Json:
    """The first of the possible causes that holds; `kind` for programs, `text` for people."""
    where = f" changed zone {', '.join(found.zones)}" if found.zones else ""
    if found.erased:
        return {"kind": "redaction", "text": "redaction: something that the prompt was compiled from was erased since"}
    if found.tampered:
        return {"kind": "storage", "text": "storage: the stored payload is not the one that was hashed"}
    for one in found.changed:
        text = f"{one['what']} {one['then']} → {one['now']}{where}"
        return {"kind": one["what"], "text": text, "then": one["then"], "now": one["now"]}
    return {"kind": "code", "text": f"code: the same compiler gives other bytes for the same inputs{where}"}


def first_segment(stored: Sequence[Segment], replayed: Sequence[Segment]) -> Json | None:
    """The first segment that is not the same on both sides, with its first differing line."""
    for place in range(max(len(stored), len(replayed))):
        old = stored[place] if place < len(stored) else None
        new = replayed[place] if place < len(replayed) else None
        if old == new:
            continue
        told = old or new
        assert told is not None
        before, after = (one.lines if one else () for one in (old, new))
        line = next(
            (at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
        )
        return {"segment": told.key, "zone": told.zone, "message": told.message, "line": line + 1}
    return None


def first_difference(stored: Any, replayed: Any, path: str = "") -> Json | None:
    """Where two payloads first differ: the path, and what stands around the place on each side."""
    if type(stored) is not type(replayed) or not isinstance(stored, dict | list | str):
        return None if stored == replayed else _difference(path, stored, replayed)
    if isinstance(stored, str):
        if stored == replayed:
            return None
        pairs = zip(stored, replayed, strict=False)
        at = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(stored), len(replayed)))
        start = max(0, at - AROUND)
        return {**_difference(path, stored[start : at + AROUND], replayed[start : at + AROUND]), "at": at}
    missing = object()
    for key in _keys(stored, replayed):
        left, right = _item(stored, key, missing), _item(replayed, key, missing)
        here = f"{path}.{key}" if path else str(key)
        if left is missing or right is missing:
            return _difference(here, None if left is missing else left, None if right is missing else right)
        if found := first_difference(left, right, here):
            return found
    return None


def _keys(stored: Any, replayed: Any) -> Iterable[Any]:
    if isinstance(stored, dict):
        return [*stored, *(key for key in replayed if key not in stored)]
    return range(max(len(stored), len(replayed)))


def _item(side: Any, key: Any, missing: object) -> Any:
    if isinstance(side, Mapping):
        return side.get(key, missing)
    return side[key] if key < len(side) else missing


def _difference(path: str, stored: Any, replayed: Any) -> Json:
    return {"path": path, "stored": stored, "replayed": replayed}
