"""The clock that is passed in, and times on the wire: integer UTC microseconds inside, RFC 3339 outside."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from domain.errors import InvalidEvent, InvalidRequest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    def now(self) -> int:
        """UTC microseconds since 1970."""
        ...


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1000


class SetClock:
    """A clock that stands until it is moved: same inputs, same times."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def move(self, microseconds: int) -> None:
        self._now += microseconds


def format_time(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    moment = _EPOCH + microseconds * _MICROSECOND
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def parse_time(value: object, path: str, error: type[InvalidEvent] | type[InvalidRequest] = InvalidEvent) -> int | None:
    """Microseconds of an RFC 3339 time; one without an offset is UTC. Raises `error` naming the field."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None:
            return _microseconds(moment)
    except (ValueError, OverflowError):
        pass
    raise error(f"{path}: not an RFC 3339 time such as 2026-01-31T09:30:00Z.", path=path)


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND
