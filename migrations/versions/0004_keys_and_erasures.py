"""Add generations under construction, uploads under way, subject keys and erasures"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004_keys"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    # Nothing is rewritten: both databases keep a constant default beside the rows that are there.
    op.add_column("checkpoints", sa.Column("building", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("checkpoints", sa.Column("fold", sa.Integer(), server_default="1", nullable=False))
    op.create_table(
        "uploads",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "hash", name=op.f("pk_uploads")),
    )
    op.create_table(
        "subject_keys",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("id", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("subject", sa.String(length=220), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_subject_keys")),
    )
    op.create_index("uq_subject_keys_subject", "subject_keys", ["tenant", "subject"], unique=True)
    op.create_table(
        "erasures",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), autoincrement=False, nullable=False),
        sa.Column("subject", sa.String(length=220), nullable=False),
        sa.Column("reason", sa.LargeBinary(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("told", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_erasures")),
    )
    op.create_index("ix_erasures_subject", "erasures", ["tenant", "subject"], unique=False)


def downgrade() -> None:
    op.drop_table("erasures")
    op.drop_table("subject_keys")
    op.drop_table("uploads")
    op.drop_column("checkpoints", "fold")
    op.drop_column("checkpoints", "building")
