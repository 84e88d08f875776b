"""The Celery app: a doorbell and a place to run. What is to be done stands in the database.

celery --app=workers.app worker          or: python -m workers worker
"""

from typing import Any

from celery import Celery
from kombu import Exchange, Queue  # type: ignore[attr-defined]

from workers.settings import Settings, load_settings

DEFAULT_BROKER = "redis://127.0.0.1:6379/0"
KINDS = ("compile", "project", "summarize", "maintenance")
LEASE_OF_MESSAGE = 120  # seconds until Redis gives an unacknowledged message to another worker


def queue_name(kind: str) -> str:
    """The queue of a kind of work; what has none of its own is maintenance."""
    return f"promptctx.{kind if kind in KINDS else 'maintenance'}"


def queues(broker: str) -> list[Queue]:
    """One queue a kind, so that slow calls to language models never hold up a projection."""
    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 20, "x-dead-letter-exchange": "promptctx.dead"}
    amqp = broker.startswith("amqp")
    exchange = _exchange("promptctx", "topic" if amqp else "direct")
    return [_queue(name, exchange, name, quorum if amqp else None) for name in map(queue_name, KINDS)]


def dead_letters() -> Queue:
    """Where RabbitMQ puts messages that were delivered too often. Only the ring is lost then, the work is not."""
    return _queue("promptctx.dead", _exchange("promptctx.dead", "topic"), "#", None)


def _exchange(name: str, kind: str) -> Exchange:
    return Exchange(name, type=kind, durable=True)  # type: ignore[no-untyped-call]


def _queue(name: str, exchange: Exchange, key: str, arguments: dict[str, Any] | None) -> Queue:
    return Queue(name, exchange, routing_key=key, durable=True, queue_arguments=arguments)  # type: ignore[no-untyped-call]


def make_app(settings: Settings) -> Celery:
    broker = settings.broker_url or DEFAULT_BROKER
    made = Celery("promptctx", broker=broker, include=["workers.tasks"])
    made.conf.update(_common(broker), **(_rabbitmq() if broker.startswith("amqp") else _redis()))
    return made


def _common(broker: str) -> dict[str, Any]:
    return {
        "task_queues": queues(broker),
        "task_routes": {f"promptctx.{kind}": {"queue": queue_name(kind)} for kind in (*KINDS, "sweep")},
        "task_default_queue": queue_name("project"),
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
        "worker_soft_shutdown_timeout": 10,
        "worker_enable_soft_shutdown_on_idle": True,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_hijack_root_logger": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_connection_timeout": 2,
    }


def _redis() -> dict[str, Any]:
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
            "global_keyprefix": "promptctx:",
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
