"""What recall keeps of passages: their terms and their vectors, by the events that said them. Of the log, not of the
read-models: a refold leaves them as they are, and an erasure takes them along."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.digests import SALT_BYTES
from domain.recall.packing import VERSION
from workers.store import sealing, subject_keys
from workers.store.database import Bulk, DialectName, Prepared, Unit, given, joined
from workers.store.tables import events, passage_terms, passage_vectors, streams

TABLES = (passage_terms, passage_vectors)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events of a stream after one seq, up to another; its rows of this `generation` tell what is in force."""

    stream: int
    generation: int
    after: int
    upto: int


Rows = tuple[list[int], list[bytes]]
"""The seqs, and what is kept of each."""

# Reading --------------------------------------------------------------------------------------------------------------

_FIELDS = ("stream", "generation", "after", "upto")


def _ranged(table: str, columns: str, more: str) -> Prepared:
    mine = (
        f'held.tenant = :of_tenant AND held.stream = wanted.stream AND held.seq > wanted."after"'
        f" AND held.seq <= wanted.upto AND {more}"
    )

    def build(dialect: DialectName) -> sa.ClauseElement:
        return sa.text(f"SELECT {columns} FROM {joined(dialect, given(dialect, _FIELDS), table, 'held', mine)}")

    return Prepared(build)


_TERMS = _ranged("passage_terms", "held.stream, held.seq, held.body", f"held.version = {VERSION:d}")
_VECTORS = _ranged("passage_vectors", "held.stream, held.seq, held.body", "held.model = :of_model")
_IN_FORCE = _ranged("messages", "held.stream, held.seq", "held.generation = wanted.generation")


def terms(unit: Unit, tenant: str, wanted: Sequence[Stretch]) -> dict[int, Rows]:
    """By stream what is kept of its messages' terms, in order, of those in force."""
    key = _key(tenant, wanted)
    found = unit.fetch(_TERMS, key) if wanted else []
    # Two ranges side by side: joined row by row they take PostgreSQL many times as long.
    in_force = set(unit.fetch(_IN_FORCE, key)) if found else set()
    return _by_stream(unit, tenant, [row for row in found if row[:2] in in_force])


def vectors(unit: Unit, tenant: str, model: str, wanted: Sequence[Stretch]) -> dict[int, Rows]:
    """By stream what is kept of its messages' vectors, in order, whether or not they are in force."""
    found = unit.fetch(_VECTORS, {**_key(tenant, wanted), "of_model": model}) if wanted else []
    return _by_stream(unit, tenant, found)


def _key(tenant: str, wanted: Sequence[Stretch]) -> dict[str, Any]:
    told = json.dumps([[getattr(one, name) for name in _FIELDS] for one in wanted])
    return {"of_tenant": tenant, "wanted": told}


def _by_stream(unit: Unit, tenant: str, found: list[Any]) -> dict[int, Rows]:
    found.sort()
    by_stream = {stream: list(zip(*rows, strict=True)) for stream, rows in groupby(found, key=lambda row: row[0])}
    return {stream: _opened(unit, tenant, rows[1], rows[2]) for stream, rows in by_stream.items()}


def _opened(unit: Unit, tenant: str, seqs: Sequence[int], bodies: Sequence[bytes]) -> Rows:
    """Without those that were sealed with a key that is gone."""
    if not any(body[:1] == sealing.MARK for body in bodies):
        return list(seqs), list(bodies)
    opened = [(seq, subject_keys.payload(unit, tenant, body)) for seq, body in zip(seqs, bodies, strict=True)]
    held = [(seq, body) for seq, body in opened if body is not None]
    return [seq for seq, _ in held], [body for _, body in held]


def _last(table: sa.Table, of: Mapping[str, Any]) -> Prepared:
    mine = [table.c[name] == value for name, value in of.items()]
    mine += [table.c.tenant == bindparam("of_tenant"), table.c.stream == bindparam("of_stream")]
    return Prepared(lambda dialect: sa.select(table.c.seq).where(*mine).order_by(table.c.seq.desc()).limit(1))


_LAST_TERMS = _last(passage_terms, {"version": sa.literal_column(f"{VERSION:d}")})
_LAST_VECTOR = _last(passage_vectors, {"model": bindparam("of_model")})


def last_terms(unit: Unit, tenant: str, stream: int) -> int:
    """The seq up to which terms are kept: they are written in order."""
    found = unit.run(_LAST_TERMS, {"of_tenant": tenant, "of_stream": stream}).fetchone()
    return int(found[0]) if found else 0


def last_vector(unit: Unit, tenant: str, stream: int, model: str) -> int:
    found = unit.run(_LAST_VECTOR, {"of_tenant": tenant, "of_stream": stream, "of_model": model}).fetchone()
    return int(found[0]) if found else 0


_SAME = Prepared(
    lambda dialect: (
        sa.select(passage_vectors.c.body)
        .where(
            passage_vectors.c.tenant == bindparam("of_tenant"),
            passage_vectors.c.model == bindparam("of_model"),
            passage_vectors.c.hash == bindparam("of_hash"),
        )
        .limit(1)
    )
)


def same(unit: Unit, tenant: str, model: str, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
    """Vectors of texts with these hashes, whoever said them. One by one: of a young table PostgreSQL knows too little
    to look for several in the index."""
    key = {"of_tenant": tenant, "of_model": model}
    found = {name: unit.run(_SAME, {**key, "of_hash": name}).fetchone() for name in dict.fromkeys(hashes)}
    return {name: bytes(row[0]) for name, row in found.items() if row}


# Writing --------------------------------------------------------------------------------------------------------------

_PUT_TERMS = Bulk(
    passage_terms, ("tenant", "stream", "version"), ("seq", "body"), keys=("tenant", "stream", "seq"),
    replaced=("version", "body"),
)  # fmt: skip
_PUT_VECTORS = Bulk(
    passage_vectors, ("tenant", "stream", "model"), ("seq", "hash", "body"), keys=("tenant", "stream", "model", "seq"),
    replaced=("hash", "body"),
)  # fmt: skip
_HOLD = Prepared(
    lambda dialect: (
        sa.select(streams.c.head)
        .where(streams.c.tenant == bindparam("of_tenant"), streams.c.number == bindparam("of_stream"))
        .with_for_update(read=True)
    )
)


def hold(unit: Unit, tenant: str, stream: int) -> None:
    """Let nothing be written to the stream until the unit ends, and so nothing be erased there."""
    unit.run(_HOLD, {"of_tenant": tenant, "of_stream": stream}).fetchone()


def put_terms(unit: Unit, tenant: str, stream: int, rows: Sequence[tuple[int, bytes]]) -> None:
    _PUT_TERMS.run(unit, (tenant, stream, VERSION), rows)


def put_vectors(
    unit: Unit, tenant: str, stream: int, model: str, rows: Sequence[tuple[int, bytes | None, bytes]]
) -> None:
    """Each row with the hash of its text, but for what is sealed."""
    _PUT_VECTORS.run(unit, (tenant, stream, model), rows)


def sealed(unit: Unit, tenant: str, key: bytes | None, body: bytes) -> bytes | None:
    """As its event is: with the key of this id, if any; None when that key is gone."""
    if key is None:
        return body
    held = subject_keys.named(unit, tenant, key)
    return None if held is None else sealing.seal(key, held, bytes(SALT_BYTES), body)


def forget(unit: Unit, tenant: str, stream: int, after: int, upto: int) -> None:
    """What was kept of the events after one seq, up to another: they are erased."""
    for table in TABLES:
        mine = (table.c.tenant == tenant, table.c.stream == stream, table.c.seq > after, table.c.seq <= upto)
        unit.execute(sa.delete(table).where(*mine))


def drop_terms(unit: Unit, tenant: str, stream: int) -> None:
    unit.execute(sa.delete(passage_terms).where(passage_terms.c.tenant == tenant, passage_terms.c.stream == stream))


def has_other_models(unit: Unit, tenant: str, stream: int, model: str) -> bool:
    mine = (passage_vectors.c.tenant == tenant, passage_vectors.c.stream == stream)
    query = sa.select(passage_vectors.c.model).where(*mine).limit(1)
    ends = (query.order_by(passage_vectors.c.model), query.order_by(passage_vectors.c.model.desc()))
    return any(unit.execute(one).scalar() not in (None, model) for one in ends)


def drop_other_models(unit: Unit, tenant: str, stream: int, model: str) -> None:
    """Forget what passages meant to models that are asked no longer."""
    mine = (passage_vectors.c.tenant == tenant, passage_vectors.c.stream == stream, passage_vectors.c.model != model)
    unit.execute(sa.delete(passage_vectors).where(*mine))


def left_over(unit: Unit, tenant: str, stream: int) -> list[int]:
    """The seqs of events that something is kept of though they are erased."""
    found: set[int] = set()
    for table in TABLES:
        of = sa.and_(events.c.tenant == table.c.tenant, events.c.stream == table.c.stream, events.c.seq == table.c.seq)
        query = sa.select(table.c.seq).join(events, of).where(table.c.tenant == tenant, table.c.stream == stream)
        found |= set(unit.execute(query.where(events.c.payload.is_(None))).scalars())
    return sorted(found)
