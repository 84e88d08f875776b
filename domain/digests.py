"""The hash chain of a stream: each digest covers the one before it and the event, its payload by salted hash.

The salt is what makes erasure safe: payload and salt go together, the hash stays, and a short payload cannot be
guessed from it.
"""

import hashlib
import json
from collections.abc import Mapping

SALT_BYTES = 32
GENESIS = bytes(32)

_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
"""Canonical JSON of a flat object of strings, integers and nothing else: there the standard encoder writes it."""


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    """`payload` is the canonical JSON of the payload."""
    return hashlib.sha256(salt + payload).digest()


def next_digest(before: bytes, envelope: Mapping[str, str | int], hashed: bytes) -> bytes:
    """The digest of the event after the one whose digest is `before`.

    `envelope` holds names in ASCII, well-formed texts and integers, and no field named `payload`.
    """
    return hashlib.sha256(before + _spell({**envelope, "payload": hashed.hex()}).encode()).digest()
