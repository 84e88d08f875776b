"""Find due work by kind, and have PostgreSQL clean the work table as often as it changes"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002_work"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_IS_DUE, _IS_PARKED = sa.text("due_at IS NOT NULL"), sa.text("parked_at IS NOT NULL")
_CLEANING = {
    # A few rows that change all the time: counted in changes, not as a share of the table.
    "autovacuum_vacuum_scale_factor": "0.0",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_analyze_scale_factor": "0.0",
    "autovacuum_analyze_threshold": "10000",
    "autovacuum_vacuum_cost_delay": "0",
}


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def upgrade() -> None:
    op.drop_index("ix_work_due_at", table_name="work")
    op.create_index("ix_work_kind_due_at", "work", ["kind", "due_at"], sqlite_where=_IS_DUE, postgresql_where=_IS_DUE)
    op.create_index("ix_work_parked_at", "work", ["parked_at"], sqlite_where=_IS_PARKED, postgresql_where=_IS_PARKED)
    if _is_postgresql():
        op.execute(f"ALTER TABLE work SET ({', '.join(f'{name} = {value}' for name, value in _CLEANING.items())})")


def downgrade() -> None:
    if _is_postgresql():
        op.execute(f"ALTER TABLE work RESET ({', '.join(_CLEANING)})")
    op.drop_index("ix_work_parked_at", table_name="work")
    op.drop_index("ix_work_kind_due_at", table_name="work")
    op.create_index("ix_work_due_at", "work", ["due_at"], sqlite_where=_IS_DUE, postgresql_where=_IS_DUE)
