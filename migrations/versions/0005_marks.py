"""Find flags and labels in all sessions at once"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005_marks"
down_revision: str | None = "0004_keys"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_MARKS = sa.text("kind IN ('output.flagged', 'snapshot.labelled')")


def upgrade() -> None:
    op.create_index(
        "ix_events_marks", "events", ["tenant", "stream", "seq"], sqlite_where=_MARKS, postgresql_where=_MARKS
    )


def downgrade() -> None:
    op.drop_index("ix_events_marks", table_name="events")
