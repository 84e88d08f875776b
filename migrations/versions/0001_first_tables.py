"""Create the log, the read-models, the work rows, snapshots and documents"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


_CHANGED = """
NEW.payload IS NOT NULL OR NEW.salt IS NOT NULL
""" + "".join(
    f"OR NEW.{name} IS {{distinct}} OLD.{name}\n"
    for name in (
        "tenant", "stream", "seq", "event_id", "kind", "schema_version", "recorded_at", "occurred_at", "actor", "run_id",
        "causation_id", "correlation_id", "origin", "payload_hash", "digest",
    )
)  # fmt: skip
"""Anything but the erasure of a payload together with its salt."""

_REFUSAL = "events are immutable; only a payload may be erased, together with its salt"

_SQLITE = (
    f"""CREATE TRIGGER events_update BEFORE UPDATE ON events WHEN {_CHANGED.format(distinct="NOT")}
    BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END""",
    f"CREATE TRIGGER events_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
)

_POSTGRESQL = (
    f"""CREATE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'restrict_violation'; END $$""",
    f"""CREATE TRIGGER events_update BEFORE UPDATE ON events FOR EACH ROW
    WHEN ({_CHANGED.format(distinct="DISTINCT FROM")}) EXECUTE FUNCTION events_refuse()""",
    "CREATE TRIGGER events_delete BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION events_refuse()",
    "CREATE TRIGGER events_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION events_refuse()",
)


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", name=op.f("pk_checkpoints")),
    )
    op.create_table(
        "document_blocks",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "hash", "start", name=op.f("pk_document_blocks")),
    )
    op.create_table(
        "documents",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("document_id", sa.String(length=200), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("chunks", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("about", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "document_id", name=op.f("pk_documents")),
    )
    op.create_table(
        "events",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.String(length=200), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=True),
        sa.Column("actor", sa.String(length=200), nullable=True),
        sa.Column("run_id", sa.String(length=200), nullable=True),
        sa.Column("causation_id", sa.String(length=200), nullable=True),
        sa.Column("correlation_id", sa.String(length=200), nullable=True),
        sa.Column("origin", sa.String(length=240), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("salt", sa.LargeBinary(), nullable=True),
        sa.Column("payload_hash", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "seq", name=op.f("pk_events")),
    )
    op.create_index("uq_events_tenant_stream_event_id", "events", ["tenant", "stream", "event_id"], unique=True)
    op.create_table(
        "jobs",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("view", sa.String(length=64), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("fresh", sa.Integer(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("heads", sa.LargeBinary(), nullable=False),
        sa.Column("as_of", sa.BigInteger(), nullable=False),
        sa.Column("predecessor", sa.String(length=36), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("prompt", sa.String(length=36), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_view", "jobs", ["tenant", "stream", "view", "number"], unique=False)
    op.create_index("uq_jobs_number", "jobs", ["tenant", "stream", "number"], unique=True)
    op.create_table(
        "message_tokens",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("counting", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("total_tokens", sa.BigInteger(), nullable=False),
        sa.Column("total_messages", sa.BigInteger(), nullable=False),
        sa.Column("total_units", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "generation", "counting", "seq", name=op.f("pk_message_tokens")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "messages",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.LargeBinary(), nullable=False),
        sa.Column("unit", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "generation", "seq", name=op.f("pk_messages")),
    )
    op.create_index("ix_messages_unit", "messages", ["tenant", "stream", "generation", "unit", "seq"], unique=False)
    op.create_index("uq_messages_event_id", "messages", ["tenant", "stream", "generation", "event_id"], unique=True)
    op.create_table(
        "rows",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=32), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "generation", "name", "key", name=op.f("pk_rows")),
    )
    op.create_table(
        "snapshots",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("parent", sa.String(length=36), nullable=True),
        sa.Column("view", sa.String(length=64), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=True),
        sa.Column("about", sa.LargeBinary(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("redacted_at", sa.BigInteger(), nullable=True),
        sa.Column("layout", sa.LargeBinary(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_snapshots")),
    )
    op.create_index("uq_snapshots_key", "snapshots", ["tenant", "stream", "key"], unique=True)
    op.create_index("uq_snapshots_version", "snapshots", ["tenant", "stream", "version"], unique=True)
    op.create_table(
        "streams",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream_id", sa.String(length=220), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("head", sa.BigInteger(), nullable=False),
        sa.Column("head_digest", sa.LargeBinary(), nullable=False),
        sa.Column("about", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream_id", name=op.f("pk_streams")),
    )
    op.create_index("ix_streams_tenant_kind_number", "streams", ["tenant", "kind", "number"], unique=False)
    op.create_index("uq_streams_number", "streams", ["number"], unique=True)
    op.create_table(
        "texts",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "hash", name=op.f("pk_texts")),
    )
    op.create_table(
        "work",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), autoincrement=False, nullable=False),
        sa.Column("wanted_seq", sa.BigInteger(), nullable=False),
        sa.Column("done_seq", sa.BigInteger(), nullable=False),
        sa.Column("lease_no", sa.BigInteger(), nullable=False),
        sa.Column("leased", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.LargeBinary(), nullable=True),
        sa.Column("parked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "stream", "kind", name=op.f("pk_work")),
        postgresql_with={"fillfactor": 70},
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_work_due_at",
        "work",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    for statement in _POSTGRESQL if op.get_bind().dialect.name == "postgresql" else _SQLITE:
        op.execute(statement)


def downgrade() -> None:
    op.drop_index(
        "ix_work_due_at",
        table_name="work",
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.drop_table("work")
    op.drop_table("texts")
    op.drop_index("uq_streams_number", table_name="streams")
    op.drop_index("ix_streams_tenant_kind_number", table_name="streams")
    op.drop_table("streams")
    op.drop_index("uq_snapshots_version", table_name="snapshots")
    op.drop_index("uq_snapshots_key", table_name="snapshots")
    op.drop_table("snapshots")
    op.drop_table("rows")
    op.drop_index("uq_messages_event_id", table_name="messages")
    op.drop_index("ix_messages_unit", table_name="messages")
    op.drop_table("messages")
    op.drop_table("message_tokens")
    op.drop_index("uq_jobs_number", table_name="jobs")
    op.drop_index("ix_jobs_view", table_name="jobs")
    op.drop_table("jobs")
    op.drop_index("uq_events_tenant_stream_event_id", table_name="events")
    op.drop_table("events")
    op.drop_table("documents")
    op.drop_table("document_blocks")
    op.drop_table("checkpoints")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION events_refuse()")
