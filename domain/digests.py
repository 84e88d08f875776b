"""The hash chain of a stream: each digest covers the one before it and the event, its payload by salted hash.

The salt is what makes erasure safe: payload and salt go together, the hash stays, and a short payload cannot be
guessed from it.
"""

import hashlib
from json.encoder import encode_basestring as spelled
from typing import Protocol

SALT_BYTES = 32
GENESIS = bytes(32)


class Enveloped(Protocol):
    """What a digest covers of an event besides its payload, seq and time. Its texts are well-formed."""

    @property
    def key(self) -> bytes: ...
    @property
    def kind(self) -> str: ...
    @property
    def schema_version(self) -> int: ...
    @property
    def occurred_at(self) -> int | None: ...
    @property
    def actor(self) -> str | None: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def causation_id(self) -> str | None: ...
    @property
    def correlation_id(self) -> str | None: ...
    @property
    def origin(self) -> str | None: ...


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    """`payload` is the canonical JSON of the payload."""
    return hashlib.sha256(salt + payload).digest()


class Chain:
    """The digests of one stream, from the one that stands at its head."""

    __slots__ = ("_end", "digest")

    def __init__(self, tenant: str, stream_id: str, digest: bytes) -> None:
        self.digest = digest
        self._end = f',"stream_id":{spelled(stream_id)},"tenant":{spelled(tenant)}}}'

    def follow(self, seq: int, recorded_at: int, event: Enveloped, hashed: bytes) -> bytes:
        """The digest of the event that comes next: over canonical JSON of its envelope, empty fields left out, with the
        hash of its payload as `payload`. Written out here, for an encoder would take longer than all else."""
        first = told = run = ""
        if event.actor is not None:
            first = f'"actor":{spelled(event.actor)},'
        if event.causation_id is not None:
            first += f'"causation_id":{spelled(event.causation_id)},'
        if event.correlation_id is not None:
            first += f'"correlation_id":{spelled(event.correlation_id)},'
        if event.occurred_at is not None:
            told = f'"occurred_at":{event.occurred_at},'
        if event.origin is not None:
            told += f'"origin":{spelled(event.origin)},'
        if event.run_id is not None:
            run = f'"run_id":{spelled(event.run_id)},'
        text = (
            f'{{{first}"event_id":"{event.key.hex()}","kind":{spelled(event.kind)},{told}"payload":"{hashed.hex()}",'
            f'"recorded_at":{recorded_at},{run}"schema_version":{event.schema_version},"seq":{seq}{self._end}'
        )
        self.digest = hashlib.sha256(self.digest + text.encode()).digest()
        return self.digest
