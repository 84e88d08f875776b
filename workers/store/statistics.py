"""Sizes of messages as they were counted, page by page, for statistics."""

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import bindparam

from domain.canonical import parse_json
from domain.events import AssistantOutput
from workers.store import models, subject_keys
from workers.store.counts import LearningCounter
from workers.store.database import Prepared, Unit
from workers.store.models import WITH_EVENTS
from workers.store.tables import events, message_tokens, messages

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Size:
    """`output` is what the provider said that the answer took, if it is one and was said."""

    role: str
    tool: str | None
    tokens: int
    output: int | None


_PAGE = Prepared(
    lambda dialect: (
        sa.select(
            messages.c.seq,
            messages.c.body,
            message_tokens.c.tokens,
            sa.case((events.c.kind == AssistantOutput.kind, events.c.payload)),
        )
        .select_from(
            WITH_EVENTS.outerjoin(
                message_tokens,
                sa.and_(
                    message_tokens.c.tenant == messages.c.tenant,
                    message_tokens.c.stream == messages.c.stream,
                    message_tokens.c.generation == messages.c.generation,
                    message_tokens.c.counting == bindparam("of_counting"),
                    message_tokens.c.seq == messages.c.seq,
                ),
            )
        )
        .where(
            messages.c.tenant == bindparam("of_tenant"),
            messages.c.stream == bindparam("of_stream"),
            messages.c.generation == bindparam("of_generation"),
            messages.c.seq > bindparam("after"),
        )
        .order_by(messages.c.seq)
        .limit(PAGE)
    )
)


def sizes(unit: Unit, tenant: str, stream: int, generation: int, count: LearningCounter) -> Iterator[Size]:
    """All messages in force, in order; what is not counted yet is counted now."""
    key = {"of_tenant": tenant, "of_stream": stream, "of_generation": generation, "of_counting": count.key}
    after = 0
    while page := unit.run(_PAGE, {**key, "after": after}).fetchall():
        fresh = _counted(unit, tenant, stream, generation, [row[0] for row in page if row[2] is None], count)
        for seq, body, tokens, payload in page:
            said = parse_json(body)
            yield Size(
                said["role"],
                said.get("name"),
                fresh[seq] if tokens is None else tokens,
                _output(subject_keys.payload(unit, tenant, payload)),
            )
        after = page[-1][0]


def _counted(
    unit: Unit, tenant: str, stream: int, generation: int, seqs: list[int], count: LearningCounter
) -> dict[int, int]:
    if not seqs:
        return {}
    query = models.select_messages(tenant, stream, generation).where(messages.c.seq.in_(seqs))
    found = (models.read_message(models.readable(unit, tenant, row)) for row in unit.execute(query))
    return {message.seq: count.message(message) for message in found}


def _output(payload: bytes | None) -> int | None:
    if payload is None or b'"output_tokens"' not in payload:
        return None
    usage = parse_json(payload).get("usage")
    told = usage.get("output_tokens") if isinstance(usage, dict) else None
    return told if isinstance(told, int) else None
