"""Everything that is SQL: tables, the log, read-models, work, jobs, snapshots, documents."""

from workers.store.database import EVERY, Database, Unit

__all__ = ["EVERY", "Database", "Unit"]
