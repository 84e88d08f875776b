"""Keep with a job the trace of the request that asked for it"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009_trace"
down_revision: str | None = "0008_request"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("traceparent", sa.String(length=55), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "traceparent")
