"""Runs the migrations on the connection that `workers.store.migrate` hands over, or on the configured store."""

from alembic import context

from workers.store.tables import metadata


def run(connection: object) -> None:
    context.configure(
        connection=connection,  # type: ignore[arg-type]
        target_metadata=metadata,
        compare_type=True,
        # The caller holds the transaction: a failed migration leaves nothing behind.
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    from workers.settings import load_settings
    from workers.store import migrate

    with migrate.exclusive(load_settings().database_url) as opened, migrate.unwalled(opened):
        run(opened)
