"""Appends with the library `eventsourcing`: one application, one aggregate, the same payloads.

Runs in an environment of its own.

Order on stdin: {"store": "sqlite"|"postgres", "environment": {…}, "payloads": […], "size": events per save,
"normal": whether SQLite is to be no safer than the store it is compared with; the library leaves it at FULL}.
Answer on stdout: {"rate": events per second, "version": …}.
"""

import json
import os
import sqlite3
import sys
import time
from importlib import import_module
from importlib.metadata import version


def main() -> None:
    order = json.load(sys.stdin)
    os.environ.update(order["environment"])
    if order["normal"]:
        connect = sqlite3.connect

        def connect_normal(*args, **kwargs):  # type: ignore[no-untyped-def]
            connection = connect(*args, **kwargs)
            connection.execute("PRAGMA synchronous=NORMAL")
            return connection

        sqlite3.connect = connect_normal
    application = import_module("eventsourcing.application")
    domain = import_module("eventsourcing.domain")

    class Session(domain.Aggregate):  # type: ignore[misc, name-defined]
        class Said(domain.Aggregate.Event):  # type: ignore[misc, name-defined]
            kind: str
            payload: dict  # type: ignore[type-arg]

    app = application.Application()
    session = Session()
    app.save(session)
    payloads, size = order["payloads"], order["size"]
    begun = time.perf_counter()
    for at in range(0, len(payloads), size):
        for kind, payload in payloads[at : at + size]:
            session.trigger_event(Session.Said, kind=kind, payload=payload)
        app.save(session)
    seconds = time.perf_counter() - begun
    print(json.dumps({"rate": len(payloads) / seconds, "version": version("eventsourcing")}))


if __name__ == "__main__":
    main()
