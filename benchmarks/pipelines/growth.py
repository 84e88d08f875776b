"""What an append costs when its stream is long, and when there are many streams."""

import random
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from uuid_utils import uuid7

from benchmarks.driving import TENANT, System
from benchmarks.speed import Measured, Scale, events, fresh_system, median

Json = Any

SHORT = 1_000
"""Events of the stream that a long one is held against, in the same store and in turns."""
STREAMS = 1_000


def appended(store: str, lengths: Sequence[int], scale: Scale) -> Measured:
    """Events per second on a stream of so many events, single and by hundreds, and of a short one beside it."""
    given, found = _fresh(), dict[str, float]()
    with fresh_system(store) as system:
        length = 0
        for wanted in lengths:
            _fill(system, "long", given, wanted - length)
            length = wanted
            rates: dict[str, list[float]] = {}
            for run in range(scale.runs):
                _fill(system, short := f"short-{wanted}-{run}", given, SHORT)
                for size, count in ((1, scale.appends // 8), (100, scale.batched // 4)):
                    for name, rate in _in_turns(system, {"long": "long", "short": short}, given, size, count).items():
                        rates.setdefault(f"{name}_{size}", []).append(rate)
                    length += count
            found |= {f"{name}_at_{wanted}": median(values) for name, values in rates.items()}
    return found


def _in_turns(
    system: System, sessions: dict[str, str], given: Iterator[Json], size: int, count: int
) -> dict[str, float]:
    """Events per second of each session. One batch to each in turn, in an order that changes at random: what tidies up
    now and then (a checkpoint after so many pages, garbage collection) does so on the time of all."""
    chance, spent, order = random.Random(count), dict.fromkeys(sessions, 0.0), list(sessions)
    for _ in range(count // size):
        chance.shuffle(order)
        for name in order:
            batch = list(islice(given, size))
            begun = time.perf_counter()
            system.engine.append(TENANT, sessions[name], batch)
            spent[name] += time.perf_counter() - begun
    return {name: count // size * size / seconds for name, seconds in spent.items()}


def streams(store: str, scale: Scale) -> Measured:
    """Events per second by single appends to a thousand streams in turn, and to one stream."""
    given, count = _fresh(), min(STREAMS, scale.appends)
    with fresh_system(store) as system:
        for number in range(count):
            _fill(system, f"many-{number}", given, 1)
        _fill(system, "one", given, 1)
        many, one = [], []
        for _ in range(scale.runs):
            singles = [[next(given)] for _ in range(count)]
            begun = time.perf_counter()
            for number, batch in enumerate(singles):
                system.engine.append(TENANT, f"many-{number}", batch)
            many.append(count / (time.perf_counter() - begun))
            one.append(_rate(system, "one", [[next(given)] for _ in range(count)]))
    return {"streams": float(count), "many": median(many), "one": median(one)}


def _fresh() -> Iterator[Json]:
    """Events without end: the same texts again and again, each with an id of its own, as the client makes them."""
    return ({**event, "event_id": str(uuid7())} for event in cycle(events(2_000)))


def _fill(system: System, session: str, given: Iterator[Json], count: int) -> None:
    for at in range(0, count, 1_000):
        system.engine.append(TENANT, session, list(islice(given, min(1_000, count - at))))


def _rate(system: System, session: str, batches: Sequence[list[Json]]) -> float:
    begun = time.perf_counter()
    for batch in batches:
        system.engine.append(TENANT, session, batch)
    return sum(len(batch) for batch in batches) / (time.perf_counter() - begun)
