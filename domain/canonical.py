"""Canonical JSON: one value, one spelling, so that hashes mean something.

RFC 8785 with two extensions that the `rfc8785` library refuses: lone surrogates are written as `\\udXXX`,
and integers beyond 2**53 as their digits.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import rfc8785

_LONE = re.compile("[\ud800-\udfff]")
_standard = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)
_string = json.JSONEncoder(ensure_ascii=False).encode


def _made_once() -> Callable[[Any], str]:
    """The standard encoder. It makes its quick part anew for every value, which for most takes as long as the value."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _standard.encode
    quick = make(None, _standard.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(quick(value, 0))


_plain = _made_once()


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of a JSON value (dict, list, tuple, str, int, float, bool, None).

    Raises ValueError on NaN and Infinity, TypeError on anything that is no JSON value.
    """
    text = _plain(value) if _is_plain(value) else _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def parse_json(data: bytes) -> Any:
    """The value that `canonical_json` wrote, lone surrogates included."""
    return json.loads(str(data, "utf-8", "surrogatepass"))  # Told the encoding, it need not guess.


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def content_hash(value: Any) -> str:
    """SHA-256 over the canonical JSON of `value`, in hex."""
    return sha256_hex(canonical_json(value))


def depth(value: Any) -> int:
    """How many levels of arrays and objects a JSON value has; without recursion, so that no value can exhaust it."""
    levels, here = 0, [value]
    while here := [item for item in here if isinstance(item, dict | list | tuple)]:
        levels += 1
        here = [inner for item in here for inner in (item.values() if isinstance(item, dict) else item)]
    return levels


def _is_plain(value: Any) -> bool:
    """Whether the standard encoder already writes RFC 8785: floats that Python spells like JavaScript, and keys that
    sort alike in UTF-8 and UTF-16."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is str or kind is int or kind is bool or one is None:
            continue
        if kind is float and 1e-4 <= abs(one) < 1e16 and not one.is_integer():
            continue
        if kind is dict:
            for key in one:
                if type(key) is not str or not key.isascii():
                    return False
            waiting += one.values()
        elif kind is list or kind is tuple:
            waiting += one
        else:
            return False
    return True


def _encode(value: Any) -> str:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("JSON object keys must be strings")
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_string(key)}:{_encode(value[key])}" for key in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_encode, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return _plain(value)


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("NaN and Infinity are not JSON")
    return rfc8785.dumps(value).decode()
