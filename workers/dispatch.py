"""Dispatchers: who runs the work that a ring tells of. What is due stands in the database whoever rings.

`Inline` runs it in the caller (scripts, tests), `Threads` in threads of this process (embedded: no broker), `Bell`
sends a Celery message of ids only. A ring never fails and never waits for a broker.
"""

import os
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog

from domain.errors import PromptctxError
from workers import telemetry, tracing
from workers.engine import sweeping
from workers.engine.deps import Deps
from workers.store.work import KINDS

logger = structlog.get_logger(__name__)

Ring = tuple[str, int, str]
"""(tenant, stream number, kind): all that a ring says."""

SWEEP_EVERY = (1.0, 5.0)
"""Seconds between sweeps, at the least and at the most: processes that began together do not stay together."""


class Dispatcher(Protocol):
    at_once: bool

    def ring(self, tenant: str, stream: int, kind: str) -> None: ...

    def start(self, deps: Deps) -> None: ...

    def close(self) -> None: ...


class Inline:
    """Runs the work in the caller, before the ring returns."""

    at_once = True

    def __init__(self) -> None:
        self._deps: Deps | None = None
        self._local = threading.local()

    def start(self, deps: Deps) -> None:
        self._deps = deps

    def close(self) -> None:
        self._deps = None

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        waiting: deque[Ring] | None = getattr(self._local, "waiting", None)
        if waiting is not None:
            # Rung by the work itself: it goes on when that is done, not inside of it.
            waiting.append((tenant, stream, kind))
            return
        waiting = self._local.waiting = deque([(tenant, stream, kind)])
        try:
            while waiting and self._deps is not None:
                _run(self._deps, waiting.popleft())
        finally:
            self._local.waiting = None


def _run(deps: Deps, ring: Ring) -> None:
    try:
        sweeping.run(deps, *ring)
    except PromptctxError as error:
        logger.warning("work is left for the sweeper", reason=error.message, kind=ring[2])
    except Exception:
        logger.exception("work is left for the sweeper", kind=ring[2])


class Sweeper:
    """A thread that finds due work without being told: lost rings cost seconds, and nothing else.

    It does the work itself, kinds in order of urgency, or hands it to `take`.
    """

    def __init__(
        self, deps: Deps, every: tuple[float, float] = SWEEP_EVERY, kinds: Sequence[str] = KINDS,
        take: Callable[[Ring], None] | None = None,
    ) -> None:  # fmt: skip
        self._deps, self._every, self._kinds, self._take = deps, every, kinds, take
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"promptctx-sweeper-{kinds[0]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _loop(self) -> None:
        rng = random.Random()
        while not self._stop.is_set():
            try:
                self._sweep()
            except PromptctxError as error:
                logger.warning("sweep failed", reason=error.message)
            except Exception:
                logger.exception("sweep failed")
            self._stop.wait(rng.uniform(*self._every))

    def _sweep(self) -> None:
        if self._take is not None:
            for one in sweeping.due(self._deps, HANDED_OVER, self._kinds):
                self._take((one.tenant, one.stream, one.kind))
            return
        while not self._stop.is_set() and sweeping.sweep(self._deps, kinds=self._kinds):
            pass


HANDED_OVER = 1000
"""Rows that a sweep hands over at most; the next one finds the rest."""

SLOW = ("summarize", "maintenance", "index")
"""Kinds that wait for others or take their time: they have threads of their own, and hold up nobody."""


def sweepers(deps: Deps, kinds: Sequence[str]) -> list[Sweeper]:
    """Those of a worker process that does the work of these kinds."""
    quick, slow = [kind for kind in kinds if kind not in SLOW], [kind for kind in kinds if kind in SLOW]
    return [Sweeper(deps, kinds=some) for some in (quick, slow) if some]


class _Rings:
    """Rings that wait for a thread, the most urgent kind first; the same ring twice is one."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        # With each the trace of who rang first.
        self._waiting: dict[int, OrderedDict[Ring, str | None]] = {
            rank: OrderedDict() for rank in range(len(KINDS) + 1)
        }
        self._closed = False

    def put(self, ring: Ring, trace: str | None = None) -> None:
        rank = KINDS.index(ring[2]) if ring[2] in KINDS else len(KINDS)
        with self._condition:
            self._waiting[rank][ring] = self._waiting[rank].get(ring) or trace
            self._condition.notify()

    def get(self) -> tuple[Ring, str | None] | None:
        """The next ring, and the trace that it belongs to; None once closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or any(self._waiting.values()))
            if self._closed:
                return None
            return next(rings for rings in self._waiting.values() if rings).popitem(last=False)

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()


class Threads:
    """Runs the work in threads of this process, with a sweeper beside them that tells them what else is due."""

    at_once = False

    def __init__(self, threads: int = 2, every: tuple[float, float] = SWEEP_EVERY) -> None:
        self._count, self._every = threads, every
        self._quick, self._slow = _Rings(), _Rings()
        self._threads: list[threading.Thread] = []
        self._sweeper: Sweeper | None = None

    def start(self, deps: Deps) -> None:
        workers = [(f"promptctx-worker-{number}", self._quick) for number in range(self._count)]
        for name, rings in (*workers, ("promptctx-worker-slow", self._slow)):
            self._threads.append(threading.Thread(target=self._work, args=(deps, rings), name=name, daemon=True))
        self._sweeper = Sweeper(deps, self._every, take=self._put)
        for thread in self._threads:
            thread.start()
        self._sweeper.start()

    def close(self) -> None:
        """Returns when what is running has ended: a batch at the most, for the rest waits in the database."""
        self._quick.close()
        self._slow.close()
        if self._sweeper is not None:
            self._sweeper.close()
        for thread in self._threads:
            thread.join(10)
        self._threads = []

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        self._put((tenant, stream, kind), tracing.here())

    def _put(self, ring: Ring, trace: str | None = None) -> None:
        (self._slow if ring[2] in SLOW else self._quick).put(ring, trace)

    def _work(self, deps: Deps, rings: _Rings) -> None:
        while (rung := rings.get()) is not None:
            ring, trace = rung
            with tracing.under(trace):
                _run(deps, ring)


Send = Callable[[Ring], Any]


class Bell:
    """Sends each ring to a broker, from a thread of its own: a broker that hangs holds up nobody.

    After a failure it keeps quiet for a while; the sweepers of the workers find the work meanwhile.
    """

    at_once = False

    def __init__(self, send: Send, quiet: float = 5.0) -> None:
        self._send, self._quiet = send, quiet
        self._rings = _Rings()
        self._lock = threading.Lock()
        self._pid = -1
        self._until = 0.0

    def start(self, deps: Deps) -> None:
        """The thread begins with the first ring, in each process anew: a fork takes no threads along."""

    def close(self) -> None:
        self._rings.close()

    def ring(self, tenant: str, stream: int, kind: str) -> None:
        if self._pid != os.getpid():
            self._begin()
        self._rings.put((tenant, stream, kind), tracing.here())

    def _begin(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._rings, self._pid = _Rings(), os.getpid()
                threading.Thread(target=self._ring_on, args=(self._rings,), name="promptctx-bell", daemon=True).start()

    def _ring_on(self, rings: _Rings) -> None:
        while (rung := rings.get()) is not None:
            if time.monotonic() < self._until:
                continue
            ring, trace = rung
            try:
                with tracing.under(trace):
                    self._send(ring)
            except Exception as error:
                self._until = time.monotonic() + self._quiet
                logger.warning("the broker was not reached; work waits for the sweeper", reason=telemetry.told(error))
