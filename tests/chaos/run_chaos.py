"""`make chaos`: rounds of load with something going wrong in the middle, at random, until time is over; then a table.

    python tests/chaos/run_chaos.py --minutes 10 --seed 1 [--json]

Each round is a store, a dispatcher and a blow drawn from the seed; after it the same checks as in `make test-chaos`.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests"), str(ROOT / "tests/chaos")]

from chaos_load import Load  # noqa: E402
from chaos_world import Agents  # noqa: E402
from private_servers import PrivatePostgres, PrivateRabbit, PrivateRedis  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from workers.settings import load_settings  # noqa: E402
from workers.store import migrate  # noqa: E402

Json = dict[str, Any]


@dataclass
class Servers:
    redis: PrivateRedis
    rabbit: PrivateRabbit
    postgres: PrivatePostgres

    @classmethod
    def begun(cls, folder: Path) -> "Servers":
        made = cls(
            PrivateRedis(folder / "redis"), PrivateRabbit(folder / "rabbit"), PrivatePostgres(folder / "postgres")
        )
        for server in (made.redis, made.rabbit, made.postgres):
            server.start()
        return made

    def stop(self) -> None:
        for server in (self.redis, self.rabbit, self.postgres):
            server.stop()


def blows(servers: Servers, store: str, broker: str) -> dict[str, Callable[[Load], None]]:
    """What may go wrong in a round, by name."""
    found: dict[str, Callable[[Load], None]] = {
        "nothing": lambda load: None,
        "kill -9 a worker's child": Load.kill_a_child,
        "broker restart": lambda load: _restart(servers.redis if broker == "redis" else servers.rabbit),
    }
    if broker == "redis":
        found["FLUSHALL"] = lambda load: servers.redis.flush()
    if store == "postgresql":
        found["database crash"] = lambda load: _restart(servers.postgres)
    return found


def _restart(server: PrivateRedis | PrivateRabbit | PrivatePostgres) -> None:
    server.crash()
    server.start()


def play(agents: Agents, servers: Servers, folder: Path, rng: random.Random) -> Json:
    """One round: what it was, what was checked, and how long it took."""
    store, broker = rng.choice(("sqlite", "postgresql")), rng.choice(("redis", "rabbitmq"))
    chosen = rng.sample(sorted(blows(servers, store, broker).items()), 2)
    name = f"chaos_{uuid.uuid4().hex[:12]}"
    url = servers.postgres.new_database(name) if store == "postgresql" else f"sqlite:///{folder}/{name}.db"
    migrate.upgrade(url)
    settings = load_settings(
        database_url=url, dispatcher="celery", queue_prefix=name, lease_seconds=2,
        broker_url=servers.redis.url if broker == "redis" else servers.rabbit.url,
    )  # fmt: skip
    told: Json = {"store": store, "broker": broker, "blows": ", ".join(name for name, _ in chosen)}
    load = Load(agents, settings, folder, sessions=20, turns=6, seed=rng.randrange(2**30))
    load.more = rng.choice(({}, {"mischief": 1}, {"clock": 1}, {"mischief": 5, "clock": 5}))
    told["more"] = ", ".join(sorted(load.more)) or "-"
    began = time.monotonic()
    try:
        told |= load.run([(share, blow) for share, (_, blow) in zip((0.3, 0.6), chosen, strict=True)])
        told["result"] = "holds"
    except AssertionError as error:
        told["result"] = f"BROKEN: {str(error).splitlines()[0] if str(error) else 'a check failed'}"
    return {**told, "seconds": round(time.monotonic() - began, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rng, rounds, screen = random.Random(asked.seed), [], Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="promptctx-chaos-"))
    folder.chmod(0o755)
    agents, servers = Agents(), Servers.begun(folder)
    end = time.monotonic() + asked.minutes * 60
    try:
        while time.monotonic() < end:
            rounds.append(play(agents, servers, folder, rng))
            screen.print(f"round {len(rounds)}: {rounds[-1]}")
    finally:
        agents.close()
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(rounds)) if asked.json else Console().print(_table(rounds))
    return 0 if all(one["result"] == "holds" for one in rounds) else 1


def _table(rounds: list[Json]) -> Table:
    table = Table(title="chaos")
    columns = ("store", "broker", "blows", "more", "events", "prompts", "seconds", "result")
    for name in columns:
        table.add_column(name)
    for one in rounds:
        table.add_row(*(str(one.get(name, "")) for name in columns))
    return table


if __name__ == "__main__":
    sys.exit(main())
