"""The tables. Every key starts with the tenant; times are integer UTC microseconds; what callers wrote is bytes.

`info` says where a table's walls (`workers.store.walls`) differ from the rest: `across` is what a unit of every tenant
may do, `may` what the application may do at all.

A stream is known outside by its name (`session/s-1`) and inside by its number, which is short: it stands in every row
and index of the log and of the read-models.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, Identity, Index, Integer, LargeBinary, MetaData, String, Table, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

TENANT = String(64)
NAME = String(220)
SHORT = String(200)


def _key(name: str, kind: Any = BigInteger) -> "Column[Any]":
    return Column(name, kind, primary_key=True, autoincrement=False)


_MARKS = text("kind IN ('output.flagged', 'snapshot.labelled')")
_REFOLDS = text("kind IN ('context.rolled_back', 'event.redacted')")

# The log ------------------------------------------------------------------------------------------------------------

streams = Table(
    "streams",
    metadata,
    _key("tenant", TENANT),
    _key("stream_id", NAME),
    Column("number", BigInteger, Identity(), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("head_digest", LargeBinary, nullable=False),
    # JSON of what lists and routing need: subject, parent, mode, model, locale, title, source.
    Column("about", LargeBinary, nullable=False),
    # Of a session: whose it is, if anybody's. Recall looks through all sessions of a subject.
    Column("subject", SHORT),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("uq_streams_number", "number", unique=True),
    Index("ix_streams_tenant_kind_number", "tenant", "kind", "number"),
    Index("ix_streams_subject", "tenant", "subject", "number"),
    info={"across": ("SELECT",)},
)

events = Table(
    "events",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("seq"),
    Column("event_id", LargeBinary, nullable=False),
    Column("kind", SHORT, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("occurred_at", BigInteger),
    Column("actor", SHORT),
    Column("run_id", SHORT),
    Column("causation_id", SHORT),
    Column("correlation_id", SHORT),
    # Of an event that was routed here: the session it came through, and that session's seq then.
    Column("origin", String(240)),
    Column("payload", LargeBinary),
    Column("salt", LargeBinary),
    Column("payload_hash", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Index("uq_events_tenant_stream_event_id", "tenant", "stream", "event_id", unique=True),
    # Flags and labels are few, and looked for in all sessions at once.
    Index("ix_events_marks", "tenant", "stream", "seq", sqlite_where=_MARKS, postgresql_where=_MARKS),
    # Rollbacks and erasures are few, too, and asked for whenever a stream is folded.
    Index("ix_events_refolds", "tenant", "stream", "seq", sqlite_where=_REFOLDS, postgresql_where=_REFOLDS),
    info={"may": "SELECT, INSERT, UPDATE (payload, salt)"},
)

# Read-models --------------------------------------------------------------------------------------------------------

checkpoints = Table(
    "checkpoints",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    # The live generation of the rows; a refold builds the next one beside it.
    Column("generation", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # The generation last begun: only that one can become the live one.
    Column("building", BigInteger, nullable=False, server_default="0"),
    # The version of the fold that wrote the live rows.
    Column("fold", Integer, nullable=False, server_default="1"),
)

rows = Table(
    "rows",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("generation"),
    _key("name", String(32)),
    _key("key", LargeBinary),
    Column("body", LargeBinary, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("generation"),
    _key("seq"),
    Column("event_id", LargeBinary, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("uq_messages_event_id", "tenant", "stream", "generation", "event_id", unique=True),
    Index("ix_messages_unit", "tenant", "stream", "generation", "unit", "seq"),
)

message_tokens = Table(
    "message_tokens",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("generation"),
    _key("counting", String(64)),
    _key("seq"),
    Column("tokens", BigInteger, nullable=False),
    # Running totals over all messages up to and with this one.
    Column("total_tokens", BigInteger, nullable=False),
    Column("total_messages", BigInteger, nullable=False),
    Column("total_units", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

_IS_DUE, _IS_PARKED = text("due_at IS NOT NULL"), text("parked_at IS NOT NULL")

# Work ---------------------------------------------------------------------------------------------------------------

work = Table(
    "work",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("kind", String(16)),
    Column("wanted_seq", BigInteger, nullable=False),
    Column("done_seq", BigInteger, nullable=False),
    # The fencing number: whoever claimed last holds the highest.
    Column("lease_no", BigInteger, nullable=False),
    Column("leased", Integer, nullable=False),
    # When anyone may claim: now, at the end of the lease, or after a pause; empty when there is nothing to do.
    Column("due_at", BigInteger),
    Column("attempts", Integer, nullable=False),
    Column("last_error", LargeBinary),
    Column("parked_at", BigInteger),
    Index("ix_work_kind_due_at", "kind", "due_at", sqlite_where=_IS_DUE, postgresql_where=_IS_DUE),
    Index("ix_work_parked_at", "parked_at", sqlite_where=_IS_PARKED, postgresql_where=_IS_PARKED),
    sqlite_with_rowid=False,
    # Updated in place, several times per append: room on the page keeps such updates cheap.
    postgresql_with={"fillfactor": 70},
    info={"across": ("SELECT", "UPDATE")},
)

jobs = Table(
    "jobs",
    metadata,
    _key("tenant", TENANT),
    _key("id", String(36)),
    Column("stream", BigInteger, nullable=False),
    # 1, 2, 3 … in the session: jobs run in this order.
    Column("number", BigInteger, nullable=False),
    Column("view", String(64), nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("fresh", Integer, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("heads", LargeBinary, nullable=False),
    Column("as_of", BigInteger, nullable=False),
    Column("predecessor", String(36)),
    Column("status", String(16), nullable=False),
    Column("prompt", String(36)),
    Column("error", LargeBinary),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("request_id", String(100)),
    # Of the span that asked for it, as W3C writes it, so that whoever compiles it goes on with its trace.
    Column("traceparent", String(55)),
    Index("uq_jobs_number", "tenant", "stream", "number", unique=True),
    Index("ix_jobs_view", "tenant", "stream", "view", "number"),
)

# Snapshots and texts ------------------------------------------------------------------------------------------------

snapshots = Table(
    "snapshots",
    metadata,
    _key("tenant", TENANT),
    _key("id", String(36)),
    Column("stream", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("parent", String(36)),
    Column("view", String(64), nullable=False),
    # Set on the snapshot that answers all requests of this key: the first one stored.
    Column("key", LargeBinary),
    # JSON of what lists show: mode, format, model, tokens, budget.
    Column("about", LargeBinary, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("redacted_at", BigInteger),
    # The layout, which the next compile of the view reads, and all the rest; both packed. Empty once erased.
    Column("layout", LargeBinary),
    Column("body", LargeBinary),
    Index("uq_snapshots_version", "tenant", "stream", "version", unique=True),
    Index("uq_snapshots_key", "tenant", "stream", "key", unique=True),
)

texts = Table(
    "texts",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("hash", LargeBinary),
    Column("body", LargeBinary, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("document_id", SHORT),
    Column("hash", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # JSON: title, source, media_type.
    Column("about", LargeBinary, nullable=False),
)

document_blocks = Table(
    "document_blocks",
    metadata,
    _key("tenant", TENANT),
    _key("hash", LargeBinary),
    _key("start"),
    Column("body", LargeBinary, nullable=False),
)

# An upload whose log event is not there yet: blocks that stay behind are swept by it.
uploads = Table(
    "uploads",
    metadata,
    _key("tenant", TENANT),
    _key("hash", LargeBinary),
    Column("started_at", BigInteger, nullable=False),
)

# Recall -------------------------------------------------------------------------------------------------------------

# The terms of what an event said, by passage, whatever the fold makes of it: see domain/recall/packing.py.
passage_terms = Table(
    "passage_terms",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("seq"),
    Column("version", Integer, nullable=False),
    # Sealed where the payload of its event is.
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# What its passages mean to a model.
passage_vectors = Table(
    "passage_vectors",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("model", SHORT),
    _key("seq"),
    # Of the text, so that the same text is not asked of the model twice; of what is sealed there is none.
    Column("hash", LargeBinary),
    Column("body", LargeBinary, nullable=False),
    Index("ix_passage_vectors_hash", "tenant", "model", "hash"),
)

# Erasure ------------------------------------------------------------------------------------------------------------

# What a subject's payloads are sealed with, itself sealed with the operator's key. A row that is gone is the erasure.
subject_keys = Table(
    "subject_keys",
    metadata,
    _key("tenant", TENANT),
    _key("id", LargeBinary),
    Column("subject", NAME, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("uq_subject_keys_subject", "tenant", "subject", unique=True),
)

# Who was erased and when: also what is to be erased again after an older backup was restored.
erasures = Table(
    "erasures",
    metadata,
    _key("tenant", TENANT),
    _key("id", String(36)),
    Column("subject", NAME, nullable=False),
    Column("reason", LargeBinary, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    # JSON of how much was erased.
    Column("told", LargeBinary),
    Index("ix_erasures_subject", "tenant", "subject"),
)

# Access -------------------------------------------------------------------------------------------------------------

api_keys = Table(
    "api_keys",
    metadata,
    _key("tenant", TENANT),
    _key("id", String(24)),
    Column("name", SHORT, nullable=False),
    # With blanks between them.
    Column("scopes", String(120), nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    # Whoever shows a key does not say whose it is.
    Index("uq_api_keys_id", "id", unique=True),
    info={"across": ("SELECT",)},
)

admin_acts = Table(
    "admin_acts",
    metadata,
    _key("tenant", TENANT),
    _key("id", String(36)),
    Column("at", BigInteger, nullable=False),
    # The id of a key, or `operator`.
    Column("by", SHORT, nullable=False),
    Column("act", String(64), nullable=False),
    # JSON of ids and numbers, never of what anyone wrote.
    Column("about", LargeBinary, nullable=False),
    info={"across": ("SELECT",), "may": "SELECT, INSERT"},
)

# Models -------------------------------------------------------------------------------------------------------------

model_calls = Table(
    "model_calls",
    metadata,
    _key("tenant", TENANT),
    _key("stream"),
    _key("id", String(36)),
    Column("at", BigInteger, nullable=False),
    # What it was asked for: a summary, facts, other words for a query, an order of passages.
    Column("task", String(32), nullable=False),
    Column("model", SHORT, nullable=False),
    # How it ended: `answered`, or why not in a few words.
    Column("outcome", SHORT, nullable=False),
    Column("tokens_in", BigInteger, nullable=False),
    Column("tokens_out", BigInteger, nullable=False),
    Index("ix_model_calls_at", "tenant", "stream", "at"),
    info={"may": "SELECT, INSERT"},
)
