"""Load runs: agents that write while workers work, and something that goes wrong in the middle of it."""

import os
import random
import signal
import subprocess
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_world import Agents, check, drained, observer, steps_done
from private_servers import free_port, listens, until
from worker_process import working

from workers.settings import Settings

Json = dict[str, Any]
Blow = Callable[["Load"], None]


@dataclass
class Load:
    """Sessions shared out to agents, workers beside them, and blows at set shares of the way."""

    agents: Agents
    settings: Settings
    folder: Path
    sessions: int = 12
    turns: int = 5
    writers: int = 3
    workers: int = 1
    more: Json = field(default_factory=dict)
    seed: int = 0
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def run(self, blows: Sequence[tuple[float, Blow]] = ()) -> Json:
        """What was checked, counted."""
        tenant = f"t-{uuid.uuid4().hex[:12]}"
        names = [f"s{number}" for number in range(self.sessions)]
        journals = [self.folder / f"{tenant}-{number}" for number in range(self.writers)]
        with ExitStack() as stack:
            ports = [free_port() for _ in range(self.workers)]
            for port in ports:
                told = {"PROMPTCTX_METRICS_PORT": str(port)}
                self.processes.append(stack.enter_context(working(self.settings, "--concurrency=2", **told)))
            for process, port in zip(self.processes, ports, strict=True):
                ready(process, port)
            writing = [
                self.agents.start(
                    self.settings, tenant, names[place :: self.writers], self.turns, journal,
                    **{name: value + place for name, value in self.more.items()},
                )
                for place, journal in enumerate(journals)
            ]  # fmt: skip
            for share, blow in blows:
                steps_done(journals, share, 2 * self.sessions * self.turns)
                blow(self)
            assert [self.agents.ended(agent) for agent in writing] == [0] * self.writers
            engine = observer(self.settings)
            drained(engine, tenant, sweep=not self.workers)
        whole = self.folder / f"{tenant}-all"
        whole.write_text("".join(journal.read_text() for journal in journals))
        found = check(engine, tenant, whole, self.turns)
        assert found["acknowledged"] == 2 * self.sessions * self.turns
        assert found["prompts"] == self.sessions * self.turns
        engine.deps.database.dispose()
        return found

    def kill_a_child(self) -> None:
        """kill -9 of one process that a worker forked, at whatever it is doing."""
        children = [child for process in self.processes for child in _children(process.pid)]
        if children:
            os.kill(random.Random(self.seed).choice(children), signal.SIGKILL)


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    """The worker reads its queues, for it serves its metrics. Blows are for those that work: one that finds no
    database, or loses a child, while it begins ends at once, and a service manager would have to start it anew."""
    until(lambda: listens(port) or process.poll() is not None, "the worker works")
    assert process.returncode is None, "the worker ended before it began to work"
