"""Sealing of payloads: AES-256-GCM under a key of the subject's own, which may itself be wrapped with the operator's.

A sealed payload names its key, and holds its salt too: without the key nobody can try which text has the hash.
"""

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

from domain.digests import SALT_BYTES
from domain.errors import StoreUnavailable

MARK = b"\x01"
"""Begins what is sealed; canonical JSON never does."""

ID_BYTES = 16
_NONCE, _KEY = 12, 32
_PLAIN, _WRAPPED = b"\x00", b"\x01"
_START = len(MARK) + ID_BYTES


class Tampered(Exception):
    """Sealed with another key, or changed since."""


def _cipher(key: bytes) -> Any:
    # Loaded when the first key is: a store that seals nothing goes without.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


@dataclass(frozen=True, slots=True)
class Sealing:
    """Whether new payloads are sealed, and what keys are wrapped with."""

    on: bool = False
    master: str | None = field(default=None, repr=False)

    def new(self) -> tuple[bytes, bytes]:
        """A new key: its id, and what the table holds of it."""
        name, key = os.urandom(ID_BYTES), os.urandom(_KEY)
        return name, _PLAIN + key if self.master is None else _WRAPPED + _encrypt(self._master(), key, name)

    def key(self, name: bytes, held: bytes) -> Any:
        """Raises StoreUnavailable when it was wrapped with another master key: that must not look like an erasure."""
        if held[:1] == _PLAIN:
            return _cipher(held[1:])
        if self.master is None:
            raise StoreUnavailable(
                "Keys of subjects are wrapped: set PROMPTCTX_MASTER_KEY to what they were wrapped with."
            )
        try:
            return _cipher(_decrypt(self._master(), held[1:], name))
        except Tampered:
            raise StoreUnavailable(
                "PROMPTCTX_MASTER_KEY is not the one that keys of subjects were wrapped with."
            ) from None

    def _master(self) -> Any:
        return _cipher(hashlib.sha256((self.master or "").encode()).digest())


def seal(name: bytes, key: Any, salt: bytes, payload: bytes) -> bytes:
    return MARK + name + _encrypt(key, salt + payload, name)


def key_name(sealed: bytes) -> bytes:
    return sealed[len(MARK) : _START]


def unseal(key: Any, sealed: bytes) -> tuple[bytes, bytes]:
    """The salt and the payload. What was tampered with comes back as it is, and fits no hash."""
    try:
        found = _decrypt(key, sealed[_START:], key_name(sealed))
    except Tampered:
        return b"", sealed
    return found[:SALT_BYTES], found[SALT_BYTES:]


def _encrypt(key: Any, data: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(_NONCE)
    return nonce + bytes(key.encrypt(nonce, data, bound))


def _decrypt(key: Any, data: bytes, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(key.decrypt(data[:_NONCE], data[_NONCE:], bound))
    except (InvalidTag, ValueError):
        raise Tampered from None
