"""The chain of a stream: what a digest covers, byte for byte, whoever wrote it."""

import hashlib
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from domain.canonical import canonical_json
from domain.digests import GENESIS, Chain

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBER = st.integers(0, 2**53)


@dataclass
class _Event:
    key: bytes
    kind: str
    schema_version: int
    occurred_at: int | None
    actor: str | None
    run_id: str | None
    causation_id: str | None
    correlation_id: str | None
    origin: str | None


EVENTS = st.builds(
    _Event, key=st.binary(min_size=16, max_size=16), kind=TEXT, schema_version=NUMBER,
    **{name: st.none() | TEXT for name in ("actor", "run_id", "causation_id", "correlation_id", "origin")},
    occurred_at=st.none() | NUMBER,
)  # fmt: skip


def _digest(before: bytes, tenant: str, stream: str, seq: int, at: int, event: _Event, hashed: bytes) -> bytes:
    told = {
        "tenant": tenant, "stream_id": stream, "seq": seq, "recorded_at": at, "event_id": event.key.hex(),
        "payload": hashed.hex(), **{name: value for name, value in vars(event).items() if name != "key"},
    }  # fmt: skip
    spelled = canonical_json({name: value for name, value in told.items() if value is not None})
    return hashlib.sha256(before + spelled).digest()


@given(TEXT, TEXT, NUMBER, st.lists(EVENTS, min_size=1, max_size=3), st.binary(min_size=32, max_size=32))
def test_a_digest_covers_the_canonical_json_of_the_envelope_and_the_one_before(
    tenant: str, stream: str, at: int, events: list[_Event], hashed: bytes
) -> None:
    chain, expected = Chain(tenant, stream, GENESIS), GENESIS
    for seq, event in enumerate(events, 1):
        expected = _digest(expected, tenant, stream, seq, at, event, hashed)
        assert chain.follow(seq, at, event, hashed) == expected
    assert chain.digest == expected
