"""Keep with a job the id of the request that asked for it"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008_request"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("request_id", sa.String(length=100), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "request_id")
