"""What the machine and the libraries below us can do, measured in the same run: plain Core inserts, bare tokenising,
one backward pass over the newest messages."""

import json
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlalchemy as sa
import tiktoken
from sqlalchemy import event

from benchmarks.driving import libpq

Json = Any

_events = sa.Table(
    "plain_events",
    sa.MetaData(),
    sa.Column("session", sa.String(200), primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("event_id", sa.String(36), nullable=False),
    sa.Column("kind", sa.String(100), nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("occurred_at", sa.BigInteger, nullable=False),
    sa.Column("recorded_at", sa.BigInteger, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
)


class PlainStore:
    """One table and SQLAlchemy Core, with the pragmas that our own store uses."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url)
        if url.startswith("sqlite"):
            event.listen(self.engine, "connect", _pragmas)
        _events.metadata.create_all(self.engine)
        self._version = 0

    def append_single(self, events: Sequence[Json]) -> float:
        """Rows per second, one transaction each."""
        rows = [self.row(one) for one in events]
        begun = time.perf_counter()
        for row in rows:
            with self.engine.begin() as connection:
                connection.execute(_events.insert(), row)
        return len(rows) / (time.perf_counter() - begun)

    def append_batches(self, events: Sequence[Json], size: int) -> float:
        """Rows per second, so many in each transaction."""
        begun = time.perf_counter()
        for at in range(0, len(events), size):
            rows = [self.row(one) for one in events[at : at + size]]
            with self.engine.begin() as connection:
                connection.execute(_events.insert(), rows)
        return len(events) / (time.perf_counter() - begun)

    def row(self, one: Json) -> Json:
        self._version += 1
        return {
            "session": "s-1", "version": self._version, "event_id": one["event_id"], "kind": one["kind"],
            "payload": json.dumps(one["payload"], ensure_ascii=False), "occurred_at": 1, "recorded_at": 2,
            "tokens": 130,
        }  # fmt: skip

    def close(self) -> None:
        self.engine.dispose()


class DriverStore:
    """The same table through the bare driver: what no library of ours or of others stands before."""

    def __init__(self, url: str) -> None:
        plain = PlainStore(url)
        plain.close()
        self._row = plain.row
        columns = [column.name for column in _events.columns]
        if url.startswith("sqlite"):
            self.connection: Any = sqlite3.connect(str(sa.make_url(url).database), isolation_level=None)
            _pragmas(self.connection, None)
            marks, self._begin = [f":{name}" for name in columns], "BEGIN IMMEDIATE"
        else:
            self.connection = psycopg.connect(libpq(url), autocommit=True)
            marks, self._begin = [f"%({name})s" for name in columns], "BEGIN"
        self._insert = f"INSERT INTO plain_events ({', '.join(columns)}) VALUES ({', '.join(marks)})"

    def append(self, events: Sequence[Json], size: int) -> float:
        """Rows per second, so many in each transaction."""
        rows, cursor = [self._row(one) for one in events], self.connection.cursor()
        begun = time.perf_counter()
        for at in range(0, len(rows), size):
            cursor.execute(self._begin)
            cursor.executemany(self._insert, rows[at : at + size])
            cursor.execute("COMMIT")
        return len(rows) / (time.perf_counter() - begun)

    def close(self) -> None:
        self.connection.close()


def _pragmas(connection: Json, _record: Json) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def backward_pass(messages: Sequence[Json], budget: int, encoding: tiktoken.Encoding) -> tuple[int, list[Json]]:
    """The newest messages that fit, each counted exactly, nothing remembered: the least that an exact window costs."""
    count = encoding.encode_ordinary
    spent = 3 + 3 + len(count(messages[0]["role"])) + len(count(messages[0]["content"]))
    kept: list[Json] = []
    for message in reversed(messages[1:]):
        cost = 3 + len(count(message["role"])) + len(count(message["content"]))
        cost += len(count(message["tool_call_id"])) if "tool_call_id" in message else 0
        for call in message.get("tool_calls", ()):
            cost += 3 + sum(len(count(text)) for text in (call["id"], *call["function"].values()))
        if spent + cost > budget:
            break
        spent += cost
        kept.append(message)
    return spent, [messages[0], *reversed(kept)]
