"""The measurements of `benchmarks.core`: each a few runs of one thing on a fresh store, beside its limits."""

import gc
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import tiktoken
from sqlalchemy import make_url

from benchmarks import peers
from benchmarks.driving import TENANT, System, postgres_database, postgres_server, prepare
from benchmarks.limits import DriverStore, PlainStore
from benchmarks.workload import history, records, texts
from domain.events import Event, read_payload
from domain.state import fold
from workers.engine import Outcome
from workers.tokens import Tokens

Json = Any

SESSION = "s-1"
STREAM = f"session/{SESSION}"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. The quick one is for a look, its figures are no result."""

    runs: int = 5
    appends: int = 2_000
    batched: int = 10_000
    compiles: int = 20
    trips: int = 200
    lengths: tuple[int, ...] = (100, 1_000, 10_000)
    text_bytes: int = 4_000_000
    peers: bool = True


QUICK = Scale(runs=3, appends=300, batched=2_000, compiles=5, trips=30, lengths=(100, 1_000), text_bytes=500_000)

Measured = dict[str, float]
"""Figures by name. Rates are per second, times in milliseconds."""


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def timed(what: Callable[[], Any]) -> float:
    """Milliseconds of one call, as a caller waits for it."""
    return _timed(what, time.perf_counter)


def spent(what: Callable[[], Any]) -> float:
    """Milliseconds of the processor for one call that only computes: what others do meanwhile doesn't count."""
    return _timed(what, time.process_time)


def _timed(what: Callable[[], Any], clock: Callable[[], float]) -> float:
    gc.collect()
    begun = clock()
    what()
    return (clock() - begun) * 1000


@contextmanager
def fresh_url(store: str) -> Iterator[str]:
    with ExitStack() as stack:
        if store == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="promptctx-"))
            yield f"sqlite:///{folder}/bench.db"
        else:
            server = postgres_server()
            assert server is not None
            yield stack.enter_context(postgres_database(server))


@contextmanager
def fresh_system(store: str) -> Iterator[System]:
    with fresh_url(store) as url:
        prepare(url)
        system = System(url)
        try:
            yield system
        finally:
            system.close()


def events(count: int, seed: int = 1) -> list[Json]:
    return list(islice(history(seed), count))


# --- append -----------------------------------------------------------------------------------------------------------


PEERS = {"sqlite": ("eventsourcing", "eventsourcing_normal"), "postgres": ("eventsourcing",)}
"""As the library comes (on SQLite it syncs at every commit), and with `synchronous=NORMAL` as our store has it."""


def append(store: str, scale: Scale, missing: list[str]) -> Measured:
    """Events per second, one per call and a hundred: ours, the bare driver's, Core's and the peer's, taken in turns."""
    found: dict[str, list[float]] = {}
    with_peer = scale.peers
    for run in range(scale.runs):
        for name, count, size in (("one", scale.appends, 1), ("hundred", scale.batched, 100)):
            given = events(count, seed=run + 1)
            found.setdefault(f"ours_{name}", []).append(_append_ours(store, given, size))
            found.setdefault(f"driver_{name}", []).append(_append_driver(store, given, size))
            found.setdefault(f"core_{name}", []).append(_append_core(store, given, size))
            try:
                for peer in PEERS[store] if with_peer else ():
                    rate = _append_peer(store, given, size, normal=peer.endswith("normal"))
                    found.setdefault(f"{peer}_{name}", []).append(rate)
            except peers.PeerMissing as error:
                missing.append(str(error))
                with_peer = False
    return {name: median(values) for name, values in found.items()}


def _append_ours(store: str, given: list[Json], size: int) -> float:
    with fresh_system(store) as system:
        # The session and its first events are there: what is measured is an agent in the middle of its work.
        system.append(SESSION, given[:1], 0)
        begun = time.perf_counter()
        for at in range(1, len(given), size):
            system.engine.append(TENANT, SESSION, given[at : at + size])
        return (len(given) - 1) / (time.perf_counter() - begun)


def _append_core(store: str, given: list[Json], size: int) -> float:
    with fresh_url(store) as url:
        plain = PlainStore(url)
        try:
            return plain.append_single(given) if size == 1 else plain.append_batches(given, size)
        finally:
            plain.close()


def _append_driver(store: str, given: list[Json], size: int) -> float:
    with fresh_url(store) as url, closing(DriverStore(url)) as bare:
        return bare.append(given, size)


def _append_peer(store: str, given: list[Json], size: int, *, normal: bool) -> float:
    with fresh_url(store) as url:
        place = make_url(url)
        if store == "sqlite":
            environment = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(place.database)}
        else:
            environment = {
                "PERSISTENCE_MODULE": "eventsourcing.postgres",
                "POSTGRES_DBNAME": str(place.database),
                "POSTGRES_HOST": str(place.host),
                "POSTGRES_PORT": str(place.port or 5432),
                "POSTGRES_USER": str(place.username),
                "POSTGRES_PASSWORD": str(place.password or ""),
            }
        payloads = [(event["kind"], event["payload"]) for event in given]
        order = {"environment": environment, "payloads": payloads, "size": size, "normal": normal}
        return float(peers.measure("eventsourcing", order)["rate"])


# --- projection and fold ----------------------------------------------------------------------------------------------


def projection(store: str, scale: Scale) -> Measured:
    """Events per second from the log into the read-models, behind an append that nobody projected."""
    ours, core = [], []
    for run in range(scale.runs):
        given = events(scale.batched, seed=run + 1)
        core.append(_append_core(store, given, 100))
        with fresh_system(store) as system:
            for at in range(0, len(given), 500):
                system.engine.append(TENANT, SESSION, given[at : at + 500])
            ours.append(len(given) / timed(partial(catch_up, system)) * 1000)
    return {"ours": median(ours), "core_hundred": median(core)}


def catch_up(system: System) -> None:
    while system.engine.project(TENANT, STREAM) is Outcome.MORE:
        pass


def folding(scale: Scale) -> Measured:
    """Events per second folded in memory, and with reading their payloads before."""
    given = events(scale.batched)
    stored = [read(one, seq) for seq, one in enumerate(given, 1)]
    bare = [len(given) / spent(lambda: fold(stored)) * 1000 for _ in range(scale.runs)]
    read_too = [
        len(given) / spent(lambda: fold(read(one, seq) for seq, one in enumerate(given, 1))) * 1000
        for _ in range(scale.runs)
    ]
    return {"fold": median(bare), "read_and_fold": median(read_too)}


def read(one: Json, seq: int) -> Event:
    return Event(one["event_id"], seq, one["kind"], read_payload(one["kind"], 1, one["payload"]), seq * 1_000_000)


# --- tokens -----------------------------------------------------------------------------------------------------------


def token_count(scale: Scale) -> Measured:
    """Bytes per second: bare `encode_ordinary`, our counter on new text, and on text seen before."""
    english, found = texts(7), records(7)
    given = [next(english) for _ in range(scale.text_bytes // 2_000)]
    given += [next(found) for _ in given]
    given += [f"用户第 {at} 次询问订单 {at * 7919} 的状态，系统回复如下：{text}" for at, text in enumerate(given)]
    size = sum(len(text.encode()) for text in given)
    encode = tiktoken.get_encoding("o200k_base").encode_ordinary
    bare, cold, seen = [], [], []
    for _ in range(scale.runs):
        count = Tokens().counter("o200k_base")
        bare.append(size / spent(partial(_each, lambda text: len(encode(text)), given)))
        cold.append(size / spent(partial(_each, count, given)))
        seen.append(size / spent(partial(_each, count, given)))
    return {"encode_ordinary": median(bare) * 1000, "cold": median(cold) * 1000, "seen": median(seen) * 1000}


def _each(count: Callable[[str], int], given: Sequence[str]) -> None:
    for text in given:
        count(text)


HOSTILE = (
    (" ", 1_000_000), ("a", 1_000_000), ("\n", 1_000_000), ("<|endoftext|>", 50_000), ("\ud800", 100_000),
    ("𓀀", 200_000), ("\x00", 100_000), ("中", 500_000),
)  # fmt: skip


def hostile_text() -> Measured:
    """The slowest of some texts that make tokenizers panic or crawl, in milliseconds, and how many raised."""
    count, raised, slowest = Tokens().counter("o200k_base"), 0, 0.0
    for piece, times in HOSTILE:
        try:
            slowest = max(slowest, timed(partial(count, piece * times)))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raised += 1
    return {"raised": float(raised), "slowest": slowest}


# --- storage ----------------------------------------------------------------------------------------------------------


def storage(scale: Scale, store: str = "sqlite") -> Measured:
    """Bytes in the store for each byte appended, one in ten turns compiled: 4 events to a turn."""
    given = events(scale.batched)
    appended = sum(len(json.dumps(event, ensure_ascii=False).encode()) for event in given)
    with fresh_system(store) as system:
        empty = _bytes(system)
        for at in range(0, len(given), 40):
            system.engine.append(TENANT, SESSION, given[at : at + 40])
            catch_up(system)
            system.request(SESSION, "openai", 8_000)
        whole = _bytes(system) - (0 if store == "sqlite" else empty)
    return {"appended": float(appended), "stored": float(whole), "prompts": float(len(given) // 40)}


def _bytes(system: System) -> int:
    """Of the whole database; PostgreSQL's holds catalogues of its own from the beginning."""
    asked = {
        "sqlite": ("PRAGMA page_count", "PRAGMA page_size"),
        "postgresql": ("SELECT pg_database_size(current_database())",),
    }
    with system.database.read(TENANT) as unit:
        found = [unit.connection.exec_driver_sql(one).scalar_one() for one in asked[system.database.dialect]]
    return math.prod(found)
