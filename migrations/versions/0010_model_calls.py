"""Create the account of what models were asked"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010_model_calls"
down_revision: str | None = "0009_trace"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "model_calls",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("stream", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("task", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("outcome", sa.String(length=200), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", "id", name=op.f("pk_model_calls")),
    )
    op.create_index("ix_model_calls_at", "model_calls", ["tenant", "stream", "at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_model_calls_at", table_name="model_calls")
    op.drop_table("model_calls")
