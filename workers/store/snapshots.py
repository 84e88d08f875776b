"""Snapshots: compiled prompts, immutable."""

from workers.store.database import Unit


def redact(unit: Unit, tenant: str, session: int, event_id: str, now: int) -> None:
    """Mark the snapshots that an erased event is in."""
