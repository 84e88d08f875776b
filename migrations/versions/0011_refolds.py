"""Find rollbacks and erasures without a look at every event"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011_refolds"
down_revision: str | None = "0010_model_calls"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_REFOLDS = sa.text("kind IN ('context.rolled_back', 'event.redacted')")


def upgrade() -> None:
    op.create_index(
        "ix_events_refolds", "events", ["tenant", "stream", "seq"], sqlite_where=_REFOLDS, postgresql_where=_REFOLDS
    )


def downgrade() -> None:
    op.drop_index("ix_events_refolds", table_name="events")
