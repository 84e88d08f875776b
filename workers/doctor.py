"""Doctor: what is configured, what of it answers, and what waits for a person."""

from collections import Counter
from functools import partial
from typing import Any

import redis
import sqlalchemy as sa

from domain.errors import PromptctxError
from workers.app import make_app
from workers.assembly import modes
from workers.clock import Clock, SystemClock
from workers.settings import Settings, masked
from workers.store import EVERY, Database, files, migrate, work

Json = dict[str, Any]

LATE = 60.0
"""Seconds after which due work means that nobody works."""

SKEW = 2.0
"""Seconds by which the clocks of the database and of this machine may differ before it is worth a word."""

WAL_LIMIT = 512 * 1024 * 1024
"""Bytes of a write-ahead log that a reader which never ends must have kept from being cleared."""


def examine(settings: Settings, clock: Clock | None = None) -> Json:
    """The findings; `problems` says in sentences what to do."""
    found: Json = {
        "dispatcher": settings.dispatcher,
        "database": masked(settings.database_url),
        "broker": masked(settings.broker_url) if settings.broker_url else None,
        "modes": sorted(modes(settings)),
        "problems": [],
    }
    for look in (_file, partial(_store, clock=clock or SystemClock()), _broker):
        try:
            look(settings, found)
        except PromptctxError as error:
            found["problems"].append(error.message)
    return found


def _file(settings: Settings, found: Json) -> None:
    file = files.path_of(sa.make_url(settings.database_url))
    if file is None:
        return
    kind = files.network_file_system(file)
    found["file_system"] = kind or "local"
    if kind:
        found["problems"].append(
            f"{file} lies on a network file system ({kind}), where SQLite's locks do not hold and data is lost: move it"
            " to a disk of this machine, or use PostgreSQL."
        )
    log = file.with_name(f"{file.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > WAL_LIMIT:
        found["problems"].append(
            f"{log} has grown to {size >> 20} MiB: a reader that never ends keeps it from being cleared; find it and"
            " stop it."
        )


def _store(settings: Settings, found: Json, clock: Clock) -> None:
    migrate.check(settings.database_url)
    database = Database(settings.database_url)
    try:
        with database.read(EVERY) as unit:
            seen, parked = work.overview(unit), work.parked(unit, 20)
            skew = (unit.now() - clock.now()) / 1_000_000
    finally:
        database.dispose()
    _clocks(skew, found)
    if (standing := migrate.findings(settings.database_url)) is not None:
        found["row_level_security"] = standing
        found["problems"] += [standing["problem"]] if "problem" in standing else []
    found["work"] = {
        "due": seen.due,
        "oldest_due_seconds": round(seen.oldest_seconds, 1),
        "open": seen.open,
        "failing": seen.failing,
        "parked": parked,
    }
    if seen.oldest_seconds > LATE:
        found["problems"].append(
            f"Work has been due for {seen.oldest_seconds:.0f} s: start a worker, `python -m workers worker`."
        )
    for row in parked:
        reason = row["error"].get("message", "unknown")
        found["problems"].append(
            f"{row['kind']} of {row['stream']} ({row['tenant']}) is parked: {reason}. When that is mended,"
            f" `python -m workers retry --tenant {row['tenant']}`."
        )


def _clocks(skew: float, found: Json) -> None:
    found["clock_skew_seconds"] = round(skew, 1) or 0.0  # never -0.0
    if abs(skew) > SKEW:
        found["problems"].append(
            f"The database's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's: times in"
            " logs will not fit together (leases go by the database's clock alone); synchronise both, as with NTP."
        )


# --- the broker -------------------------------------------------------------------------------------------------------


def _broker(settings: Settings, found: Json) -> None:
    if settings.dispatcher != "celery" or settings.broker_url is None:
        return
    if settings.broker_url.startswith("amqp"):
        found["broker_answers"] = _amqp_answers(settings, found)
    else:
        found["broker_answers"] = _redis_answers(settings.broker_url, found)
    if found["broker_answers"]:
        _workers(settings, found)
    else:
        found["problems"].append("The broker does not answer; work is done all the same, some seconds later.")


def _amqp_answers(settings: Settings, found: Json) -> bool:
    try:
        with make_app(settings).connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            told: Any = connection.connection
            found["broker_version"] = f"RabbitMQ {told.server_properties.get('version', 'unknown')}"
    except Exception:
        return False
    return True


def _redis_answers(url: str, found: Json) -> bool:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3) as client:
            about: Any = client.info("server")
            found["broker_version"] = f"Redis {about['redis_version']}"
            # Hosted ones refuse CONFIG and tell it here.
            told: Any = client.info("memory")
    except redis.RedisError:
        return False
    policy = told.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found["problems"].append(
            f"Redis evicts ({policy}) and drops messages silently: `CONFIG SET maxmemory-policy noeviction`, and the"
            " same in its configuration."
        )
    return True


def _workers(settings: Settings, found: Json) -> None:
    """Which workers answer, by name. Of two with one name, one answers the other's calls."""
    try:
        answers: Any = make_app(settings).control.ping(timeout=1.0)
    except Exception:
        return
    names = Counter(name for answer in answers for name in answer)
    found["workers"] = sorted(names)
    if not names:
        found["problems"].append("No Celery worker answers: start one, `python -m workers worker`.")
    for name in sorted(name for name, times in names.items() if times > 1):
        found["problems"].append(
            f"{names[name]} workers are called {name}: give each a name of its own, as `python -m workers worker` does,"
            " or `celery worker --hostname=NAME@%h`."
        )
