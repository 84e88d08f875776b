"""Everything that is SQL: tables, the log, read-models, work, jobs, snapshots, documents."""

from workers.store.database import Database, Unit

__all__ = ["Database", "Unit"]
