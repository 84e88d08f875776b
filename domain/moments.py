"""Moments that callers write down: ISO 8601 texts, read as microseconds UTC."""

from datetime import UTC, datetime


def moment(text: str | None) -> int | None:
    """An ISO 8601 time as microseconds UTC, one without a zone taken as UTC; None for what is no time."""
    found = _read(text) if text else None
    return None if found is None else round(found.timestamp() * 1_000_000)


def in_utc(text: str) -> str:
    """The same moment written in UTC, so that times with and without a zone compare. Raises ValueError."""
    found = _read(text)
    if found is None:
        raise ValueError("no ISO 8601 time, as in 2026-05-08T13:56:00Z")
    return found.isoformat().replace("+00:00", "Z")


def written(at: int) -> str:
    """Microseconds UTC as `in_utc` writes them."""
    whole = datetime.fromtimestamp(at // 1_000_000, UTC)
    return whole.replace(microsecond=at % 1_000_000).isoformat().replace("+00:00", "Z")


def _read(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
