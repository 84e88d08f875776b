"""What recall reads: the sessions of a subject, and the messages of a session that its index does not hold yet."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import parse_json
from workers.store import sealing, subject_keys
from workers.store.database import DialectName, Prepared, Unit, given, joined
from workers.store.log import is_id, pack_id, unpack_id
from workers.store.models import WITH_EVENTS
from workers.store.tables import checkpoints, events, messages, streams

ROLES = {"user.input": "user", "assistant.output": "assistant", "tool.result": "tool"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message as recall sees it: its text parts alone. `at` is when it happened, in microseconds UTC, `key` the id of
    what it was sealed with, if it was."""

    seq: int
    unit: int
    event_id: str
    role: str
    speaker: str
    text: str
    at: int
    recorded_at: int
    key: bytes | None = None


_OF_SUBJECT = Prepared(
    lambda dialect: (
        sa.select(streams.c.number, checkpoints.c.generation, checkpoints.c.seq, streams.c.stream_id, streams.c.about)
        .join(
            checkpoints,
            sa.and_(checkpoints.c.tenant == streams.c.tenant, checkpoints.c.stream == streams.c.number),
        )
        .where(streams.c.tenant == bindparam("of_tenant"), streams.c.subject == bindparam("of_subject"))
        .order_by(streams.c.number.desc())
        .limit(bindparam("most"))
    )
)


@dataclass(frozen=True, slots=True)
class Session:
    """A session by its number and name, projected up to `seq`; `forked_from` names the session it is a copy of, if it
    is one."""

    number: int
    generation: int
    seq: int
    name: str
    forked_from: str | None


def sessions_of(unit: Unit, tenant: str, subject: str, most: int) -> list[Session]:
    """The newest sessions of a subject, newest first."""
    found = unit.run(_OF_SUBJECT, {"of_tenant": tenant, "of_subject": subject, "most": most}).fetchall()
    return [
        Session(number, generation, seq, name.split("/", 1)[1], parse_json(about).get("forked_from"))
        for number, generation, seq, name, about in found
    ]


_COLUMNS = (
    messages.c.seq, messages.c.unit, messages.c.event_id, events.c.kind, events.c.payload, events.c.occurred_at,
    events.c.recorded_at,
)  # fmt: skip


_SAYS = sa.or_(*(events.c.kind == sa.literal_column(f"'{kind}'") for kind in ROLES))
"""Asked of the database: whoever counts rows must not take many that say nothing for the end of the session."""


def _within(found: Any, seq: "sa.Column[int]") -> Any:
    """Those of the next `most` rows whose payloads together begin within `size` bytes: the first one always."""
    bytes_ = sa.func.length(events.c.payload)
    next_ = found.with_only_columns(seq.label("seq"), bytes_.label("bytes")).subquery("next")
    before = sa.func.sum(next_.c.bytes).over(order_by=next_.c.seq) - next_.c.bytes
    sums = sa.select(next_.c.seq, before.label("before")).subquery("sums")
    last = sa.select(sa.func.max(sums.c.seq)).where(sums.c.before < bindparam("size")).scalar_subquery()
    return found.where(seq <= last)


_AFTER = Prepared(
    lambda dialect: _within(
        sa.select(*_COLUMNS)
        .select_from(WITH_EVENTS)
        .where(
            messages.c.tenant == bindparam("of_tenant"),
            messages.c.stream == bindparam("of_stream"),
            messages.c.generation == bindparam("of_generation"),
            messages.c.seq > bindparam("after"),
            events.c.payload.is_not(None),
            _SAYS,
        )
        .order_by(messages.c.seq)
        .limit(bindparam("most")),
        messages.c.seq,
    )
)


_PLACE = ("stream", "generation", "seq")


def _these(dialect: DialectName) -> sa.ClauseElement:
    held = " AND ".join(["messages.tenant = :of_tenant", *(f"messages.{name} = wanted.{name}" for name in _PLACE)])
    logged = "events.tenant = :of_tenant AND events.stream = messages.stream AND events.seq = messages.seq"
    found = joined(
        dialect, joined(dialect, given(dialect, _PLACE), "messages", "messages", held), "events", "events", logged
    )
    kinds = ", ".join(f"'{kind}'" for kind in ROLES)
    columns = ", ".join(("messages.stream", *map(str, _COLUMNS)))
    return sa.text(f"SELECT {columns} FROM {found} WHERE events.payload IS NOT NULL AND events.kind IN ({kinds})")


_THESE = Prepared(_these)


_LOGGED = Prepared(
    lambda dialect: _within(
        sa.select(
            events.c.seq, sa.literal_column("0"), events.c.event_id, events.c.kind, events.c.payload,
            events.c.occurred_at, events.c.recorded_at,
        )
        .where(
            events.c.tenant == bindparam("of_tenant"),
            events.c.stream == bindparam("of_stream"),
            events.c.seq > bindparam("after"),
            events.c.payload.is_not(None),
            _SAYS,
        )
        .order_by(events.c.seq)
        .limit(bindparam("most")),
        events.c.seq,
    )
)  # fmt: skip


def logged(unit: Unit, tenant: str, stream: int, seq: int, most: int, size: int) -> list[Spoken]:
    """The next events of the log after a seq that say something, whether or not a rollback hides them: `most` of them,
    and no further one once there are `size` bytes."""
    key = {"of_tenant": tenant, "of_stream": stream, "after": seq, "most": most, "size": size}
    return list(_read(unit, tenant, unit.run(_LOGGED, key).fetchall()))


def places(unit: Unit, tenant: str, numbers: Collection[int], ids: Collection[str]) -> list[tuple[int, int, str]]:
    """Where events with these ids stand in these streams: the number of the stream, the seq, and the id."""
    keys = [pack_id(one) for one in ids if is_id(one)]
    query = sa.select(events.c.stream, events.c.seq, events.c.event_id).where(
        events.c.tenant == tenant, events.c.stream.in_(numbers), events.c.event_id.in_(keys)
    )
    return [(stream, seq, unpack_id(key)) for stream, seq, key in unit.execute(query)] if keys else []


def after(unit: Unit, tenant: str, stream: int, generation: int, seq: int, most: int, size: int) -> list[Spoken]:
    """The next messages after a seq that say something: `most` of them, and no further one once there are `size`
    bytes."""
    key = {"of_tenant": tenant, "of_stream": stream, "after": seq, "most": most, "size": size}
    key["of_generation"] = generation
    return list(_read(unit, tenant, unit.run(_AFTER, key).fetchall()))


def these(unit: Unit, tenant: str, places: Collection[tuple[int, int, int]]) -> list[tuple[int, Spoken]]:
    """The messages at these places, stream, generation and seq, each with its stream, but for those that are gone."""
    found = unit.fetch(_THESE, {"of_tenant": tenant, "wanted": json.dumps(sorted(places))})
    return [(row[0], said) for row, said in zip(found, _read(unit, tenant, [row[1:] for row in found]), strict=True)]


def _read(unit_of_work: Unit, tenant: str, rows: Any) -> Iterator[Spoken]:
    for seq, unit, event_id, kind, payload, occurred_at, recorded_at in rows:
        role = ROLES[kind]
        said = subject_keys.payload(unit_of_work, tenant, payload)
        told = parse_json(said) if said is not None else {}
        yield Spoken(
            seq, unit, unpack_id(event_id), role, told.get("name") or "" if role == "user" else "",
            _text(told.get("content")), occurred_at or recorded_at, recorded_at,
            sealing.key_name(payload) if payload[:1] == sealing.MARK else None,
        )  # fmt: skip


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
