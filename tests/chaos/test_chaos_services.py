"""Brokers and databases that forget, stop and start again in mid-load: nothing is lost, nobody is needed."""

from pathlib import Path
from typing import Any

import pytest
from chaos_load import Load
from chaos_world import Agents
from worker_process import on_celery


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_f28_redis_forgets_everything_and_then_restarts_in_mid_load(
    private_redis: Any, agents: Agents, store_url: str, tmp_path: Path
) -> None:
    with on_celery(private_redis.url, store_url) as settings:

        def flush(load: Load) -> None:
            private_redis.flush()

        def restart(load: Load) -> None:
            private_redis.crash()
            load.kill_a_child()
            private_redis.start()

        Load(agents, settings, tmp_path).run([(0.2, flush), (0.4, restart), (0.7, flush)])


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_f17_rabbitmq_restarts_in_mid_load(private_rabbit: Any, agents: Agents, store_url: str, tmp_path: Path) -> None:
    with on_celery(private_rabbit.url, store_url) as settings:

        def restart(load: Load) -> None:
            private_rabbit.crash()
            private_rabbit.start()

        Load(agents, settings, tmp_path).run([(0.3, restart), (0.6, Load.kill_a_child)])


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_postgresql_crashes_and_restarts_in_mid_load(
    private_postgres: Any, private_redis: Any, agents: Agents, store_url: str, tmp_path: Path
) -> None:
    with on_celery(private_redis.url, store_url) as settings:

        def restart(load: Load) -> None:
            private_postgres.crash()
            private_postgres.start()

        Load(agents, settings, tmp_path).run([(0.25, restart), (0.6, restart)])
