"""Create the terms and the vectors of passages, and ask for those of what is there"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012_passages"
down_revision: str | None = "0011_refolds"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_ASK = """INSERT INTO work (tenant, stream, kind, wanted_seq, done_seq, lease_no, leased, due_at, attempts)
    SELECT tenant, number, 'index', head, 0, 0, 0, updated_at, 0 FROM streams WHERE kind = 'session' AND head > 0"""


def upgrade() -> None:
    op.create_table(
        "passage_terms",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "seq", name=op.f("pk_passage_terms")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "passage_vectors",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("model", sa.String(length=200), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "model", "seq", name=op.f("pk_passage_vectors")),
    )
    op.create_index("ix_passage_vectors_hash", "passage_vectors", ["tenant", "model", "hash"], unique=False)
    op.execute(_ASK)


def downgrade() -> None:
    op.execute("DELETE FROM work WHERE kind = 'index'")
    op.drop_index("ix_passage_vectors_hash", table_name="passage_vectors")
    op.drop_table("passage_vectors")
    op.drop_table("passage_terms")
