"""The Celery app: a doorbell and a place to run. What is to be done stands in the database.

celery --app=workers.app worker          or: python -m workers worker
"""

from typing import Any

from celery import Celery
from kombu import Exchange, Queue  # type: ignore[attr-defined]

from workers.settings import Settings, load_settings
from workers.store.work import KINDS

QUEUED = tuple(kind for kind in KINDS if kind != "index")
"""Kinds with a queue of their own. Nobody rings for an index: the sweepers of those who do maintenance find it."""

DEFAULT_BROKER = "redis://127.0.0.1:6379/0"
DELIVERIES = 20
WEEK = 7 * 24 * 3600 * 1000  # milliseconds
TRACE = "traceparent"
"""The header of a message that says which trace it belongs to; none has it while traces are off."""

LEASE_OF_MESSAGE = 120  # seconds until Redis gives an unacknowledged message to another worker


def queue_name(settings: Settings, kind: str) -> str:
    """The queue of a kind of work; what has none of its own is maintenance."""
    return f"{settings.queue_prefix}.{kind if kind in QUEUED else 'maintenance'}"


def queues(settings: Settings, broker: str) -> list[Queue]:
    """One queue a kind, so that slow calls to language models never hold up a projection.

    Quorum queues know no priorities: who reads which queues decides, and the order in which the sweeper claims.
    """
    quorum = {
        "x-queue-type": "quorum",
        "x-delivery-limit": DELIVERIES,
        "x-dead-letter-exchange": f"{settings.queue_prefix}.dead",
    }
    amqp = broker.startswith("amqp")
    exchange = _exchange(settings.queue_prefix, "topic" if amqp else "direct")
    names = [queue_name(settings, kind) for kind in QUEUED]
    return [_queue(name, exchange, name, quorum if amqp else None) for name in names]


def dead_letters(settings: Settings) -> Queue:
    """Where RabbitMQ puts messages that were delivered too often. Only the ring is lost then, the work is not."""
    name = f"{settings.queue_prefix}.dead"
    return _queue(name, _exchange(name, "topic"), "#", {"x-max-length": 10_000, "x-message-ttl": WEEK})


def _exchange(name: str, kind: str) -> Exchange:
    return Exchange(name, type=kind, durable=True)  # type: ignore[no-untyped-call]


def _queue(name: str, exchange: Exchange, key: str, arguments: dict[str, Any] | None) -> Queue:
    return Queue(name, exchange, routing_key=key, durable=True, queue_arguments=arguments)  # type: ignore[no-untyped-call]


def make_app(settings: Settings) -> Celery:
    broker = settings.broker_url or DEFAULT_BROKER
    made = Celery("promptctx", broker=broker, include=["workers.tasks"])
    made.conf.update(_common(settings, broker), **(_rabbitmq() if broker.startswith("amqp") else _redis(settings)))
    return made


def _common(settings: Settings, broker: str) -> dict[str, Any]:
    return {
        "task_queues": queues(settings, broker),
        "task_routes": {f"promptctx.{kind}": {"queue": queue_name(settings, kind)} for kind in (*QUEUED, "sweep")},
        "task_default_queue": queue_name(settings, "project"),
        "task_create_missing_queues": False,
        # States are rows of ours: with a result backend that is down, nothing could even be sent.
        "task_ignore_result": True,
        "result_backend": None,
        # Delivered again is harmless, and what went wrong stands in the work row.
        "task_acks_late": True,
        "task_acks_on_failure_or_timeout": True,
        "task_publish_retry": False,
        "task_time_limit": 90,
        "task_soft_time_limit": 60,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_send_sent_event": False,
        "worker_send_task_events": False,
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": 1000,
        "worker_max_memory_per_child": 1_000_000,
        # A new child takes seconds to start where the machine is busy: killed after the usual four it never would.
        "worker_proc_alive_timeout": 60.0,
        "worker_soft_shutdown_timeout": 10,
        "worker_enable_soft_shutdown_on_idle": True,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_hijack_root_logger": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_connection_timeout": 2,
    }


def _redis(settings: Settings) -> dict[str, Any]:
    return {
        # A task that kills its process would come back for ever: the lease in the work row counts attempts.
        "task_reject_on_worker_lost": False,
        "broker_transport_options": {
            "visibility_timeout": LEASE_OF_MESSAGE,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "socket_timeout": 5,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 15,
            "global_keyprefix": f"{settings.queue_prefix}:",
        },
    }


def _rabbitmq() -> dict[str, Any]:
    return {
        "task_reject_on_worker_lost": True,  # with the delivery limit of the queues above
        "task_default_queue_type": "quorum",
        "task_default_exchange_type": "topic",
        "broker_transport_options": {"confirm_publish": True, "read_timeout": 5, "write_timeout": 5},
    }


app = make_app(load_settings())
