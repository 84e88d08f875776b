"""The hash chain of a stream: each digest covers the one before it and the event, its payload by salted hash.

The salt is what makes erasure safe: payload and salt go together, the hash stays, and a short payload cannot be
guessed from it.
"""

import hashlib
from collections.abc import Mapping

from domain.canonical import canonical_json

SALT_BYTES = 32
GENESIS = bytes(32)


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    """`payload` is the canonical JSON of the payload."""
    return hashlib.sha256(salt + payload).digest()


def next_digest(before: bytes, envelope: Mapping[str, str | int | None], hashed: bytes) -> bytes:
    """The digest of the event after the one whose digest is `before`. `envelope` has no field named `payload`."""
    return hashlib.sha256(before + canonical_json({**envelope, "payload": hashed.hex()})).digest()
