"""Doctor: what is configured, what of it answers, and what waits for a person."""

from typing import Any

import redis

from domain.errors import PromptctxError
from workers.app import make_app
from workers.assembly import modes
from workers.settings import Settings, masked
from workers.store import EVERY, Database, migrate, work

Json = dict[str, Any]

LATE = 60.0
"""Seconds after which due work means that nobody works."""


def examine(settings: Settings) -> Json:
    """The findings; `problems` says in sentences what to do."""
    found: Json = {
        "dispatcher": settings.dispatcher,
        "database": masked(settings.database_url),
        "broker": masked(settings.broker_url) if settings.broker_url else None,
        "modes": sorted(modes(settings)),
        "problems": [],
    }
    for look in (_store, _broker):
        try:
            look(settings, found)
        except PromptctxError as error:
            found["problems"].append(error.message)
    return found


def _store(settings: Settings, found: Json) -> None:
    migrate.check(settings.database_url)
    database = Database(settings.database_url)
    try:
        with database.read(EVERY) as unit:
            seen, parked = work.overview(unit), work.parked(unit, 20)
    finally:
        database.dispose()
    if (standing := migrate.findings(settings.database_url)) is not None:
        found["row_level_security"] = standing
        found["problems"] += [standing["problem"]] if "problem" in standing else []
    found["work"] = {"due": seen.due, "oldest_due_seconds": round(seen.oldest_seconds, 1), "parked": parked}
    if seen.oldest_seconds > LATE:
        found["problems"].append(
            f"Work has been due for {seen.oldest_seconds:.0f} s: start a worker, `python -m workers worker`."
        )
    for row in parked:
        reason = row["error"].get("message", "unknown")
        found["problems"].append(f"{row['kind']} of {row['stream']} ({row['tenant']}) is parked: {reason}.")


def _broker(settings: Settings, found: Json) -> None:
    if settings.dispatcher != "celery" or settings.broker_url is None:
        return
    if not settings.broker_url.startswith("redis"):
        found["broker_answers"] = _amqp_answers(settings)
    else:
        found["broker_answers"] = _redis_answers(settings.broker_url, found)
    if not found["broker_answers"]:
        found["problems"].append("The broker does not answer; work is done all the same, some seconds later.")


def _amqp_answers(settings: Settings) -> bool:
    try:
        with make_app(settings).connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
    except Exception:
        return False
    return True


def _redis_answers(url: str, found: Json) -> bool:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3) as client:
            client.ping()
            told: Any = client.config_get("maxmemory-policy")
    except redis.ResponseError:
        return True  # it answers; the policy is not ours to read
    except redis.RedisError:
        return False
    policy = told.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        found["problems"].append(f"Redis evicts ({policy}) and would drop messages silently: set it to noeviction.")
    return True
