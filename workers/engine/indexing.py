"""Index: make what recall needs of a session and keep it in the store, behind everything that somebody waits for.

The terms of what was said first, then what it means to the embedding model, in small batches that go on where the last
one ended. A prompt that comes before makes the terms of a little by itself, and goes without the rest.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from domain.recall.index import EMPTY, Source, extended
from domain.recall.packing import packed
from domain.recall.passages import passages as cut
from workers import tracing
from workers.embeddings import Rows
from workers.engine.deps import Deps
from workers.engine.leases import Fenced, Outcome, keep, pause, settle, under
from workers.engine.meanings import UNKNOWN, Meanings, coded
from workers.llm import ModelFailed
from workers.store import EVERY, Unit, log, passages, recall, streams, work
from workers.store.recall import Spoken
from workers.store.work import Claim

TASK = "index"
BATCH = 200
"""Messages whose terms are written in one transaction."""

SIZE = 2_000_000
"""Bytes of messages after which no further one is read for a batch, about two seconds: a lease outlives each batch."""

AT_ONCE, FEW = 64, 32
"""Passages and messages whose vectors are."""

MOST = 256
"""Passages of one message that are looked at for what they mean, about 30,000 tokens: the rest go by their words."""

YIELD_AFTER = 2.0

logger = structlog.get_logger(__name__)


URGENT = ("compile", "project")
LATER = 1_000_000
"""Microseconds for which the index stands back while urgent work is due or being done: on a small machine the model
takes a processor that somebody waits for."""


def index(deps: Deps, tenant: str, stream: int, *, now: bool = False) -> Outcome:
    """Claim the session's index and make what is missing; unless it must be `now`, as long as nothing urgent waits."""
    with deps.database.write(tenant) as unit:
        claimed = work.claim(unit, tenant, stream, TASK, lease=deps.lease)
    if claimed is None:
        return Outcome.IDLE
    with tracing.span(TASK, tenant=tenant, stream=stream):
        return under(deps, claimed, lambda deps, claimed: _drain(deps, claimed, now=now))


def index_now(deps: Deps, tenant: str, stream: int) -> Outcome:
    """All of it, here and now, whenever it is due."""
    with deps.database.write(tenant) as unit:
        work.reopen(unit, tenant, stream, TASK, streams.head(unit, tenant, stream))
    while (outcome := index(deps, tenant, stream, now=True)) is Outcome.MORE:
        pass
    return outcome


def _drain(deps: Deps, claimed: Claim, *, now: bool) -> Outcome:
    until = time.monotonic() + YIELD_AFTER
    try:
        for step in (_terms, _vectors):
            while now or not _stands_back(deps, claimed):
                if not step(deps, claimed):
                    break
                if time.monotonic() > until:
                    with deps.database.write(claimed.tenant) as unit:
                        return settle(unit, claimed, min(claimed.done_seq, claimed.wanted_seq - 1))
            else:
                return Outcome.IDLE
    except ModelFailed as failed:
        if claimed.attempts < work.MAX_ATTEMPTS:
            pause(deps, claimed, f"no embeddings: {failed.reason}")
            return Outcome.IDLE
        logger.warning("no embeddings; they are asked for again when the session goes on", reason=failed.reason)
    with deps.database.write(claimed.tenant) as unit:
        return settle(unit, claimed, claimed.wanted_seq)


def _stands_back(deps: Deps, claimed: Claim) -> bool:
    """Whether others wait for a prompt: then what is left comes later, with the time and the processor left to them."""
    with deps.database.read(EVERY) as unit:
        if not work.pressing(unit, URGENT):
            return False
    with deps.database.write(claimed.tenant) as unit:
        if not work.postpone(unit, claimed, LATER):
            raise Fenced
    return True


@dataclass(frozen=True, slots=True)
class _Batch:
    """What was said next, as it was read while the stream stood at `head`."""

    head: int
    said: Sequence[Spoken]

    def may_be_kept(self, unit: Unit, claimed: Claim) -> bool:
        """Not if anything of the stream was erased since: then it is read anew."""
        keep(unit, claimed, claimed.done_seq)
        passages.hold(unit, claimed.tenant, claimed.stream)
        return not log.erases(unit, claimed.tenant, claimed.stream, after=self.head)


def _read(unit: Unit, claimed: Claim, after: int, most: int) -> _Batch:
    tenant, stream = claimed.tenant, claimed.stream
    return _Batch(streams.head(unit, tenant, stream), recall.logged(unit, tenant, stream, after, most, SIZE))


def sources(said: Sequence[Spoken]) -> list[Source]:
    return [Source(one.seq, one.role, one.speaker, one.text, one.at) for one in said]


def _terms(deps: Deps, claimed: Claim) -> bool:
    """One batch of terms; false when there are no more to make."""
    tenant, stream = claimed.tenant, claimed.stream
    with deps.database.read(tenant) as unit:
        batch = _read(unit, claimed, passages.last_terms(unit, tenant, stream), BATCH)
    if not batch.said:
        return False
    made = list(packed(extended(EMPTY, sources(batch.said))))
    nothing = next(packed(extended(EMPTY, [Source(0, "", "", "", 0)])))
    with deps.database.write(tenant) as unit:
        if batch.may_be_kept(unit, claimed):
            rows = [
                (one.seq, passages.sealed(unit, tenant, one.key, body) or nothing)
                for one, body in zip(batch.said, made, strict=True)
            ]
            passages.put_terms(unit, tenant, stream, rows)
    return True


def _vectors(deps: Deps, claimed: Claim) -> bool:
    """One batch of vectors; false when there are no more to make, or nobody to make them."""
    if deps.meanings is None:
        return False
    tenant, stream, model = claimed.tenant, claimed.stream, deps.meanings.model
    with deps.database.read(tenant) as unit:
        batch = _read(unit, claimed, passages.last_vector(unit, tenant, stream, model), FEW)
        said = list(_few(batch.said))
        hashes = [hashed(parts) if one.key is None else None for one, parts in said]
        known = passages.same(unit, tenant, model, [one for one in hashes if one is not None])
        others = not said and passages.has_other_models(unit, tenant, stream, model)
    if others:
        with deps.database.write(tenant) as unit:
            passages.drop_other_models(unit, tenant, stream, model)
    if not said:
        return False
    bodies = _made(deps.meanings, [parts for _, parts in said], [known.get(one or b"") for one in hashes])
    with deps.database.write(tenant) as unit:
        if batch.may_be_kept(unit, claimed):
            rows = [
                (one.seq, name, passages.sealed(unit, tenant, one.key, body) or UNKNOWN)
                for (one, _), name, body in zip(said, hashes, bodies, strict=True)
            ]
            passages.put_vectors(unit, tenant, stream, model, rows)
    return True


def _few(said: Sequence[Spoken]) -> Iterator[tuple[Spoken, list[str]]]:
    """As many messages as make one batch, at least one, each with its passages."""
    room = AT_ONCE
    for one in said:
        parts = cut(one.text)[:MOST]
        if len(parts) > room and room < AT_ONCE:
            return
        room -= len(parts)
        yield one, parts


def hashed(parts: Sequence[str]) -> bytes:
    """The hash of a text as it was cut, which is what a model was asked about."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]


def _made(meanings: Meanings, cuts: Sequence[list[str]], known: Sequence[bytes | None]) -> list[bytes]:
    """What is kept of each message: what is known, and the rest as the model answers."""
    asked = [part for parts, held in zip(cuts, known, strict=True) if held is None for part in parts]
    rows = iter(meanings.encoded(asked)) if asked else iter(())
    found: list[bytes] = []
    for parts, held in zip(cuts, known, strict=True):
        mine: list[Rows] = [next(rows) for _ in parts] if held is None else []
        found.append(held if held is not None else coded(np.array(mine)) if mine else UNKNOWN)
    return found
