"""Let the application have PostgreSQL count its rows, which only an owner may"""

from collections.abc import Sequence

from alembic import op

revision: str = "0003"
down_revision: str | None = "0002_work"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_COUNT_ROWS = """CREATE FUNCTION promptctx_count_rows() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$ BEGIN ANALYZE events, messages, message_tokens, rows, streams; END $$"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_COUNT_ROWS)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION promptctx_count_rows()")
