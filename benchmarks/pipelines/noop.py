"""A Celery app whose one task does nothing: the least that a round trip over a broker costs, with a real worker.

Queues, acknowledgement and prefetch are promptctx's own; only an answer comes back, which promptctx never needs.

    celery --app benchmarks.pipelines.noop worker
"""

from celery import Celery

from workers.app import make_app, queue_name
from workers.settings import Settings, load_settings

TASK = "promptctx.nothing"


def make_noop(settings: Settings) -> Celery:
    made = make_app(settings)
    redis = not str(made.conf.broker_url).startswith("amqp")
    made.conf.update(
        include=[], result_backend=made.conf.broker_url if redis else "rpc://", task_ignore_result=False,
        task_routes={TASK: {"queue": queue_name(settings, "project")}},
    )  # fmt: skip
    made.task(_nothing, name=TASK)
    return made


def _nothing() -> None:
    return None


app = make_noop(load_settings())
