"""Find the sessions of a subject, which recall looks through"""

import json
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006_subject"
down_revision: str | None = "0005_marks"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_streams = sa.table("streams", sa.column("tenant"), sa.column("stream_id"), sa.column("about"), sa.column("subject"))


def upgrade() -> None:
    op.add_column("streams", sa.Column("subject", sa.String(200)))
    op.create_index("ix_streams_subject", "streams", ["tenant", "subject", "number"])
    connection = op.get_bind()
    told = connection.execute(sa.select(_streams.c.tenant, _streams.c.stream_id, _streams.c.about)).fetchall()
    for tenant, stream_id, about in told:
        if subject := json.loads(about).get("subject"):
            mine = (_streams.c.tenant == tenant, _streams.c.stream_id == stream_id)
            connection.execute(sa.update(_streams).where(*mine).values(subject=subject))


def downgrade() -> None:
    op.drop_index("ix_streams_subject", "streams")
    op.drop_column("streams", "subject")
