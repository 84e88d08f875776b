"""How long a prompt with recall takes over many messages: the first of a fresh process, and those after it.

    python -m benchmarks.recall_speed --items 10000,100000 --json

Invented chats of one subject, in sessions of 500 messages. The vectors are random ones of the small model's length, so
that nobody waits for 100,000 real ones, and a query's comes at once; `--embeddings local` asks the model, `none` leaves
meaning out. `--kept none` deletes what the store keeps of passages before the first prompt, as in a store that was
never indexed. `--url` is a database of its own, a new SQLite file by default; it must be empty.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import sqlalchemy as sa

from benchmarks.driving import TENANT
from workers.embeddings import Embedder, Local, Rows
from workers.engine import Deps, Engine
from workers.engine.meanings import Meanings
from workers.store import Database, migrate, passages

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
SESSION, BATCH, ASKED = 500, 200, 40
MUCH = {"token_budget": 1900, "top_k": 0, "min_score": 0.0}
SLOT: Json = {"rag": {}, "2000": {"global_slot_budget": 2000, "slots": {"recall": MUCH}}}
"""What is asked of recall: as the mode has it, and where 2,000 tokens go to it."""

SYLLABLES = [f"{first}{second}" for first in "bdfghklmnprstv" for second in "aeiou"]


class Random:
    """Vectors by chance, the same for the same text, of the length that the small model's have."""

    name, far, near = "random", 0.1, 0.6

    def encode(self, texts: Sequence[str]) -> Rows:
        rows = np.stack(
            [np.random.default_rng(crc32(text.encode())).normal(size=512).astype(np.float32) for text in texts]
        )
        found: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return found


def vocabulary(chance: random.Random, words: int = 8000) -> list[str]:
    return ["".join(chance.choices(SYLLABLES, k=chance.choice((2, 3)))) for _ in range(words)]


def sentence(chance: random.Random, words: list[str]) -> str:
    """As many words as a chat turn has, some much more often than others."""
    places = (int(len(words) * chance.random() ** 3) for _ in range(chance.randint(8, 30)))
    return " ".join(words[place] for place in places)


def engine_of(url: str, embeddings: str) -> Engine:
    models: dict[str, Callable[[], Embedder]] = {"random": Random, "local": Local}
    meanings = Meanings(models[embeddings]()) if embeddings in models else None
    return Engine(Deps(Database(url), meanings=meanings))


def fill(url: str, items: int, embeddings: str, kept: str) -> Json:
    """The sessions, indexed; how long that took by message."""
    migrate.upgrade(url)
    engine, chance = engine_of(url, embeddings), random.Random(7)
    words = vocabulary(chance)
    started = {"kind": "session.started", "payload": {"subject": "user", "locale": "en"}}
    names = [f"past-{number}" for number in range(items // SESSION)]
    for name in names:
        said = [{"kind": "user.input", "payload": {"content": sentence(chance, words)}} for _ in range(SESSION)]
        for at in range(0, SESSION, BATCH):
            engine.append(TENANT, name, [*([] if at else [started]), *said[at : at + BATCH]])
    engine.append(TENANT, "ask", [started, {"kind": "user.input", "payload": {"content": "What do you remember?"}}])
    while engine.sweep():
        pass
    begun = time.perf_counter()
    for name in names:
        engine.index(TENANT, name)
    seconds = time.perf_counter() - begun
    if kept == "none":
        with engine.deps.database.write(TENANT) as unit:
            for table in passages.TABLES:
                unit.execute(sa.delete(table).where(table.c.tenant == TENANT))
    engine.deps.database.dispose()
    return {"index_us_per_message": round(1e6 * seconds / items)}


def ask(url: str, embeddings: str, slot: str) -> Json:
    """In a fresh process: the first prompt, the first one that knows what its query means, and those after it."""
    engine, chance = engine_of(url, embeddings), random.Random(8)
    words = vocabulary(random.Random(7))
    engine.deps.tokens.counter("o200k_base")("warm")
    wall, busy = [], []
    for number in range(ASKED + 2):
        begun, worked = time.perf_counter(), time.process_time()
        request = {"mode": "rag", "query": sentence(chance, words)[:80], "overrides": SLOT[slot], "fresh": True}
        job = engine.request_prompt(TENANT, "ask", request, ring=False)
        done = engine.run_job(TENANT, job["id"], timeout=600)
        wall.append(1000 * (time.perf_counter() - begun))
        busy.append(1000 * (time.process_time() - worked))
        assert done["status"] == "done", done
        if number == 0 and engine.deps.meanings is not None:
            engine.deps.meanings.settle(60)  # the model is loaded by the time of the next one
    return {
        "first_ms": round(wall[0], 1), "second_ms": round(wall[1], 1), **_quantiles("ms", wall[2:]),
        **_quantiles("cpu_ms", busy[2:]), "first_cpu_ms": round(busy[0], 1), "second_cpu_ms": round(busy[1], 1),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def _quantiles(name: str, times: list[float]) -> Json:
    return {
        f"{name}_p50": round(statistics.median(times), 1),
        f"{name}_p95": round(statistics.quantiles(times, n=20)[-1], 1),
    }


def size(url: str) -> int:
    """Bytes that the store keeps of passages."""
    with Database(url).read(TENANT) as unit:
        sizes = (unit.execute(sa.select(sa.func.sum(sa.func.length(table.c.body)))) for table in passages.TABLES)
        return sum(int(one.scalar() or 0) for one in sizes)


def measure(url: str, items: int, given: argparse.Namespace) -> Json:
    found = fill(url, items, given.embeddings, given.kept)
    found["kept_bytes_per_message"] = round(size(url) / items)
    for slot in SLOT:
        command = [sys.executable, "-m", "benchmarks.recall_speed", "--ask", slot, "--url", url]
        run = subprocess.run(
            [*command, "--embeddings", given.embeddings], cwd=ROOT, capture_output=True, text=True, check=True
        )
        found[slot] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall_speed", description=__doc__)
    parser.add_argument("--items", default="10000,100000", help="messages, with commas; one alone with --url")
    parser.add_argument("--embeddings", choices=["random", "local", "none"], default="random")
    parser.add_argument("--kept", choices=["all", "none"], default="all")
    parser.add_argument("--url", help="an empty database")
    parser.add_argument("--ask", choices=sorted(SLOT), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    given = parser.parse_args()
    if given.ask:
        print(json.dumps(ask(given.url, given.embeddings, given.ask)))
        return
    found: Json = {}
    for items in map(int, given.items.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found[str(items)] = measure(given.url or f"sqlite:///{folder}/recall.db", items, given)
        if not given.json:
            print(f"{items} messages: {json.dumps(found[str(items)])}", flush=True)
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
