"""Packing of snapshots: compressed JSON in which long texts and event ids stand once.

Consecutive prompts of a session say mostly the same. Each long text is a row of its own, by hash, once per session;
event ids, which no compression makes smaller, are kept as their 16 bytes in front, where an erasure finds them.
"""

import hashlib
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from domain.canonical import canonical_json, parse_json
from workers.store.log import unpack_id

LONG = 160
"""Characters from which a text becomes a row of its own."""

_MARK = "\x01"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
_HEADER = struct.Struct(">II")
_HASH = 16


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_HASH]


def pack(value: Any) -> tuple[bytes, dict[bytes, str]]:
    """The packed JSON value, and the texts by hash that it refers to."""
    texts: dict[bytes, tuple[int, str]] = {}
    ids: dict[str, int] = {}

    def word(text: str) -> str:
        if len(text) == 36 and _UUID(text):
            return f"{_MARK}u{ids.setdefault(text, len(ids))}"
        if len(text) >= LONG:
            place, _ = texts.setdefault(text_hash(text), (len(texts), text))
            return f"{_MARK}t{place}"
        return f"{_MARK}s{text}" if text[:1] == _MARK else text

    body = zlib.compress(canonical_json(_mapped(value, word)), 6)
    head = _HEADER.pack(len(texts), len(ids))
    named = b"".join(texts) + b"".join(uuid.UUID(one).bytes for one in ids)
    return head + named + body, {key: text for key, (_, text) in texts.items()}


def hashes(packed: bytes) -> list[bytes]:
    """The hashes of the texts that a packed value refers to."""
    count, _ = _HEADER.unpack_from(packed)
    start = _HEADER.size
    return [packed[start + at * _HASH : start + (at + 1) * _HASH] for at in range(count)]


def unpack(packed: bytes, texts: Mapping[bytes, str]) -> Any:
    names = hashes(packed)
    _, count = _HEADER.unpack_from(packed)
    start = _HEADER.size + len(names) * _HASH
    ids = [unpack_id(packed[start + at * 16 : start + (at + 1) * 16]) for at in range(count)]

    def word(text: str) -> str:
        if text[:1] != _MARK:
            return text
        if text[1] == "u":
            return ids[int(text[2:])]
        return texts[names[int(text[2:])]] if text[1] == "t" else text[2:]

    return _mapped(parse_json(zlib.decompress(packed[start + count * 16 :])), word)


def _mapped(value: Any, word: Callable[[str], str]) -> Any:
    """The value with every string passed through `word`; keys stay."""
    kind = type(value)
    if kind is str:
        return word(value)
    if kind is dict:
        return {key: _mapped(item, word) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_mapped(item, word) for item in value]
    return value
