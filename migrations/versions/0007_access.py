"""Create API keys and the account of what administrators do"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006_subject"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=24), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("scopes", sa.String(length=120), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_api_keys")),
    )
    op.create_index("uq_api_keys_id", "api_keys", ["id"], unique=True)
    op.create_table(
        "admin_acts",
        sa.Column("tenant", sa.String(length=64), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=36), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(length=200), nullable=False),
        sa.Column("act", sa.String(length=64), nullable=False),
        sa.Column("about", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_admin_acts")),
    )


def downgrade() -> None:
    op.drop_table("admin_acts")
    op.drop_index("uq_api_keys_id", table_name="api_keys")
    op.drop_table("api_keys")
